"""From a place to a pose with its covariance: what landmarks and keypoints of the keyframes there say together."""

from dataclasses import replace

import numpy as np

from robustmat.mapping.answers import Candidate, KeyframeInfo, PlaceAnswer, apart
from robustmat.mapping.filtering import Belief
from robustmat.mapping.place_model import PlaceModel
from robustmat.mapping.pose import PoseEstimate, estimate_pose, ground_prior, join
from robustmat.mapping.recognition import ONE_PLACE, observed
from robustmat.types import Array, Camera

ENOUGH = 15  # keypoints that a pose can be computed from without landmarks
USED_FOR_POSE = 3  # keyframes that a pose is computed from
DEPTH = 30.0  # metres; where points stand that tell the turn
WIDEST = 2.0  # metres, one standard deviation: a pose less certain than this is no answer


def used_for_pose(answer: PlaceAnswer) -> list[Candidate]:
    """The candidates at the likeliest place that say something about the pose."""
    near = [one for one in answer.candidates if apart(one.keyframe, answer.candidates[0].keyframe) < ONE_PLACE]
    return [one for one in near if one.pose or one.scene][:USED_FOR_POSE]


def pose_of(
    near: list[Candidate], camera: Camera, track: Belief | None, own: Array, model: PlaceModel
) -> PoseEstimate | None:
    """The camera's pose by all that the candidates say together; None where that is too little.

    Args:
        near: candidates of one place, likeliest first.
        track: where the camera should be by the frames before.
        own: covariance [6, 6] of the map's poses.
        model: says how much wider than computed covariances truly are.
    """
    if not near:
        return None
    best = max(near, key=lambda one: one.scene.inliers if one.scene else 0)
    scene = best.scene if best.scene is not None and best.scene.inliers >= ENOUGH else None
    parts = [observed(one.result, one.keyframe, camera) for one in near]
    together = join(parts if scene is None else [*parts, scene.observations])
    prior = ground_prior(near[0].keyframe.T_world_camera)
    prior = prior if track is None else track.as_prior(prior)
    start = None if scene is None else scene.T_world_camera
    found = estimate_pose(together, camera, prior, 3 if track is None else 1, start)
    if found is None:
        return None
    # A keyframe's points err together, by their triangulation: the more, the further the camera is from it.
    away = float(np.linalg.norm(found.T_world_camera[:3, 3] - best.keyframe.position))
    covariance = found.covariance * model.covariance_scale + own + error_of_points(model.drift * away)
    wide = float(np.sqrt(np.linalg.eigvalsh(covariance[:3, :3]).max()))
    return replace(found, covariance=covariance) if wide < WIDEST else None


def error_of_points(metres: float) -> Array:
    """The covariance [6, 6] of a pose that rests on points which are all off together by so much."""
    return np.diag([metres**2] * 3 + [(metres / DEPTH) ** 2] * 3)


def nearest_keyframe(best: Candidate, keyframes: tuple[KeyframeInfo, ...]) -> KeyframeInfo:
    """Matching prefers keyframes with the same look at things; the camera may have been nearer to another."""
    if best.scene is not None and best.scene.inliers >= ENOUGH:
        here = best.scene.T_world_camera[:3, 3]
    elif best.pose is not None and len(best.pose.agreeing) >= 3:
        here = best.pose.T_world_camera[:3, 3]
    else:
        return best.keyframe
    near = [info for info in keyframes if apart(info, best.keyframe) < 2 * ONE_PLACE]
    return min(near, key=lambda info: float(np.linalg.norm(info.position - here)))
