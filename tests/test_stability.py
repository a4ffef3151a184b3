"""Stability: difference norms of clean and perturbed landmarks, and what they are compared with."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from models_for_tests import small, untrained
from robustmat.checkpoints.store import save_checkpoint
from robustmat.cli import app
from robustmat.dataset.store import write_dataset
from robustmat.errors import ConfigError
from robustmat.perturb import parse
from robustmat.robustness.stability import (
    DESCRIPTOR,
    EVOLVED,
    GRAPH,
    MAPS,
    VERTEX,
    Norms,
    Stability,
    difference_norms,
    measure_stability,
)
from robustmat.robustness.stability_page import flow_sentences, keeps, to_json
from robustmat.robustness.stability_plot import draw_noise_to_signal
from small_world import drive, make_boards

LEVELS = [parse("awgn:19"), parse("awgn:13")]


def contractive(folder: Path) -> Path:
    model = small(graph={"field": "contractive"})
    return save_checkpoint(folder / "contractive", untrained(model))


def test_norms_agree_with_numbers_worked_out_by_hand() -> None:
    clean = np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 3.0]])
    noisy = clean + np.array([[1.0, 0.0], [-3.0, 0.0], [0.0, 0.0]])
    norms = difference_norms(clean, noisy, ["pole", "pole", "window"])
    np.testing.assert_allclose(norms.absolute, [1, 3, 0])
    np.testing.assert_allclose(norms.relative[1:], [0.75, 0])
    np.testing.assert_allclose(norms.to_signal, [0.25, 0.75, np.nan])  # the window has no other window to be told from
    np.testing.assert_allclose(norms.found, [1, 0, np.nan])  # the second pole came nearer to the first


def test_embeddings_that_are_the_same_cannot_be_told_apart_by_any_noise(tmp_path: Path) -> None:
    """Graphs of the same few landmarks: their median distance is float32's rounding, and no number for a figure."""
    clean = np.ones((3, 4)) + 1e-8 * np.arange(12).reshape(3, 4)
    norms = difference_norms(clean, clean + 0.1, ["pole"] * 3)
    assert np.isinf(norms.to_signal).all()
    measured = Stability("same", {(GRAPH, "paper:16"): norms}, {})
    assert to_json([measured])[0]["norms"][0]["to_signal"] is None
    assert Image.open(draw_noise_to_signal([measured], tmp_path / "same.png")).width > 400


def test_more_noise_moves_every_stage_farther_and_the_proven_bound_holds(tmp_path: Path) -> None:
    data = [drive(make_boards(12, 0), frames=6)]
    measured = measure_stability(str(contractive(tmp_path)), data, LEVELS, frames=4)
    for stage in (MAPS, EVOLVED, VERTEX, GRAPH):
        little, much = (measured.norms[stage, str(level)].absolute for level in LEVELS)
        assert len(little) == len(much) > 5
        assert np.median(little) < np.median(much)
    assert set(measured.bounds) == {(MAPS, EVOLVED), ("Z(0)", "Z(T_g)")}
    assert keeps(measured)


def test_a_bound_that_a_point_breaks_is_noticed() -> None:
    norms = {name: Norms(np.array([value]), *(np.ones(1),) * 3) for name, value in ((MAPS, 1.0), (EVOLVED, 0.7))}
    by_level = {(stage, "awgn:13"): values for stage, values in norms.items()}
    assert keeps(Stability("fine", by_level, {(MAPS, EVOLVED): 0.75}))
    assert not keeps(Stability("broken", by_level, {(MAPS, EVOLVED): 0.6}))


def test_a_flow_that_changes_nothing_is_told_from_one_that_helps_or_hurts() -> None:
    def model(after: float) -> Stability:
        ones = np.ones(3)
        norms = {(MAPS, "awgn:13"): Norms(ones, ones, 0.4 * ones, ones)}
        return Stability("m", norms | {(EVOLVED, "awgn:13"): Norms(ones, ones, after * ones, ones)}, {})

    said = [flow_sentences([model(after)], ["awgn:13"])[0] for after in (0.41, 0.2, 0.8)]
    assert "leaves noise against signal as it was" in said[0]
    assert "lowers noise" in said[1]
    assert "raises noise" in said[2]


def test_any_method_can_be_measured_by_its_descriptors() -> None:
    measured = measure_stability("root-sift", [drive(make_boards(12, 0), frames=4)], LEVELS[:1], frames=2)
    assert measured.stages == (DESCRIPTOR,)


def test_a_model_without_an_ode_has_no_state_after_it() -> None:
    measured = measure_stability("untrained:street", [drive(make_boards(12, 0), frames=4)], LEVELS[:1], frames=2)
    assert MAPS in measured.stages
    assert EVOLVED not in measured.stages
    assert not flow_sentences([measured], [str(LEVELS[0])])


def test_an_unknown_untrained_model_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"untrained:streat.*street"):
        measure_stability("untrained:streat", [drive(make_boards(12, 0), frames=2)], LEVELS)


def test_the_command_writes_a_page_whose_figures_exist(tmp_path: Path) -> None:
    data = drive(make_boards(12, 0), frames=4)
    path = write_dataset(tmp_path / "data", "data", "town", ((frame, None) for frame in data.frames), source={})
    options = ["--models", str(contractive(tmp_path)), "--perturb", "awgn:19,awgn:13", "--frames", "2"]
    options += ["--out", str(tmp_path / "page"), "--json", str(tmp_path / "found.json")]
    result = CliRunner().invoke(app, ["stability", str(path), *options])
    assert result.exit_code == 0, result.output
    page = (tmp_path / "page" / "stability.md").read_text()
    figures = [line.split("(")[-1].rstrip(")") for line in page.splitlines() if line.startswith("![")]
    assert len(figures) == 3
    for figure in figures:
        assert Image.open(tmp_path / "page" / figure).width > 400
    assert json.loads((tmp_path / "found.json").read_text())[0]["norms"]
