"""What each part of `street` brings: one part at a time is switched off, and the weights of all evidence fitted anew.

Parts of the network are switched off in copies of it, without training them again; what they would have said is
collected beside the features of the whole network, on the same frame pairs. Evidence is left out by not weighing it.
All of it is judged by leaving one drive out, and every difference has an interval over the drives' objects.
"""

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from robustmat.evaluation.bootstrap import percentile_interval
from robustmat.files import write_json, write_text
from robustmat.fitting.evidence import BLANK, fit_combinations
from robustmat.matching.combine import (
    BELIEF_SUREST,
    BESIDE_SCENE,
    EVIDENCE_FEATURES,
    SCENE_NAMES,
    Combination,
    beside_scene,
)
from robustmat.matching.combined import CombinedMatcher, candidates, whole_frame
from robustmat.matching.decision import log_odds
from robustmat.matching.diffusion import DiffusionConfig, diffuse
from robustmat.matching.embedded import EmbeddedFrame
from robustmat.matching.network import NetworkMatcher
from robustmat.models.robustmat import RobustMat
from robustmat.tables.leave_one_out import Experiment
from robustmat.tables.leave_one_out_page import row
from robustmat.tables.marginal import MarginalConfig, marginal
from robustmat.tables.returned import Returned, draw_all, f1_over, match_cases
from robustmat.types import Array, Frame

KINDS = ("placement", "scene")
NOTHING = -100.0  # a weight that is learned as a power, switched off


def _mute(index: int) -> Callable[[RobustMat], None]:
    def switch_off(network: RobustMat) -> None:
        likeness = network.joint.likeness
        assert likeness is not None
        likeness.power[index] = NOTHING

    return switch_off


def _silence(network: RobustMat) -> None:
    network.joint.emphasis[0] = NOTHING


def _forget(network: RobustMat) -> None:
    """Nothing that was learned of pixels: neither the embeddings' likeness nor what is exchanged."""
    network.joint.appearance.zero_()
    _silence(network)


def _narrow(network: RobustMat) -> None:
    whole = network.vertex.embed

    def embed(patches: Tensor) -> Tensor:
        return whole(torch.cat([patches[:, :3], torch.zeros_like(patches[:, 3:])], dim=1))

    network.vertex.embed = embed  # type: ignore[method-assign]


NETWORK_PARTS: dict[str, Callable[[RobustMat], None]] = {
    "exchange between landmarks": _silence,
    "all that is learned of pixels": _forget,
    "oriented energy": _mute(0),
    "colours": _mute(1),
    "wider view": _narrow,
}


def _weighing(**renamed: str) -> dict[str, tuple[str, ...]]:
    """The features of each kind of evidence, with some of them replaced, or left out where the new name is empty."""
    renamed |= {BESIDE_SCENE[name]: new and beside_scene(new) for name, new in renamed.items() if name in BESIDE_SCENE}
    chosen = {kind: [renamed.get(name, name) for name in EVIDENCE_FEATURES[kind]] for kind in KINDS}
    return {kind: tuple(name for name in names if name) for kind, names in chosen.items()}


def _by(twin: str) -> dict[str, tuple[str, ...]]:
    return _weighing(**{name: f"{name} {twin}" for name in ("placement", "diffusion")})


BOXES = ("scene_column", "scene_edges", "scene_width", "scene_misfit")
ROWS: dict[str, dict[str, tuple[str, ...]]] = {
    "everything": _weighing(),
    **{f"without {part}": _by(f"without {part}") for part in NETWORK_PARTS},
    "without the network's own reading of boxes": _weighing(placement="frames"),
    "agreement by the network's vote alone": _weighing(diffusion=""),
    "agreement by a sum over motions, fitted on these drives": _weighing(diffusion="marginal"),
    "without boxes carried by the scene's motion": _weighing(**dict.fromkeys(BOXES, "")),
    "without keypoints in boxes": _weighing(scene_parted="", scene_guided_share=""),
    "without pixels of landmarks": _by("without all pixels"),
}


def rows_of(retrained: Iterable[str] = ()) -> dict[str, dict[str, tuple[str, ...]]]:
    """The table's rows, and one for each network that was trained again."""
    return ROWS | {_trained(name): _by(_trained(name)) for name in retrained}


def _trained(name: str) -> str:
    return f"trained further: {name}"


