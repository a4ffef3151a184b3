"""Where the sun reaches: shadows of buildings and trees on the ground and on facades."""

import cv2
import numpy as np

from robustmat.simulation.looks import Look
from robustmat.simulation.opencv import blurred, resized
from robustmat.simulation.patterns import Plane, cloud_noise
from robustmat.simulation.town import Town
from robustmat.types import Array

SHADOW_TEXELS = 3  # ground texels per shadow sample
REACH = 70.0  # metres: longer shadows are cut


def ground_sun(town: Town, look: Look, corner: Array, side: int, texel: float, rng: np.random.Generator) -> Plane:
    """Share of the sun's light [side, side] on a tile whose low corner is at `corner`."""
    count = side // SHADOW_TEXELS
    step = texel * SHADOW_TEXELS
    lit = np.ones((count, count), np.float32)
    noise = cloud_noise((count, count), rng, 9.0, 3)
    if not look.has_shadows:
        return resized(lit, (side, side))
    sun = look.toward_sun
    drift = -sun[:2] / max(sun[2], 0.05)  # metres of shadow per metre of height
    middle = corner + side * texel / 2
    reach = side * texel + REACH
    for crown in town.crowns:
        x, y = np.array([crown.x, crown.y]) + drift * crown.z
        if abs(x - middle[0]) + abs(y - middle[1]) > reach:
            continue
        stretch = float(np.hypot(1.0, np.linalg.norm(drift)))
        angle = float(np.degrees(np.arctan2(drift[1], drift[0])))
        spot = np.zeros_like(lit)
        axes = (max(int(crown.radius * min(stretch, 2.5) / step), 1), max(int(crown.radius / step), 1))
        center = (int((x - corner[0]) / step), int((y - corner[1]) / step))
        cv2.ellipse(spot, center, axes, angle, 0, 360, 1.0, -1)
        bare = 0.55 if look.leaves == "bare" else 0.0
        leafy = np.clip(0.95 + 0.55 * noise - bare, 0.0, 0.95)  # light falls through the gaps
        lit *= 1 - spot * leafy
        foot = ((np.array([crown.x, crown.y]) - corner) / step).astype(int)
        tip = ((np.array([x, y]) - corner) / step).astype(int)
        cv2.line(lit, (int(foot[0]), int(foot[1])), (int(tip[0]), int(tip[1])), 0.1, 2)
    for footprint in town.footprints:
        base = np.array(footprint.corners)
        if np.abs(base.mean(axis=0) - middle).sum() > reach:
            continue
        length = min(footprint.height, REACH / max(float(np.linalg.norm(drift)), 1e-6))
        hull = cv2.convexHull(np.concatenate([base, base + drift * length]).astype(np.float32))
        points = np.round((hull[:, 0] - corner) / step * 16).astype(np.int32)
        cv2.fillConvexPoly(lit, points, 0.0, lineType=cv2.LINE_8, shift=4)
    return resized(blurred(lit, 0.8), (side, side))


def lamp_pools(town: Town, corner: Array, side: int, texel: float) -> Plane:
    """Light of the street lamps [side, side] on a tile, 1 right under a lamp."""
    count = side // SHADOW_TEXELS
    ticks = (np.arange(count, dtype=np.float32) + 0.5) * (texel * SHADOW_TEXELS)
    pools = np.zeros((count, count), np.float32)
    middle = corner + side * texel / 2
    for landmark in town.landmarks.values():
        x, y, _ = landmark.position
        if landmark.kind.startswith("lamp") and abs(x - middle[0]) + abs(y - middle[1]) < side * texel + 12:
            across, along = ticks - float(x - corner[0]), ticks - float(y - corner[1])
            pools += np.exp(-((across**2)[None] + (along**2)[:, None]) / 22.0)
    return resized(np.minimum(pools, 1.2), (side, side))


def front_sun(town: Town, look: Look, index: int) -> tuple[float, Array]:
    """How squarely the sun meets a front (0: from behind), and its share [rows, columns] over the front."""
    left, right = town.front_places[index]
    front = town.fronts[index]
    along = (right - left) / max(front.width, 1e-6)
    outward = np.array([along[1], -along[0], 0.0])
    sun = look.toward_sun
    facing = float(outward @ sun)
    rows, columns = max(int(front.height / 0.8), 2), max(int(front.width / 0.8), 2)
    if facing <= 0 or not look.has_shadows:
        return max(facing, 0.0), np.ones((rows, columns))
    x = (np.arange(columns) + 0.5) / columns * front.width
    z = front.height * (1 - (np.arange(rows) + 0.5) / rows)
    foot = left + 0.05 * outward[:2]
    points = np.stack(
        [*np.broadcast_arrays((foot[0] + along[0] * x)[None], (foot[1] + along[1] * x)[None], z[:, None])],
        axis=-1,
    ).reshape(-1, 3)
    return facing, sun_share(town, look, points).reshape(rows, columns)


def sun_share(town: Town, look: Look, points: Array) -> Array:
    """Share of the sun [N] at points [N, 3], hidden by buildings and dimmed by crowns."""
    share = np.ones(len(points))
    if not look.has_shadows or len(points) == 0:
        return share
    sun = look.toward_sun
    flat = sun[:2] / max(float(np.linalg.norm(sun[:2])), 1e-9)
    climb = sun[2] / max(float(np.linalg.norm(sun[:2])), 1e-9)  # metres up per metre toward the sun
    middle = points[:, :2].mean(axis=0)
    spread = float(np.abs(points[:, :2] - middle).max())
    for footprint in town.footprints:
        base = np.array(footprint.corners)
        away = base.mean(axis=0) - middle
        if float(np.hypot(*away)) > REACH + spread:
            continue
        enter, leave = _crossing(points[:, :2], flat, base)
        top = points[:, 2] + climb * np.maximum(enter, 0)
        share[(leave > np.maximum(enter, 0.15)) & (top < footprint.height)] = 0.0
    for crown in town.crowns:
        center = np.array([crown.x, crown.y, crown.z]) - points
        along = center @ sun
        miss = np.sqrt(np.maximum((center**2).sum(axis=1) - along**2, 0))
        share[(along > 0) & (miss < crown.radius * 0.9)] *= 0.35
    return share


def _crossing(points: Array, direction: Array, polygon: Array) -> tuple[Array, Array]:
    """Where rays in the plane enter and leave a convex polygon [P, 2]; leave < enter: they miss."""
    enter, leave = np.full(len(points), -np.inf), np.full(len(points), np.inf)
    center = polygon.mean(axis=0)
    for a, b in zip(polygon, np.roll(polygon, -1, axis=0), strict=True):
        normal = np.array([b[1] - a[1], a[0] - b[0]])
        if normal @ (center - a) > 0:
            normal = -normal  # outward
        speed = float(normal @ direction)
        distance = (a - points) @ normal  # > 0: inside of this edge
        if abs(speed) < 1e-12:
            leave = np.where(distance < 0, -np.inf, leave)
        elif speed > 0:
            leave = np.minimum(leave, distance / speed)
        else:
            enter = np.maximum(enter, distance / speed)
    return enter, leave
