"""How evidence for a place becomes a probability; its few numbers are fitted on simulated towns.

A candidate keyframe has features: votes, matches that agree on a pose and matches that do not, which share of the
landmarks agrees, and how many keypoints agree, where the map keeps some. A linear function of them is
its log likelihood ratio against "this place is not in the map". Places compete with each other and with that.
"""

import json
from dataclasses import dataclass
from importlib import resources

import numpy as np
from scipy.special import logsumexp

from robustmat.config import Config, parse
from robustmat.mapping.pose import PoseEstimate
from robustmat.types import Array, MatchResult

FEATURES = ("votes", "agreeing", "disagreeing", "share", "keypoints")

FEW = 3  # landmarks that do not agree, as if there were so many more: all of one or two is not much


class PlaceModel(Config):
    """Weights of the features, and how much wider than computed a pose's covariance truly is.

    `drift` is by how many metres a pose errs, one standard deviation, for each metre from the keyframe it rests on.
    """

    bias: float = -6.0
    votes: float = 0.5
    agreeing: float = 1.5
    disagreeing: float = -0.5
    share: float = 4.0
    keypoints: float = 1.5
    covariance_scale: float = 1.0
    drift: float = 0.0
    fitted_on: str = ""

    def log_ratio(self, features: Array) -> Array:
        """[N, F] -> [N]."""
        return np.asarray(features @ np.array([getattr(self, name) for name in FEATURES]) + self.bias)


@dataclass(frozen=True)
class Posterior:
    """Probabilities of candidates, and of a place that is not in the map."""

    probability: Array  # [N]
    unknown: float


def posterior(log_ratio: Array, positions: Array, apart: float, known: float = 0.5) -> Posterior:
    """What is likely after seeing the evidence.

    Candidates nearer to each other than `apart` metres are one place, which is as likely as its likeliest candidate
    says; within it they share by their evidence.

    Args:
        log_ratio: [N].
        positions: [N, 3].
        known: how likely a place of the map is before any evidence.
    """
    if not len(log_ratio):
        return Posterior(np.zeros(0), 1.0)
    shift = np.log(known / (1 - known))
    groups = places(log_ratio, positions, apart)
    tops = np.array([log_ratio[group].max() for group in groups]) + shift
    total = logsumexp(np.append(tops, 0.0))
    probability = np.zeros(len(log_ratio))
    for group, top in zip(groups, tops, strict=True):
        probability[group] = np.exp(top - total + log_ratio[group] - log_ratio[group].max())
    return Posterior(probability, float(np.exp(-total)))


def places(log_ratio: Array, positions: Array, apart: float) -> list[list[int]]:
    """Candidates by place, best first: each best one takes those around it along."""
    left = [int(i) for i in np.argsort(-log_ratio, kind="stable")]
    groups = []
    while left:
        near = [i for i in left if np.linalg.norm(positions[i] - positions[left[0]]) < apart]
        groups.append(near)
        left = [i for i in left if i not in near]
    return groups


def features_of(votes: float, result: MatchResult | None, pose: PoseEstimate | None, keypoints: int) -> Array:
    """[F], in the order of FEATURES; roots tame frames with dozens of landmarks. Without a result nothing matches."""
    agreeing = set() if pose is None else set(pose.agreeing)
    likely = doubtful = share = 0.0
    if result is not None:
        likely = sum(match.probability for match in result.matches if match.a in agreeing)
        doubtful = sum(match.probability for match in result.matches if match.a not in agreeing)
        share = likely / (min(len(result.landmarks_a), len(result.landmarks_b)) + FEW)
    return np.array([np.sqrt(votes), np.sqrt(likely), np.sqrt(doubtful), share, np.log1p(keypoints / 5)])


def shipped_model(*, keypoints: bool) -> PlaceModel:
    """The model for maps of landmarks alone, or for those that keep keypoints, too."""
    text = (resources.files("robustmat.mapping") / "place_models.json").read_text(encoding="utf-8")
    values = json.loads(text)["landmarks and keypoints" if keypoints else "landmarks"]
    return parse(PlaceModel, values, "place_models.json")
