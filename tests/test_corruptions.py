"""The corruption report: mCE and mRR as their papers define them, counts that add up, nothing counted twice."""

import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import cv2
import numpy as np
import pytest
from typer.testing import CliRunner

from robustmat.checkpoints.load import load
from robustmat.cli import app
from robustmat.dataset.store import LandmarkDataset
from robustmat.errors import ConfigError
from robustmat.evaluation.evaluate import evaluate
from robustmat.perturb import PERTURBATIONS, parse, perturb_image, psnr
from robustmat.robustness import corruptions as module
from robustmat.robustness.corruption_page import color_of, scores_of, write_report
from robustmat.robustness.corruption_scores import summarize
from robustmat.robustness.corruptions import ALL, Condition, Count, conditions, measure_corruptions
from robustmat.simulation import build_town, drive_town
from robustmat.types import CATEGORIES
from small_world import drive, make_boards

CLEAN = Condition("clean", 0)


@pytest.fixture(scope="module")
def street() -> LandmarkDataset:
    return drive(make_boards(10, 0), name="street", frames=8)


def test_scores_are_those_of_imagenet_c_and_robodepth() -> None:
    """By hand: errors 0.5 + 0.7 over 0.6 + 0.8, and 0.3 + 0.3 over 0.4 + 0.2; shares of the clean 0.8."""
    own = {"clean": {0: 0.8}, "fog": {1: 0.5, 2: 0.3}, "snow": {1: 0.7, 2: 0.7}}
    reference = {"clean": {0: 0.9}, "fog": {1: 0.4, 2: 0.2}, "snow": {1: 0.6, 2: 0.8}}
    found = summarize(own, reference)
    assert found.corruption_error == pytest.approx({"fog": 1.2 / 1.4, "snow": 0.6 / 0.6})
    assert found.mce == pytest.approx((1.2 / 1.4 + 1.0) / 2)
    assert found.resilience == pytest.approx({"fog": 0.4 / 0.8, "snow": 0.7 / 0.8})
    assert found.mrr == pytest.approx((0.5 + 0.875) / 2)
    assert (found.clean, found.mean) == (0.8, pytest.approx(0.55))
    assert summarize(reference, reference).mce == pytest.approx(1)
    nothing = {"clean": {0: 0.0}, "fog": {1: 0.0, 2: 0.0}, "snow": {1: 0.0, 2: 0.0}}
    assert np.isnan(summarize(nothing, reference).mrr)
    perfect = {name: dict.fromkeys(row, 1.0) for name, row in reference.items()}
    assert np.isnan(summarize(own, perfect).mce)  # nobody errs: there is nothing to compare with


def test_every_named_corruption_is_asked_at_five_severities_and_clean_comes_first() -> None:
    asked = conditions()
    assert asked[0] == CLEAN
    assert len(asked) == 1 + 5 * len(PERTURBATIONS)
    assert str(Condition("paper", 3).perturbation) == "paper:16"
    assert str(Condition("snow", 5).perturbation) == "snow:5"
    with pytest.raises(ConfigError, match=r"unknown corruption 'snwo': choose from .*snow"):
        conditions(["snwo"])
    with pytest.raises(ConfigError, match="severities are 1 to 5, found 0, 6"):
        conditions(None, [0, 6])


def test_counts_are_those_of_evaluate_and_categories_add_up(street: LandmarkDataset, tmp_path: Path) -> None:
    matcher, condition = load("cross-correlation"), Condition("awgn", 4)
    found = measure_corruptions({"ncc": matcher}, [street], [CLEAN, condition], tmp_path, frame_pairs=500)
    for one in (CLEAN, condition):
        report, _ = evaluate(matcher, [street], one.perturbation, most_frame_pairs=500, resamples=1)
        counts = found["ncc"][one]
        assert counts[ALL].f1 == pytest.approx(report["match_f1"])
        for part in ("right", "wrong", "possible"):
            assert sum(getattr(counts[name], part) for name in CATEGORIES) == getattr(counts[ALL], part)
    assert found["ncc"][CLEAN][ALL].right > 0
    assert np.isnan(Count(0, 3, 0).f1)


def test_what_was_counted_is_not_counted_again(
    street: LandmarkDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[list[str], str]] = []
    original = module.embed_frames

    def watched(matchers: Any, truth: Any, views: Any, perturbation: Any, seed: int) -> Any:
        asked.append(([one.name for one in matchers], str(perturbation)))
        return original(matchers, truth, views, perturbation, seed)

    monkeypatch.setattr(module, "embed_frames", watched)
    wanted = [CLEAN, Condition("brightness", 2)]
    first = {"ncc": load("cross-correlation")}
    before = measure_corruptions(first, [street], wanted, tmp_path, frame_pairs=4)
    both = {**first, "same": load("same-class")}
    after = measure_corruptions(both, [street], wanted, tmp_path, frame_pairs=4)
    assert asked == [
        (["cross-correlation"], "clean"),
        (["cross-correlation"], "brightness:2"),
        (["same-class"], "clean"),
        (["same-class"], "brightness:2"),
    ]
    assert after["ncc"] == before["ncc"]
    measure_corruptions(first, [street], wanted[:1], tmp_path, frame_pairs=3)  # other frame pairs are another question
    assert len(asked) == 5


