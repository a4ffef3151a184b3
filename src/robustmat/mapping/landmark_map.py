"""A map that can be asked: where was this frame taken, and from which pose."""

import time
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from robustmat.errors import InputError
from robustmat.mapping.answers import Candidate, KeyframeInfo, Location, PlaceAnswer
from robustmat.mapping.filtering import Belief, DriveFilter, carried
from robustmat.mapping.localisation import nearest_keyframe, pose_of, used_for_pose
from robustmat.mapping.objects import MapObject, merge_objects
from robustmat.mapping.packing import unpack
from robustmat.mapping.place_model import PlaceModel, posterior, shipped_model
from robustmat.mapping.pose import PoseEstimate
from robustmat.mapping.recognition import AROUND, BY_LOOK, ONE_PLACE, Recogniser
from robustmat.mapping.scene import add_keypoints, as_matched
from robustmat.mapping.search import Area, keyframe_votes, keyframes_alike
from robustmat.mapping.settings import refuse_missing_arrays, refuse_other_matcher
from robustmat.mapping.store import MapStore, Snapshot, open_store
from robustmat.matching.embedded import EmbeddedFrame
from robustmat.matching.matcher import Matcher
from robustmat.types import Array, Camera, Frame

KEPT = 256  # keyframes in memory
LIKELY = 0.5  # from which probability on a place is an answer


