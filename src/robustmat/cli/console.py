"""What verbs share on the terminal."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

    from robustmat.progress import Progress


def progress_bars(console: "Console") -> "Progress":
    """A bar for each piece of long work, gone when it is done."""
    from rich.progress import track

    def show(items: Sequence[Any], what: str) -> Iterable[Any]:
        return track(items, what, console=console, transient=True)

    return show
