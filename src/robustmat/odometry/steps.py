"""From frames to measured steps: one walk over a drive, several arms side by side.

An arm is a configuration, such as "with all assistance" or "without any". Arms share what does not depend on them
(embeddings, keypoint matches, landmark matches), so that a baseline costs little and sees the very same frames.
Every step is measured against a reference frame: the frame before, or, while the car stands, the one where it stopped,
so that waiting adds no drift.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from robustmat.errors import RobustMatError
from robustmat.geometry.relative_pose import MotionPrior, RelativePose, nothing
from robustmat.geometry.transforms import rigid
from robustmat.matching.combined import whole_frame
from robustmat.matching.embedded import EmbeddedFrame
from robustmat.matching.matcher import Matcher
from robustmat.matching.scene import SceneView
from robustmat.odometry.carry import landmark_motion
from robustmat.odometry.config import OdometryConfig
from robustmat.odometry.keypoints import PointMatches, assisted_matches, plain_matches
from robustmat.odometry.moving import without_moving
from robustmat.odometry.prediction import START, Prediction
from robustmat.odometry.scale import Metres, measured_metres, scale_kind, weighed
from robustmat.odometry.visual import focal_gain, keypoint_motion
from robustmat.types import Array, Frame, Landmark

STANDING_DEVIATION = 0.002  # metres
FOCAL_EVERY = 5  # frames
OVERSURE = 1.25  # times the deviation that keypoints claim: so far are steps off on towns
GUESSED = np.radians(1.0)  # standard deviation of a turn that nobody measured


@dataclass(frozen=True)
class Step:
    """How the camera came from its reference frame to this one, and how that is known."""

    frame: int
    reference: int  # -1 for the first frame
    T_b_a: Array  # [4, 4], from the reference's camera to this one's
    covariance: Array  # [6, 6], of turn and shift, in this camera's axes
    by: str  # start, keypoints, still, landmarks, prediction, missing
    inliers: int = 0
    matches: int = 0
    metres_by: str = ""

    def to_json(self) -> dict[str, Any]:
        return {**self.__dict__, "T_b_a": self.T_b_a.tolist(), "covariance": self.covariance.tolist()}

    @staticmethod
    def from_json(told: Mapping[str, Any]) -> "Step":
        arrays = {name: np.array(told[name], np.float64) for name in ("T_b_a", "covariance")}
        return Step(**{**told, **arrays})


@dataclass(frozen=True)
class Link:
    """Landmark `a` of an earlier frame is landmark `b` of this one."""

    earlier: int
    a: int
    b: int
    probability: float


@dataclass(frozen=True)
class Measured:
    """What one frame added: a step for each arm, its landmarks, links to earlier ones, and what went wrong."""

    frame: int
    name: str
    steps: Mapping[str, Step]
    landmarks: tuple[Landmark, ...]
    links: tuple[Link, ...]
    moving: tuple[int, ...]  # numbers of landmarks that moved by themselves
    notes: tuple[str, ...]
    focal: tuple[float, ...] = ()  # how much better a shorter and a longer focal length would fit; of some frames
    seconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        return {
            "frame": self.frame,
            "name": self.name,
            "steps": {arm: step.to_json() for arm, step in self.steps.items()},
            "landmarks": [[list(mark.box), mark.category, mark.identity, mark.confidence] for mark in self.landmarks],
            "links": [[link.earlier, link.a, link.b, link.probability] for link in self.links],
            "moving": list(self.moving),
            "notes": list(self.notes),
            "focal": list(self.focal),
            "seconds": self.seconds,
        }

    @staticmethod
    def from_json(told: Mapping[str, Any]) -> "Measured":
        return Measured(
            told["frame"],
            told["name"],
            {arm: Step.from_json(step) for arm, step in told["steps"].items()},
            tuple(Landmark(tuple(box), kind, identity, None, sure) for box, kind, identity, sure in told["landmarks"]),
            tuple(Link(*link) for link in told["links"]),
            tuple(told["moving"]),
            tuple(told["notes"]),
            tuple(told["focal"]),
            told["seconds"],
        )


@dataclass
class _Arm:
    config: OdometryConfig
    reference: int = -1
    prediction: Prediction | None = None


@dataclass
class Walk:
    """What is remembered between frames; `measure` adds one frame."""

    frames: Sequence[Frame]
    matcher: Matcher
    configs: Mapping[str, OdometryConfig]
    landmarks_of: Callable[[Frame], tuple[Landmark, ...]]
    arms: dict[str, _Arm] = field(default_factory=dict)
    seen: dict[int, EmbeddedFrame] = field(default_factory=dict)
    last_link: dict[int, set[int]] = field(default_factory=dict)  # landmarks of recent frames that nothing continued
    interval: float | None = None  # seconds between two frames, as usual

    def __post_init__(self) -> None:
        self.arms = {name: _Arm(config) for name, config in self.configs.items()}
        times = np.array([frame.time for frame in self.frames if frame.time is not None])
        if len(times) == len(self.frames) > 1 and (np.diff(times) > 0).all():
            self.interval = float(np.median(np.diff(times)))
        self.kind = scale_kind(list(self.frames), next(iter(self.configs.values())))

    def replay(self, done: Iterable[Measured]) -> None:
        """Go on after an interruption: remember what the steps say, and look again at the last frames."""
        last = None
        for last in done:
            for name, step in last.steps.items():
                self._remember(self.arms[name], step)
            self._forget(last)
        if last is not None:
            wanted = {arm.reference for arm in self.arms.values()} | set(self.last_link)
            for index in sorted(wanted - {-1}):
                self.seen[index] = self.matcher.embed(self._with_landmarks(index))

    def _with_landmarks(self, index: int) -> Frame:
        frame = self.frames[index]
        pixels = frame.image
        frame = frame.with_image(pixels)
        return replace(frame, landmarks=self.landmarks_of(frame))

    def measure(self, index: int) -> Measured:
        """Embed frame `index` and measure its step in every arm."""
        frame = self.frames[index]
        try:
            embedded = self.matcher.embed(self._with_landmarks(index))
        except (RobustMatError, OSError) as problem:
            steps = {name: self._guess(arm, index) for name, arm in self.arms.items()}
            return Measured(index, frame.name, steps, (), (), (), (f"no image, its pose is a guess: {problem}",))
        self.seen[index] = replace(embedded, frame=None)
        view = whole_frame(embedded)
        plain: dict[int, PointMatches] = {}
        links: dict[int, list[Link]] = {}
        moving: set[int] = set()
        notes: list[str] = []
        steps = {}
        for name, arm in self.arms.items():
            if arm.reference < 0:
                steps[name] = Step(index, -1, np.eye(4), np.eye(6) * 1e-8, "start")
                arm.reference, arm.prediction = index, None
                continue
            reference = arm.reference
            before = whole_frame(self.seen[reference])
            if reference not in plain:
                plain[reference] = plain_matches(before, view)
            steps[name] = self._step(arm, index, before, view, plain[reference], links, moving, notes)
            self._remember(arm, steps[name])
        found = [link for some in links.values() for link in some]
        found += self._bridge(index, {link.b for link in found}, notes)
        focal = self._focal(index, view, plain)
        done = Measured(
            index, frame.name, steps, embedded.landmarks, tuple(found), tuple(sorted(moving)), tuple(notes), focal
        )
        self._forget(done)
        return done

    def _step(
        self,
        arm: _Arm,
        index: int,
        before: SceneView,
        view: SceneView,
        plain: PointMatches,
        links: dict[int, list[Link]],
        moving: set[int],
        notes: list[str],
    ) -> Step:
        config, reference = arm.config, arm.reference
        interval = self._interval(reference, index)
        points = plain
        if config.assist and reference not in links:
            found = keypoint_motion(before, view, points, arm.prediction, interval, config)
            links[reference] = self._link(reference, index, found.pose, found.still, arm, interval)
        pairs = [(link.a, link.b) for link in links[reference]] if config.assist else []
        if pairs:
            points = assisted_matches(plain, before, view, pairs, config.assist, config)
        found = keypoint_motion(before, view, points, arm.prediction, interval, config)
        if "static" in config.assist and pairs and not found.still and not found.pose.abstains:
            points, moved = without_moving(points, pairs, found.pose)
            if moved:
                moving |= {b for _, b in moved}
                found = keypoint_motion(before, view, points, arm.prediction, interval, config)
        pose, by = found.pose, "still" if found.still else "keypoints"
        held = (arm.prediction or START).metres
        told: Metres | None = None
        if pose.abstains:
            pose, by = self._without_keypoints(arm, before, view, links.get(reference, []), interval, len(points))
            word = "landmarks carried on" if by == "landmarks" else "the step is a guess"
            notes.append(
                f"{plain_count(found.pose.count)} agree, too few: {word}" + ("" if config.assist else " (baseline)")
            )
        if by != "still":
            told = None
            if by == "keypoints" or self.kind == "poses":
                told = measured_metres(
                    self.kind, self.frames[reference], self.frames[index], before, points, pose, config
                )
            told = weighed(told, held, interval, config) or Metres(interval, 0.5, "nothing: one unit a frame")
        metres = 0.0 if told is None else told.value
        return Step(
            index,
            reference,
            rigid(pose.R_b_a, metres * pose.direction),
            step_covariance(pose, told),
            by,
            pose.count,
            len(points),
            "" if told is None else told.by,
        )

    def _without_keypoints(
        self, arm: _Arm, before: SceneView, view: SceneView, links: Sequence[Link], interval: float, count: int
    ) -> tuple[RelativePose, str]:
        prior = (arm.prediction or START).prior(interval, arm.config)
        if "carry" in arm.config.assist and links:
            carried = landmark_motion(before, view, [(link.a, link.b) for link in links], prior)
            if carried is not None:
                return replace(
                    nothing(count), R_b_a=carried[0], direction=carried[1], covariance=carried[2]
                ), "landmarks"
        direction = prior.T_b_a[:3, 3] / np.linalg.norm(prior.T_b_a[:3, 3])
        covariance = np.diag([GUESSED**2] * 3 + [0.1**2] * 2)
        return replace(
            nothing(count), R_b_a=prior.T_b_a[:3, :3], direction=direction, covariance=covariance
        ), "prediction"

    def _link(
        self, earlier: int, index: int, pose: RelativePose, still: bool, arm: _Arm, interval: float
    ) -> list[Link]:
        """Landmarks of an earlier frame matched with this one's, with the motion as prior."""
        a, b = self.seen[earlier], self.seen[index]
        if not a.landmarks or not b.landmarks:
            return []
        predicted = arm.prediction or START
        metres = max((predicted.metres or 1.0) * interval, 0.2)
        if pose.abstains:
            prior = predicted.prior(interval, arm.config) if arm.prediction else None
        else:
            prior = MotionPrior(rigid(pose.R_b_a, (0.1 if still else metres) * pose.direction))
        result = self.matcher.match(a, b, min_probability=arm.config.link_probability, motion=prior)
        return [Link(earlier, match.a, match.b, match.probability) for match in result.matches]

    def _bridge(self, index: int, taken: set[int], notes: list[str]) -> list[Link]:
        """Tracks that the frame before did not see may go on in this one."""
        arm = next((one for one in self.arms.values() if one.config.assist), None)
        if arm is None:
            return []
        bridged: list[Link] = []
        for earlier in sorted(self.last_link, reverse=True):
            waiting = self.last_link[earlier]
            free = [b for b in range(len(self.seen[index].landmarks)) if b not in taken]
            if earlier == index or index - earlier < 2 or not waiting or not free or earlier not in self.seen:
                continue
            interval = self._interval(earlier, index)
            prior = arm.prediction.prior(interval, arm.config) if arm.prediction else None
            result = self.matcher.match(
                self.seen[earlier], self.seen[index], min_probability=arm.config.link_probability, motion=prior
            )
            for match in result.matches:
                if match.a in waiting and match.b in free and match.b not in taken:
                    bridged.append(Link(earlier, match.a, match.b, match.probability))
                    taken.add(match.b)
        return bridged

    def _focal(self, index: int, view: SceneView, plain: Mapping[int, PointMatches]) -> tuple[float, ...]:
        """Every few frames: would another focal length fit better?"""
        if index % FOCAL_EVERY or not plain:
            return ()
        reference, points = next(iter(plain.items()))
        return focal_gain(whole_frame(self.seen[reference]), view, points)

    def _interval(self, reference: int, index: int) -> float:
        """How many usual steps lie between two frames."""
        a, b = self.frames[reference].time, self.frames[index].time
        if self.interval and a is not None and b is not None:
            return float(np.clip((b - a) / self.interval, 0.2, 50.0))
        return float(index - reference)

    def _guess(self, arm: _Arm, index: int) -> Step:
        if arm.reference < 0:
            return Step(index, -1, np.eye(4), np.eye(6) * 1e-8, "start")
        interval = self._interval(arm.reference, index)
        predicted = arm.prediction or START
        R, direction = predicted.step(interval)
        metres = (predicted.metres or 0.0) * interval
        covariance = np.diag([GUESSED**2] * 3 + [(0.1 * metres + 0.05) ** 2] * 3)
        return Step(index, arm.reference, rigid(R, metres * direction), covariance, "missing")

    def _remember(self, arm: _Arm, step: Step) -> None:
        if step.by == "start":
            arm.reference = step.frame
            return
        if step.by == "missing":
            return
        interval = self._interval(step.reference, step.frame)
        metres = float(np.linalg.norm(step.T_b_a[:3, 3]))
        before = arm.prediction or START
        if step.by == "still":
            arm.prediction = before.standing()
            if step.frame - step.reference < arm.config.longest_wait:
                return  # the reference frame stays
        elif metres > 0 and step.by != "prediction":
            told = None if step.metres_by == "the speed before" else metres
            direction = step.T_b_a[:3, 3] / metres
            aside = np.eye(3) - np.outer(direction, direction)
            deviation = float(np.sqrt(np.trace(aside @ step.covariance[3:, 3:]) / 2)) / metres
            arm.prediction = before.after(
                step.T_b_a[:3, :3], direction, deviation, told, interval, arm.config.heading_deviation
            )
        arm.reference = step.frame

    def _forget(self, done: Measured) -> None:
        """Keep only frames that a later step or track may still need."""
        gap = max(arm.config.longest_gap for arm in self.arms.values())
        for link in done.links:
            self.last_link.get(link.earlier, set()).discard(link.a)
        self.last_link[done.frame] = set(range(len(done.landmarks)))
        self.last_link = {i: left for i, left in self.last_link.items() if done.frame - i < gap}
        needed = {arm.reference for arm in self.arms.values()} | set(self.last_link)
        self.seen = {i: one for i, one in self.seen.items() if i in needed}


