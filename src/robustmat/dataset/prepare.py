"""From a drive to a landmark data set, on one page."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from robustmat.dataset.store import refuse_to_overwrite, write_dataset
from robustmat.errors import DataError
from robustmat.landmarks.corrections import Corrections, correct
from robustmat.landmarks.identities import Observation, associate, up_direction
from robustmat.landmarks.positions import locate, visible_points
from robustmat.landmarks.reference_map import ReferenceMap, build_reference_map
from robustmat.landmarks.regions import find_regions
from robustmat.sources.drive import Drive
from robustmat.types import Frame, Landmark

Progress = Callable[[Sequence[Frame], str], Iterable[Frame]]  # (frames, what is done with them)


def prepare(
    drive: Drive,
    out: Path | str,
    *,
    copy_images: bool = False,
    corrections: Corrections | None = None,
    progress: Progress = lambda frames, _: frames,
) -> Path:
    """Find a drive's landmarks in its label maps, give them identities by LiDAR, write the data set.

    Frames without a label map help to build the LiDAR map, but do not enter the data set. A drive without
    LiDAR or poses becomes landmarks without identities.
    """
    refuse_to_overwrite(Path(out))
    with_scan = [frame for frame in drive.frames if frame.load_points and frame.T_world_camera is not None]
    reference = build_reference_map(progress(with_scan, "LiDAR map")) if with_scan else None

    labelled = [(f, path) for f, path in zip(drive.frames, drive.image_paths, strict=True) if f.load_semantics]
    if not labelled:
        raise DataError(
            f"drive '{drive.name}' has no semantic labels, and landmarks come from them: put label maps "
            "beside the images or name their folder with --semantics"
        )
    frames = [frame for frame, _ in labelled]
    found = [find_landmarks(frame, reference) for frame in progress(frames, "landmarks")]
    if reference is not None:
        found = identify(frames, found, corrections)
    elif corrections is not None:
        raise DataError(f"drive '{drive.name}' has no LiDAR, so it has no identities to correct")

    complete = (
        (replace(frame, landmarks=tuple(landmark for landmark, _ in landmarks)), path)
        for (frame, path), landmarks in zip(labelled, found, strict=True)
    )
    source = {**drive.source, "lidar": reference is not None}
    return write_dataset(out, drive.name, drive.world, complete, source=source, copy_images=copy_images)


Found = list[tuple[Landmark, int]]  # a frame's landmarks, each with the number of its pixels


def find_landmarks(frame: Frame, reference: ReferenceMap | None) -> Found:
    """A frame's landmarks with boxes, categories and, where the reference map shows them, positions."""
    semantics = frame.semantics
    regions = find_regions(semantics) if semantics is not None else []
    positions: Sequence[tuple[float, float, float] | None] = [None] * len(regions)
    if reference is not None and frame.camera is not None and frame.T_world_camera is not None:
        positions = locate(regions, visible_points(reference, frame.camera, frame.T_world_camera))
    return [
        (Landmark(region.box, region.category, position=position), region.area)
        for region, position in zip(regions, positions, strict=True)
    ]


def identify(frames: Sequence[Frame], found: Sequence[Found], corrections: Corrections | None) -> list[Found]:
    """The same landmarks with identities, by association over all frames and the user's corrections."""
    observations, places = [], []
    for number, landmarks in enumerate(found):
        for at, (landmark, area) in enumerate(landmarks):
            if landmark.position is not None:
                observations.append(Observation(number, landmark.category, landmark.position, area))
                places.append((number, at))
    up = up_direction([frame.T_world_camera for frame in frames if frame.T_world_camera is not None])
    identities = associate(observations, up)
    if corrections is not None:
        identities = correct(identities, [frames[it.frame].name for it in observations], corrections)
    identified = [list(landmarks) for landmarks in found]
    for (number, at), identity in zip(places, identities, strict=True):
        landmark, area = identified[number][at]
        identified[number][at] = (replace(landmark, identity=identity), area)
    return identified
