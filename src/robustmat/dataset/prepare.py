"""From a drive to a landmark data set, on one page.

Four walks over the frames: their scans refine the poses and then become the LiDAR map (without scans the pictures
refine the poses), their labels become landmarks with positions, and these, with identities, the lines of the data set.
Each walk holds a stretch of the drive in memory and leaves its work on disk, so that a drive may be long and `prepare`
may be interrupted: called again, it goes on and writes the same bytes.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from robustmat.dataset.poses_by_pictures import with_poses_by_pictures
from robustmat.dataset.store import refuse_to_overwrite, sheet_frames, write_dataset, write_points
from robustmat.dataset.unfinished import Found, Unfinished, open_unfinished
from robustmat.errors import DataError
from robustmat.folders import locked
from robustmat.landmarks.better_poses import with_better_poses
from robustmat.landmarks.config import DEFAULT, LandmarkConfig
from robustmat.landmarks.corrections import Corrections, correct
from robustmat.landmarks.identities import up_direction
from robustmat.landmarks.objects import find_objects, position_of
from robustmat.landmarks.positions import Position, locate, visible_points
from robustmat.landmarks.reference_map import ReferenceMap, build_reference_map
from robustmat.landmarks.regions import Region, box_regions, find_regions
from robustmat.landmarks.sightings import Sightings
from robustmat.sources.drive import Drive
from robustmat.types import Frame, Landmark

Progress = Callable[[Sequence[Frame], str], Iterable[Frame]]  # (frames, what is done with them)

SHEET_POINTS = 6000  # LiDAR points of a frame that are kept for looking at


def prepare(
    drive: Drive,
    out: Path | str,
    *,
    copy_images: bool = False,
    corrections: Corrections | None = None,
    config: LandmarkConfig = DEFAULT,
    progress: Progress = lambda frames, _: frames,
    verify: bool = False,
) -> Path:
    """Find a drive's landmarks in its label maps or drawn boxes, give them identities, write the data set.

    Identities come from LiDAR and from the bearings of several frames; without LiDAR, from the bearings alone. Frames
    without labels help to build the LiDAR map, but do not enter the data set. A drive without poses becomes
    landmarks without identities. Interrupted work on the same files goes on; whether they are the same is told by
    sizes, times and samples, or with `verify` by every byte.
    """
    out = Path(out)
    refuse_to_overwrite(out)
    if not _labelled(drive):
        raise DataError(
            f"drive '{drive.name}' has no semantic labels and no boxes, and landmarks come from them: put label maps "
            "beside the images, name their folder with --semantics, or bring boxes (see `prepare folder --help`)"
        )
    if corrections is not None and not any(_is_placed(frame) for frame in drive.frames):
        raise DataError(f"drive '{drive.name}' has no camera or no poses, so it has no identities to correct")

    with locked(out):
        return _prepare(
            drive, out, copy_images, corrections, config, progress, open_unfinished(out, drive, config, verify)
        )


def _prepare(
    drive: Drive,
    out: Path,
    copy_images: bool,
    corrections: Corrections | None,
    config: LandmarkConfig,
    progress: Progress,
    work: Unfinished,
) -> Path:
    goes_on = ", going on after an interruption" if any(work.map.glob("*.tiles.npy")) or work.done() else ""
    if any(_gives_points(frame) for frame in drive.frames):
        better, pose_report = with_better_poses(
            drive.frames, work.poses, config, lambda frames: progress(frames, "poses by LiDAR")
        )
    else:
        better, pose_report = with_poses_by_pictures(
            drive.frames, work.poses, config.poses, lambda frames: progress(frames, "poses by pictures")
        )
    drive = replace(drive, frames=tuple(better))
    with_scan = [frame for frame in drive.frames if _gives_points(frame)]
    labelled = _labelled(drive)
    reference = None
    if with_scan:
        reference = build_reference_map(progress(with_scan, f"LiDAR map{goes_on}"), work.map, config.map)
    frames = [frame for frame, _ in labelled]
    work.find_all(frames, progress(frames, "landmarks"), lambda frame: find_landmarks(frame, reference, config))
    known = identify(frames, work, corrections, config)

    source = {**drive.source, "lidar": reference is not None, "identities": _made_by(frames, reference)}
    if reference is not None or pose_report.refined:
        source["poses"] = pose_report.to_json()
    if config != DEFAULT:
        source["limits"] = config.model_dump(mode="json", exclude_defaults=True)
    complete = _complete(labelled, work, known)
    folder = work.folder / ("copied" if copy_images else "linked")
    if reference is not None:
        _keep_points(folder, frames, reference, config)
    write_dataset(out, drive.name, drive.world, complete, source=source, copy_images=copy_images, folder=folder)
    work.remove()
    return out


def _gives_points(frame: Frame) -> bool:
    return frame.load_points is not None and frame.T_world_camera is not None


def _is_placed(frame: Frame) -> bool:
    return frame.camera is not None and frame.T_world_camera is not None


def _made_by(frames: Sequence[Frame], reference: ReferenceMap | None) -> str:
    """What identities follow from, for the data set's record."""
    if reference is not None:
        return "lidar and triangulation"
    return "triangulation" if any(_is_placed(frame) for frame in frames) else "none"


