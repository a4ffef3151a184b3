"""Puts panels into the picture: perspective warp of each texture, soft edges, and a depth test per pixel."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from robustmat.simulation import labels
from robustmat.simulation.bank import TextureBank
from robustmat.simulation.opencv import blended, looked_up, warped
from robustmat.simulation.scene import Panel, Texture
from robustmat.types import Array, Camera, Image

NEAR = 0.4  # metres; nothing nearer is drawn


@dataclass(frozen=True, eq=False)
class Canvas:
    """What is being painted; all arrays are changed in place."""

    rgb: Image  # [H, W, 3]
    near: NDArray[np.float32]  # [H, W], 1 / depth; 0: nothing but sky
    labels: NDArray[np.uint8]  # [H, W]
    identities: NDArray[np.int32]  # [H, W]


@dataclass(frozen=True, eq=False)
class Placed:
    """A panel as a camera sees it."""

    panel: Panel
    number: int  # in the list that was placed
    outline: Array  # [P, 2], pixels
    panel_from_pixel: Array  # [3, 3]: (x, y, 1) -> (u, v, 1) / depth, u and v in 0..1 over the panel
    extent: tuple[float, float]  # about how many pixels its columns and rows span
    depth: float  # of its middle


def place(panels: Sequence[Panel], T_camera_world: Array, camera: Camera) -> list[Placed]:
    """Panels that can be seen, far ones first."""
    if not panels:
        return []
    turn, shift = T_camera_world[:3, :3], T_camera_world[:3, 3]
    corner = np.array([p.corner for p in panels]) @ turn.T + shift  # [N, 3]
    right = np.array([p.right for p in panels]) @ turn.T
    down = np.array([p.down for p in panels]) @ turn.T
    # The sign of the volume says which side is seen; none at all: the panel is seen exactly from its edge.
    volume = np.einsum("ni,ni->n", np.cross(right, down), corner)
    front = (volume > 1e-9) | (np.array([p.two_sided for p in panels]) & (volume < -1e-9))
    quads = np.stack([corner, corner + right, corner + right + down, corner + down], axis=1)  # [N, 4, 3]
    seen = np.flatnonzero(front & (quads[..., 2].max(axis=1) > NEAR))
    basis = camera.matrix @ np.stack([right[seen], down[seen], corner[seen]], axis=2)  # [S, 3, 3]
    panel_from_pixel = np.linalg.inv(basis)
    extents = spans(corner[seen], right[seen], down[seen], 2, float(camera.matrix[0, 0]))
    size = np.array([camera.width, camera.height], float)
    placed = []
    for i, inverse, extent in zip(seen.tolist(), panel_from_pixel, extents, strict=True):
        quad = quads[i] if quads[i, :, 2].min() > NEAR else _clip_near(quads[i])
        pixels = quad @ camera.matrix.T
        outline = pixels[:, :2] / pixels[:, 2:]
        low, high = outline.min(axis=0), outline.max(axis=0)
        if (high < 0).any() or (low > size).any() or (high - low).max() < 0.7:
            continue
        depth = float(quads[i, :, 2].mean())
        placed.append(Placed(panels[i], i, outline, inverse, (float(extent[0]), float(extent[1])), depth))
    placed.sort(key=lambda one: -one.depth)
    return placed


def spans(corner: Array, right: Array, down: Array, ahead: int, focal: float) -> Array:
    """Pixels [N, 2] that each panel's columns and rows span, judged between its middle and its near edge.

    `ahead` is the axis that the viewer looks along, `focal` is pixels per radian there.
    """
    middle = corner + 0.5 * (right + down)
    half = 0.5 * (np.abs(right[:, ahead]) + np.abs(down[:, ahead]))
    depth = np.maximum(middle[:, ahead] - 0.4 * half, NEAR)
    toward = middle / np.maximum(np.linalg.norm(middle, axis=1, keepdims=True), 1e-9)
    found = []
    for edge in (right, down):
        across = edge - np.einsum("ni,ni->n", edge, toward)[:, None] * toward  # seen along the ray
        found.append(focal * np.linalg.norm(across, axis=1) / depth)
    return np.stack(found, axis=1)


def _clip_near(quad: Array) -> Array:
    """The part of a polygon [4, 3] in front of the near plane (Sutherland-Hodgman)."""
    kept = []
    for a, b in zip(quad, np.roll(quad, -1, axis=0), strict=True):
        if a[2] > NEAR:
            kept.append(a)
        if (a[2] > NEAR) != (b[2] > NEAR):
            share = (NEAR - a[2]) / (b[2] - a[2])
            kept.append(a + share * (b - a))
    return np.array(kept)


def paint(canvas: Canvas, placed: Placed, bank: TextureBank, gain: Array) -> None:
    """Draw one panel; `gain` [3] is the light that falls on it."""
    height, width = canvas.near.shape
    panel, outline = placed.panel, placed.outline
    x0, y0 = (max(int(v) - 1, 0) for v in np.floor(outline.min(axis=0)))
    x1, y1 = np.minimum(np.ceil(outline.max(axis=0)).astype(int) + 2, (width, height))
    if x0 >= x1 or y0 >= y1:
        return
    texture = sized(panel, placed.extent, bank)
    rows, columns = texture.rgb.shape[:2]
    roi = (slice(y0, y1), slice(x0, x1))
    panel_from_roi = placed.panel_from_pixel @ np.array([[1.0, 0.0, x0], [0.0, 1.0, y0], [0.0, 0.0, 1.0]])
    # Texel centres sit at half-integers of the panel's own coordinates.
    texture_from_roi = np.array([[columns, 0, -0.5], [0, rows, -0.5], [0, 0, 1]]) @ panel_from_roi
    size = (int(x1 - x0), int(y1 - y0))

    # Inverse depth is linear in the pixel, so the depth test needs no division.
    a, b, c = panel_from_roi[2]
    along, down = a * np.arange(size[0]) + c, b * np.arange(size[1])
    near = along.astype(np.float32) + down.astype(np.float32)[:, None]
    cover = _coverage(outline - (x0, y0), size)
    visible = canvas.near[roi] <= near * 1.02 if panel.decal else near > canvas.near[roi]
    cover *= visible
    if not cover.any():
        return

    color = warped(texture.rgb, texture_from_roi, size)
    if not (gain == 1.0).all():
        color = looked_up(color, _light_table(gain))
    if texture.alpha is not None:
        cover *= warped(texture.alpha, texture_from_roi, size) * np.float32(1 / 255)
    # Where two panels of one thing meet, two half-covered pixels must not let the background through.
    weight = np.minimum(cover + cover, 1) if panel.label in SEAMLESS else cover
    canvas.rgb[roi] = blended(color, canvas.rgb[roi], weight)
    if panel.decal:
        return
    solid = cover >= 0.5
    canvas.near[roi][solid] = near[solid]
    if texture.codes is None:
        canvas.labels[roi][solid] = panel.label
        canvas.identities[roi][solid] = panel.identity
        return
    codes = warped(texture.codes, texture_from_roi, size, cv2.INTER_NEAREST)[solid]
    canvas.labels[roi][solid] = np.where(codes > 0, panel.label, BASE_OF_CODED[panel.label])
    canvas.identities[roi][solid] = np.where(codes > 0, panel.identity + codes.astype(np.int32), 0)


def _coverage(outline: Array, size: tuple[int, int]) -> NDArray[np.float32]:
    """Share of each pixel [H, W] that a convex outline [P, 2] covers, from the distances to its edges."""
    columns, rows = np.arange(size[0], dtype=np.float32), np.arange(size[1], dtype=np.float32)[:, None]
    points = outline.tolist()  # plain floats keep the arrays below in single precision
    edges = list(zip(points, points[1:] + points[:1], strict=True))
    turn = sum(xa * yb - xb * ya for (xa, ya), (xb, yb) in edges)
    sides = []
    for (xa, ya), (xb, yb) in edges:
        length = math.copysign(max(math.hypot(xb - xa, yb - ya), 1e-6), turn)
        a, b = (ya - yb) / length, (xb - xa) / length  # inward
        side = (a * columns + (0.5 - a * xa - b * ya)) + b * rows
        sides.append(np.minimum(np.maximum(side, 0, out=side), 1, out=side))
    if len(sides) != 4:
        return np.asarray(np.minimum.reduce(sides))
    # Opposite edges can both run through one pixel of a thin pole.
    for here, there in ((0, 2), (1, 3)):
        sides[here] += sides[there]
        sides[here] -= 1
        np.maximum(sides[here], 0, out=sides[here])
    return np.asarray(sides[0] * sides[1])


# Things made of several panels that meet edge to edge.
SEAMLESS = (labels.BUILDING, labels.CAR, labels.WINDOW)

# A coded panel's own surface, where no landmark is painted on it: the wall around windows.
BASE_OF_CODED = {labels.WINDOW: labels.BUILDING}


def sized(panel: Panel, extent: Sequence[float], bank: TextureBank) -> Texture:
    """The panel's texture, halved until a texel is about a pixel; `extent` is what it spans in pixels."""
    height, width = bank.get(panel.material).rgb.shape[:2]
    halvings = []
    for texels, pixels in zip((width, height), extent, strict=True):
        wanted = math.floor(math.log2(texels / max(pixels, 1e-3)) + 0.35)
        halvings.append(min(max(wanted, 0), int(math.log2(texels))))
    return bank.get(panel.material, *halvings)


def _light_table(gain: Array) -> NDArray[np.uint8]:
    levels = np.arange(256)[:, None] * gain[None, :]  # [256, 3]
    return np.clip(np.round(levels), 0, 255).astype(np.uint8)[:, None, :]
