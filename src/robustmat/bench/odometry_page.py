"""The page of `bench odometry`: one table for cameras, one for tracks, one for LiDAR."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from robustmat.files import write_text

ARMS = {"opencv": "OpenCV, plain", "baseline": "without landmarks", "assisted": "with landmarks"}


def write_page(rows: Sequence[dict[str, Any]], out: Path) -> Path:
    """Write odometry.md from the measured rows."""
    shown = [_cameras(rows), _weathers(rows), _tracks(rows), _lidar(rows)]
    parts = ["# Odometry with and without landmarks", *(line for lines in shown for line in ["", *lines])]
    path = out / "odometry.md"
    write_text(path, "\n".join(parts) + "\n")
    return path


def _cameras(rows: Sequence[dict[str, Any]]) -> list[str]:
    lines = [
        "Each cell: RPE in centimetres a step / degrees a step / ATE in metres. Changes are of RPE against the run",
        "without landmarks, with 95 % intervals by drawing blocks of frames, all seeds of the robust sample together;",
        "below zero is better.",
        "",
        f"| drive | weather | frames | {' | '.join(ARMS.values())} | change, metres | change, degrees |",
        "|---" * (len(ARMS) + 5) + "|",
    ]
    for row in rows:
        cells = [_errors(row["errors"][arm]) for arm in ARMS]
        change = row["against_baseline"]["assisted"]
        changes = [_interval(change[name]) for name in ("rpe", "rpe_degrees")]
        lines.append(f"| {' | '.join([row['data'], row['perturb'], str(row['frames']), *cells, *changes])} |")
    alone = sorted({arm for row in rows for arm in row["errors"]} - set(ARMS))
    for arm in alone:
        told = [row for row in rows if arm in row["against_baseline"]]
        lines += [
            "",
            f"`{arm}` alone, change of RPE in metres and degrees: " + "; ".join(_alone(row, arm) for row in told),
        ]
    return lines


def _weathers(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Over all drives: one bad stretch does not make a mean, nor does one good."""
    lines = [
        "Change of RPE by weather, metres / degrees: mean of the drives, the best and the worst of them.",
        "",
        "| weather | drives | mean | best | worst |",
        "|---|---|---|---|---|",
    ]
    for weather in dict.fromkeys(row["perturb"] for row in rows):
        changes = [row["against_baseline"]["assisted"] for row in rows if row["perturb"] == weather]
        metres, degrees = ([100 * change[name][0] for change in changes] for name in ("rpe", "rpe_degrees"))
        cells = [f"{of(metres):+.0f} % / {of(degrees):+.0f} %" for of in (lambda some: sum(some) / len(some), min, max)]
        lines.append(f"| {' | '.join([weather, str(len(changes)), *cells])} |")
    return lines


def _alone(row: dict[str, Any], arm: str) -> str:
    change = row["against_baseline"][arm]
    return f"{row['data']} {row['perturb']} {100 * change['rpe'][0]:+.0f} %, {100 * change['rpe_degrees'][0]:+.0f} %"


def _errors(told: dict[str, Any]) -> str:
    return f"{100 * told['rpe']:.2f} / {told['rpe_degrees']:.3f} / {told['ate']:.2f}"


def _interval(values: Sequence[float]) -> str:
    value, low, high = (100 * one for one in values)
    return f"{value:+.0f} % ({low:+.0f} to {high:+.0f})"


def _tracks(rows: Sequence[dict[str, Any]]) -> list[str]:
    lines = [
        "Tracks of at least three sightings. Precision: sightings of their track's most frequent object; those",
        "of another one less than two metres away are left out, and are wrong in the strict column.",
        "",
        "| drive | weather | tracks | mean length | precision | strict | switches | tracks an object |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        told = row["tracks"]
        shares = ["" if told.get(name) is None else f"{told[name]:.3f}" for name in ("precision", "strict")]
        pieces = "" if told["fragments"] is None else f"{told['fragments']:.2f}"
        cells = [row["data"], row["perturb"], str(told["tracks"]), f"{told['mean_length']:.1f}", *shares]
        lines.append(f"| {' | '.join([*cells, str(told['switches']), pieces])} |")
    return lines


def _lidar(rows: Sequence[dict[str, Any]]) -> list[str]:
    told = [row for row in rows if "lidar" in row]
    if not told:
        return []
    lines = [
        "LiDAR, scan to map, RPE in centimetres a step / degrees a step, by the points that a scan keeps.",
        "",
        "| drive | points a scan | drawn evenly | more on matched landmarks |",
        "|---|---|---|---|",
    ]
    for row in told:
        lidar = row["lidar"]
        for budget in sorted({one["points"] for one in lidar["rows"]}, reverse=True):
            cells = [_lidar_cell(lidar["rows"], budget, name) for name in ("even", "landmarks")]
            lines.append(f"| {row['data']} | {budget} | {' | '.join(cells)} |")
        if lidar["kiss_icp"]:
            cell = f"{100 * lidar['kiss_icp']['rpe']:.2f} / {lidar['kiss_icp']['rpe_degrees']:.3f}"
            lines.append(f"| {row['data']} | KISS-ICP, all {lidar['points_of_a_scan']:.0f} | {cell} | |")
    return lines


def _lidar_cell(rows: Sequence[dict[str, Any]], budget: int, name: str) -> str:
    one = next(row for row in rows if (row["points"], row["chosen"]) == (budget, name))
    return f"{100 * one['rpe']:.2f} / {one['rpe_degrees']:.3f}"
