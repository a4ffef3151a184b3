"""The `robustmat` command: one file per verb.

Verbs import what they need inside their functions, so that `--help` answers at once.
"""

import sys
import warnings
from typing import Any

import typer

from robustmat.cli import bench, export, inspect, prepare
from robustmat.cli.demo import demo
from robustmat.cli.evaluate import evaluate
from robustmat.cli.match import match
from robustmat.cli.models import models
from robustmat.cli.perturb import perturb
from robustmat.cli.reproduce import reproduce
from robustmat.cli.simulate import simulate
from robustmat.cli.train import train
from robustmat.errors import RobustMatError, TermsWarning

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    help="Match street landmarks (signs, lights, poles, windows) between camera frames, in any weather.",
)
app.command()(demo)
app.command()(match)
app.command()(simulate)
app.add_typer(prepare.app, name="prepare")
app.command()(inspect.inspect)
app.command()(perturb)
app.command()(train)
app.command()(evaluate)
app.command()(reproduce)
app.command()(models)
app.add_typer(bench.app, name="bench")
app.add_typer(export.app, name="export")


def main() -> None:
    """Run the command line; what the user can mend ends in one line on stderr and exit code 2."""
    shown = warnings.showwarning

    def show(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
        if issubclass(category, TermsWarning):
            print(f"robustmat: {message}", file=sys.stderr)
        else:
            shown(message, category, *place, **more)

    warnings.showwarning = show
    try:
        app(prog_name="robustmat")
    except RobustMatError as error:
        print(f"robustmat: {error}", file=sys.stderr)
        sys.exit(2)
