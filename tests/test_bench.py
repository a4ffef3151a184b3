"""Benchmarks: each run in a process of its own, seconds divided into parts, memory that is really the run's."""

import json

import numpy as np
import PIL.Image
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from robustmat.bench import runs
from robustmat.bench.drives import bench_prepare
from robustmat.bench.plot import draw_report, ticks
from robustmat.bench.runs import Clock, Report, Run, Spread, in_fresh_process, peak_megabytes
from robustmat.cli.bench import app
from robustmat.errors import ConfigError, DataError, InputError


class Hands:
    """A clock that stands still until it is moved."""

    def __init__(self):
        self.time = 0.0

    def __call__(self):
        return self.time


@pytest.fixture
def hands(monkeypatch):
    made = Hands()
    monkeypatch.setitem(runs.CLOCKS, "wall", made)
    return made


def test_seconds_of_a_frame_are_divided_into_parts(hands):
    clock = Clock()

    def load():
        hands.time += 2.0
        return "pixels"

    read = clock.timed(load, "decode")
    for frame in clock.walk([1.0, 3.0, 5.0]):
        assert read() == "pixels"
        hands.time += frame
    parts = clock.per_frame(rest="compute")
    assert parts["all"].median == pytest.approx(5.0)
    assert parts["decode"] == Spread(2.0, 2.0, 2.0)
    assert parts["compute"].median == pytest.approx(3.0)
    assert parts["compute"].low == pytest.approx(1.4)  # a tenth of the way from 1 to 5


def test_two_walks_over_the_same_frames_add_up(hands):
    clock = Clock()
    for _ in range(2):
        for seconds in clock.walk([1.0, 2.0]):
            hands.time += seconds
    assert clock.parts["all"] == {0: 2.0, 1: 4.0}


def made(*rows):
    runs = [Run(n, seconds, seconds, megabytes, {"all": Spread(1, 1, 1)}) for n, seconds, megabytes in rows]
    return Report("prepare", tuple(runs), {"clock": "wall"})


def test_what_one_more_frame_costs_leaves_the_start_out():
    report = made((50, 10 + 50 * 0.3, 300), (100, 10 + 100 * 0.3, 340), (200, 10 + 200 * 0.3, 345))
    assert report.seconds_a_frame == pytest.approx(0.3)
    assert report.megabytes_a_frame == pytest.approx(0.05)  # of the two longest: a start-up phase may fill caches
    assert made((50, 1.0, 2.0)).seconds_a_frame is None


def test_memory_of_a_fresh_process_is_its_own():
    mine = np.ones(600 * 2**20, np.uint8)
    assert peak_megabytes() > 600
    assert 10 < in_fresh_process(peak_megabytes) < 500
    assert mine[-1] == 1


def fail():
    raise DataError("scan 7 is broken")


def test_what_goes_wrong_in_a_fresh_process_is_told():
    with pytest.raises(DataError, match="scan 7 is broken"):
        in_fresh_process(fail)


@pytest.mark.slow
def test_command_measures_every_length_and_writes_numbers_and_a_picture(tmp_path):
    numbers, picture = tmp_path / "bench.json", tmp_path / "bench.png"
    arguments = ["prepare", "--frames", "2,4", "--scale", "0.2", "--json", str(numbers), "--plot", str(picture)]
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert result.exit_code == 0
    content = json.loads(numbers.read_text())
    assert [run["frames"] for run in content["runs"]] == [2, 4]
    for run in content["runs"]:
        parts = run["per_frame"]
        assert set(parts) == {"all", "decode", "compute"}
        assert 0 < parts["decode"]["median"] < parts["all"]["median"] <= run["seconds"]
        assert run["peak_megabytes"] > 20
    assert PIL.Image.open(picture).size == (1120, 380)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (["--frames", "50;100"], InputError, "50,100,200"),
        (["--frames", "0,5"], ConfigError, "found \\[0, 5\\]"),
        (["--clock", "sun"], ConfigError, "choose one of wall, processor"),
        (["--plot", "x.pdf"], InputError, "x.pdf"),
    ],
)
def test_wrong_arguments_are_told_before_anything_is_measured(arguments, error, message):
    for verb in ("prepare", "simulate"):
        with pytest.raises(error, match=message):
            CliRunner().invoke(app, [verb, *arguments], catch_exceptions=False)


def test_no_lengths_are_refused():
    with pytest.raises(ConfigError):
        bench_prepare([])


@given(st.floats(1e-6, 1e9))
def test_marks_of_a_diagram_are_round_few_and_reach_past_the_highest(highest):
    step, end = ticks(highest)
    assert end >= highest
    assert end / step <= 8
    digit = float(f"{step:e}".split("e")[0])
    assert min(abs(digit - it) for it in (1, 2, 5)) < 1e-6


def test_a_higher_value_stands_higher_in_the_picture(tmp_path):
    path = draw_report(made((50, 5.0, 400.0), (200, 20.0, 100.0)), tmp_path / "plot.png")
    pixels = np.asarray(PIL.Image.open(path)).astype(int)
    halves = [(pixels[:, :560], (31, 97, 168)), (pixels[:, 560:], (178, 76, 24))]
    rises = []
    for half, color in halves:
        rows, columns = np.nonzero(np.abs(half - color).sum(2) < 20)
        rises.append(rows[columns < 250].mean() - rows[columns > 400].mean())
    assert rises[0] > 50
    assert rises[1] < -50
