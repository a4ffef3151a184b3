"""The model card beside exported files: what goes in, what comes out, how it was checked, what it may be used for."""

from pathlib import Path

from robustmat.export.parity import ParityReport
from robustmat.files import write_text
from robustmat.matching.manifest import Manifest, Part, read_manifest


def write_card(
    folder: Path, parity: ParityReport, int8: ParityReport | None = None, solver: ParityReport | None = None
) -> Path:
    """`README.md` in the export's folder."""
    manifest = read_manifest(folder)
    files = [*manifest.parts.values(), *manifest.int8.values()]
    sections = [
        f"# {manifest.checkpoint}, exported by robustmat",
        "Matches street landmarks (signs, lights, poles, windows) between two camera frames.",
        f"{manifest.solver_note}." if manifest.solver_note else "",
        "## Files",
        _table("file", "inputs", "outputs", "KB", rows=[_row(file, folder) for file in files]),
        "N, A and B are numbers of landmarks, at least one each. `export.json` holds preprocessing, neighbourhoods and "
        "decisions, `model.json` the model's configuration, `parity.json` the checks below in full, `sample.npz` the "
        "inputs of one frame pair with the scores that torch gives it.",
        "## From frames to matches",
        *_steps(manifest),
        "## Checked against torch",
        _parity(parity),
        "",
    ]
    if int8 is not None:
        eight = "Ranges were set on frames of another town than the ones compared here."
        sections += ["## In eight bits", eight, _parity(int8), ""]
    if solver is not None:
        sections += ["## Against the checkpoint's own adaptive solver", _parity(solver), ""]
    sections += ["## Where the weights come from", *_provenance(manifest)]
    path = folder / "README.md"
    write_text(path, "\n\n".join(section for section in sections if section) + "\n")
    return path


def _steps(manifest: Manifest) -> list[str]:
    patch = manifest.patch
    bounded = f", its longer side cut to {patch.max_aspect:g} times the shorter" if patch.max_aspect else ""
    context = (
        f" Three more channels hold a second view: the square around the box's centre, {patch.context:g} times as wide "
        "as the root of the box's area."
        if patch.context
        else ""
    )
    center = "the landmark itself first, then its" if manifest.include_center else "its"
    lines = [
        f"1. Crop each tight box, grown by {patch.margin} pixels a side{bounded}, scaled into the middle of "
        f"{patch.size} x {patch.size} pixels, the rest mean colour {patch.mean_color}; RGB bytes, nothing subtracted."
        f"{context} (`robustmat.features.patches.cut_patches`: numpy and OpenCV)",
        f"2. `vertex.onnx` for all patches of a frame at once; `index`, `mask`: {center} {manifest.num_neighbors} "
        "nearest landmarks by box centres (`robustmat.features.neighborhoods`), then `graph.onnx`. Both can be "
        "stored and reused: they depend on one frame alone.",
        "3. One of the scorers for two frames; `placement` is `robustmat.features.placement.placements`.",
        "4. A match is a pair of one category that prefers each other over all rivals and scores at least "
        "`match_threshold`; its probability is sigmoid(slope * e + intercept), where e is the log odds of "
        "score / max score, or the score itself where it has no bound.",
    ]
    rows = [
        [
            name,
            *(
                f"{value:.6g}"
                for value in (decision.threshold, decision.match_threshold, decision.slope, decision.intercept)
            ),
            "" if decision.max_score is None else f"{decision.max_score:g}",
        ]
        for name, decision in manifest.decisions.items()
    ]
    columns = ("evidence", "threshold", "match threshold", "slope", "intercept", "max score")
    return ["\n".join(lines), _table(*columns, rows=rows)]


def _parity(report: ParityReport) -> str:
    rows = []
    for name, one in report.evidence.items():
        changed = f"{one.decisions_changed} of {one.candidates}", f"{one.matches_changed} of {one.matches}"
        rows.append([name, f"{one.largest_difference:.1e}", *changed, one.f1_change])
    head = (
        f"{report.frame_pairs} frame pairs of a simulated street, {report.fewest_landmarks} to {report.most_landmarks} "
        f"landmarks a frame; embeddings differ by at most {max(report.vertex_difference, report.graph_difference):.1e}."
    )
    columns = ("evidence", "largest score difference", "decisions changed", "matches changed", "match F1")
    return f"{head}\n\n{_table(*columns, rows=rows)}"


def _provenance(manifest: Manifest) -> list[str]:
    known = manifest.provenance
    drives = known.get("drives") or []
    return [
        f"Licence: {known.get('licence', 'unspecified')}. Trained {known.get('steps', 0)} steps on {len(drives)} drives"
        + (f": {', '.join(map(str, drives))}." if drives else "."),
        f"Thresholds and calibration from: {', '.join(map(str, known.get('validation_drives') or ['unknown']))}.",
        str(known.get("notes") or ""),
    ]


def _row(part: Part, folder: Path) -> list[str]:
    size = (folder / part.file).stat().st_size / 1024
    return [f"`{part.file}`", *(_named(one) for one in (part.inputs, part.outputs)), f"{size:.0f}"]


def _named(arrays: dict[str, str]) -> str:
    return ", ".join(f"`{name}` {shape}" for name, shape in arrays.items())


def _table(*columns: str, rows: list[list[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
