"""What certificates are worth on a data set: how many right matches carry one, how large, and how near attacks come."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image as PillowImage
from PIL import ImageDraw

from robustmat.dataset.pairs import draw_pairs
from robustmat.dataset.store import LandmarkDataset
from robustmat.dataset.truth import label_candidates
from robustmat.errors import DataError
from robustmat.evaluation.scoring import embed_frames, possible_matches, views_of
from robustmat.features.patches import cut_patches, to_input
from robustmat.files import write_text
from robustmat.matching.matcher import Matcher
from robustmat.perturb import CLEAN, Perturbation
from robustmat.progress import Progress, silent
from robustmat.robustness.attack import smallest_change
from robustmat.robustness.certificate import certified_network, certify, least_score, psnr
from robustmat.robustness.panel import INK, LEVELS, PANEL, TALL, Panel, large, round_steps, save
from robustmat.types import AMBIGUOUS, MATCHED, Array, MatchResult

LEGEND = 260  # pixels
RADII = (0.5, 1.0, 2.0, 4.0, 8.0)  # grey levels
KINDS = {
    "patch": "one patch changes, the pair's decision holds",
    "all_patches": "all patches of both frames change, the match is still returned",
    "image": "the image changes inside one crop, the pair's decision holds",
}


@dataclass(frozen=True)
class CertificateReport:
    """Certificates of all right matches of some frame pairs, and what an attack found on some of them."""

    data: str
    perturb: str
    right: int
    wrong: int
    possible: int
    radii: dict[str, Array]  # kind -> [right matches], grey levels
    certified: Array  # [attacked], the certificate of one patch
    attacked: Array  # [attacked], the smallest change found to turn the decision; infinite where none was

    @property
    def f1(self) -> float:
        return 2 * self.right / max(self.right + self.wrong + self.possible, 1)

    def share(self, kind: str, radius: float) -> float:
        return float((self.radii[kind] >= radius).mean()) if len(self.radii[kind]) else 0.0

    def to_json(self) -> dict[str, Any]:
        found = np.isfinite(self.attacked)
        return {
            "data": self.data,
            "perturb": self.perturb,
            "right": self.right,
            "wrong": self.wrong,
            "possible": self.possible,
            "match_f1": self.f1,
            "certified": {kind: {str(radius): self.share(kind, radius) for radius in RADII} for kind in KINDS},
            "attacked": len(self.attacked),
            "attack_over_certificate": float(np.median((self.attacked / self.certified)[found]))
            if found.any()
            else None,
            "beaten": int((self.attacked < self.certified).sum()),
        }


def measure_certificates(
    matcher: Matcher,
    datasets: Sequence[LandmarkDataset],
    perturbation: Perturbation = CLEAN,
    *,
    frame_pairs: int = 100,
    attacks: int = 40,
    seed: int = 0,
    progress: Progress = silent,
) -> CertificateReport:
    """Match whole frame pairs, certify every right match, attack some of them."""
    certified_network(matcher)
    sample = draw_pairs(datasets, "same-class", seed, frame_pairs)
    truth, views = sample.truth, views_of(sample.frame_pairs, perturbation, "both")
    wanted = (view for both in views for view in both)
    (memory,) = embed_frames([matcher], truth, wanted, perturbation, seed, progress=progress)
    radii: dict[str, list[float]] = {kind: [] for kind in KINDS}
    chosen: list[tuple[MatchResult, int, float]] = []
    wrong = 0
    for a, b in progress(views, "certifying matches"):
        result = matcher.match(memory[a], memory[b])
        label = label_candidates(truth.frames[a[0]], truth.frames[b[0]])
        for number, (match, one) in enumerate(zip(result.matches, certify(matcher, result), strict=True)):
            if label[match.a, match.b] == MATCHED:
                for kind, values in radii.items():
                    values.append(getattr(one, kind))
                chosen.append((result, number, one.patch))
            elif label[match.a, match.b] != AMBIGUOUS:
                wrong += 1
    if not chosen:
        raise DataError("not one right match in the drawn frame pairs: there is nothing to certify")
    rng = np.random.default_rng(seed)
    some = [chosen[number] for number in rng.permutation(len(chosen))[:attacks] if chosen[number][2] > 0]
    attacked = [attack_match(matcher, result, number) for result, number, _ in progress(some, "attacking matches")]
    return CertificateReport(
        data=", ".join(dataset.name for dataset in datasets),
        perturb=str(perturbation),
        right=len(chosen),
        wrong=wrong,
        possible=len(possible_matches(truth, sample.frame_pairs).partner_pair),
        radii={kind: np.array(values) for kind, values in radii.items()},
        certified=np.array([radius for _, _, radius in some]),
        attacked=np.array(attacked),
    )


def attack_match(matcher: Matcher, result: MatchResult, number: int) -> float:
    """The smallest change of either patch that is found to turn a match of `result`."""
    network, match = certified_network(matcher), result.matches[number]
    sides = ((result.frame_a, result.landmarks_a[match.a]), (result.frame_b, result.landmarks_b[match.b]))
    patches = []
    for frame, mark in sides:
        assert frame is not None
        numbers = to_input(cut_patches(frame.image, [mark.box], network.config.patch), network.config.patch)
        patches.append(torch.from_numpy(np.ascontiguousarray(numbers)))
    both, other = torch.cat(patches), torch.cat(patches[::-1])
    return float(smallest_change(network, both, other, least_score(result, matcher.decision)).min())


def write_certificates(
    folder: Path | str, name: str, lipschitz: float, reports: Sequence[CertificateReport], command: str
) -> Path:
    """`certificate.md` and its figure."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    figure = draw_shares(reports, folder / "certificate.png")
    head = ["data", "matches", "match F1", *(f">= {radius:g}" for radius in RADII), "attack / certificate", "beaten"]
    lines = [head, ["---", *["---:"] * (len(head) - 1)]]
    for one in reports:
        facts = one.to_json()
        ratio = facts["attack_over_certificate"]
        shares = [f"{one.share('patch', radius):.0%}" for radius in RADII]
        gap = "" if ratio is None else f"{ratio:.1f}"
        counts = f"{one.right} right, {one.wrong} wrong"
        beaten = f"{facts['beaten']} of {facts['attacked']}"
        lines.append([f"{one.data}, {one.perturb}", counts, f"{one.f1:.3f}", *shares, gap, beaten])
    others = [["data", "kind", *(f">= {radius:g}" for radius in RADII)], ["---", "---", *["---:"] * len(RADII)]]
    for one in reports:
        for kind, said in KINDS.items():
            shares = [f"{one.share(kind, radius):.0%}" for radius in RADII]
            others.append([f"{one.data}, {one.perturb}", said, *shares])
    decibels = ", ".join(f"{radius:g} is {psnr(radius):.0f} dB" for radius in RADII)
    parts = [
        "# certificate: how much change a match provably survives",
        _table(lines),
        f"Whole frame pairs matched by `{name}`. Columns `>= r`: the share of right matches that no change of either "
        f"patch by up to r grey levels (root mean square; {decibels}) can turn into a non-match. *Attack / "
        "certificate*: the smallest change that gradients found to turn a match, over what is proven; 1 would be a "
        "perfect proof. *Beaten* must be 0. The network's proven Lipschitz constant is "
        f"{lipschitz:.3f} per grey level.",
        "## Command",
        f"```sh\n{command}\n```",
        f"![share of right matches certified]({figure.name})",
        "## Stronger promises",
        _table(others),
    ]
    page = folder / "certificate.md"
    write_text(page, "\n\n".join(parts) + "\n")
    return page


def draw_shares(reports: Sequence[CertificateReport], path: Path) -> Path:
    """Shares of right matches certified over the radius, one line a data set."""
    most = max(2.0, *(float(np.quantile(one.radii["patch"], 0.95)) for one in reports))
    picture = PillowImage.new("RGB", (PANEL + LEGEND, 26 + TALL), (255, 255, 255))
    pen = ImageDraw.Draw(picture)
    pen.text((16, 6), "Right matches that are certified up to a radius", fill=INK, font=large())
    panel = Panel(pen, 0, 26, (0, most), (0, 1), "share of right matches, one patch changes")
    panel.ticks_up([0, 0.25, 0.5, 0.75, 1])
    panel.ticks_across(round_steps(most), "grey levels, root mean square")
    grid = np.linspace(0, most, 120)
    for number, one in enumerate(reports):
        color = LEVELS[number % len(LEVELS)]
        line = [panel.at(radius, float((one.radii["patch"] >= radius).mean())) for radius in grid]
        pen.line(line, fill=color, width=2)
        pen.text((PANEL, 60 + 18 * number), f"{one.data}, {one.perturb}", fill=color, font=panel.font)
    return save(picture, path)


def _table(lines: Sequence[Sequence[str]]) -> str:
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
