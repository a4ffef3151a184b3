"""The table of detectors: how well each finds landmarks, and what that leaves of the matches.

Measurements are kept in a folder, by what was measured: a run that was stopped goes on, and a second one is free.
"""

import csv
import hashlib
import io
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from robustmat.checkpoints.load import load
from robustmat.config import Config, parse, read_toml
from robustmat.dataset.store import open_dataset
from robustmat.detection.config import SourceConfig
from robustmat.detection.evaluate import evaluate_detector
from robustmat.detection.registry import SHIPPED, load_detector
from robustmat.detection.samples import find_samples
from robustmat.detection.truth import sample_truth
from robustmat.evaluation.detected import evaluate_detected
from robustmat.files import read_json, write_json, write_text
from robustmat.progress import Progress, silent

Report = dict[str, Any]


class TestConfig(SourceConfig):
    """Labelled images to measure on."""

    name: str
    seen_by: tuple[str, ...] = ()  # detectors that were trained on them: they are not measured here


class DrivesConfig(Config):
    """Prepared data sets, by their folders below `--data`, whose matches should survive."""

    paths: tuple[str, ...] = ()
    pairs: Annotated[int, Field(ge=1)] = 60
    checkpoint: str = "street"
    seen_by: dict[str, tuple[str, ...]] = Field(default_factory=dict)  # {path: detectors trained on it}


class DetectionTableConfig(Config):
    detectors: tuple[str, ...]  # names and folders
    matches_of: tuple[str, ...] = ()  # of these, whose matches are counted, too
    data: tuple[TestConfig, ...]
    drives: DrivesConfig = DrivesConfig()


def read_table_config(path: Path | str) -> DetectionTableConfig:
    return parse(DetectionTableConfig, read_toml(path, "table of detectors"), str(path))


def make_detection_table(
    config: DetectionTableConfig,
    data: Path | str,
    out: Path | str,
    command: str,
    *,
    cache: Path | str,
    progress: Progress = silent,
) -> Path:
    """Measure what is not in `cache` yet; write OUT/detector.md and OUT/detector.csv."""
    found: dict[str, dict[str, Report]] = {}
    matches: dict[str, dict[str, Report]] = {}
    for detector in config.detectors:
        name = Path(detector).name
        for test in config.data:
            if name not in test.seen_by:
                measure = _finding(detector, test, data, progress)
                found.setdefault(test.name, {})[name] = _cached(Path(cache), measure, detector, test)
        for path in config.drives.paths if detector in config.matches_of else ():
            if name not in config.drives.seen_by.get(path, ()):
                measure = _matching(detector, path, config.drives, data, progress)
                key = config.drives.model_copy(update={"paths": (path,)})
                matches.setdefault(path, {})[name] = _cached(Path(cache), measure, detector, key)
    names = [Path(detector).name for detector in config.detectors]
    _write_csv(Path(out) / "detector.csv", found)
    page = "\n".join(_page(names, found, matches, config, command))
    write_text(Path(out) / "detector.md", page + "\n")
    return Path(out) / "detector.md"


def _finding(detector: str, test: TestConfig, data: Path | str, progress: Progress) -> Callable[[], Report]:
    def measure() -> Report:
        samples = find_samples(test, data)
        truths = (sample_truth(it) for it in progress(samples, f"{Path(detector).name} on {test.name}"))
        return evaluate_detector(load_detector(detector), truths, test.labelled)

    return measure


def _matching(
    detector: str, path: str, drives: DrivesConfig, data: Path | str, progress: Progress
) -> Callable[[], Report]:
    def measure() -> Report:
        matcher = load(drives.checkpoint)
        dataset = open_dataset(Path(data) / path)
        counts = evaluate_detected(
            dataset, load_detector(detector), matcher, most_pairs=drives.pairs, progress=progress
        )
        return counts.to_json()

    return measure


def _cached(cache: Path, measure: Callable[[], Report], detector: str, settings: Config) -> Report:
    folder = Path(detector) if Path(detector).is_dir() else SHIPPED / detector
    files = [path for path in (folder / "model.onnx", folder / "model.json") if path.is_file()]
    parts = [detector.encode(), settings.model_dump_json().encode(), *(path.read_bytes() for path in files)]
    key = hashlib.sha256(b"\0".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()[:16]
    path = cache / f"{key}.json"
    if path.is_file():
        kept: Report = read_json(path, "measurement of a detector")
        return kept
    report = json.loads(json.dumps(measure()))
    write_json(path, report)
    return dict(report)


def _page(
    names: Sequence[str],
    found: dict[str, dict[str, Report]],
    matches: dict[str, dict[str, Report]],
    config: DetectionTableConfig,
    command: str,
) -> Iterator[str]:
    yield "# detector: how well landmarks are found\n"
    yield (
        "Precision / recall / average precision at IoU 0.5 (0.3 for poles). The checkpoints' own limits of confidence "
        "decide what is returned; they are fitted on other frames. An empty cell: the checkpoint "
        "was trained on these frames. "
        "Boxes and truth come from pixels by the same rules; what is too small to match counts neither way.\n"
    )
    yield f"| data (frames) | category (objects) | {' | '.join(names)} |"
    yield f"|---|---|{'---|' * len(names)}"
    for data, reports in found.items():
        some = next(iter(reports.values()))
        for group, words in (("classes", ""), ("wider_than_4", " wider than 4 px")):
            for category in some[group]:
                count = some[group][category]["n"]
                same = group == "wider_than_4" and count == some["classes"][category]["n"]
                if count and not same:
                    cells = [_cell(reports[name][group][category]) if name in reports else "" for name in names]
                    label = f"{category.replace('_', ' ')}{words} ({count})"
                    yield f"| {data} ({some['frames']}) | {label} | {' | '.join(cells)} |"
    if matches:
        yield (
            "\nTrue matches that are still found when detected landmarks replace the given ones: "
            f"{config.drives.pairs} frame pairs a drive, matched by `{config.drives.checkpoint}` "
            "with its usual evidence.\n"
        )
        yield "| drive | true matches | detector | given boxes: recall, precision | both found | recall, precision |"
        yield "|---|---|---|---|---|---|"
        for path, rows in matches.items():
            for name, row in rows.items():
                given, kept = (
                    f"{_number(row[f'recall{end}'])}, {_number(row[f'precision{end}'])}" for end in ("_given", "")
                )
                share = _number(row["detected_share"])
                yield f"| {path} | {row['possible']} | {name} | {given} | {share} | {kept} |"
    yield f"\n```sh\n{command}\n```"


def _cell(row: Report) -> str:
    return " / ".join(_number(row[key]) for key in ("precision", "recall", "ap"))


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _write_csv(path: Path, found: dict[str, dict[str, Report]]) -> None:
    """Every number: by data, detector, category and size (pixels of the shorter side)."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["data", "detector", "category", "size", "objects", "detections", "precision", "recall", "ap"])
    for data, reports in found.items():
        for name, report in reports.items():
            for category, whole in report["classes"].items():
                rows = {"all": whole, "4+": report["wider_than_4"][category], **report["sizes"][category]}
                for size, row in rows.items():
                    values = ["" if row[key] is None else f"{row[key]:.4f}" for key in ("precision", "recall", "ap")]
                    writer.writerow([data, name, category, size, row["n"], row["detections"], *values])
    write_text(path, text.getvalue())
