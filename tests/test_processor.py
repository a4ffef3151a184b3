"""What verbs that train ask of the machine."""

import subprocess
import sys

import pytest

# Fills and frees one block of 64 MB again and again; prints how many pages the system had to hand out for that.
FAULTS = """
import resource, sys
import numpy as np
from robustmat.cli.processor import keep_memory
if sys.argv[1] == "keep":
    keep_memory()
def pages():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
np.ones(2**23)
before = pages()
for _ in range(20):
    np.ones(2**23)
print(pages() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="other systems keep memory in their own ways")
def test_freed_memory_is_kept_for_the_next_step() -> None:
    def pages(how: str) -> int:
        said = subprocess.run([sys.executable, "-c", FAULTS, how], capture_output=True, text=True, check=True)
        return int(said.stdout)

    assert pages("keep") < pages("hand back") / 10
