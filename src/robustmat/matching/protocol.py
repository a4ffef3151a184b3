"""What every matcher offers, learned or not: embed a frame once, score and match embedded frames."""

from typing import Any, Protocol

from robustmat.types import Array, Frame, MatchResult


class Matcher(Protocol):
    """One code path evaluates and uses all methods that fit this.

    `embed` gives whatever the method remembers of one frame; an embedded frame belongs to that frame
    alone and can be stored and reused. `score` is higher for likelier matches. `threshold` judges a single
    landmark pair, `match_threshold` what is left of a frame pair after one-to-one assignment.
    """

    name: str
    threshold: float
    match_threshold: float

    def embed(self, frame: Frame) -> Any: ...

    def score(self, a: Any, b: Any) -> Array: ...  # [A, B]

    def match(self, a: Any, b: Any) -> MatchResult: ...
