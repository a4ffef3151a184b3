"""`bench runtime`: every method is timed on the same two frames, and the page says it."""

from pathlib import Path

import pytest

from robustmat.bench import runtime
from robustmat.bench.runtime import OURS, RuntimeSettings, all_methods, bench_runtime, make_matcher, write_runtime
from robustmat.errors import ConfigError
from robustmat.matching.network import NetworkMatcher
from robustmat.methods import rivals
from robustmat.models.foreign import VARIABLE
from robustmat.models.robustmat import ModelConfig, RobustMat
from robustmat.tables.definitions import make_row
from robustmat.tables.plan import load_config
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


@pytest.mark.parametrize("name", [OURS, "robustmat-gcn"])
def test_our_row_is_the_network_of_the_tables(name: str) -> None:
    """The ratio of every row is over it."""
    timed = make_matcher(name, 0)
    assert isinstance(timed, NetworkMatcher)
    assert isinstance(timed.network, RobustMat)
    table = load_config(make_row(name).training, 0, None).model
    assert isinstance(table, ModelConfig)
    assert timed.network.config == table.model_copy(update={"joint": None})  # single pairs do not use it


def test_what_cannot_be_loaded_is_left_out_and_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime, "all_methods", lambda: (OURS, "root-sift", "loftr"))
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    told: list[str] = []
    report = bench_runtime(RuntimeSettings(landmarks=3, rounds=1, scale=0.3), told.append)
    assert any("left out: LoFTR needs" in line for line in told)
    page = write_runtime(tmp_path / "runtime.md", report, "robustmat bench runtime").read_text()
    assert "Left out, since packages or weights are missing: loftr." in page
    with pytest.raises(ConfigError, match="LoFTR needs"):  # somebody asked for it
        bench_runtime(RuntimeSettings(("loftr",), landmarks=3, rounds=1, scale=0.3))


def test_an_unknown_method_is_refused_before_anything_is_rendered() -> None:
    with pytest.raises(ConfigError, match=r"unknown method 'hardnett'.*hardnet"):
        bench_runtime(RuntimeSettings(("hardnett",)))
