"""The page of the leave-one-out experiment: one table to read, then by distance, then other looks."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from robustmat.evaluation.report import DISTANCES
from robustmat.files import write_json, write_text


def write_report(folder: Path, report: Mapping[str, Any], tests: Mapping[str, Any], command: str) -> Path:
    """One page to read, and all numbers as JSON."""
    write_json(folder / "leave-one-out.json", {"command": command, "report": report, "tests": tests})
    write_text(folder / "leave-one-out.csv", _csv(report))
    path = folder / "leave-one-out.md"
    write_text(path, page(report, tests, command))
    return path


def page(report: Mapping[str, Any], tests: Mapping[str, Any], command: str) -> str:
    parts = [
        "# leave-one-out: matches on a drive that nothing was fitted on",
        "Weights of all evidence are fitted without the drive that is reported: on the other drives, under all "
        "conditions and on frame pairs that share nothing. Matches of whole frames with a probability of at least "
        "0.5. F1 is the mean over the drives, then by drive with its 95 % interval over objects.",
        _headline(report),
        "## By distance between the cameras",
        "Precision / recall / F1 of `scene`.",
        _by_distance(report),
        *_test_worlds(tests),
        f"Command: `{command}`. It also writes all numbers as `leave-one-out.json`.",
    ]
    return "\n\n".join(parts) + "\n"


def _csv(report: Mapping[str, Any]) -> str:
    """One line for each condition, evidence, drive and distance."""
    lines = ["condition,evidence,drive,metres,precision,recall,f1,right,wrong,possible"]
    for condition, rows in report.items():
        for name, drives in rows.items():
            for world, numbers in drives.items():
                for band, values in numbers.items():
                    if isinstance(values, dict):
                        shares = [f"{values[key]:.4f}" for key in ("precision", "recall", "f1")]
                        counts = [str(values[key]) for key in ("right", "wrong", "possible")]
                        lines.append(",".join([condition, name, world, band, *shares, *counts]))
    return "\n".join(lines) + "\n"


def _headline(report: Mapping[str, Any]) -> str:
    head = ("condition", "evidence", "F1", "by drive", "precision", "ROC AUC", "right of p > 0.9", "ECE", "unrelated")
    lines = [row(head), row(["---"] * len(head))]
    for condition, rows in report.items():
        for name, drives in rows.items():
            every = list(drives.values())
            f1 = [one["all"]["f1"] for one in every]
            spans = ", ".join(
                f"{one['all']['f1']:.2f} ({one['f1_interval'][0]:.2f} to {one['f1_interval'][1]:.2f})" for one in every
            )
            sure = [one["right_above_0.9"] for one in every]
            errors = [one["ece"] for one in every]
            matches, pairs = (sum(one[key] for one in every) for key in ("unrelated_matches", "unrelated_pairs"))
            lines.append(
                row(
                    [
                        condition,
                        name,
                        f"**{np.mean(f1):.3f}**" if name == "scene" else f"{np.mean(f1):.3f}",
                        spans,
                        f"{np.mean([one['all']['precision'] for one in every]):.3f}",
                        f"{np.mean([one['roc_auc'] for one in every]):.3f}",
                        " ".join("-" if value is None else f"{value:.2f}" for value in sure),
                        " ".join("-" if value is None else f"{value:.2f}" for value in errors),
                        f"{matches} in {pairs} pairs",
                    ]
                )
            )
    return "\n".join(lines)


def _by_distance(report: Mapping[str, Any]) -> str:
    bands = [f"{low:g}-{high:g}" for low, high in pairwise(DISTANCES)]
    lines = [row(["condition", "drive", *(f"{band} m" for band in bands)]), row(["---"] * (2 + len(bands)))]
    for condition, rows in report.items():
        for world, numbers in rows["scene"].items():
            cells = [" / ".join(f"{numbers[band][key]:.2f}" for key in ("precision", "recall", "f1")) for band in bands]
            lines.append(row([condition, world, *cells]))
    return "\n".join(lines)


def _test_worlds(tests: Mapping[str, Any]) -> list[str]:
    if not tests:
        return []
    sides = list(dict.fromkeys(name for rows in tests.values() for one in rows.values() for name in one))
    head = ["condition", "evidence", *(f"{name}: precision / recall / F1" for name in sides)]
    lines = [row(head), row(["---"] * len(head))]
    for condition, rows in tests.items():
        for name, found in rows.items():
            shares = [[found[side]["all"][key] for key in ("precision", "recall", "f1")] for side in sides]
            cells = [" / ".join(f"{value:.2f}" for value in one) for one in shares]
            lines.append(row([condition, name, *cells]))
    return ["## Test worlds", "Drives that nothing was fitted on, each world driven under two looks.", "\n".join(lines)]


def row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
