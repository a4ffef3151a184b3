"""Two landmarks of one category match."""

import numpy as np

from robustmat.matching.embedded import EmbeddedFrame
from robustmat.matching.matcher import same_category
from robustmat.methods import Method
from robustmat.methods.always_match import AlwaysMatch
from robustmat.types import Array


class SameClass(AlwaysMatch):
    name = fingerprint = "same-class"

    def score(self, a: EmbeddedFrame, b: EmbeddedFrame) -> Array:
        return same_category(a.landmarks, b.landmarks).astype(np.float64)


METHOD = Method("same class", matcher=SameClass)
