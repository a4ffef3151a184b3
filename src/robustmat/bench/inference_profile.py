"""Where the time of one frame pair goes: by stage of the pipeline, and by operation."""

from collections.abc import Callable

import numpy as np
import torch

from robustmat.bench.runs import CLOCKS
from robustmat.features.neighborhoods import neighborhoods
from robustmat.features.patches import cut_patches, to_input
from robustmat.features.placement import placements
from robustmat.matching.assign import mutual_best
from robustmat.matching.embedded import EmbeddedFrame
from robustmat.matching.matcher import same_category
from robustmat.matching.network import NetworkMatcher
from robustmat.models.robustmat import RobustMat
from robustmat.types import Frame

GROUPS = {  # operations of torch's profiler by what they are; the first that is part of the name counts
    "convolutions": ("conv", "mkldnn"),
    "matrix products": ("mm", "matmul", "linear", "einsum"),
    "normalisation": ("norm",),
    "softmax, activations": ("softmax", "elu", "gelu", "relu", "clamp", "sigmoid"),
    "pooling": ("pool", "mean"),
    "sums and products": ("add", "sub", "mul", "div", "sum", "square", "rsqrt"),
    "copies": ("copy", "cat", "contiguous", "clone", "index"),
}


def stage_seconds(matcher: NetworkMatcher, a: Frame, b: Frame, rounds: int, clock: str = "wall") -> dict[str, float]:
    """Median seconds of each stage for both frames together."""
    seen: dict[str, list[float]] = {}
    for number in range(rounds + 1):
        found = _walk(matcher, a, b, CLOCKS[clock])
        if number:  # the first is a warm-up
            for stage, seconds in found.items():
                seen.setdefault(stage, []).append(seconds)
    return {stage: float(np.median(values)) for stage, values in seen.items()}


def _walk(matcher: NetworkMatcher, a: Frame, b: Frame, now: Callable[[], float]) -> dict[str, float]:
    model = matcher.network
    assert isinstance(model, RobustMat)
    config = model.config
    seconds: dict[str, float] = {}
    last = now()

    def stop(stage: str) -> None:
        nonlocal last
        at = now()
        seconds[stage] = seconds.get(stage, 0.0) + at - last
        last = at

    embedded = []
    with torch.inference_mode():
        for frame in (a, b):
            boxes = [mark.box for mark in frame.landmarks]
            patches = cut_patches(frame.image, boxes, config.patch)
            stop("cut and resize patches")
            tensor = torch.from_numpy(to_input(patches, config.patch))
            stop("pixels to numbers")
            around = neighborhoods(boxes, config.graph.num_neighbors, config.graph.include_center)
            height, width = frame.image.shape[:2]
            placement = placements(frame.landmarks, frame.camera, width, height)
            stop("neighbourhoods, placements")
            vertex = model.vertex.embed(tensor)
            stop("vertex diffusion")
            graph = vertex
            if config.score != "vertex":
                graph = model.graph(
                    model.learned(vertex)[torch.from_numpy(around.index)], torch.from_numpy(around.mask)
                )[0]
            stop("graph diffusion")
            embedded.append(
                EmbeddedFrame(
                    frame.landmarks,
                    {"vertex": vertex.numpy(), "graph": graph.numpy(), "placement": placement},
                    matcher.fingerprint,
                )
            )
    score = matcher.score(embedded[0], embedded[1])
    stop(f"scores by {matcher.evidence}")
    matcher.decision.probability(score)
    mutual_best(score, matcher.decision.match_threshold, same_category(a.landmarks, b.landmarks))
    stop("one-to-one matches")
    return seconds


def work_shares(run: Callable[[], object], repeats: int = 5) -> dict[str, float]:
    """Which share of torch's own time each kind of operation takes."""
    from torch.profiler import ProfilerActivity, profile

    run()
    with profile(activities=[ProfilerActivity.CPU]) as found:
        for _ in range(repeats):
            run()
    totals: dict[str, float] = {}
    for event in found.key_averages():
        if event.key.startswith("aten::"):
            totals[_group(event.key)] = totals.get(_group(event.key), 0.0) + event.self_cpu_time_total
    whole = sum(totals.values())
    return {name: value / whole for name, value in sorted(totals.items(), key=lambda one: -one[1])}


def _group(operation: str) -> str:
    name = operation.removeprefix("aten::")
    return next((group for group, parts in GROUPS.items() if any(part in name for part in parts)), "other")
