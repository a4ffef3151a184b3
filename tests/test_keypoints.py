"""Keypoints of whole frames: they belong to their frame, count pixels as boxes do, and bear noise."""

import cv2
import numpy as np
import pytest

from robustmat.errors import ConfigError
from robustmat.features.keypoints import detect_keypoints, match_keypoints, no_keypoints, noise_level
from robustmat.types import Image


@pytest.fixture(scope="module")
def picture() -> Image:
    """Blobs of all sizes and grey levels, 200 x 400."""
    rng = np.random.default_rng(0)
    canvas = np.full((200, 420, 3), 120, np.uint8)
    for _ in range(250):
        center = (int(rng.integers(420)), int(rng.integers(200)))
        cv2.circle(canvas, center, int(rng.integers(2, 12)), rng.integers(0, 255, 3).tolist(), -1, cv2.LINE_AA)
    return cv2.GaussianBlur(canvas, (0, 0), 1.0)


def noisy(image: Image, deviation: float, seed: int) -> Image:
    shaken = image + np.random.default_rng(seed).normal(0, deviation, image.shape)
    return np.clip(np.rint(shaken), 0, 255).astype(np.uint8)


def test_matches_follow_the_picture(picture: Image) -> None:
    a, b = detect_keypoints(picture[:, :400]), detect_keypoints(picture[:, 20:])
    pairs, ratio = match_keypoints(a, b)
    shift = a["keypoint_place"][pairs[:, 0]] - b["keypoint_place"][pairs[:, 1]]
    assert len(pairs) > 50
    assert (np.abs(shift - (20, 0)).max(axis=1) < 1).mean() > 0.9
    assert (np.diff(ratio) >= 0).all()
    assert len(np.unique(pairs[:, 1])) == len(pairs)


def test_places_count_from_the_edges_of_pixels() -> None:
    image = np.full((64, 64, 3), 255, np.uint8)
    image[28:36, 28:36] = 0  # its middle is the corner between four pixels
    place = detect_keypoints(cv2.GaussianBlur(image, (0, 0), 2.0))["keypoint_place"]
    assert np.abs(place - 32).max(axis=1).min() < 0.15


@pytest.mark.parametrize("deviation", [3.0, 12.0, 30.0])
def test_noise_is_measured_on_the_picture_itself(picture: Image, deviation: float) -> None:
    grey = cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY).clip(100, 150)
    shaken = np.clip(grey + np.random.default_rng(1).normal(0, deviation, grey.shape), 0, 255).astype(np.uint8)
    assert noise_level(shaken) == pytest.approx(deviation, rel=0.25, abs=1)


def test_matches_survive_noise(picture: Image) -> None:
    a, b = (detect_keypoints(noisy(picture, 30, seed)) for seed in (1, 2))
    pairs, _ = match_keypoints(a, b)
    shift = a["keypoint_place"][pairs[:, 0]] - b["keypoint_place"][pairs[:, 1]]
    assert (np.abs(shift).max(axis=1) < 2).sum() > 30


def test_arrays_are_small_and_the_same_each_time(picture: Image) -> None:
    first, second = detect_keypoints(picture, most=100), detect_keypoints(picture, most=100)
    assert len(first["keypoint_place"]) <= 100
    assert first["keypoint_descriptor"].dtype == np.uint8
    for name, array in first.items():
        np.testing.assert_array_equal(array, second[name])


def test_empty_pictures_have_no_matches() -> None:
    empty = detect_keypoints(np.zeros((40, 60, 3), np.uint8))
    assert len(empty["keypoint_place"]) == 0
    assert {name: it.dtype for name, it in empty.items()} == {name: it.dtype for name, it in no_keypoints().items()}
    assert len(match_keypoints(empty, no_keypoints())[0]) == 0


def test_unknown_kind_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match="did you mean 'sift'"):
        detect_keypoints(np.zeros((40, 60, 3), np.uint8), kind="sitf")
