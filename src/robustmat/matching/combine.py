"""One probability from all evidence: a weighted sum of numbers about each candidate, then competition.

The weights are a handful of plain numbers, fitted through the competition itself (`fitting/combination.py`). A landmark
has at most one partner, so candidates of one row or column divide its trust with each other and with having none.
"""

from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, Field
from scipy.special import expit

from robustmat.config import Config
from robustmat.matching.decision import log_odds
from robustmat.matching.scene import SCENE_FEATURES, SceneEvidence
from robustmat.types import CATEGORIES, Array

CategoryPair = tuple[NDArray[np.int64], NDArray[np.int64]]

SUREST = 1e-6
BELIEF_SUREST = 1e-5
LOGIT_RANGE = 30.0


def beside_scene(name: str) -> str:
    """What a number is called that counts as far as the scene is reliable."""
    return f"{name}_beside_scene"


# What each kind of evidence weighs. Every number of the scene is weighed by how reliable the scene is, so that with
# few inliers nothing of it is left. What landmarks say by themselves is weighed twice: as it is, and as far as the
# scene is reliable, for beside a known motion it counts otherwise than alone.
SCENE_NAMES = ("scene", *(f"scene_{name}" for name in SCENE_FEATURES))
BESIDE_SCENE = {name: beside_scene(name) for name in ("placement", "diffusion")}
EVIDENCE_FEATURES: dict[str, tuple[str, ...]] = {
    "frames": ("pair", "frames"),
    "placement": ("placement", "diffusion"),
    "scene": ("placement", "diffusion", *BESIDE_SCENE.values(), *SCENE_NAMES),
}


class Combination(Config):
    """Weights by the name of the feature, and the calibration of the shares that come out of the competition."""

    weights: dict[str, float]
    intercept: float
    slope: float = 1.0
    offset: float = 0.0
    precision: tuple[tuple[float, float], ...] = ()  # least probability, and the share of right ones above it
    categories: dict[str, "Combination"] = Field(default_factory=dict)  # whose pairs are weighed otherwise

    def logits(self, features: dict[str, Array]) -> Array:
        """[A, B] from features [A, B] each."""
        first, *others = (weight * features[name] for name, weight in self.weights.items())
        return np.asarray(sum(others, first) + self.intercept)

    def probability(
        self, features: dict[str, Array], allowed: NDArray[np.bool_], category: CategoryPair | None = None
    ) -> Array:
        """That each pair is one object: [A, B].

        Args:
            allowed: [A, B], False for pairs that are out of the question, such as a pole and a sign.
            category: [A] and [B], index into CATEGORIES; unless given no category has weights of its own.
        """
        share = compete(self.logits(features), allowed)
        probability = np.where(allowed, expit(self.slope * log_odds(share, SUREST) + self.offset), 0.0)
        if category is not None:
            for name, own in self.categories.items():
                both = pairs_of(name, category)
                probability = np.where(both, own.probability(features, allowed & both), probability)
        return probability

    def of(self, category: str) -> "Combination":
        """The weights that pairs of a category are judged by."""
        return self.categories.get(category, self)


def with_known_weights(combination: Combination) -> Combination:
    """Refuses weights of numbers that nobody computes: a file may say anything."""
    known = {name for names in EVIDENCE_FEATURES.values() for name in names}
    for one in (combination, *combination.categories.values()):
        if not one.weights or not one.weights.keys() <= known:
            raise ValueError(f"weights must be of some of {', '.join(sorted(known))}")
    return combination


StoredCombination = Annotated[Combination, AfterValidator(with_known_weights)]


def pairs_of(name: str, category: CategoryPair) -> NDArray[np.bool_]:
    """Which pairs [A, B] are both of the category."""
    first, second = (one == CATEGORIES.index(name) for one in category)
    return np.asarray(first[:, None] & second)


def compete(logits: Array, allowed: NDArray[np.bool_]) -> Array:
    """The geometric mean of the shares that a pair has of its row and of its column: [A, B].

    The odds of having no partner are one, so logits are against that.
    """
    odds = np.where(allowed, np.exp(np.clip(logits, -LOGIT_RANGE, LOGIT_RANGE)), 0.0)
    return np.asarray(odds / np.sqrt((1 + odds.sum(axis=1, keepdims=True)) * (1 + odds.sum(axis=0, keepdims=True))))


def candidate_features(
    logits: dict[str, Array],
    diffusion: Array | None = None,
    scene: SceneEvidence | None = None,
) -> dict[str, Array]:
    """Every number [A, B] that a combination may weigh.

    Args:
        logits: of `pair`, `frames` and `placement`, as far as they are there, against having no partner.
        diffusion: belief after the landmarks agreed on a motion, from `diffusion.py`.
        scene: what the whole frames say.
    """
    features = dict(logits)
    if diffusion is not None:
        features["diffusion"] = log_odds(diffusion, BELIEF_SUREST)
    if scene is not None:
        numbers = [np.ones(scene.features.shape[:2]), *np.moveaxis(scene.features, 2, 0)]
        features |= {name: scene.trust * number for name, number in zip(SCENE_NAMES, numbers, strict=True)}
        features |= {beside: scene.trust * features[name] for name, beside in BESIDE_SCENE.items() if name in features}
    return features