class LandmarkMap:
    """An opened map.

    It answers from the version that was there when it was opened; `refresh` brings it up to date.

    Example:
        >>> town = robustmat.open_map("town")                                    # doctest: +SKIP
        >>> town.query(frame).keyframe                                           # doctest: +SKIP
        >>> town.locate(frame).T_world_camera                                    # doctest: +SKIP
    """

    def __init__(
        self, store: MapStore, matcher: Matcher | None = None, at: int | None = None, model: PlaceModel | None = None
    ) -> None:
        self.store, self.header = store, store.header
        if matcher is not None:
            refuse_other_matcher(self.header, matcher, store.place)
        self._matcher, self._at = matcher, at
        self.model = model or shipped_model(keypoints=self.header.settings.keypoints > 0)
        self.snapshot: Snapshot = store.snapshot(at)
        self._kept: OrderedDict[str, tuple[KeyframeInfo, EmbeddedFrame]] = OrderedDict()
        self._drive: tuple[KeyframeInfo, ...] | None = None
        self._compare: Recogniser | None = None

    @property
    def matcher(self) -> Matcher:
        """The matcher that made the map; loaded when it is first needed."""
        if self._matcher is None:
            from robustmat.checkpoints.load import load

            matcher = load(self.header.checkpoint, evidence=self.header.evidence)
            refuse_other_matcher(self.header, matcher, self.store.place)
            self._matcher = matcher
        return self._matcher

    def refresh(self) -> None:
        """See what was added since the map was opened."""
        self.snapshot = self.store.snapshot(self._at)
        self._drive = self._compare = None

    def objects(self, *, category: str | None = None, area: Area | None = None) -> list[MapObject]:
        """The things in the map, all or some; what several drives saw at one place is one."""
        parts = [f"category = '{category}'"] if category else []
        parts += [area.to_sql()] if area else []
        return merge_objects(self.store.rows("objects", self.snapshot, " AND ".join(parts) or None))

    def keyframes(self) -> tuple[KeyframeInfo, ...]:
        """All keyframes, drive by drive."""
        if self._drive is None:
            columns = ["keyframe", "dataset", "travelled", "pose", "camera", "width", "height"]
            rows = self.store.rows("keyframes", self.snapshot, None, columns)
            found = [KeyframeInfo.of_row(row) for row in rows]
            self._drive = tuple(sorted(found, key=lambda info: (info.dataset, info.travelled)))
        return self._drive

    def query(
        self, frame: Frame | EmbeddedFrame, *, min_probability: float = LIKELY, area: Area | None = None
    ) -> PlaceAnswer:
        """Where a single frame was taken."""
        return self._query(self.embed(frame), self._camera(frame), min_probability, area)

    def query_sequence(
        self, frames: Iterable[Frame | EmbeddedFrame], *, min_probability: float = LIKELY, step: float = 3.0
    ) -> Iterator[PlaceAnswer]:
        """Where the frames of a drive were taken, each with what the frames before it said.

        Args:
            step: metres that the camera moves between two frames, at most, usually.
        """
        seen = ((self.embed(frame), self._camera(frame)) for frame in frames)
        return self._query_sequence(seen, min_probability, step)

    def locate(
        self, frame: Frame | EmbeddedFrame, *, min_probability: float = LIKELY, area: Area | None = None
    ) -> Location:
        """The camera's pose when a single frame was taken."""
        start = time.perf_counter()
        embedded, camera = self.embed(frame), self._camera(frame)
        answer = self._query(embedded, camera, min_probability, area)
        pose = self._pose_of(answer, embedded, camera, None)
        return Location(answer, pose, time.perf_counter() - start)

    def locate_sequence(
        self, frames: Iterable[Frame | EmbeddedFrame], *, min_probability: float = LIKELY, step: float = 3.0
    ) -> Iterator[Location]:
        """The camera's poses along a drive: each pose is the prior of the next."""
        last: list[tuple[EmbeddedFrame, Camera | None]] = []

        def remembered() -> Iterator[tuple[EmbeddedFrame, Camera | None]]:
            for frame in frames:
                last[:] = [(self.embed(frame), self._camera(frame))]
                yield last[0]

        track: Belief | None = None
        for answer in self._query_sequence(remembered(), min_probability, step):
            start = time.perf_counter()
            track = None if track is None else carried(track, step)
            pose = self._pose_of(answer, *last[0], track)
            track = track if pose is None else Belief.of(pose, track)
            yield Location(answer, pose, answer.seconds + time.perf_counter() - start)

    def embed(self, frame: Frame | EmbeddedFrame) -> EmbeddedFrame:
        """The frame as this map's matcher sees it; one without a camera is taken to be the map's own, if it fits."""
        if isinstance(frame, EmbeddedFrame):
            if frame.fingerprint != self.header.fingerprint:
                raise InputError(
                    f"frame '{frame.name}' was embedded by another model (fingerprint {frame.fingerprint or 'none'}) "
                    f"than map {self.store.place} ({self.header.fingerprint}): embed it with '{self.header.checkpoint}'"
                )
            return frame
        embedded = self.matcher.embed(replace(frame, camera=self._camera(frame)))
        refuse_missing_arrays(self.header, embedded, self.store.place)
        return add_keypoints(embedded, frame.image) if self.header.settings.keypoints else embedded

    def keyframe(self, name: str) -> tuple[KeyframeInfo, EmbeddedFrame]:
        """A keyframe and what was remembered of it."""
        return self._read([name])[0]

    def _read(self, names: Sequence[str]) -> list[tuple[KeyframeInfo, EmbeddedFrame]]:
        """Keyframes, those that are not in memory by one question to the tables."""
        missing = [name for name in names if name not in self._kept]
        if missing:
            listed = ", ".join("'" + name.replace("'", "''") + "'" for name in missing)
            for row in self.store.rows("keyframes", self.snapshot, f"keyframe IN ({listed})"):
                frame = unpack(row["embedded"], self.header.fingerprint, self.store.place)
                frame = as_matched(frame) if self.header.evidence == "scene" else frame
                self._kept[row["keyframe"]] = KeyframeInfo.of_row(row), frame
        for name in names:
            if name not in self._kept:
                raise InputError(f"map {self.store.place} has no keyframe '{name}'")
            self._kept.move_to_end(name)
        found = [self._kept[name] for name in names]
        while len(self._kept) > KEPT:
            self._kept.popitem(last=False)
        return found

    def _camera(self, frame: Frame | EmbeddedFrame) -> Camera | None:
        """The frame's camera; one that was not given is the map's if pictures have the same size."""
        inner = frame.frame if isinstance(frame, EmbeddedFrame) else frame
        if inner is None or inner.camera is not None:
            return None if inner is None else inner.camera
        height, width = inner.image.shape[:2]
        cameras = [info.camera for info in self.keyframes()]
        fitting = [camera for camera in cameras if (camera.width, camera.height) == (width, height)]
        return fitting[0] if fitting else None

    def _recogniser(self) -> Recogniser:
        if self._compare is None:
            infos = {info.name: info for info in self.keyframes()}
            self._compare = Recogniser(self.matcher, self.model, infos, self._read)
        return self._compare

    def _query(
        self, frame: EmbeddedFrame, camera: Camera | None, min_probability: float, area: Area | None
    ) -> PlaceAnswer:
        start = time.perf_counter()
        votes = keyframe_votes(self.store, self.snapshot, frame, area)
        alike = [] if area else keyframes_alike(self.store, self.snapshot, frame, 3 * BY_LOOK)
        candidates = self._recogniser().candidates(frame, camera, votes, alike)
        positions = np.array([one.keyframe.position for one in candidates]).reshape(-1, 3)
        found = posterior(np.array([one.log_ratio for one in candidates]), positions, ONE_PLACE)
        rated = [replace(one, probability=float(p)) for one, p in zip(candidates, found.probability, strict=True)]
        return self._answer(frame.name, rated, min_probability, start)

    def _query_sequence(
        self, seen: Iterable[tuple[EmbeddedFrame, Camera | None]], min_probability: float, step: float
    ) -> Iterator[PlaceAnswer]:
        drive = DriveFilter([info.name for info in self.keyframes()], self._positions(), step)
        belief = drive.start()
        for frame, camera in seen:
            start = time.perf_counter()
            votes = keyframe_votes(self.store, self.snapshot, frame)
            belief = drive.predict(belief)
            alike = keyframes_alike(self.store, self.snapshot, frame, 3 * BY_LOOK)
            expected = drive.likeliest(belief, AROUND)
            candidates = self._recogniser().candidates(frame, camera, votes, alike, expected)
            belief = drive.update(belief, {one.keyframe.name: one.log_ratio for one in candidates})
            mass = drive.around(belief, ONE_PLACE / 2)
            rated = [replace(one, probability=float(mass[drive.index[one.keyframe.name]])) for one in candidates]
            yield self._answer(frame.name, rated, min_probability, start)

    def _answer(self, name: str, rated: list[Candidate], min_probability: float, start: float) -> PlaceAnswer:
        rated.sort(key=lambda one: (-one.probability, -one.log_ratio, one.keyframe.name))
        best = rated[0].probability if rated else 0.0
        nearest = nearest_keyframe(rated[0], self.keyframes()) if rated else None
        unknown = not rated or best < min_probability
        return PlaceAnswer(name, unknown, best, tuple(rated), nearest, time.perf_counter() - start)

    def _pose_of(
        self, answer: PlaceAnswer, frame: EmbeddedFrame, camera: Camera | None, track: Belief | None
    ) -> PoseEstimate | None:
        if answer.unknown or not answer.candidates:
            return None
        if camera is None:
            raise InputError(
                f"frame '{answer.frame}' has no camera and its size is not that of the map's frames: give --camera"
            )
        near = self._recogniser().settled(frame, used_for_pose(answer), camera)
        return pose_of(near, camera, track, self.header.error_of_poses, self.model)

    def _positions(self) -> Array:
        return np.array([info.position for info in self.keyframes()]).reshape(-1, 3)


def open_map(
    place: Path | str,
    *,
    matcher: Matcher | None = None,
    at: int | None = None,
    storage_options: Mapping[str, str] | None = None,
    model: PlaceModel | None = None,
) -> LandmarkMap:
    """Open a map: a folder, or a place on object storage (`s3://...` with `storage_options`).

    Args:
        matcher: the one that made the map; loaded by its name, if it is not given.
        at: a version of the map's past.
        model: what evidence for a place is worth; the shipped one, if it is not given.
    """
    return LandmarkMap(open_store(place, storage_options), matcher, at, model)
