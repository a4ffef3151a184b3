"""What a virtual camera sees of a photograph: the homographies that driving on a little and turning a little give.

A flat picture has no depth, so depth is pretended: the background grows by the view's zoom, and what stands
nearer grows faster, by that zoom to the power of its `nearness`, away from the point that the camera drives
towards. Whole numbers are the middles of pixels.
"""

from dataclasses import dataclass

import numpy as np

from robustmat.geometry.transforms import rotation_from_roll_pitch_yaw
from robustmat.types import Array, Camera

# The view has fewer pixels than the photograph, so that a zoomed view shows fine detail instead of large pixels, and
# a far one loses detail, as far things do.
SHRINK = 0.7
MOST_ZOOM = 2.0  # driving 10 m towards what is 20 m away
YAW, PITCH, ROLL = np.radians([4.0, 1.5, 1.5])  # a lane change, a bump, a leaning road


@dataclass(frozen=True)
class View:
    """A camera that drove on until the far background is `zoom` times as large, then turned by `rotation` [3, 3]."""

    source: Camera  # of the photograph
    camera: Camera  # of the view, before any zoom
    rotation: Array
    zoom: float

    def warp(self, nearness: float = 1.0) -> Array:
        """[3, 3]: pixels of the photograph to pixels of the view, for what has that nearness; 1 is the background."""
        growth = self._growth(nearness)
        drive_on = np.diag([growth, growth, 1.0])
        return np.asarray(self.camera.matrix @ self.rotation @ drive_on @ np.linalg.inv(self.source.matrix))

    def scale(self, nearness: float = 1.0) -> float:
        """Pixels of the view for one of the photograph, in the middle of the view."""
        return self._growth(nearness) * self.camera.width / self.source.width

    def _growth(self, nearness: float) -> float:
        return float(self.zoom**nearness)

    def has_hole(self) -> bool:
        """Whether some of the view lies outside the photograph."""
        right, bottom = self.camera.width - 1, self.camera.height - 1
        corners = np.array([[0.0, 0.0], [right, 0.0], [0.0, bottom], [right, bottom]])
        x, y = moved(np.asarray(np.linalg.inv(self.warp()), np.float64), corners).T
        return bool(min(x.min(), y.min()) < 0 or x.max() > self.source.width - 1 or y.max() > self.source.height - 1)


def draw_views(source: Camera, count: int, rng: np.random.Generator) -> list[View]:
    """`count` views, one after the other nearer, each looking a little elsewhere and near enough to have no hole."""
    camera = shrunk(source, SHRINK)
    views = []
    for number in range(count):
        zoom = float(MOST_ZOOM ** ((number + rng.random()) / count))
        pitch, yaw, roll = rng.uniform(-1, 1, 3) * (PITCH, YAW, ROLL)  # about the camera's x, y and z axes
        view = View(source, camera, rotation_from_roll_pitch_yaw(pitch, yaw, roll), zoom)
        while view.has_hole():
            view = View(source, camera, view.rotation, view.zoom * 1.02)
        views.append(view)
    return views


def shrunk(camera: Camera, scale: float) -> Camera:
    """The camera of the same image with `scale` times as many pixels a side."""
    width, height = round(scale * camera.width), round(scale * camera.height)
    by_x, by_y = width / camera.width, height / camera.height
    # From middles of pixels to their edges, scaled, and back.
    resize = np.array([[by_x, 0, by_x / 2 - 0.5], [0, by_y, by_y / 2 - 0.5], [0, 0, 1]])
    return Camera(resize @ camera.matrix, width, height)


def moved(warp: Array, points: Array) -> Array:
    """Points [N, 2] through a homography [3, 3]."""
    x, y = points.T
    across, down, depth = (row[0] * x + row[1] * y + row[2] for row in warp)
    return np.stack([across / depth, down / depth], axis=1)
