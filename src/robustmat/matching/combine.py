"""One probability from all evidence: a weighted sum of numbers about each candidate, then competition.

The weights are a handful of plain numbers, fitted through the competition itself (`fitting/combination.py`). A landmark
has at most one partner, so candidates of one row or column divide its trust with each other and with having none.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from robustmat.config import Config
from robustmat.matching.decision import log_odds
from robustmat.matching.motion import MarginalConfig, marginal
from robustmat.matching.scene import SCENE_FEATURES, SceneEvidence
from robustmat.types import Array

SUREST = 1e-6
BELIEF_SUREST = 1e-5
NO_MOTION = 0.003  # prior that the landmarks agree on no length, given that the keypoints agree on a direction
LOGIT_RANGE = 30.0

# What each kind of evidence may know. Every number of the scene is weighed by how reliable the scene is, so that with
# few inliers nothing of it is left but the fact that they are few.
_SCENE = tuple(f"scene_{one}" for one in SCENE_FEATURES if one != "depth")
EVIDENCE_FEATURES: dict[str, tuple[str, ...]] = {
    "pair": ("pair",),
    "frames": ("pair", "frames"),
    "placement": ("pair", "frames", "placement", "motion"),
    "scene": ("pair", "frames", "placement", "motion", "scene", "scene_length", *_SCENE),
}


class Combination(Config):
    """Weights by the name of the feature, and the calibration of the shares that come out of the competition."""

    weights: dict[str, float]
    intercept: float
    slope: float = 1.0
    offset: float = 0.0
    precision: tuple[tuple[float, float], ...] = ()  # least probability, and the share of right ones above it

    def logits(self, features: dict[str, Array]) -> Array:
        """[A, B] from features [A, B] each."""
        first, *others = (weight * features[name] for name, weight in self.weights.items())
        return np.asarray(sum(others, first) + self.intercept)

    def probability(self, features: dict[str, Array], allowed: NDArray[np.bool_]) -> Array:
        """That each pair is one object: [A, B].

        Args:
            allowed: [A, B], False for pairs that are out of the question, such as a pole and a sign.
        """
        share = compete(self.logits(features), allowed)
        return np.where(allowed, expit(self.slope * log_odds(share, SUREST) + self.offset), 0.0)


def compete(logits: Array, allowed: NDArray[np.bool_]) -> Array:
    """The geometric mean of the shares that a pair has of its row and of its column: [A, B].

    The odds of having no partner are one, so logits are against that.
    """
    odds = np.where(allowed, np.exp(np.clip(logits, -LOGIT_RANGE, LOGIT_RANGE)), 0.0)
    return np.asarray(odds / np.sqrt((1 + odds.sum(axis=1, keepdims=True)) * (1 + odds.sum(axis=0, keepdims=True))))


def candidate_features(
    logits: dict[str, Array],
    motion: Array | None = None,
    scene: SceneEvidence | None = None,
) -> dict[str, Array]:
    """Every number [A, B] that a combination may weigh.

    Args:
        logits: of `pair`, `frames` and `placement`, as far as they are there, against having no partner.
        motion: belief after the landmarks agreed on a motion, from `motion.py`.
        scene: what the whole frames say; its motion's length is voted on in the light of the `frames` logits.
    """
    features = dict(logits)
    if motion is not None:
        features["motion"] = log_odds(motion, BELIEF_SUREST)
    if scene is not None:
        trust = scene.trust
        shape = scene.features.shape[:2]
        features["scene"] = np.full(shape, trust)
        features["scene_length"] = trust * log_odds(length_belief(scene, logits["frames"]), BELIEF_SUREST)
        for name, values in zip(SCENE_FEATURES, np.moveaxis(scene.features, 2, 0), strict=True):
            features[f"scene_{name}"] = trust * values
    return features


def length_belief(scene: SceneEvidence, logits: Array) -> Array:
    """Belief [A, B] in each pair once all landmarks agreed on how far the camera moved in the scene's direction."""
    pairs = np.argwhere(np.isfinite(scene.length).all(axis=2) & scene.allowed)
    likelihood = scene.length[pairs[:, 0], pairs[:, 1]].astype(np.float32)
    return marginal(logits, pairs, likelihood, scene.log_lengths, MarginalConfig(no_motion=NO_MOTION))
