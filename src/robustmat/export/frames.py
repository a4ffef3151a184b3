"""Real-looking frames to hold an export to: one simulated town by day, and on an evening with rain and noise."""

from collections.abc import Sequence
from dataclasses import replace

from robustmat.landmarks.boxes import landmarks_from_mask
from robustmat.landmarks.known import identify
from robustmat.perturb import parse, perturb_image
from robustmat.progress import Progress, silent
from robustmat.simulation import build_town, drive_town, kitti_camera
from robustmat.types import Frame

TOWN = 2031  # no town of this number was trained on
SPACING = 4.0  # metres
LOOKS = (("noon", "right", "clean"), ("evening", "left", "paper:16"))
FEWEST = (0, 1, 2)  # landmarks of the frames where something could go wrong at the edge


def street_frames(count: int, seed: int = TOWN, scale: float = 1.0, progress: Progress = silent) -> list[Frame]:
    """`count` frames of each look, pixels in memory, with the simulator's identities."""
    town = build_town(seed)
    drives = [
        (drive_town(town, count, look=look, lane=lane, spacing=SPACING, camera=kitti_camera(scale)), weather)
        for look, lane, weather in LOOKS
    ]
    frames = []
    shots = [(drive, weather, number) for drive, weather in drives for number in range(count)]
    for drive, weather, index in progress(shots, "rendering frames"):
        frame = drive.frames[index]
        semantics = frame.semantics
        assert semantics is not None
        known = [(one.box, one.category, one.identity) for one in drive.truth(index)]
        pixels = perturb_image(frame.image, parse(weather), seed=seed, key=f"{drive.name}/{frame.name}")
        landmarks = identify(landmarks_from_mask(semantics), known)
        name = f"{drive.name}/{frame.name}"
        frames.append(Frame.from_array(pixels, landmarks, name=name, camera=frame.camera))
    return frames


def frame_pairs(frames: Sequence[Frame]) -> list[tuple[Frame, Frame]]:
    """Every two of the frames, and pairs in which one or both are cut down to 0, 1 and 2 landmarks."""
    pairs = [(a, b) for i, a in enumerate(frames) for b in frames[i + 1 :]]
    full, other = frames[0], frames[-1]
    small = [replace(full, name=f"{full.name}, {few}", landmarks=full.landmarks[:few]) for few in FEWEST]
    pairs += [(one, other) for one in small] + [(other, one) for one in small]
    return pairs + [(a, b) for a in small for b in small]
