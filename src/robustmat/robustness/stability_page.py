"""The stability page: a table that fits a screen, what it means, the figures, the command."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from robustmat.files import write_text
from robustmat.robustness.stability import EVOLVED, MAPS, Stability
from robustmat.robustness.stability_plot import draw_bounds, draw_noise_to_signal, draw_norms

READING = (
    "Medians over landmarks. *Norm* is the difference between the embeddings of a perturbed landmark and of the clean "
    "one, *relative* is that over the norm of the clean embedding, *noise / signal* over the median distance to other "
    "landmarks of the same category in the frame. *Found* is the share of perturbed landmarks whose nearest clean "
    "embedding in the frame and category is their own. Norms of different models and stages have different units: "
    "compare the last two columns. `h_DS` is the feature map of a patch, `z(T_f)` the same after the vertex ODE (of "
    "ResNet + GAT: after the residual blocks that stand in its place), `f` the embedding of a patch, `g` that of its "
    "neighbourhood."
)


def write_stability(
    folder: Path | str, measured: Sequence[Stability], data: Sequence[str], command: str, name: str = "stability"
) -> Path:
    """The page `NAME.md` and its figures."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    levels = list(dict.fromkeys(name for one in measured for _, name in one.norms))
    shown = levels[len(levels) // 2]
    count = len(next(iter(measured[0].norms.values())).absolute)
    parts = [
        "# stability: what noise does to embeddings",
        f"{count} landmarks of {', '.join(data)}, clean and perturbed. The table is of {shown}; all levels are below.",
        _table(measured, [shown]),
        READING,
        *flow_sentences(measured, levels),
        "## Command",
        f"```sh\n{command}\n```",
        "## Figures",
    ]
    compared = draw_noise_to_signal(measured, folder / f"{name}-noise-to-signal.png")
    parts.append(f"![noise over signal]({compared.name})")
    for one in measured:
        model = one.model.replace(":", "-").replace("/", "-").strip("-")
        parts.append(f"![norms of {one.model}]({draw_norms(one, folder / f'{name}-{model}.png').name})")
        if one.bounds:
            path = draw_bounds(one, folder / f"{name}-{model}-bound.png")
            parts.append(f"![proven bound of {one.model}]({path.name})")
    parts += ["## All levels", _table(measured, levels)]
    page = folder / f"{name}.md"
    write_text(page, "\n\n".join(parts) + "\n")
    return page


def flow_sentences(measured: Sequence[Stability], levels: Sequence[str]) -> list[str]:
    """For every model with a vertex flow: does the flow help against noise?"""
    lines = []
    for one in measured:
        if not {MAPS, EVOLVED} <= set(one.stages):
            continue
        around = [[median(one.norms[stage, level].to_signal) for stage in (MAPS, EVOLVED)] for level in levels]
        ratios = [after / before for before, after in around]
        verdict = (
            "leaves noise against signal as it was"
            if all(0.95 < ratio < 1.05 for ratio in ratios)
            else "lowers noise against signal"
            if max(ratios) <= 1.0
            else "raises noise against signal"
            if min(ratios) >= 1.0
            else "changes noise against signal little, in both directions"
        )
        said = "; ".join(
            f"{before:.3f} before and {after:.3f} after at {level}"
            for level, (before, after) in zip(levels, around, strict=True)
        )
        bound = one.bounds.get((MAPS, EVOLVED))
        kept = "is kept by every point" if keeps(one) else "**is broken**"
        proof = f" Its proven bound, {bound:.3f}, {kept}." if bound else ""
        lines.append(f"- `{one.model}`: its flow {verdict} ({said}).{proof}")
    return ["\n".join(lines)] if lines else []


def keeps(measured: Stability) -> bool:
    """No difference grew by more than its flow's proven bound."""
    return all(
        bool((measured.norms[after, name].absolute <= bound * measured.norms[before, name].absolute * (1 + 1e-4)).all())
        for (before, after), bound in measured.bounds.items()
        for known, name in measured.norms
        if known == before
    )


def to_json(measured: Sequence[Stability]) -> list[dict[str, Any]]:
    """Medians of everything, for other programs."""
    return [
        {
            "model": one.model,
            "bounds": [
                {"before": before, "after": after, "bound": bound} for (before, after), bound in one.bounds.items()
            ],
            "norms": [
                {"stage": stage, "perturb": name, "landmarks": len(norms.absolute)}
                | {key: _or_none(median(getattr(norms, key))) for key in ("absolute", "relative", "to_signal")}
                | {"found": float(np.nanmean(norms.found)) if np.isfinite(norms.found).any() else None}
                for (stage, name), norms in one.norms.items()
            ],
        }
        for one in measured
    ]


def median(values: Any) -> float:
    known = values[~np.isnan(values)]
    return float(np.median(known)) if len(known) else float("nan")


def _or_none(value: float) -> float | None:
    return value if np.isfinite(value) else None


def _table(measured: Sequence[Stability], levels: Sequence[str]) -> str:
    several = len(levels) > 1
    head = ["model", "stage", *(["perturbation"] if several else []), "norm", "relative", "noise / signal", "found"]
    lines = [head, ["---"] * (3 if several else 2) + ["---:"] * 4]
    for one in measured:
        for stage in one.stages:
            for level in levels:
                norms = one.norms[stage, level]
                found = f"{np.nanmean(norms.found):.0%}" if np.isfinite(norms.found).any() else ""
                numbers = [f"{median(values):.3g}" for values in (norms.absolute, norms.relative, norms.to_signal)]
                lines.append([one.model, f"`{stage}`", *([level] if several else []), *numbers, found])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
