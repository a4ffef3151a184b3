"""What pruning brings: size, speed and F1 at some levels, beside fewer solver steps and eight bits."""

import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from robustmat.checkpoints.load import network_matcher
from robustmat.checkpoints.store import Checkpoint
from robustmat.dataset.store import LandmarkDataset
from robustmat.errors import DataError
from robustmat.evaluation.evaluate import evaluate
from robustmat.export.prune import prune_checkpoint
from robustmat.export.write import export_onnx, robustmat_of
from robustmat.files import write_text
from robustmat.matching.matcher import Matcher
from robustmat.matching.onnx import OnnxMatcher
from robustmat.models.robustmat import ModelConfig, RobustMat
from robustmat.models.summary import summarize
from robustmat.perturb import Perturbation
from robustmat.progress import Progress, silent
from robustmat.types import Frame

SHARES = (0.75, 0.5, 0.25)
SOLVERS = {"euler, 1 step": {"name": "euler", "steps": 1}, "midpoint, 1 step": {"name": "midpoint", "steps": 1}}
METRICS = ("roc_auc", "f1", "match_f1")
ROUNDS = 5
Tune = Callable[[Checkpoint, float], Checkpoint]


@dataclass(frozen=True)
class PruningRow:
    """A smaller or faster form of a checkpoint."""

    name: str
    parameters: int | None
    multiply_adds: int | None  # of the embedding of one patch
    seconds: float  # processor time to embed a frame's landmarks, a patch
    metrics: dict[str, float]


def measure_pruning(
    checkpoint: Checkpoint,
    datasets: Sequence[LandmarkDataset],
    perturbation: Perturbation,
    *,
    tune: Tune | None = None,
    calibration: Sequence[Frame] = (),
    shares: Sequence[float] = SHARES,
    frame_pairs: int = 100,
    seed: int = 0,
    progress: Progress = silent,
) -> list[PruningRow]:
    """Every form on the same pairs, by the paper's score of single pairs.

    Args:
        tune: fine-tunes a pruned checkpoint; without it pruned ones are judged as they are.
        calibration: frames that tell the ranges of eight bits, and are none of those that are judged; the first two
            check the export. Without them there is no such form.
    """
    shown = next((frame for data in datasets for frame in data.frames if len(frame.landmarks) > 2), None)
    if shown is None:
        raise DataError(f"no frame of {', '.join(data.name for data in datasets)} has three landmarks to be timed on")
    forms: dict[str, Checkpoint] = {"whole": checkpoint}
    for share in shares:
        pruned = prune_checkpoint(checkpoint, share)
        forms[f"pruned to {share:g}"] = pruned
        if tune is not None:
            forms[f"pruned to {share:g}, fine-tuned"] = tune(pruned, share)
    with_ode = robustmat_of(checkpoint).config.vertex.evolution == "diffusion"
    for name, solver in SOLVERS.items() if with_ode else ():
        forms[name] = replace(checkpoint, network=with_solver(robustmat_of(checkpoint), solver), fingerprint="")
    matchers: dict[str, Matcher] = {name: network_matcher(one, "pair") for name, one in forms.items()}
    with tempfile.TemporaryDirectory() as folder:
        if calibration:
            export_onnx(checkpoint, Path(folder) / "onnx", calibration[:2], calibration=calibration)
            matchers["eight bits (ONNX)"] = OnnxMatcher(Path(folder) / "onnx", evidence="pair", int8=True)
        for name, matcher in matchers.items():
            matcher.name = name
        first, *rest = matchers.values()
        report, _ = evaluate(
            first,
            datasets,
            perturbation,
            seed=seed,
            references=rest,
            most_frame_pairs=frame_pairs,
            resamples=1,
            progress=progress,
        )
        found = {first.name: report, **report["references"]}
        seconds = {name: seconds_a_patch(matcher, shown) for name, matcher in matchers.items()}
    rows = []
    for name in matchers:
        parameters, multiply_adds = sizes(robustmat_of(forms[name])) if name in forms else (None, None)
        metrics = {metric: float(found[name][metric]) for metric in METRICS}
        rows.append(PruningRow(name, parameters, multiply_adds, seconds[name], metrics))
    return rows


def with_solver(network: RobustMat, solver: dict[str, Any]) -> RobustMat:
    """The same weights, the vertex flow solved in another way."""
    values = network.config.model_dump()
    values["vertex"]["solver"] = solver
    other = RobustMat(ModelConfig.model_validate(values))
    other.load_state_dict(network.state_dict())
    return other.eval()


def sizes(network: RobustMat) -> tuple[int, int]:
    """Parameters, and multiply-adds of a patch's vertex embedding."""
    parts = summarize(network.config)
    embedding = [part for part in parts if part.name.startswith(("downsample", "vertex"))]
    return sum(one.numel() for one in network.parameters()), sum(part.multiply_adds for part in embedding)


def seconds_a_patch(matcher: Matcher, frame: Frame) -> float:
    held = frame.with_image(frame.image)
    times = []
    for _ in range(1 + ROUNDS):
        start = time.process_time()
        matcher.embed(held)
        times.append(time.process_time() - start)
    return sorted(times[1:])[ROUNDS // 2] / len(frame.landmarks)


def write_pruning(path: Path | str, name: str, rows: Sequence[PruningRow], scope: str, command: str) -> Path:
    """The page: one table, what it means, the command."""
    path = Path(path)
    head = ["form", "parameters", "multiply-adds a patch", "ms a patch", "ROC AUC", "F1", "match F1"]
    lines = [head, ["---", *["---:"] * (len(head) - 1)]]
    for row in rows:
        counts = ["" if one is None else f"{one:,}" for one in (row.parameters, row.multiply_adds)]
        metrics = [f"{row.metrics[metric]:.3f}" for metric in METRICS]
        lines.append([row.name, *counts, f"{1000 * row.seconds:.2f}", *metrics])
    parts = [
        f"# pruning: a smaller `{name}`",
        "\n".join("| " + " | ".join(line) + " |" for line in lines),
        f"{scope} Single pairs by the paper's score; match F1 of whole frames. Milliseconds are processor time of one "
        "frame's crops and embeddings, the median of five. Pruning leaves out inner channels of the patch network, of "
        "the ODE's field where there is an ODE, and of what compares two embeddings; the ODE's state and the "
        "embeddings keep their width. Parameters of the joint diffusion, which single pairs do not use, are counted. "
        "Eight bits are those of the whole network.",
        "## Command",
        f"```sh\n{command}\n```",
    ]
    write_text(path, "\n\n".join(parts) + "\n")
    return path
