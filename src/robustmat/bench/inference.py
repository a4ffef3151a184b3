"""What matching two frames costs: against the paper's way of computing, other matchers, and the machine itself."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from robustmat.bench.inference_authors import AuthorsWay, default_layout
from robustmat.bench.inference_contest import BenchReport, Contestant, Figure, Section, Tell, hold
from robustmat.bench.inference_onnx import exported
from robustmat.bench.inference_profile import stage_seconds, work_shares
from robustmat.bench.inference_rivals import sift_with_ratio_test, xfeat_with_mutual_neighbours
from robustmat.bench.inference_solvers import compare_solvers
from robustmat.bench.runs import Spread
from robustmat.checkpoints.store import load_checkpoint
from robustmat.export.frames import street_frames
from robustmat.export.write import robustmat_of
from robustmat.matching.decision import Decision
from robustmat.matching.network import NetworkMatcher
from robustmat.models.presets import preset
from robustmat.models.robustmat import RobustMat
from robustmat.models.summary import counting
from robustmat.types import Frame

PAIRS_TIMED = 8
BATCH = 8  # patches whose rate is compared with the machine's
STREET_BATCH = 24  # the patches of two frames
MATRIX = 2048
FIXED = {"name": "rk4", "steps": 1}
PARTS = ("paper", "rate", "street", "solvers")


@dataclass(frozen=True)
class InferenceSettings:
    """What is measured, and how often."""

    checkpoint: str = "street"
    landmarks: int = 12
    rounds: int = 30
    slow_rounds: int = 3  # where a round takes a minute
    paper_size: int = 256  # pixels of a patch; smaller ones are for trying the benchmark out
    scale: float = 1.0  # of the frames; 1 is 1242 x 375
    parts: tuple[str, ...] = PARTS
    clock: str = "wall"
    seed: int = 0


def bench_inference(settings: InferenceSettings, tell: Tell = lambda _: None) -> BenchReport:
    """Run the chosen parts on two frames of a simulated street."""
    frames: list[Frame] = []
    if {"paper", "street"} & set(settings.parts):
        tell("rendering two frames")
        frames = [with_landmarks(one, settings.landmarks) for one in street_frames(1, scale=settings.scale)]
    sections = []
    if "paper" in settings.parts:
        sections.append(against_the_authors(settings, frames[0], frames[1], tell))
    if "rate" in settings.parts:
        sections.append(share_of_the_machine(settings, tell))
    if "street" in settings.parts:
        sections += against_other_matchers(settings, frames[0], frames[1], tell)
    if "solvers" in settings.parts:
        tell("rendering more frames")
        more = street_frames(3, scale=settings.scale)
        sections.append(compare_solvers(load_checkpoint(settings.checkpoint), more, tell, settings.clock))
    shown = {key: getattr(settings, key) for key in settings.__dataclass_fields__}
    return BenchReport("inference", {**shown, "parts": list(settings.parts)}, tuple(sections))


def with_landmarks(frame: Frame, count: int) -> Frame:
    """The frame with its `count` largest landmarks, pixels in memory."""
    pixels = frame.image
    largest = sorted(frame.landmarks, key=lambda one: -(one.box[2] - one.box[0]) * (one.box[3] - one.box[1]))[:count]
    return replace(frame.with_image(pixels), landmarks=tuple(largest))


def against_the_authors(settings: InferenceSettings, a: Frame, b: Frame, tell: Tell) -> Section:
    """The paper's sizes: each patch once and all pairs from embeddings, against every pair anew."""
    model = paper_model(settings)
    matcher = matcher_of(model)
    rng = np.random.default_rng(settings.seed)
    everyone = [(i, j) for i in range(len(a.landmarks)) for j in range(len(b.landmarks))]
    chosen = [everyone[one] for one in rng.choice(len(everyone), min(PAIRS_TIMED, len(everyone)), replace=False)]
    fixed, adaptive = AuthorsWay(model), AuthorsWay(default_layout(model), adaptive=True)
    scale = len(everyone) / len(chosen)
    note = f"timed on {len(chosen)} of {len(everyone)} pairs, scaled"
    ours, same, dopri5 = "each patch once, rk4", "every pair anew, rk4", "every pair anew, dopri5"
    tell("paper size: comparing scores")
    matrix = matcher.match(a, b).score
    apart = [abs(fixed.score(a, b, i, j) - matrix[i, j]) for i, j in chosen]
    contest = hold(
        [
            Contestant(ours, lambda: matcher.match(a, b)),
            Contestant(same, lambda: [fixed.score(a, b, i, j) for i, j in chosen], scale, note),
            Contestant(dopri5, lambda: [adaptive.score(a, b, i, j) for i, j in chosen], scale, note),
        ],
        settings.slow_rounds,
        lambda what: tell(f"paper size: {what}"),
        clock=settings.clock,
        warm_up=False,
    )
    return Section(
        f"paper size, {len(a.landmarks)} x {len(b.landmarks)} landmarks, frames to matches",
        contest.rows(),
        (
            Figure("{} times as fast as every pair anew with the same solver", contest.ratio(same, ours), 45),
            Figure("{} times as fast as every pair anew with dopri5", contest.ratio(dopri5, ours), 300),
        ),
        {"largest_score_difference_same_solver": max(apart), "weights": "random, seeded"},
    )


