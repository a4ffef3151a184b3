"""The `robustmat` command: one file per verb.

Verbs import what they need inside their functions, so that `--help` answers at once.
"""

import sys

import typer

from robustmat.errors import RobustMatError

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    help="Match street landmarks (signs, lights, poles, windows) between camera frames, in any weather.",
)


def main() -> None:
    """Run the command line; what the user can mend ends in one line on stderr and exit code 2."""
    try:
        app()
    except RobustMatError as error:
        print(f"robustmat: {error}", file=sys.stderr)
        sys.exit(2)