def test_the_page_says_what_the_counts_say(tmp_path: Path) -> None:
    kinds = {name: Count(2, 0, 4) for name in CATEGORIES} | {"window": Count()}
    good, poor = {**kinds, ALL: Count(8, 0, 10)}, {**kinds, ALL: Count(4, 2, 10)}
    fog = [Condition("fog", severity) for severity in (1, 2)]
    measured = {"ours": {CLEAN: good, **dict.fromkeys(fog, good)}, "theirs": {CLEAN: good, **dict.fromkeys(fog, poor)}}
    page = write_report(tmp_path, measured, "theirs", ["street"], {"frame_pairs": 5, "seed": 0}, "robustmat ...")
    text = page.read_text()
    assert scores_of(measured["ours"])["fog"] == pytest.approx({1: 16 / 18, 2: 16 / 18})
    assert "| ours | 0.889 | 0.889 | 1.000 | 0.222 |" in text  # error 1/9 over 1/2
    assert "| theirs (reference) | 0.889 | 0.500 | 0.562 | 1.000 |" in text
    assert "window" not in text  # there are none
    kept = json.loads((tmp_path / "robustness.json").read_text())
    assert kept["methods"]["theirs"]["counts"]["fog:2"][ALL] == [4, 2, 10]
    picture = cv2.imread(str(tmp_path / "robustness.png"))
    assert picture is not None
    assert min(picture.shape[:2]) > 80
    assert color_of(0.0) != color_of(0.5) != color_of(1.0)


def test_the_command_writes_the_report_and_refuses_what_it_cannot_do(
    street: LandmarkDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("robustmat.dataset.store.open_dataset", lambda path: street)
    given = ["robustness", "--data", "street", "--methods", "best=cross-correlation,same-class"]
    more = ["--corruptions", "fog", "--severities", "2", "--frame-pairs", "3", "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(app, [*given, *more], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert "| same-class (reference) |" in (tmp_path / "out" / "robustness.md").read_text()
    with pytest.raises(ConfigError, match="--reference root-sift is not one of --methods: best, same-class"):
        CliRunner().invoke(app, [*given, *more, "--reference", "root-sift"], catch_exceptions=False)


@pytest.fixture
def oracle(monkeypatch: pytest.MonkeyPatch) -> Any:
    """`imagecorruptions`, ImageNet-C's own code; it compiles two loops with numba, which need not be compiled here."""
    if "numba" not in sys.modules:
        stand_in: Any = ModuleType("numba")
        stand_in.njit = lambda *given, **_: given[0] if given and callable(given[0]) else lambda function: function
        stand_in.prange = range
        monkeypatch.setitem(sys.modules, "numba", stand_in)
    pytest.importorskip("imagecorruptions", reason="pip install --no-deps imagecorruptions-imaug imaug")
    from imagecorruptions import corrupt

    def apply(image: np.ndarray, name: str, severity: int) -> np.ndarray:
        np.random.seed(0)  # noqa: NPY002 -- the library draws from numpy's global state
        return np.asarray(corrupt(image, corruption_name=name, severity=severity)).astype(np.uint8)

    return apply


SHARED = {  # ours -> ImageNet-C's
    "brightness": "brightness",
    "fog": "fog",
    "motion_blur": "motion_blur",
    "saturation": "saturate",
    "snow": "snow",
    "spatter": "spatter",
}


@pytest.mark.slow
def test_corruptions_change_images_as_imagenet_cs_do(oracle: Any) -> None:
    """The same character. Saturation goes either way in both; snow, blur and saturation are milder here."""
    image = np.ascontiguousarray(drive_town(build_town(2), 1, start=60.0).frames[0].image[:320, :640])

    def grey(pixels: np.ndarray) -> np.ndarray:
        return cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY).astype(np.float64)

    def colourfulness(pixels: np.ndarray) -> float:
        return float(np.mean(pixels.max(axis=2).astype(float) - pixels.min(axis=2)))

    def sharpness(pixels: np.ndarray) -> float:
        return float(np.var(cv2.Laplacian(grey(pixels), cv2.CV_64F)))

    for name, theirs in SHARED.items():
        ours = [perturb_image(image, parse(f"{name}:{severity}"), 0, "frame") for severity in range(1, 6)]
        others = [oracle(image, theirs, severity) for severity in range(1, 6)]
        strength = [psnr(image, one) for one in ours]
        assert all(np.diff(strength) < 0), name  # every severity is stronger than the one before
        if name in ("motion_blur", "saturation", "snow"):
            assert np.mean(strength) > np.mean([psnr(image, one) for one in others]), name
        for mine, other in ((ours[2], others[2]), (ours[4], others[4])):
            both = (mine, other)
            if name in ("brightness", "snow"):
                assert all(one.mean() > image.mean() + 5 for one in both), name
            if name == "fog":
                assert all(grey(one).std() < 0.95 * grey(image).std() for one in both)
            if name == "motion_blur":
                assert all(sharpness(one) < 0.6 * sharpness(image) for one in both)
            if name == "saturation":
                assert all(abs(colourfulness(one) - colourfulness(image)) > 5 for one in both)
