"""Frames and match results as a Python user meets them: short, picklable, convertible."""

import doctest
import importlib
import io
import json
import pickle
import sys
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import PIL.Image
import pytest

import robustmat
from layouts_for_tests import LAYOUTS, short_drive
from robustmat.dataset.store import open_dataset, write_dataset
from robustmat.errors import InputError
from robustmat.perturb import parse
from robustmat.perturb.named import perturb_frame
from robustmat.simulation import build_town, drive_town, kitti_camera
from robustmat.types import Camera, Frame, Landmark, Match, MatchResult, to_rgb


def picture(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (60, 90, 3)).astype(np.uint8)


def frame(name: str = "a.png", seed: int = 0) -> Frame:
    kinds = ("pole", "traffic_sign", "window")
    marks = tuple(Landmark((20.0 * i, 5, 20.0 * i + 8, 40), kind, identity=i) for i, kind in enumerate(kinds))
    return Frame.from_array(picture(seed), marks, name=name)


def result(**changes: object) -> MatchResult:
    a, b = frame(), frame("b.png", 1)
    known = (a.landmarks, b.landmarks, (Match(0, 0, 1.5, 0.875), Match(2, 1, 1.25, 0.5)), np.zeros((3, 3)))
    made = MatchResult(*known, np.zeros((3, 3)), 1.0, a, b, checkpoint="street", evidence="pair", min_probability=0.5)
    return replace(made, **changes)


@pytest.mark.parametrize("module", ["types", "sources.boxes", "sources.cameras", "landmarks.reading"])
def test_the_examples_in_docstrings_run(module: str) -> None:
    found = doctest.testmod(importlib.import_module(f"robustmat.{module}"))
    assert found.attempted
    assert not found.failed


def test_a_frame_is_built_from_pixels_of_every_kind() -> None:
    grey, rgb = picture()[:, :, 0], picture()
    rgba = np.dstack([rgb, np.full((60, 90), 7, np.uint8)])
    assert (to_rgb(grey) == grey[:, :, None]).all()
    assert (to_rgb(grey[:, :, None]) == grey[:, :, None]).all()
    assert (to_rgb(rgb) == rgb).all()
    assert (to_rgb(rgba) == rgb).all()
    for wrong in (rgb / 255.0, rgb.astype(np.uint16), rgb[0, 0], np.zeros((5, 5, 2), np.uint8)):
        with pytest.raises(InputError, match=r"pixels must be"):
            Frame.from_array(wrong)
    built = Frame.from_array(rgba, [Landmark((1, 2, 3, 4), "pole")], name="mine", camera=Camera(np.eye(3), 90, 60))
    assert repr(built) == "Frame('mine', 1 landmark)"
    assert (built.with_image(grey).image[:, :, 2] == grey).all()


def test_a_result_shows_itself_in_one_short_line_and_in_a_notebook() -> None:
    shown = repr(result())
    assert shown == "MatchResult(2 matches: 1 pole, 1 window; 1 + 1 landmarks unmatched; by street)"
    png = result()._repr_png_()
    assert png is not None
    assert PIL.Image.open(io.BytesIO(png)).width >= 90
    assert result(frame_a=None)._repr_png_() is None
    empty = result(matches=())
    assert repr(empty) == "MatchResult(0 matches; 3 + 3 landmarks unmatched; by street)"


def test_a_result_gives_rows_and_the_json_contract() -> None:
    rows = result().to_rows()
    assert [(row["a"], row["b"], row["category_a"], row["category_b"]) for row in rows] == [
        (0, 0, "pole", "pole"),
        (2, 1, "window", "traffic_sign"),
    ]
    assert rows[1]["box_b"] == (20.0, 5, 28.0, 40)
    told = json.loads(json.dumps(result().to_json(), allow_nan=False))
    assert (told["a"]["image"], told["b"]["image"]) == ("a.png", "b.png")
    assert told["a"]["landmarks"][1] == {"box": [20, 5, 28, 40], "category": "traffic_sign"}
    assert told["matches"][0] == {"a": 0, "b": 0, "score": 1.5, "probability": 0.875}
    assert (told["unmatched_a"], told["unmatched_b"]) == ([1], [2])
    assert (told["checkpoint"], told["evidence"], told["min_probability"]) == ("street", "pair", 0.5)
    assert (told["threshold"], told["version"]) == (1.0, robustmat.__version__)
    assert result(frame_a=None, name_a="kept.png").to_json()["a"]["image"] == "kept.png"


def test_pandas_is_asked_for_only_where_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(InputError, match="pip install pandas"):
        result().to_pandas()


def test_pandas_gets_one_row_a_match() -> None:
    pandas = pytest.importorskip("pandas")
    table = result().to_pandas()
    assert isinstance(table, pandas.DataFrame)
    assert table["probability"].tolist() == [0.875, 0.5]


def test_correctness_is_known_where_both_identities_are() -> None:
    assert result().correct == (True, False)
    unknown = tuple(replace(mark, identity=None) for mark in result().landmarks_b)
    assert result(landmarks_b=unknown).correct == (None, None)


def test_frames_and_results_can_be_pickled(tmp_path: Path) -> None:
    cv2.imwrite(str(tmp_path / "a.png"), picture())
    read = robustmat.read_frame(tmp_path / "a.png", boxes=[((5, 5, 30, 50), "pole")])
    simulated = drive_town(build_town(3, 80.0), 1, camera=kitti_camera(0.2)).frames[0]
    write_dataset(tmp_path / "data", "drive", "town", [(frame("x"), tmp_path / "a.png")], source={})
    stored = open_dataset(tmp_path / "data").frames[0]
    for made in (read, frame(), perturb_frame(read, parse("awgn:16"), seed=1), simulated, stored):
        again = pickle.loads(pickle.dumps(made))
        assert again.name == made.name
        assert again.landmarks == made.landmarks
        assert (again.image == made.image).all()
    again = pickle.loads(pickle.dumps(result()))
    assert again.matches == result().matches
    assert again._repr_png_() == result()._repr_png_()


def test_an_embedded_frame_can_be_pickled_and_its_results_know_how_they_were_made() -> None:
    matcher = robustmat.load("street", runtime="onnx")
    embedded = matcher.embed(frame())
    again = pickle.loads(pickle.dumps(embedded))
    made = matcher.match(again, replace(embedded, frame=None), min_probability=0.0)
    assert (made.score == matcher.match(embedded, embedded).score).all()
    told = made.to_json()
    assert (told["checkpoint"], told["evidence"], told["min_probability"]) == ("street", matcher.evidence, 0.0)
    assert (told["a"]["image"], told["b"]["image"]) == ("a.png", "a.png")
    assert told["threshold"] is None  # the probability alone decided


@pytest.mark.parametrize("name", ["kitti-raw", "kitti-odometry", "oxford", "oxford, raw scans", "boreas", "folder"])
def test_frames_of_every_layout_can_be_pickled(tmp_path: Path, name: str) -> None:
    layout = LAYOUTS[name]
    made = layout.open(layout.write(short_drive(), tmp_path / "town")).frames[1]
    again = pickle.loads(pickle.dumps(made))
    assert (again.image == made.image).all()
    assert (again.semantics == made.semantics).all()
    assert (again.points_lidar == made.points_lidar).all()
