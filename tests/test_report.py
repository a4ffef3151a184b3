"""The HTML report of a frame pair."""

import re
from pathlib import Path

import numpy as np

from robustmat.matching.html import Section, write_match_report
from robustmat.types import Frame, Landmark, Match, MatchResult


def test_the_report_is_one_file_with_every_match_and_everyone_left_alone(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (60, 90, 3)).astype(np.uint8)
    marks = tuple(Landmark((10.0 * i, 5, 10.0 * i + 8, 40), "traffic_sign") for i in range(3))
    frame = Frame("street", lambda: pixels, marks)
    matches = (Match(0, 1, 1.5, 0.9), Match(2, 0, 1.2, 0.7))
    score = np.zeros((3, 3))
    result = MatchResult(marks, marks, matches, score, score, 1.0, frame, frame)
    picture = result.draw(tmp_path / "matches.png")
    path = write_match_report(
        result,
        picture,
        tmp_path / "report.html",
        "A <street>",
        "Two frames.",
        ["right", "wrong"],
        [Section("Next", "<p>go</p>")],
    )
    text = path.read_text()
    assert "A &lt;street&gt;" in text
    assert text.count("<tr>") == 3  # header and two matches
    assert ">right<" in text
    assert ">wrong<" in text
    assert "0.90" in text
    assert "<p>go</p>" in text
    assert "Frame A, without a partner: 1 (traffic sign)." in text
    assert "Frame B, without a partner: 2 (traffic sign)." in text
    sources = re.findall(r'src="([^"]{0,30})', text)
    assert len(sources) == 5  # the picture, two crops a match
    assert all(it.startswith("data:image/png;base64,") for it in sources)
