"""The page of `bench places`: tables for readers, and all numbers as CSV."""

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from robustmat.bench.places import PlaceReport
from robustmat.files import write_text

PLACES = ("method", "queries", "R@1", "R@5", "recall at precision 0.95", "average precision", "answers", "MB/km", "s")
POSES = (
    "method",
    "queries",
    "drive",
    "against",
    "answered",
    "metres",
    "degrees",
    "metres, 90 %",
    "within 95 %",
    "NEES",
)


def write_places(report: PlaceReport, folder: Path, name: str, title: str, command: str, data: str) -> Path:
    """Write NAME.md, NAME.csv (places) and NAME-poses.csv."""
    write_text(folder / f"{name}.csv", csv(report.places))
    write_text(folder / f"{name}-poses.csv", csv(report.poses))
    lines = [f"# {title}", "", data, "", "## Places", "", *_table(PLACES)]
    for row in report.places:
        own = f"{row.answers} ({row.precision:.2f} right)" if row.megabytes else "-"
        times = f"{row.embed_seconds:.2f} + {row.ask_seconds:.2f}"
        size, seconds = (f"{row.megabytes:.1f}", times) if row.megabytes else ("-", "-")
        lines.append(
            f"| {row.method} | {row.perturb} | {row.recall_at_1:.2f} | {row.recall_at_5:.2f} | "
            f"{row.recall_at_precision:.2f} | {row.average_precision:.2f} | {own} | {size} | {seconds} |"
        )
    if report.places:
        one = report.places[0]
        lines += ["", f"{one.queries} queries of known places, {one.unknown} of unknown ones. Right: within 5 m."]
    lines += [
        "",
        "`R@5`: five places at least 5 m apart. `answers` counts probabilities of at least 0.5, unknown places among "
        "them. `s` is the processor time of a query, median: reading and embedding the frame (and making noise) + "
        "finding its place and pose.",
        "",
        "## Poses",
        "",
        *_table(POSES),
    ]
    lines += [
        f"| {one.method} | {one.perturb} | {one.drive} | {one.against} | {one.answered:.2f} of {one.queries} | "
        f"{one.metres:.2f} | {one.degrees:.2f} | {one.metres_90:.2f} | {one.within_bounds:.2f} | {one.normalised:.2f} |"
        for one in report.poses
    ]
    lines += [
        "",
        "Medians. `within 95 %`: share of errors (sideways, ahead, yaw) within the bounds that their covariances give, "
        "where the pose of the data set is known as well as those of the map; `NEES` is the median normalised squared "
        "error over its expectation, 1 if covariances are exact.",
    ]
    if report.offsets:
        lines += ["", "## What the poses of the passes disagree by", ""]
        lines += _table(
            ("drive", "frames", "right, down, ahead (m)", "pitch, yaw, roll (degrees)", "height (m)", "found")
        )
        for off in report.offsets:
            metres, degrees = (", ".join(f"{value:+.2f}" for value in values) for values in (off.metres, off.degrees))
            lines.append(
                f"| {off.drive} | {off.frames} | {metres} | {degrees} | {off.above:+.2f} | {off.above_found:+.2f} |"
            )
        lines += [
            "",
            "The rigid transform from the given poses of a revisit to the located ones, as its middle frame sees it. "
            "`height` is how far the given poses lie above those of the first pass at the nearest place, `found` the "
            "same of the located poses: one vehicle on one road has one height.",
        ]
    lines += ["", "## Command", "", f"    {command}"]
    write_text(folder / f"{name}.md", "\n".join(lines) + "\n")
    return folder / f"{name}.md"


def csv(rows: Sequence[Any]) -> str:
    """All fields of all rows."""
    if not rows:
        return ""
    names = [one.name for one in fields(rows[0])]
    lines = [",".join(_plain(getattr(row, name)) for name in names) for row in rows]
    return "\n".join([",".join(names), *lines]) + "\n"


def _plain(value: object) -> str:
    text = f"{value:.4f}" if isinstance(value, float) else str(value)
    return f'"{text}"' if "," in text else text


def _table(columns: Sequence[str]) -> list[str]:
    return [f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}"]