class DissectedMatcher(CombinedMatcher):
    """Knows every feature, and what those of the network would be with each of its parts switched off.

    Args:
        retrained: whose networks were trained without a part, or in another way, by name.
    """

    def __init__(self, inner: NetworkMatcher, retrained: Mapping[str, NetworkMatcher] | None = None) -> None:
        network, retrained = inner.network, retrained or {}
        assert isinstance(network, RobustMat)
        networks = {_trained(name): other.network for name, other in retrained.items()}
        for part, switch_off in NETWORK_PARTS.items():
            networks[f"without {part}"] = twin = copy.deepcopy(network)
            with torch.no_grad():
                switch_off(twin)
        self.twins = {
            name: NetworkMatcher(name, twin, inner.decision, fingerprint=inner.fingerprint)
            for name, twin in networks.items()
        }
        self.rows = rows_of(retrained)
        names = {name for chosen in self.rows.values() for names in chosen.values() for name in names}
        self.known = {*names, *BLANK.weights, *SCENE_NAMES}
        blank = Combination(weights=dict.fromkeys(sorted(self.known), 0.0), intercept=0.0)
        super().__init__(inner, {"scene": blank}, "scene")
        self.fingerprint = "+".join([inner.fingerprint, *(other.fingerprint for other in retrained.values())])

    def embed(self, frame: Frame) -> EmbeddedFrame:
        embedded = super().embed(frame)
        more = {
            f"{twin}.{name}": array
            for twin, matcher in self.twins.items()
            for name, array in matcher.embed(frame).arrays.items()
        }
        return replace(embedded, arrays={**embedded.arrays, **more})

    def features(self, a: EmbeddedFrame, b: EmbeddedFrame) -> tuple[dict[str, Array], Combination]:
        features, combination = super().features(a, b)
        pairs, likelihood = candidates(whole_frame(a), whole_frame(b), self.motions)

        def agreed(logits: Array) -> Array:
            return log_odds(diffuse(logits, pairs, likelihood, self.motions, DiffusionConfig()), BELIEF_SUREST)

        summed = marginal(features["frames"], pairs, likelihood, self.motions.log_prior, MarginalConfig())
        features["marginal"] = log_odds(summed, BELIEF_SUREST)
        for twin, matcher in self.twins.items():
            first, second = (_of_twin(frame, twin) for frame in (a, b))
            features[f"placement {twin}"] = matcher.logits(first, second, "placement")
            features[f"diffusion {twin}"] = agreed(matcher.logits(first, second, "frames"))
        features["placement without all pixels"] = np.zeros_like(features["frames"])
        features["diffusion without all pixels"] = agreed(np.zeros_like(features["frames"]))
        features |= {
            beside_scene(name): features["scene"] * number
            for name, number in features.items()
            if beside_scene(name) in self.known
        }
        return features, combination


def _of_twin(frame: EmbeddedFrame, twin: str) -> EmbeddedFrame:
    head = f"{twin}."
    arrays = {name.removeprefix(head): array for name, array in frame.arrays.items() if name.startswith(head)}
    return replace(frame, arrays=arrays)


def dissect(experiment: Experiment) -> dict[str, Any]:
    """row -> kind of evidence -> condition -> F1, its difference to everything and that one's interval."""
    assert isinstance(experiment.matcher, DissectedMatcher)
    worlds, cases, rows = experiment.worlds, experiment.cases, experiment.matcher.rows
    found: dict[tuple[str, str, str, str], Returned] = {}
    for world in experiment.progress(worlds, "leaving one drive out"):
        others = [case for case in cases if world not in case.worlds]
        for name, features in rows.items():
            fitted = fit_combinations(others, features)
            for condition in experiment.conditions:
                mine = [case for case in cases if world in case.worlds and case.perturbation == condition]
                for kind in KINDS:
                    found[name, kind, condition, world] = match_cases(mine, fitted[kind])
    draws = {
        world: draw_all((one for key, one in found.items() if key[3] == world), experiment.seed) for world in worlds
    }
    whole = next(iter(rows))
    report: dict[str, Any] = {}
    for name in rows:
        for kind in KINDS:
            for condition in experiment.conditions:
                over = [f1_over(draws[world], found[name, kind, condition, world]) for world in worlds]
                before = [f1_over(draws[world], found[whole, kind, condition, world]) for world in worlds]
                f1 = [found[name, kind, condition, world].f1 for world in worlds]
                gap = np.mean(f1) - np.mean([found[whole, kind, condition, world].f1 for world in worlds])
                span = percentile_interval(np.mean(over, axis=0) - np.mean(before, axis=0))
                numbers = {"f1": float(np.mean(f1)), "difference": float(gap), "interval": list(span)}
                report.setdefault(name, {}).setdefault(kind, {})[condition] = numbers
    return report


def write_parts(folder: Path, report: Mapping[str, Any], conditions: Sequence[str], command: str) -> Path:
    """One page to read, and all numbers as JSON and as CSV."""
    write_json(folder / "parts.json", {"command": command, "report": report})
    write_text(folder / "parts.csv", _csv(report))
    text = [
        "# parts: what each part of `street` brings",
        "F1 of returned matches, mean of the drives, each drive judged by weights that were fitted without it. Every "
        "row leaves one part out or puts another in its place, and all weights are then fitted anew; the network is "
        "not trained again but in rows that say so. In brackets the difference to everything with its 95 % interval "
        "over objects; bold where the interval leaves out zero.",
    ]
    for kind in KINDS:
        lines = [row([f"evidence `{kind}`", *conditions]), row(["---"] * (1 + len(conditions)))]
        rows = rows_of(name.removeprefix(_trained("")) for name in report if name not in ROWS)
        whole = next(iter(rows))
        for name, features in rows.items():
            if name == whole or features[kind] != rows[whole][kind]:  # the others do not concern this evidence
                cells = [_cell(report[name][kind][condition], name == whole) for condition in conditions]
                lines.append(row([name, *cells]))
        text += [f"## {kind}", "\n".join(lines)]
    text.append(f"Command: `{command}`.")
    path = folder / "parts.md"
    write_text(path, "\n\n".join(text) + "\n")
    return path


def _csv(report: Mapping[str, Any]) -> str:
    lines = ["row,evidence,condition,f1,difference,low,high"]
    for name, kinds in report.items():
        for kind, conditions in kinds.items():
            for condition, found in conditions.items():
                numbers = (found["f1"], found["difference"], *found["interval"])
                lines.append(",".join([f'"{name}"', kind, condition, *(f"{number:.4f}" for number in numbers)]))
    return "\n".join(lines) + "\n"


def _cell(numbers: Mapping[str, Any], alone: bool) -> str:
    if alone:
        return f"{numbers['f1']:.3f}"
    low, high = numbers["interval"]
    said = f"{numbers['difference']:+.3f}, {low:+.3f} to {high:+.3f}"
    return f"{numbers['f1']:.3f} ({f'**{said}**' if low > 0 or high < 0 else said})"
