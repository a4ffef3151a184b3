"""What verbs share on the terminal; the one place that prints.

File names, data set names and what else others wrote may hold control characters, rich's markup or a megabyte. A
console of `make_console` shows them as they are spelt: no markup, no control characters.
"""

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from robustmat.errors import visible

if TYPE_CHECKING:
    from rich.console import Console

    from robustmat.progress import Progress

LONGEST_LINE = 10_000  # characters


def make_console(*, stderr: bool = False, soft_wrap: bool = False) -> "Console":
    """A console that takes no text for markup; colours are given as styles."""
    from rich.console import Console
    from rich.text import Text

    class PlainConsole(Console):
        def render_str(self, text: str, **options: Any) -> Text:
            return super().render_str(_plain(text), **{**options, "markup": False, "emoji": False})

    return PlainConsole(stderr=stderr, soft_wrap=soft_wrap, markup=False, emoji=False)


def say(line: str, *, err: bool = False) -> None:
    """Print one line as it is, for people and for programs."""
    print(_plain(line), file=sys.stderr if err else sys.stdout, flush=True)


def _plain(text: str) -> str:
    return "\n".join(visible(line, LONGEST_LINE) for line in text.split("\n"))


def progress_bars(console: "Console") -> "Progress":
    """A bar for each piece of long work, gone when it is done."""
    from rich.markup import escape
    from rich.progress import track

    def show(items: Sequence[Any], what: str) -> Iterable[Any]:
        return track(items, escape(_plain(what)), console=console, transient=True)

    return show
