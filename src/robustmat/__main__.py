"""`python -m robustmat` is `robustmat`."""

from robustmat.cli import main

main()
