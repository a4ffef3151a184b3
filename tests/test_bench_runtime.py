"""`bench runtime`: every method is timed on the same two frames, and the page says it."""

from pathlib import Path

import pytest

from robustmat.bench.runtime import OURS, RuntimeSettings, all_methods, bench_runtime, make_matcher, write_runtime
from robustmat.errors import ConfigError
from robustmat.methods import rivals
from small_world import drive, make_boards


def test_all_rivals_of_the_paper_can_be_timed() -> None:
    assert set(rivals()) < set(all_methods())


@pytest.mark.parametrize("name", [OURS, "robustmat-gcn", "hardnet", "certified", "root-sift"])
def test_a_timed_matcher_matches(name: str) -> None:
    frames = drive(make_boards(6, 0), frames=2).frames
    result = make_matcher(name, 0).match(frames[0], frames[1])
    assert result.score.shape == (len(frames[0].landmarks), len(frames[1].landmarks))


def test_the_page_has_a_row_for_every_method_and_ours_is_one(tmp_path: Path) -> None:
    report = bench_runtime(RuntimeSettings(("hardnet", "root-sift"), landmarks=3, rounds=2, scale=0.3))
    page = write_runtime(tmp_path / "runtime.md", report, "robustmat bench runtime").read_text()
    rows = {
        line.split("|")[1].strip(): line.split("|")[4].strip() for line in page.splitlines() if line.startswith("| ")
    }
    assert {OURS, "hardnet", "root-sift"} <= set(rows)
    assert float(rows[OURS]) == 1.0
    assert {row.name for row in report.sections[0].rows} == {OURS, "hardnet", "root-sift"}


def test_an_unknown_method_is_refused_before_anything_is_rendered() -> None:
    with pytest.raises(ConfigError, match=r"unknown method 'hardnett'.*hardnet"):
        bench_runtime(RuntimeSettings(("hardnett",)))
