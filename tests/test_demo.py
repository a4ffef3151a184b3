"""The demo: the whole flow on a simulated street, from nothing to a report."""

import json
import re
import shlex
from pathlib import Path

import cv2
from typer.testing import CliRunner

import robustmat
from robustmat.cli import app


def test_the_demo_matches_a_frame_pair_worth_looking_at_and_writes_its_report(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["demo", "--out", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    found = json.loads((tmp_path / "out" / "matches.json").read_text())
    assert min(len(found[side]["landmarks"]) for side in "ab") >= 8
    assert cv2.imread(str(tmp_path / "out" / "matches.png")).shape[0] > 2 * 375
    report = (tmp_path / "out" / "report.html").read_text()
    assert f"{len(found['matches'])} matches" in report
    assert done.output.startswith("This demo drives through a simulated street")  # what happens, before it does
    summary = re.search(r"(\d+) correct match(?:es)?, (\d+) wrong.*landmarks left unmatched", report)
    assert summary
    assert int(summary[1]) >= max(5, 3 * int(summary[2]))
    assert summary[0] in " ".join(done.output.split())
    shared = int(done.output.split(" of them in both frames")[0].split()[-1])
    assert shared >= 5
    for side in "ab":  # at least two landmarks of either frame have no partner in the other
        assert len(found[side]["landmarks"]) - shared >= 2
    paste = shlex.split(next(line for line in done.output.splitlines() if "robustmat match" in line))
    assert all(Path(word).exists() for word in paste if word.startswith(str(tmp_path)))  # what to try next is there
    for side, name in (("a", "noon"), ("b", "evening")):
        frame = robustmat.read_frame(tmp_path / "out" / f"{name}.png", tmp_path / "out" / f"{name}.json")
        assert [list(landmark.box) for landmark in frame.landmarks] == [
            landmark["box"] for landmark in found[side]["landmarks"]
        ]
    detected = re.search(r"Without boxes.*?(\d+) correct match(?:es)?, (\d+) wrong", " ".join(done.output.split()))
    assert detected  # the same frames by detected landmarks
    assert int(detected[1]) >= 1
    assert "The same frames without boxes" in report
    assert cv2.imread(str(tmp_path / "out" / "matches-detected.png")) is not None