def _labelled(drive: Drive) -> list[tuple[Frame, Path | None]]:
    """The frames that have landmarks, each with its image's path."""
    return [
        (frame, path)
        for frame, path in zip(drive.frames, drive.image_paths, strict=True)
        if frame.load_semantics or frame.load_boxes
    ]


def _keep_points(folder: Path, frames: Sequence[Frame], reference: ReferenceMap, config: LandmarkConfig) -> None:
    """Write down what some frames see of the LiDAR map, so that contact sheets can show it without the scans."""
    for number in sheet_frames(len(frames)):
        frame = frames[number]
        if frame.camera is not None and frame.T_world_camera is not None:
            points = visible_points(reference, frame.camera, frame.T_world_camera, config.positions)
            step = max(1, len(points.depth) // SHEET_POINTS)
            write_points(folder, frame.name, np.column_stack([points.pixels, points.depth])[::step])


def find_landmarks(frame: Frame, reference: ReferenceMap | None, config: LandmarkConfig = DEFAULT) -> Found:
    """A frame's landmarks with boxes, categories and, where the reference map shows them, positions."""
    regions = _regions(frame, config)
    positions: Sequence[Position | None] = [None] * len(regions)
    if reference is not None and frame.camera is not None and frame.T_world_camera is not None:
        points = visible_points(reference, frame.camera, frame.T_world_camera, config.positions)
        positions = locate(regions, points, config)
    return [
        (Landmark(region.box, region.category, position=position, confidence=region.confidence), region.area)
        for region, position in zip(regions, positions, strict=True)
    ]


def _regions(frame: Frame, config: LandmarkConfig) -> list[Region]:
    """Boxes that somebody drew count more than label maps."""
    if frame.load_boxes is not None:
        return box_regions(frame.load_boxes())
    semantics = frame.semantics
    return find_regions(semantics, config.regions) if semantics is not None else []


Known = tuple[int | None, Position | None]  # a landmark's identity and place


def identify(
    frames: Sequence[Frame], work: Unfinished, corrections: Corrections | None, config: LandmarkConfig
) -> list[list[Known]]:
    """Identity and place of every landmark of every frame, by what LiDAR and bearings say and the user corrects."""
    found = list(work.found(len(frames)))
    known: list[list[Known]] = [[(None, landmark.position) for landmark, _ in landmarks] for landmarks in found]
    placed = [number for number, frame in enumerate(frames) if _is_placed(frame)]
    if not placed:
        return known
    seen = Sightings.of(frames, found)
    up = up_direction([pose for frame in frames if (pose := frame.T_world_camera) is not None])
    objects = find_objects(seen, up, config)
    identities: list[int | None] = [None] * len(seen)
    for identity, thing in enumerate(objects):
        for row in thing.members.tolist():
            identities[row] = identity
            x, y, z = position_of(seen, row, thing, up, config).tolist()
            known[seen.frame[row]][seen.number[row]] = (identity, (x, y, z))
    if corrections is not None:
        corrected = correct(identities, [frames[number].name for number in seen.frame], corrections)
        for row, decided in enumerate(corrected):
            _, place = known[seen.frame[row]][seen.number[row]]
            known[seen.frame[row]][seen.number[row]] = (decided, place)
    return known


def _complete(
    labelled: Sequence[tuple[Frame, Path | None]], work: Unfinished, known: list[list[Known]]
) -> Iterator[tuple[Frame, Path | None]]:
    """The frames with their landmarks, one after the other."""
    for (frame, path), found, told in zip(labelled, work.found(len(labelled)), known, strict=True):
        landmarks = tuple(
            replace(landmark, identity=identity, position=place)
            for (landmark, _), (identity, place) in zip(found, told, strict=True)
        )
        yield replace(frame, landmarks=landmarks), path
