"""A map that can be asked: where was this frame taken, and from which pose."""

import time
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from robustmat.errors import InputError
from robustmat.mapping.filtering import Belief, DriveFilter, carried
from robustmat.mapping.objects import MapObject, merge_objects
from robustmat.mapping.packing import unpack
from robustmat.mapping.place_model import PlaceModel, features_of, posterior, shipped_model
from robustmat.mapping.pose import (
    Observations,
    PoseEstimate,
    estimate_pose,
    ground_prior,
    join,
    observe,
)
from robustmat.mapping.scene import ScenePose, add_keypoints, scene_pose
from robustmat.mapping.search import Area, keyframe_votes, keyframes_alike
from robustmat.mapping.settings import refuse_other_matcher
from robustmat.mapping.store import MapStore, Snapshot, open_store
from robustmat.matching.embedded import EmbeddedFrame
from robustmat.matching.matcher import Matcher
from robustmat.types import Array, Camera, Frame, MatchResult

VERIFIED = 8  # places that votes propose and matching verifies
AROUND = 4  # further keyframes around the best of them
ALIKE = 6  # places that look alike as a whole, where the map keeps keypoints
FARTHEST_SCENE = 30.0  # metres from a keyframe that its keypoints can tell a pose
ENOUGH = 15  # keypoints that a pose can be computed from without landmarks
ONE_PLACE = 10.0  # metres; candidates nearer to each other say the same
KEPT = 256  # keyframes in memory
USED_FOR_POSE = 3  # keyframes that a pose is computed from
LIKELY = 0.5  # from which probability on a place is an answer
WIDEST = 2.0  # metres, one standard deviation: a pose less certain than this is no answer


@dataclass(frozen=True)
class KeyframeInfo:
    """What is known of a keyframe without its landmarks."""

    name: str
    dataset: str
    travelled: float
    T_world_camera: Array
    camera: Camera

    @property
    def position(self) -> Array:
        return self.T_world_camera[:3, 3]


@dataclass(frozen=True)
class Candidate:
    """A keyframe that was compared with the frame landmark by landmark."""

    keyframe: KeyframeInfo
    result: MatchResult
    pose: PoseEstimate | None
    scene: ScenePose | None  # by keypoints
    features: Array  # what the place model goes by
    log_ratio: float
    probability: float = 0.0


@dataclass(frozen=True)
class PlaceAnswer:
    """Where a frame was taken: the likeliest keyframe, unless the place is unknown."""

    frame: str
    unknown: bool
    probability: float  # of the likeliest keyframe, also where that is too little for an answer
    candidates: tuple[Candidate, ...]  # likeliest first
    nearest: KeyframeInfo | None  # to where the likeliest candidate says the camera was
    seconds: float

    @property
    def keyframe(self) -> KeyframeInfo | None:
        return None if self.unknown else self.nearest

    def to_json(self) -> dict[str, Any]:
        """The command line's JSON contract."""
        found = self.keyframe
        return {
            "image": self.frame,
            "unknown": self.unknown,
            "keyframe": None if found is None else found.name,
            "position": None if found is None else found.position.tolist(),
            "probability": self.probability,
            "seconds": self.seconds,
        }