def plain_count(count: int) -> str:
    return f"{count} keypoint match{'' if count == 1 else 'es'}"


def step_covariance(pose: RelativePose, metres: Metres | None) -> Array:
    """[6, 6] of turn and shift, applied on the left of T_b_a, from angles [5, 5] and the doubt about metres."""
    if metres is None:  # standing still
        return np.diag([1e-8] * 3 + [STANDING_DEVIATION**2] * 3)
    t = metres.value * pose.direction
    x, y, z = t
    helper = np.array([1.0, 0, 0]) if abs(pose.direction[0]) < 0.8 else np.array([0, 1.0, 0])
    first = np.cross(pose.direction, helper)
    first = first / np.linalg.norm(first)
    across = np.stack([first, np.cross(pose.direction, first)], axis=1)  # [3, 2]
    J = np.zeros((6, 6))
    J[:3, :3] = np.eye(3)
    # The direction is measured apart from the turn: a turn on the left would swing it along.
    J[3:, :3] = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    J[3:, 3:5] = metres.value * across
    J[3:, 5] = t
    inner = np.zeros((6, 6))
    inner[:5, :5] = OVERSURE**2 * pose.covariance
    inner[5, 5] = metres.deviation**2
    return np.asarray(J @ inner @ J.T + np.diag([1e-9] * 3 + [1e-7] * 3))


def walk(frames: Sequence[Frame], start: Walk, numbers: Iterable[int]) -> Iterator[Measured]:
    """One measured frame after the other."""
    from time import perf_counter

    for index in numbers:
        begun = perf_counter()
        done = start.measure(index)
        yield replace(done, seconds=perf_counter() - begun)
