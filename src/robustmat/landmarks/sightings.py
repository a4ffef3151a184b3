"""All sightings of a drive as columns, and how points of the world fall into the frames that hold them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from robustmat.geometry.projection import NEAREST
from robustmat.geometry.transforms import invert
from robustmat.types import CATEGORIES, Array, Camera, Frame, Landmark

Indices = NDArray[np.int64]
Flags = NDArray[np.bool_]

BORDER = 2.0  # pixels; a box that comes as near to the image's border is cut off there


@dataclass(frozen=True)
class Views:
    """Cameras of F frames: whether each has one and a pose, world to camera, focal lengths, centre and size."""

    known: Flags  # [F]
    T_camera_world: Array  # [F, 4, 4]
    focal: Array  # [F, 2]
    centre: Array  # [F, 2]
    size: Array  # [F, 2]

    @staticmethod
    def of(frames: Sequence[Frame]) -> "Views":
        """From frames; those without camera or pose are unknown."""
        cameras = [frame.camera or Camera(np.eye(3), 1, 1) for frame in frames]
        matrices = np.array([camera.matrix for camera in cameras]).reshape(-1, 3, 3)
        poses = [np.eye(4) if frame.T_world_camera is None else invert(frame.T_world_camera) for frame in frames]
        return Views(
            np.array([frame.camera is not None and frame.T_world_camera is not None for frame in frames], dtype=bool),
            np.array(poses).reshape(-1, 4, 4),
            np.stack([matrices[:, 0, 0], matrices[:, 1, 1]], axis=1),
            matrices[:, :2, 2],
            np.array([(camera.width, camera.height) for camera in cameras], dtype=float).reshape(-1, 2),
        )

    def eyes(self) -> Array:
        """Where the cameras stand: [F, 3]."""
        return np.asarray(-np.einsum("fji,fj->fi", self.T_camera_world[:, :3, :3], self.T_camera_world[:, :3, 3]))

    def project(self, frames: Indices, points: Array) -> tuple[Array, Array]:
        """Pixels [M, K, 2], counted as boxes are, and depths [M, K] of points [K, 3] in `frames` [M].

        Points behind the camera get a depth of NEAREST: they fall far outside.
        """
        T = self.T_camera_world[frames]
        seen = np.einsum("mij,kj->mki", T[:, :3, :3], points) + T[:, None, :3, 3]
        depth = np.maximum(seen[..., 2], NEAREST)
        pixels = seen[..., :2] / depth[..., None] * self.focal[frames][:, None] + self.centre[frames][:, None] + 0.5
        return np.asarray(np.where((seen[..., 2] > NEAREST)[..., None], pixels, 1e6)), depth


@dataclass(frozen=True)
class Sightings:
    """N landmarks of frames with a camera and a pose, in the order of time."""

    views: Views
    frame: Indices  # [N]
    number: Indices  # [N], of the landmark within its frame
    category: Indices  # [N], index into CATEGORIES
    box: Array  # [N, 4]
    area: Indices  # [N], pixels that it covers
    position: Array  # [N, 3] by LiDAR, nan where it does not tell

    @staticmethod
    def of(frames: Sequence[Frame], found: Sequence[Sequence[tuple[Landmark, int]]]) -> "Sightings":
        """From frames and what was found in each, (landmark, area)."""
        views = Views.of(frames)
        rows = [
            (frame, number, landmark, area)
            for frame, landmarks in enumerate(found)
            if views.known[frame]
            for number, (landmark, area) in enumerate(landmarks)
        ]
        return Sightings(
            views,
            np.array([frame for frame, _, _, _ in rows], dtype=np.int64),
            np.array([number for _, number, _, _ in rows], dtype=np.int64),
            np.array([CATEGORIES.index(landmark.category) for _, _, landmark, _ in rows], dtype=np.int64),
            np.array([landmark.box for _, _, landmark, _ in rows], dtype=float).reshape(-1, 4),
            np.array([area for _, _, _, area in rows], dtype=np.int64),
            np.array([landmark.position or (np.nan,) * 3 for _, _, landmark, _ in rows], dtype=float).reshape(-1, 3),
        )

    def some(self, rows: Indices) -> "Sightings":
        """The sightings of these rows, which must rise."""
        return Sightings(
            self.views,
            self.frame[rows],
            self.number[rows],
            self.category[rows],
            self.box[rows],
            self.area[rows],
            self.position[rows],
        )

    def __len__(self) -> int:
        return len(self.frame)

    def is_pole(self) -> Flags:
        return np.asarray(self.category == CATEGORIES.index("pole"))

    def middle(self) -> Array:
        """Middles of the boxes, pixels: [N, 2]."""
        return np.asarray((self.box[:, :2] + self.box[:, 2:]) / 2)

    def extent(self) -> Array:
        """Widths and heights of the boxes, pixels: [N, 2]."""
        return np.asarray(self.box[:, 2:] - self.box[:, :2])

    def cut(self) -> Flags:
        """[N, 4]: whether the left, upper, right and lower edge is the image's own border."""
        size = self.views.size[self.frame]
        return np.asarray(np.concatenate([self.box[:, :2] <= BORDER, self.box[:, 2:] >= size - BORDER], axis=1))

    def rays(self) -> Array:
        """World directions [N, 3] of the boxes' middles, one metre of depth long."""
        pixels = (self.middle() - 0.5 - self.views.centre[self.frame]) / self.views.focal[self.frame]
        ahead = np.concatenate([pixels, np.ones((len(self), 1))], axis=1)
        return np.asarray(np.einsum("nji,nj->ni", self.views.T_camera_world[self.frame, :3, :3], ahead))
