"""Keypoints of the whole frame whose place is known: a second witness beside the landmarks, where frames look alike.

A map that keeps them (`MapSettings.keypoints`) triangulates keypoints between neighbouring keyframes, whose poses it
knows. A frame then matches keypoints of the map, and the pose that most of them agree on is found by PnP. In other
light and weather keypoints fade away and the landmarks remain.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import cv2
import numpy as np
from numpy.typing import NDArray

from robustmat.features.keypoints import detect_keypoints, match_keypoints
from robustmat.mapping.pose import Observations
from robustmat.matching.combined import VIEW
from robustmat.matching.embedded import EmbeddedFrame
from robustmat.types import Array, Camera, Image

DETECTED = 2000
PIXEL, LOOK = "keypoint_place", "keypoint_descriptor"  # arrays that `detect_keypoints` gives
POINT = "keypoint_point"  # [N, 3], where they stand in the keyframe's own axes
COPIES = (VIEW + PIXEL, VIEW + LOOK)
FEWEST = 6
REPROJECTION = 3.0  # pixels within which a keypoint agrees with a pose
TRIANGULATED = 2.0  # pixels within which both keyframes must see a triangulated point
NEAREST, FARTHEST = 2.0, 80.0  # metres in front of the camera
PARALLAX = np.radians(0.5)


@dataclass(frozen=True)
class ScenePose:
    """What keypoints say about the pose of a frame."""

    T_world_camera: Array
    inliers: int
    observations: Observations


def add_keypoints(frame: EmbeddedFrame, image: Image) -> EmbeddedFrame:
    """The embedded frame with keypoints of its picture: those that its matcher found, if it looks for any."""
    if LOOK in frame.arrays:
        return frame
    if VIEW + LOOK in frame.arrays:
        found = {name: frame.arrays[VIEW + name] for name in (PIXEL, LOOK)}
    else:
        found = {name: array for name, array in detect_keypoints(image, most=DETECTED).items() if name in (PIXEL, LOOK)}
    return replace(frame, arrays={**frame.arrays, **found})


def stored_once(frame: EmbeddedFrame) -> EmbeddedFrame:
    """The frame without the second copy of its keypoints that evidence `scene` reads."""
    return replace(frame, arrays={name: array for name, array in frame.arrays.items() if name not in COPIES})


def as_matched(frame: EmbeddedFrame) -> EmbeddedFrame:
    """What `stored_once` left, as evidence `scene` reads it: by the keypoints whose places are known."""
    copies = {VIEW + name: frame.arrays[name] for name in (PIXEL, LOOK) if name in frame.arrays}
    return replace(frame, arrays={**frame.arrays, **copies})


def place_keypoints(
    frames: Sequence[EmbeddedFrame], poses: Sequence[Array], cameras: Sequence[Camera], most: int
) -> list[EmbeddedFrame]:
    """Keyframes with those of their keypoints alone whose places neighbouring keyframes tell, at most `most` each."""
    placed = []
    for k, frame in enumerate(frames):
        points = np.full((len(frame.arrays[PIXEL]), 3), np.nan)
        for n in (k + 1, k - 1, k + 2, k - 2):
            if 0 <= n < len(frames):
                rows, found = _triangulate(frame, frames[n], poses[k], poses[n], cameras[k], cameras[n])
                new = np.isnan(points[rows, 0])
                points[rows[new]] = found[new]
        known = np.flatnonzero(np.isfinite(points[:, 0]))[:most]
        arrays = {
            **frame.arrays,
            PIXEL: frame.arrays[PIXEL][known],
            LOOK: frame.arrays[LOOK][known],
            POINT: points[known].astype(np.float32),
        }
        placed.append(replace(frame, arrays=arrays))
    return placed


def scene_pose(
    frame: EmbeddedFrame, keyframe: EmbeddedFrame, T_world_keyframe: Array, camera: Camera
) -> ScenePose | None:
    """The pose that most keypoints agree with; None where too few do."""
    if LOOK not in frame.arrays or POINT not in keyframe.arrays:
        return None
    pairs, _ = match_keypoints(dict(frame.arrays), dict(keyframe.arrays))
    if len(pairs) < FEWEST:
        return None
    pixels = frame.arrays[PIXEL][pairs[:, 0]].astype(np.float64)
    points = keyframe.arrays[POINT][pairs[:, 1]].astype(np.float64)
    cv2.setRNGSeed(0)
    found, turn, shift, inliers = cv2.solvePnPRansac(
        points, pixels, camera.matrix, None, iterationsCount=300, reprojectionError=REPROJECTION, flags=cv2.SOLVEPNP_P3P
    )
    if not found or inliers is None or len(inliers) < FEWEST:
        return None
    rows = inliers.ravel()
    T_camera_keyframe = np.eye(4)
    T_camera_keyframe[:3, :3] = cv2.Rodrigues(turn)[0]
    T_camera_keyframe[:3, 3] = shift.ravel()
    world = points[rows] @ T_world_keyframe[:3, :3].T + T_world_keyframe[:3, 3]
    pose = T_world_keyframe @ np.linalg.inv(T_camera_keyframe)
    return ScenePose(pose, len(rows), _observations(world, pixels[rows], points[rows, 2]))


def _observations(world: Array, pixels: Array, depth: Array) -> Observations:
    """A column and a row of each point; points that neighbours placed are the vaguer the farther they are."""
    count = len(world)
    spread = np.sqrt(1.5**2 + (0.02 * np.minimum(depth, 50.0)) ** 2)
    return Observations(
        points=np.repeat(world, 2, axis=0),
        pixels=pixels.ravel(),
        axis=np.tile(np.array([0, 1], np.intp), count),
        spread=np.repeat(spread, 2),
        landmark=np.repeat(-1 - np.arange(count, dtype=np.intp), 2),  # below zero: no landmarks
        weight=np.full(2 * count, min(1.0, 40 / count)),  # many keypoints of one wall err together
    )


def _triangulate(
    a: EmbeddedFrame, b: EmbeddedFrame, T_world_a: Array, T_world_b: Array, camera_a: Camera, camera_b: Camera
) -> tuple[NDArray[np.intp], Array]:
    """Rows of `a` and their points [M, 3] in its axes."""
    pairs, _ = match_keypoints(dict(a.arrays), dict(b.arrays))
    T_b_a = np.linalg.inv(T_world_b) @ T_world_a
    if not len(pairs) or np.linalg.norm(T_b_a[:3, 3]) < 0.3:
        return np.zeros(0, np.intp), np.zeros((0, 3))
    pixels_a, pixels_b = (
        frame.arrays[PIXEL][rows].astype(np.float64) for frame, rows in ((a, pairs[:, 0]), (b, pairs[:, 1]))
    )
    first, second = camera_a.matrix @ np.eye(3, 4), camera_b.matrix @ T_b_a[:3]
    points = cv2.triangulatePoints(first, second, pixels_a.T, pixels_b.T)
    points = (points[:3] / np.where(np.abs(points[3]) > 1e-12, points[3], 1e-12)).T
    off = np.maximum(_off(first, points, pixels_a), _off(second, points, pixels_b))
    there = points @ T_b_a[:3, :3].T + T_b_a[:3, 3]
    rays = points / np.maximum(np.linalg.norm(points, axis=1, keepdims=True), 1e-9)
    other = (points + T_b_a[:3, :3].T @ T_b_a[:3, 3]) if len(points) else points
    other = other / np.maximum(np.linalg.norm(other, axis=1, keepdims=True), 1e-9)
    angle = np.arccos(np.clip((rays * other).sum(axis=1), -1, 1))
    good = (off < TRIANGULATED) & (points[:, 2] > NEAREST) & (points[:, 2] < FARTHEST) & (there[:, 2] > NEAREST)
    good &= angle > PARALLAX
    return pairs[good, 0], points[good]


def _off(projection: Array, points: Array, pixels: Array) -> Array:
    seen = points @ projection[:, :3].T + projection[:, 3]
    depth = np.where(np.abs(seen[:, 2:]) > 1e-9, seen[:, 2:], 1e-9)
    return np.asarray(np.linalg.norm(seen[:, :2] / depth - pixels, axis=1))
