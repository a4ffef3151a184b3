"""All evidence in one probability: what the network says, one motion of all landmarks, the keypoints of whole frames.

The network compares landmarks by their pixels (`pair`, `frames`) and by their boxes (`placement`). Beside it the
landmarks agree on one motion of the camera (`diffusion.py`), and keypoints of the whole frames, where both frames have
them, tell that motion themselves (`scene.py`). A handful of weights makes one probability of it (`combine.py`).
"""

import copy
from collections.abc import Mapping
from dataclasses import replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from robustmat.config import nearest
from robustmat.errors import ConfigError
from robustmat.features.keypoints import detect_keypoints, no_keypoints
from robustmat.features.scale import scale_to_fit
from robustmat.geometry.relative_pose import MotionPrior, focal_and_center
from robustmat.matching.combine import Combination, candidate_features
from robustmat.matching.decision import Decision
from robustmat.matching.diffusion import DiffusionConfig, diffuse
from robustmat.matching.embedded import EmbeddedFrame
from robustmat.matching.matcher import Matcher, checked_pixels, same_category
from robustmat.matching.motion import Motions, car_motions, known_motion, motion_likelihood, tangent_boxes
from robustmat.matching.scene import SceneEvidence, SceneView, scene_evidence
from robustmat.types import CATEGORIES, Array, Frame

VIEW = "view."  # before the names of what is kept of a whole frame: its camera and keypoints
EVEN = Decision(threshold=0.5, match_threshold=0.5)  # the score is the probability itself


class LogitMatcher(Protocol):
    """A matcher that also tells the log odds of every pair by each kind of evidence: torch and exported files do."""

    name: str
    fingerprint: str

    def embed(self, frame: Frame) -> EmbeddedFrame: ...

    def logits(self, a: EmbeddedFrame, b: EmbeddedFrame, evidence: str) -> Array: ...


class CombinedMatcher(Matcher):
    """Matches by `frames`, `placement` or `scene`: each adds to the one before.

    With `scene`, a frame pair of which one frame was embedded without keypoints is matched by `placement`.

    Args:
        combinations: the weights for each kind of evidence.
        motion: how the camera moved from `a` to `b`, where odometry knows it.
    """

    decision = EVEN
    min_probability = 0.5

    def __init__(
        self,
        inner: LogitMatcher,
        combinations: Mapping[str, Combination],
        evidence: str,
        *,
        same_category: bool = True,
        motion: MotionPrior | None = None,
    ) -> None:
        if evidence not in combinations:
            hint = nearest(evidence, list(combinations))
            raise ConfigError(f"'{inner.name}' has no weights for evidence '{evidence}' ({hint})")
        self.inner, self.combinations, self.evidence = inner, combinations, evidence
        self.name, self.fingerprint, self.same_category = inner.name, inner.fingerprint, same_category
        self.motion, self.motions = motion, car_motions()

    def with_motion(self, motion: MotionPrior) -> "CombinedMatcher":
        if self.evidence == "frames":
            raise ConfigError("a motion says where boxes must stand: give --evidence placement or scene with it")
        twin = copy.copy(self)
        twin.motion = motion
        return twin

    def min_probability_for(self, precision: float) -> float:
        combination = self.combinations[self.evidence]
        enough = [
            min((least for least, reached in one.precision if reached >= precision), default=None)
            for one in (combination, *combination.categories.values())
        ]
        if None in enough:
            best = max((reached for _, reached in combination.precision), default=0.0)
            raise ConfigError(
                f"'{self.name}' by evidence '{self.evidence}' reached a precision of {best:.3f} at most where it "
                f"was fitted on: ask for less than {precision:g}"
            )
        return max(least for least in enough if least is not None)

    def embed(self, frame: Frame) -> EmbeddedFrame:
        pixels = checked_pixels(frame)
        embedded = self.inner.embed(frame.with_image(pixels))
        height, width = pixels.shape[:2]
        kept = {"camera": np.array([*focal_and_center(frame.camera, width, height), width, height])}
        if self.evidence == "scene":
            kept |= detect_keypoints(pixels)
        arrays = {**embedded.arrays, **{VIEW + name: array for name, array in kept.items()}}
        return replace(embedded, arrays=arrays, frame=frame)

    def score(self, a: EmbeddedFrame, b: EmbeddedFrame) -> Array:
        """The probability of every pair: [A, B]."""
        if not a.landmarks or not b.landmarks:
            return np.zeros((len(a.landmarks), len(b.landmarks)))
        features, combination = self.features(a, b)
        return combination.probability(features, self._allowed(a, b), (_categories(a), _categories(b)))

    def explain(self, a: EmbeddedFrame, b: EmbeddedFrame, i: int, j: int) -> list[tuple[str, float]]:
        """What each kind of evidence adds to the log odds of one pair, before it competes with its rivals."""
        features, combination = self.features(a, b)
        if a.landmarks[i].category == b.landmarks[j].category:
            combination = combination.of(a.landmarks[i].category)
        parts = [(name, weight * float(features[name][i, j])) for name, weight in combination.weights.items()]
        return [*parts, ("base rate", combination.intercept)]

    def views(self, a: EmbeddedFrame, b: EmbeddedFrame) -> tuple[SceneView, SceneView]:
        """What is kept of the two whole frames."""
        return whole_frame(a), whole_frame(b)

    def scene(self, a: EmbeddedFrame, b: EmbeddedFrame) -> SceneEvidence:
        """What the keypoints of the two whole frames say."""
        return scene_evidence(whole_frame(a), whole_frame(b), self.inner.logits(a, b, "frames"), self.motion)

    def features(self, a: EmbeddedFrame, b: EmbeddedFrame) -> tuple[dict[str, Array], Combination]:
        """The features of all pairs, and the weights that fit what is known of the two frames."""
        combination = self.combinations[self.evidence]
        logits: dict[str, Array] = {
            kind: self.inner.logits(a, b, kind)
            for kind in ("pair", "frames", "placement")
            if kind == "frames" or kind in combination.weights
        }
        if self.evidence == "frames":
            return candidate_features(logits), combination
        belief = self._agree(a, b, logits["frames"])
        if self.evidence == "scene" and _has_keypoints(a) and _has_keypoints(b):
            scene = scene_evidence(whole_frame(a), whole_frame(b), logits["frames"], self.motion)
            return candidate_features(logits, belief, scene), combination
        return candidate_features(logits, belief), self.combinations.get("placement", combination)

    def _agree(self, a: EmbeddedFrame, b: EmbeddedFrame, logits: Array) -> Array:
        """Belief in every pair once the landmarks agreed on one motion of the camera."""
        motions = told_motions(self.motions, self.motion) if self.motion else self.motions
        return diffuse(logits, *candidates(whole_frame(a), whole_frame(b), motions), motions, DiffusionConfig())

    def _allowed(self, a: EmbeddedFrame, b: EmbeddedFrame) -> NDArray[np.bool_]:
        if self.same_category:
            return same_category(a.landmarks, b.landmarks)
        return np.ones((len(a.landmarks), len(b.landmarks)), np.bool_)


