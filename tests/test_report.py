"""The HTML report of a frame pair."""

import re
from pathlib import Path

import numpy as np
import pytest

from robustmat.report import Section, summarize, write_match_report
from robustmat.types import Frame, Landmark, Match, MatchResult


@pytest.fixture
def result() -> MatchResult:
    pixels = np.random.default_rng(0).integers(0, 256, (60, 90, 3)).astype(np.uint8)
    marks = tuple(Landmark((10.0 * i, 5, 10.0 * i + 8, 40), "traffic_sign") for i in range(3))
    frame = Frame.from_array(pixels, marks, name="street")
    matches = (Match(0, 1, 1.5, 0.9), Match(2, 0, 1.2, 0.7))
    return MatchResult(marks, marks, matches, np.zeros((3, 3)), np.zeros((3, 3)), 1.0, frame, frame)


def test_the_report_is_one_file_with_every_match_and_everyone_left_alone(result: MatchResult, tmp_path: Path) -> None:
    path = write_match_report(
        result, tmp_path / "report.html", "A street", "Two frames.", [True, False], [Section("Next", ("go",), ("run",))]
    )
    text = path.read_text()
    assert text.count("<tr>") == 3  # header and two matches
    assert ">correct<" in text
    assert ">wrong<" in text
    assert "0.90" in text
    assert "<p>go</p>" in text
    assert "<code>run</code>" in text
    assert "1 correct match, 1 wrong; 1 + 1 landmarks left unmatched" in text
    assert "Unmatched in frame A (grey boxes): 1 traffic sign." in text
    assert "Unmatched in frame B (grey boxes): 1 traffic sign." in text
    sources = re.findall(r'src="([^"]{0,30})', text)
    assert len(sources) == 5  # the picture, two crops a match
    assert all(source.startswith("data:image/png;base64,") for source in sources)


def test_texts_are_shown_and_never_obeyed(result: MatchResult, tmp_path: Path) -> None:
    evil = "<script>alert(1)</script>"
    section = Section(evil, (evil,), (evil,))
    text = write_match_report(result, tmp_path / "report.html", evil, evil, sections=[section]).read_text()
    assert "<script>" not in text
    assert text.count("&lt;script&gt;") == 6  # the title twice, the introduction, three in the section


def test_without_ground_truth_nothing_is_called_correct(result: MatchResult, tmp_path: Path) -> None:
    text = write_match_report(result, tmp_path / "report.html", "A street", "Two frames.").read_text()
    assert ">correct<" not in text
    assert "ground truth" not in text
    assert summarize(result) == "2 matches; 1 + 1 landmarks left unmatched"
    assert summarize(result, [True, None]).startswith("1 correct match, 0 wrong, 1 that cannot be checked;")
