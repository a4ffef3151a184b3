"""How long work shows that it goes on: a function that hands the items on, one by one, and says what is done with them.

The command line shows a bar; a library caller may pass a function of his own.
"""

from collections.abc import Iterable, Sequence
from typing import Protocol, TypeVar

Item = TypeVar("Item")


class Progress(Protocol):
    """Yields the items in their order; `what` is a few words such as "embedding frames"."""

    def __call__(self, items: Sequence[Item], what: str) -> Iterable[Item]: ...


def silent(items: Sequence[Item], what: str) -> Iterable[Item]:
    """Shows nothing."""
    return items