def candidates(first: SceneView, second: SceneView, motions: Motions) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Pairs of one category [N, 2], and the log likelihood ratio of each under every motion [N, T]."""
    pairs = np.argwhere(first.category[:, None] == second.category)
    a, b = (tangent_boxes(view.boxes, view.intrinsics, view.width, view.height) for view in (first, second))
    return pairs, motion_likelihood(a, b, first.category, pairs, motions)


def told_motions(motions: Motions, prior: MotionPrior) -> Motions:
    """The motions as odometry believes in them."""
    T_a_b = np.linalg.inv(prior.T_b_a)
    right, _, ahead = T_a_b[:3, 3]
    distance = float(np.hypot(right, ahead))
    facing = T_a_b[:3, 2]  # where camera b looks, as camera a sees it
    yaw = float(np.arctan2(facing[0], facing[2]))
    direction = np.array([right, ahead]) if distance > 0 else None
    return known_motion(
        motions, yaw, prior.rotation_deviation, direction, (distance, prior.translation_deviation * distance)
    )


def _has_keypoints(frame: EmbeddedFrame) -> bool:
    return f"{VIEW}keypoint_place" in frame.arrays


def whole_frame(frame: EmbeddedFrame) -> SceneView:
    """What is kept of the whole frame, as the scene's evidence reads it: in pixels of the size it is looked at."""
    if f"{VIEW}camera" not in frame.arrays:
        raise ConfigError(f"frame '{frame.name}' was embedded without its camera: embed it again with this evidence")
    *intrinsics, width, height = frame.arrays[f"{VIEW}camera"].tolist()
    scale = scale_to_fit(int(width), int(height))
    keypoints = no_keypoints()
    if _has_keypoints(frame):
        keypoints = {name: frame.arrays[VIEW + name] for name in keypoints}
        keypoints["keypoint_place"] = np.float32(scale) * np.asarray(keypoints["keypoint_place"], np.float32)
    return SceneView(
        boxes=scale * np.array([mark.box for mark in frame.landmarks], np.float64).reshape(-1, 4),
        category=_categories(frame),
        intrinsics=scale * np.array(intrinsics),
        width=round(scale * width),
        height=round(scale * height),
        keypoints=keypoints,
    )


def _categories(frame: EmbeddedFrame) -> NDArray[np.int64]:
    return np.array([CATEGORIES.index(mark.category) for mark in frame.landmarks], np.int64)