@dataclass(frozen=True)
class Location:
    """The camera's pose in the map, with its covariance in metres and radians of the camera's own axes."""

    place: PlaceAnswer
    pose: PoseEstimate | None
    seconds: float

    @property
    def T_world_camera(self) -> Array | None:  # noqa: N802  (a transform names both frames)
        return None if self.pose is None else self.pose.T_world_camera

    def to_json(self) -> dict[str, Any]:
        """The command line's JSON contract."""
        pose = self.pose
        told = self.place.to_json()
        if pose is not None:
            told["position"] = pose.T_world_camera[:3, 3].tolist()
        return {
            **told,
            "T_world_camera": None if pose is None else pose.T_world_camera.tolist(),
            "covariance": None if pose is None else pose.covariance.tolist(),
            "landmarks_used": 0 if pose is None else len(pose.agreeing),
            "keypoints_used": 0 if pose is None else pose.keypoints,
            "seconds": self.seconds,
        }


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
        self._drive = None

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
            found = [_info(row) for row in rows]
            self._drive = tuple(sorted(found, key=lambda info: (info.dataset, info.travelled)))
        return self._drive

    def query(
        self, frame: Frame | EmbeddedFrame, *, min_probability: float = LIKELY, area: Area | None = None
    ) -> PlaceAnswer:
        """Where a single frame was taken."""
        start = time.perf_counter()
        embedded = self.embed(frame)
        votes = keyframe_votes(self.store, self.snapshot, embedded, area)
        alike = [] if area else keyframes_alike(self.store, self.snapshot, embedded, 3 * ALIKE)
        candidates = self._verify_best(embedded, votes, self._camera(frame), alike)
        return self._answer(embedded.name, candidates, min_probability, start)

    def query_sequence(
        self, frames: Iterable[Frame | EmbeddedFrame], *, min_probability: float = LIKELY, step: float = 3.0
    ) -> Iterator[PlaceAnswer]:
        """Where the frames of a drive were taken, each with what the frames before it said.

        Args:
            step: metres that the camera moves between two frames, at most, usually.
        """
        drive = DriveFilter([info.name for info in self.keyframes()], self._positions(), step)
        belief = drive.start()
        by_name = {info.name: info for info in self.keyframes()}
        for frame in frames:
            start = time.perf_counter()
            embedded, camera = self.embed(frame), self._camera(frame)
            votes = keyframe_votes(self.store, self.snapshot, embedded)
            belief = drive.predict(belief)
            alike = keyframes_alike(self.store, self.snapshot, embedded, 3 * ALIKE)
            candidates = self._verify_best(embedded, votes, camera, alike, drive.likeliest(belief, AROUND))
            belief = drive.update(belief, {one.keyframe.name: one.log_ratio for one in candidates})
            yield self._answer_by(belief, drive, by_name, candidates, embedded.name, min_probability, start)

    def locate(
        self, frame: Frame | EmbeddedFrame, *, min_probability: float = LIKELY, area: Area | None = None
    ) -> Location:
        """The camera's pose when a single frame was taken."""
        start = time.perf_counter()
        camera = self._camera(frame)
        answer = self.query(frame, min_probability=min_probability, area=area)
        pose = self._pose_of(answer, camera, None)
        return Location(answer, pose, time.perf_counter() - start)

    def locate_sequence(
        self, frames: Iterable[Frame | EmbeddedFrame], *, min_probability: float = LIKELY, step: float = 3.0
    ) -> Iterator[Location]:
        """The camera's poses along a drive: each pose is the prior of the next."""
        listed = list(frames) if not isinstance(frames, list) else frames
        cameras = [self._camera(frame) for frame in listed]
        track: Belief | None = None
        answers = self.query_sequence(listed, min_probability=min_probability, step=step)
        for answer, camera in zip(answers, cameras, strict=True):
            start = time.perf_counter()
            track = None if track is None else carried(track, step)
            pose = self._pose_of(answer, camera, track)
            track = None if pose is None and track is None else (track if pose is None else Belief.of(pose, track))
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
        return add_keypoints(embedded, frame.image) if self.header.settings.keypoints else embedded

    def keyframe(self, name: str) -> tuple[KeyframeInfo, EmbeddedFrame]:
        """A keyframe and what was remembered of it."""
        if name not in self._kept:
            quoted = name.replace("'", "''")
            rows = self.store.rows("keyframes", self.snapshot, f"keyframe = '{quoted}'")
            if not rows:
                raise InputError(f"map {self.store.place} has no keyframe '{name}'")
            embedded = unpack(rows[0]["embedded"], self.header.fingerprint, self.store.place)
            self._kept[name] = _info(rows[0]), embedded
            if len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        self._kept.move_to_end(name)
        return self._kept[name]

    def _camera(self, frame: Frame | EmbeddedFrame) -> Camera | None:
        """The frame's camera; one that was not given is the map's if pictures have the same size."""
        inner = frame.frame if isinstance(frame, EmbeddedFrame) else frame
        if inner is None or inner.camera is not None:
            return None if inner is None else inner.camera
        height, width = inner.image.shape[:2]
        cameras = [info.camera for info in self.keyframes()]
        fitting = [camera for camera in cameras if (camera.width, camera.height) == (width, height)]
        return fitting[0] if fitting else None

    def _positions(self) -> Array:
        return np.array([info.position for info in self.keyframes()]).reshape(-1, 3)

    def _verify_best(
        self,
        frame: EmbeddedFrame,
        votes: Mapping[str, float],
        camera: Camera | None,
        alike: Sequence[str] = (),
        also: Sequence[str] = (),
    ) -> list[Candidate]:
        """The places with most votes, spread out, then the keyframes around the best of them."""
        infos = {info.name: info for info in self.keyframes()}
        by_votes = sorted(votes, key=lambda name: (-votes[name], name))
        spread = [*_spread_out(by_votes, infos, VERIFIED), *_spread_out(alike, infos, ALIKE)]
        chosen = list(dict.fromkeys([*spread, *also]))
        found = [self._verify(frame, name, votes.get(name, 0.0), camera) for name in chosen]
        if found:
            best = max(found, key=lambda one: one.log_ratio)
            near = sorted(
                (
                    info
                    for info in infos.values()
                    if info.name not in chosen and _apart(info, best.keyframe) < ONE_PLACE
                ),
                key=lambda info: (_apart(info, best.keyframe), info.name),
            )[:AROUND]
            found += [self._verify(frame, info.name, votes.get(info.name, 0.0), camera) for info in near]
        return found

    def _verify(self, frame: EmbeddedFrame, name: str, votes: float, camera: Camera | None) -> Candidate:
        info, remembered = self.keyframe(name)
        result = self.matcher.match(frame, remembered)
        pose = None
        if camera is not None:
            pose = estimate_pose(_observed(result, info, camera), camera, ground_prior(info.T_world_camera), least=2)
        scene = None if camera is None else scene_pose(frame, remembered, info.T_world_camera, camera)
        if scene is not None and np.linalg.norm(scene.T_world_camera[:3, 3] - info.position) > FARTHEST_SCENE:
            scene = None
        features = features_of(votes, result, pose, 0 if scene is None else scene.inliers)
        log_ratio = float(self.model.log_ratio(features[None])[0])
        return Candidate(info, result, pose, scene, features, log_ratio)

    def _answer(self, name: str, candidates: list[Candidate], min_probability: float, start: float) -> PlaceAnswer:
        positions = np.array([one.keyframe.position for one in candidates]).reshape(-1, 3)
        found = posterior(np.array([one.log_ratio for one in candidates]), positions, ONE_PLACE)
        rated = [replace(one, probability=float(p)) for one, p in zip(candidates, found.probability, strict=True)]
        rated.sort(key=lambda one: (-one.probability, one.keyframe.name))
        return self._answer_with(name, rated, min_probability, start)

    def _answer_by(
        self,
        belief: Array,
        drive: DriveFilter,
        by_name: Mapping[str, KeyframeInfo],
        candidates: list[Candidate],
        name: str,
        min_probability: float,
        start: float,
    ) -> PlaceAnswer:
        mass = drive.around(belief, ONE_PLACE / 2)
        rated = [replace(one, probability=float(mass[drive.index[one.keyframe.name]])) for one in candidates]
        rated.sort(key=lambda one: (-one.probability, -one.log_ratio, one.keyframe.name))
        return self._answer_with(name, rated, min_probability, start)

    def _answer_with(self, name: str, rated: list[Candidate], min_probability: float, start: float) -> PlaceAnswer:
        best = rated[0].probability if rated else 0.0
        nearest = self._nearest(rated[0]) if rated else None
        unknown = not rated or best < min_probability
        return PlaceAnswer(name, unknown, best, tuple(rated), nearest, time.perf_counter() - start)

    def _nearest(self, best: Candidate) -> KeyframeInfo:
        """Matching prefers keyframes with the same look at things; the camera may have been nearer to another."""
        if best.scene is not None and best.scene.inliers >= ENOUGH:
            here = best.scene.T_world_camera[:3, 3]
        elif best.pose is not None and len(best.pose.agreeing) >= 3:
            here = best.pose.T_world_camera[:3, 3]
        else:
            return best.keyframe
        near = [info for info in self.keyframes() if _apart(info, best.keyframe) < 2 * ONE_PLACE]
        return min(near, key=lambda info: float(np.linalg.norm(info.position - here)))

    def _pose_of(self, answer: PlaceAnswer, camera: Camera | None, track: Belief | None) -> PoseEstimate | None:
        if answer.unknown or not answer.candidates:
            return None
        if camera is None:
            raise InputError(
                f"frame '{answer.frame}' has no camera and its size is not that of the map's frames: give --camera"
            )
        best = answer.candidates[0]
        near = [one for one in answer.candidates if _apart(one.keyframe, best.keyframe) < ONE_PLACE]
        near = [one for one in near if one.pose or one.scene][:USED_FOR_POSE]
        if not near:
            return None
        scene = max((one.scene for one in near if one.scene), key=lambda scene: scene.inliers, default=None)
        scene = scene if scene is not None and scene.inliers >= ENOUGH else None
        parts = [_observed(one.result, one.keyframe, camera) for one in near]
        observed = join(parts if scene is None else [*parts, scene.observations])
        prior = ground_prior(best.keyframe.T_world_camera)
        prior = prior if track is None else track.as_prior(prior)
        start = None if scene is None else scene.T_world_camera
        found = estimate_pose(observed, camera, prior, 3 if track is None else 1, start)
        if found is None:
            return None
        metres, degrees = self.header.settings.pose_error
        own = np.diag([metres**2] * 3 + [np.radians(degrees) ** 2] * 3)
        covariance = found.covariance * self.model.covariance_scale + own
        wide = float(np.sqrt(np.linalg.eigvalsh(covariance[:3, :3]).max()))
        return replace(found, covariance=covariance) if wide < WIDEST else None


