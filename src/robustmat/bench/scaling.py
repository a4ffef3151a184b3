"""How cost grows: with landmarks a frame, with frames of a video, with neighbours; seconds and memory."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from robustmat.bench.inference_contest import Tell, machine
from robustmat.bench.runs import CLOCKS, Spread, in_fresh_process, peak_megabytes
from robustmat.types import Frame, Image, Landmark

WIDTH, HEIGHT = 1242, 375
BEHIND = 5  # frames that a new frame of the video is matched with


@dataclass(frozen=True)
class Point:
    """One size: seconds of the fast way, of the way it is compared with, and the memory both together took."""

    size: int
    seconds: Spread
    peer_seconds: Spread
    ratio: Spread
    peak_megabytes: float  # of a process that did nothing but the fast way at this size
    base_megabytes: float  # of the same before the first frame


@dataclass(frozen=True)
class Growth:
    """What is varied, what the peer does, and the points."""

    title: str
    axis: str
    fast: str
    peer: str
    points: tuple[Point, ...]


@dataclass(frozen=True)
class ScalingReport:
    benchmark: str
    settings: dict[str, Any]
    growths: tuple[Growth, ...] = field(default_factory=tuple)

    def to_json(self) -> dict[str, Any]:
        growths = [asdict(growth) for growth in self.growths]
        return {"benchmark": self.benchmark, "settings": self.settings, "machine": machine(), "growths": growths}


@dataclass(frozen=True)
class ScalingSettings:
    """`landmarks`, `frames` and `neighbors` are the sizes to measure at."""

    checkpoint: str = "street"
    landmarks: tuple[int, ...] = (4, 8, 16, 32, 64, 128, 256)
    frames: tuple[int, ...] = (10, 20, 40, 80)
    neighbors: tuple[int, ...] = (1, 3, 5, 8, 12)
    rounds: int = 7
    threads: int | None = None
    clock: str = "wall"
    seed: int = 0


def bench_scaling(settings: ScalingSettings, tell: Tell = lambda _: None) -> ScalingReport:
    """Each size in a fresh process, so that its memory is its own."""

    def points(task: Callable[..., Point], sizes: Sequence[int], what: str) -> tuple[Point, ...]:
        found = []
        for size in sizes:
            tell(f"{size} {what}")
            found.append(in_fresh_process(_alone, task, settings, size))
        return tuple(found)

    growths = (
        Growth(
            "two frames, frames to matches",
            "landmarks a frame",
            "each patch once",
            "every pair's patches anew (timed on at most 8 pairs, scaled)",
            points(_landmarks, settings.landmarks, "landmarks a frame"),
        ),
        Growth(
            f"a new frame of a video, matched with the {BEHIND} before it",
            "frames so far",
            "embeddings kept",
            "both frames embedded anew for each match",
            points(_video, settings.frames, "frames of a video"),
        ),
        Growth(
            "two frames of 32 landmarks, frames to matches",
            "neighbours K",
            "K neighbours",
            "K = 3",
            points(_neighbors, settings.neighbors, "neighbours"),
        ),
    )
    shown = {key: getattr(settings, key) for key in settings.__dataclass_fields__}
    return ScalingReport(
        "scaling", {key: list(one) if isinstance(one, tuple) else one for key, one in shown.items()}, growths
    )


def _alone(task: Callable[[ScalingSettings, int], Point], settings: ScalingSettings, size: int) -> Point:
    if settings.threads is not None:
        import torch

        torch.set_num_threads(settings.threads)
    return task(settings, size)


def noise_frame(count: int, seed: int) -> Frame:
    """A frame of KITTI's size with `count` boxes of a landmark's usual sizes; time does not depend on what it shows."""
    rng = np.random.default_rng([seed, count])
    pixels: Image = rng.integers(0, 256, (HEIGHT, WIDTH, 3), dtype=np.uint8)
    size = np.stack([rng.uniform(10, 80, count), rng.uniform(20, 160, count)], axis=1)
    corner = rng.uniform(0, 1, (count, 2)) * (np.array([WIDTH, HEIGHT]) - size)
    boxes = np.hstack([corner, corner + size])
    kinds = ("traffic_sign", "pole", "window")
    marks = tuple(
        Landmark((float(box[0]), float(box[1]), float(box[2]), float(box[3])), kinds[i % 3])
        for i, box in enumerate(boxes)
    )
    return Frame.from_array(pixels, marks, name=f"noise {seed}")


def _landmarks(settings: ScalingSettings, count: int) -> Point:
    from robustmat.checkpoints.load import load
    from robustmat.checkpoints.store import load_checkpoint

    matcher = load(settings.checkpoint)
    a, b = noise_frame(count, settings.seed), noise_frame(count, settings.seed + 1)
    rng = np.random.default_rng(settings.seed)
    chosen = rng.integers(0, count, (min(8, count * count), 2))
    vertices = 1 + load_checkpoint(settings.checkpoint).network.config.neighborhood[0]

    def anew() -> None:
        for i, j in chosen:
            # The landmark and as many neighbours as its graph has, of either frame.
            near_a, near_b = (_some(frame, int(one), vertices) for frame, one in ((a, i), (b, j)))
            matcher.match(near_a, near_b)

    return _measure(settings, count, lambda: matcher.match(a, b), anew, count * count / len(chosen))


def _some(frame: Frame, first: int, count: int) -> Frame:
    marks = frame.landmarks
    chosen = tuple(marks[(first + number) % len(marks)] for number in range(min(count, len(marks))))
    return Frame(frame.name, frame.load_image, chosen)


def _video(settings: ScalingSettings, count: int) -> Point:
    from robustmat.checkpoints.load import load
    from robustmat.matching.embedded import EmbeddedFrame

    now = CLOCKS[settings.clock]
    matcher = load(settings.checkpoint)
    base = peak_megabytes()
    seen: list[Frame] = []
    kept: list[EmbeddedFrame] = []
    fast, slow = [], []
    for number in range(count):
        frame = noise_frame(12, settings.seed + number)
        start = now()
        new = matcher.embed(frame)
        for old in kept[-BEHIND:]:
            matcher.match(new, old)
        fast.append(now() - start)
        kept.append(replace(new, frame=None))
        if number >= count - settings.rounds:
            start = now()
            for earlier in seen:
                matcher.match(frame, earlier)
            slow.append(now() - start)
        seen = [*seen, frame][-BEHIND:]  # pixels of old frames are let go
    last = fast[-len(slow) :]
    ratio = Spread.of([a / b for a, b in zip(slow, last, strict=True)])
    return Point(count, Spread.of(last), Spread.of(slow), ratio, peak_megabytes(), base)


def _neighbors(settings: ScalingSettings, count: int) -> Point:
    from robustmat.checkpoints.store import load_checkpoint
    from robustmat.matching.network import NetworkMatcher
    from robustmat.models.robustmat import ModelConfig, RobustMat

    checkpoint = load_checkpoint(settings.checkpoint)

    def with_neighbors(number: int) -> NetworkMatcher:
        values = checkpoint.network.config.model_dump()
        values["graph"]["num_neighbors"] = number
        model = RobustMat(ModelConfig.model_validate(values))
        model.load_state_dict(checkpoint.network.state_dict())  # no weight depends on K
        kind = model.evidence[-1]
        return NetworkMatcher(checkpoint.name, model.eval(), checkpoint.decisions[kind], evidence=kind)

    matcher, usual = with_neighbors(count), with_neighbors(3)
    a, b = noise_frame(32, settings.seed), noise_frame(32, settings.seed + 1)
    return _measure(settings, count, lambda: matcher.match(a, b), lambda: usual.match(a, b), 1.0)


def _measure(
    settings: ScalingSettings, size: int, fast: Callable[[], object], peer: Callable[[], object], scale: float
) -> Point:
    now = CLOCKS[settings.clock]
    base = peak_megabytes()
    fast()
    peak = peak_megabytes()
    peer()
    ours: list[float] = []
    theirs: list[float] = []
    for _ in range(settings.rounds):
        for run, seconds in ((fast, ours), (peer, theirs)):
            start = now()
            run()
            seconds.append(now() - start)
    scaled = [their * scale for their in theirs]
    ratio = Spread.of([a / b for a, b in zip(scaled, ours, strict=True)])
    return Point(size, Spread.of(ours), Spread.of(scaled), ratio, peak, base)