def share_of_the_machine(settings: InferenceSettings, tell: Tell) -> Section:
    """How much of the rate of a plain matrix product the paper's embedder reaches."""
    model = paper_model(settings)
    size = settings.paper_size
    generator = torch.Generator().manual_seed(settings.seed)
    patches = torch.randn(BATCH, 3, size, size, generator=generator)
    left, right = (torch.randn(MATRIX, MATRIX, generator=generator) for _ in range(2))
    with torch.inference_mode():
        with counting() as multiply_adds:
            model.vertex(patches)
        embedder, product = f"vertex embedder, {BATCH} patches", f"matrix product, {MATRIX} x {MATRIX}"
        contest = hold(
            [Contestant(embedder, lambda: model.vertex.embed(patches)), Contestant(product, lambda: left @ right)],
            settings.rounds,
            lambda what: tell(f"rate: {what}"),
            clock=settings.clock,
        )
    work = {embedder: 2 * sum(multiply_adds), product: 2 * MATRIX**3}
    rates = {name: [work[name] / value / 1e9 for value in values] for name, values in contest.seconds.items()}
    shares = [a / b for a, b in zip(rates[embedder], rates[product], strict=True)]
    return Section(
        "rate of the paper's vertex embedder",
        contest.rows(),
        (Figure("{} of the machine's own matrix-multiply rate", Spread.of(shares), 0.65),),
        {
            "billion_operations": {name: one / 1e9 for name, one in work.items()},
            "billion_operations_a_second": {name: Spread.of(rate).median for name, rate in rates.items()},
        },
    )


def against_other_matchers(settings: InferenceSettings, a: Frame, b: Frame, tell: Tell) -> Sequence[Section]:
    """The shipped model from decoded frames and boxes to matches, against keypoint matchers on the same frames."""
    checkpoint = load_checkpoint(settings.checkpoint)
    network = robustmat_of(checkpoint)
    kind = network.evidence[-1]
    matcher = NetworkMatcher(checkpoint.name, network, checkpoint.decisions[kind], evidence=kind)
    ours, xfeat, sift = settings.checkpoint, "XFeat, 1024 keypoints, mutual nearest", "SIFT, ratio test"
    half = f"{ours}, one frame embedded before"
    stored = matcher.embed(a)
    height, width = a.image.shape[:2]
    tell("street: exporting")
    with exported(checkpoint, (a, b)) as others:
        contest = hold(
            [
                Contestant(ours, lambda: matcher.match(a, b)),
                Contestant(half, lambda: matcher.match(stored, b)),
                *(Contestant(name, lambda other=other: other.match(a, b)) for name, other in others.items()),  # type: ignore[misc]
                Contestant(xfeat, xfeat_with_mutual_neighbours(a.image, b.image)),
                Contestant(sift, sift_with_ratio_test(a.image, b.image)),
            ],
            settings.rounds,
            lambda what: tell(f"street: {what}"),
            clock=settings.clock,
        )
    speed = Section(
        f"{ours}, {len(a.landmarks)} and {len(b.landmarks)} landmarks, decoded {width} x {height} frames to matches",
        contest.rows(),
        (
            Figure("{} times as fast as XFeat", contest.ratio(xfeat, ours), 3),
            Figure("{} times as fast as SIFT", contest.ratio(sift, ours)),
            Figure(
                "with one frame embedded before {} times as fast as with none",
                contest.ratio(ours, half),
            ),
            *(Figure(f"{name}: {{}} times as fast as torch", contest.ratio(ours, name)) for name in others),
        ),
    )
    tell("street: profile")
    stages: dict[str, Any] = {"seconds_by_stage": stage_seconds(matcher, a, b, settings.rounds, settings.clock)}
    shares = work_shares(lambda: matcher.match(a, b))
    profile = Section("where the time of one frame pair goes", facts={**stages, "share_by_operation": shares})
    return [speed, patches_a_second(network, settings, tell), profile]


def patches_a_second(model: RobustMat, settings: InferenceSettings, tell: Tell) -> Section:
    """The vertex embedder of the shipped model, cut and resized patches to embeddings."""
    patch = model.config.patch
    generator = torch.Generator().manual_seed(settings.seed)
    patches = torch.randn(STREET_BATCH, patch.channels, patch.size, patch.size, generator=generator)
    name = f"vertex embedder, {STREET_BATCH} patches"
    with torch.inference_mode():
        contest = hold(
            [Contestant(name, lambda: model.vertex.embed(patches))],
            settings.rounds,
            lambda what: tell(f"street: {what}"),
            clock=settings.clock,
        )
    rate = Spread.of([STREET_BATCH / second for second in contest.seconds[name]])
    goal = Figure("{} patches a second", rate, 500)  # 2 ms each
    return Section(f"{settings.checkpoint}, patches to embeddings", contest.rows(), (goal,))


def paper_model(settings: InferenceSettings) -> RobustMat:
    """The paper's sizes with random weights and one rk4 step."""
    solver = {"vertex": {"solver": FIXED}, "graph": {"solver": FIXED}}
    config = preset("paper", changes={"patch": {"size": settings.paper_size}, **solver})
    with torch.random.fork_rng():
        torch.manual_seed(settings.seed)
        return RobustMat(config).eval()


def matcher_of(model: RobustMat) -> NetworkMatcher:
    decision = Decision(threshold=1.0, match_threshold=1.0, slope=1.0, intercept=0.0)
    return NetworkMatcher("paper", model, decision)