def open_map(
    place: Path | str,
    *,
    matcher: Matcher | None = None,
    at: int | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> LandmarkMap:
    """Open a map: a folder, or a place on object storage (`s3://...` with `storage_options`).

    Args:
        matcher: the one that made the map; loaded by its name, if it is not given.
        at: a version of the map's past.
    """
    return LandmarkMap(open_store(place, storage_options), matcher, at)


def _info(row: Mapping[str, Any]) -> KeyframeInfo:
    camera = Camera(np.array(row["camera"]).reshape(3, 3), row["width"], row["height"])
    return KeyframeInfo(row["keyframe"], row["dataset"], row["travelled"], np.array(row["pose"]).reshape(4, 4), camera)


def _apart(a: KeyframeInfo, b: KeyframeInfo) -> float:
    return float(np.linalg.norm(a.position - b.position))


def _spread_out(names: Iterable[str], infos: Mapping[str, KeyframeInfo], count: int) -> list[str]:
    """The first `count` keyframes that are not next to each other."""
    chosen: list[str] = []
    for name in names:
        if name in infos and all(_apart(infos[name], infos[other]) >= ONE_PLACE / 2 for other in chosen):
            chosen.append(name)
        if len(chosen) == count:
            break
    return chosen


def _observed(result: MatchResult, info: KeyframeInfo, camera: Camera) -> Observations:
    seen = [(match.a, result.landmarks_a[match.a], result.landmarks_b[match.b]) for match in result.matches]
    return observe(seen, info.T_world_camera, info.camera, camera)
