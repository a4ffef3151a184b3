"""The `robustmat` command: one file per verb.

Verbs import what they need inside their functions, so that `--help` answers at once.
"""

import sys
import warnings
from typing import Annotated, Any

import typer

from robustmat import __version__
from robustmat.cli import bench, detect, export, inspect, map, odometry, prepare
from robustmat.cli.certify import certify
from robustmat.cli.checks import explain
from robustmat.cli.console import say
from robustmat.cli.demo import demo
from robustmat.cli.denoise import DenoiseByDefault, denoise
from robustmat.cli.evaluate import evaluate
from robustmat.cli.match import match
from robustmat.cli.models import models
from robustmat.cli.options import refuse_odd_numbers
from robustmat.cli.perturb import perturb
from robustmat.cli.prune import prune
from robustmat.cli.reproduce import reproduce
from robustmat.cli.robustness import robustness
from robustmat.cli.serve import serve
from robustmat.cli.simulate import simulate
from robustmat.cli.stability import stability
from robustmat.cli.train import train
from robustmat.errors import InputWarning, RobustMatError, TermsWarning, visible

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)

USE, DATA, LABORATORY = "Match", "Data", "Train and measure"
app.command(rich_help_panel=USE)(demo)
app.command(rich_help_panel=USE, cls=DenoiseByDefault)(match)
app.command(rich_help_panel=USE)(serve)
app.add_typer(detect.app, name="detect", rich_help_panel=USE)
app.add_typer(map.app, name="map", rich_help_panel=USE)
app.add_typer(odometry.app, name="odometry", rich_help_panel=USE)
app.command(rich_help_panel=USE)(models)
app.command(rich_help_panel=DATA)(simulate)
app.add_typer(prepare.app, name="prepare", rich_help_panel=DATA)
app.command(rich_help_panel=DATA)(inspect.inspect)
app.command(rich_help_panel=DATA)(perturb)
app.command(rich_help_panel=DATA)(denoise)
app.command(rich_help_panel=LABORATORY)(train)
app.command(rich_help_panel=LABORATORY, cls=DenoiseByDefault)(evaluate)
app.command(rich_help_panel=LABORATORY, cls=DenoiseByDefault)(reproduce)
app.command(rich_help_panel=LABORATORY)(stability)
app.command(rich_help_panel=LABORATORY)(robustness)
app.command(rich_help_panel=LABORATORY)(certify)
app.command(rich_help_panel=LABORATORY)(prune)
app.add_typer(bench.app, name="bench", rich_help_panel=LABORATORY)
app.add_typer(export.app, name="export", rich_help_panel=LABORATORY)


def _print_version(wanted: bool) -> None:
    if wanted:
        say(f"robustmat {__version__}")
        raise typer.Exit


@app.callback()
def robustmat(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    """Match street landmarks (signs, lights, poles, windows) between camera frames, in any weather.

    New here? `robustmat demo` shows the whole flow on a simulated street in under a minute. Then match your own:

        robustmat match a.jpg b.jpg --picture matches.png
    """


def main() -> None:
    """Run the command line; what the user can mend ends in one line on stderr and exit code 2."""
    shown = warnings.showwarning

    def show(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
        if issubclass(category, TermsWarning | InputWarning):
            say(f"robustmat: {visible(str(message))}", err=True)
        else:
            shown(message, category, *place, **more)

    warnings.showwarning = show
    warnings.simplefilter("always", InputWarning)  # every frame's, not only the first of a kind
    try:
        code = refuse_odd_numbers(typer.main.get_command(app))(prog_name="robustmat", standalone_mode=False)
    except typer.Abort:
        sys.exit(1)
    except Exception as problem:
        if type(problem).__name__ == "NoArgsIsHelpError":  # `robustmat` alone: whoever makes this error shows the help
            sys.exit(2)
        line = str(problem) if isinstance(problem, RobustMatError) else _usage(problem) or explain(problem)
        if line is None:
            raise
        say(f"robustmat: {visible(line)}", err=True)
        sys.exit(2)
    sys.exit(code if isinstance(code, int) else 0)


def _usage(problem: Exception) -> str | None:
    """One line for an option or argument that typer refused; None for anything else."""
    if not hasattr(problem, "format_message"):
        return None
    context = getattr(problem, "ctx", None)
    command = context.command_path if context else "robustmat"
    return f"{problem.format_message().rstrip('.')}; see `{command} --help`"
