"""Descriptors that come with OpenCV, as reference rows."""

import cv2
import numpy as np
import pytest

from robustmat.fitting.classic import CLASSIC, CROP, ClassicDescriptor, classic_descriptors
from robustmat.fitting.references import make_references
from robustmat.types import Frame, Image, Landmark
from small_world import drive, make_boards

BOXES = ((20.0, 20.0, 60.0, 70.0), (120.0, 30.0, 150.0, 90.0), (200.0, 10.0, 290.0, 40.0))


def frame(seed: int, noise: float = 0.0, boxes: tuple[tuple[float, float, float, float], ...] = BOXES) -> Frame:
    rng = np.random.default_rng(seed)
    coarse = rng.integers(0, 256, (14, 40, 3), dtype=np.uint8)
    image: Image = cv2.resize(coarse, (320, 112), interpolation=cv2.INTER_CUBIC)
    noisy = np.random.default_rng(9).normal(0, noise, image.shape) if noise else 0
    shown = np.clip(image + noisy, 0, 255).astype(np.uint8)
    return Frame("a", lambda: shown, tuple(Landmark(it, "traffic_sign") for it in boxes))


@pytest.mark.parametrize("name", CLASSIC)
def test_a_landmark_is_most_like_itself_and_scores_are_symmetric(name: str) -> None:
    matcher = ClassicDescriptor(name, 0.5, -np.inf)
    a, b = matcher.embed(frame(0)), matcher.embed(frame(0, noise=6))
    score = matcher.score(a, b)
    assert score.shape == (3, 3)
    np.testing.assert_allclose(score, matcher.score(b, a).T)
    assert (score.argmax(axis=1) == np.arange(3)).all()
    assert [(it.a, it.b) for it in matcher.match(a, b).matches] == [(0, 0), (1, 1), (2, 2)]
    np.testing.assert_allclose(np.diag(matcher.score(a, a)), 1, atol=1e-6)
    assert matcher.score(a, matcher.embed(frame(1))).max() < 0.98


@pytest.mark.parametrize("name", CLASSIC)
def test_an_empty_frame_is_no_trouble(name: str) -> None:
    matcher = ClassicDescriptor(name, 0.5, 0.5)
    nothing, something = matcher.embed(frame(0, boxes=())), matcher.embed(frame(0))
    assert matcher.match(nothing, something).score.shape == (0, 3)


def test_comparisons_equal_opencvs_own() -> None:
    described = {name: ClassicDescriptor(name, 0.5, 0.5).embed(frame(2)).values for name in CLASSIC}
    bits = described["boost-desc"]
    expected = 1 - cv2.norm(bits[0], bits[1], cv2.NORM_HAMMING) / (8 * bits.shape[1])
    assert CLASSIC["boost-desc"].compare(bits[:1], bits[1:2])[0, 0] == pytest.approx(expected)
    vgg = described["vgg"]
    expected = 1 / (1 + cv2.norm(vgg[0], vgg[1], cv2.NORM_L2))
    assert CLASSIC["vgg"].compare(vgg[:1], vgg[1:2])[0, 0] == pytest.approx(expected, rel=1e-5)
    root = described["root-sift"]
    np.testing.assert_allclose(np.linalg.norm(root, axis=1), 1, rtol=1e-5)  # square roots of shares
    hellinger = 1 - np.sum((root[0] - root[1]) ** 2) / 2
    assert CLASSIC["root-sift"].compare(root[:1], root[1:2])[0, 0] == pytest.approx(hellinger)


@pytest.mark.parametrize("name", CLASSIC)
def test_the_keypoint_covers_the_crop_and_not_its_middle_alone(name: str) -> None:
    """Changing the outer eighth of a crop changes its description; so does changing the middle."""
    kind = CLASSIC[name]
    extractor = kind.create()
    keypoint = cv2.KeyPoint((CROP.size - 1) / 2, (CROP.size - 1) / 2, CROP.size / kind.reach, 0.0)
    plain = cv2.resize(np.random.default_rng(3).integers(0, 256, (8, 8), dtype=np.uint8), (CROP.size, CROP.size))

    def described(image: np.ndarray) -> np.ndarray:
        return kind.prepare(extractor.compute(image, [keypoint])[1])

    for rows in (slice(4, 12), slice(28, 36)):
        changed = plain.copy()
        changed[rows] = 255 - changed[rows]
        assert kind.compare(described(plain), described(changed))[0, 0] < 0.999


def test_reference_rows_fit_their_thresholds_on_the_training_side() -> None:
    street = drive(make_boards(14, 3), name="training", world="training")
    fitted = {row.name: row for row in make_references([street], negatives="random").rows}
    plain = {row.name: row for row in make_references().rows}
    assert [*fitted][-4:] == ["cross-correlation", *CLASSIC]
    for row in classic_descriptors():
        assert plain[row.name].threshold == row.threshold
        assert fitted[row.name].threshold != row.threshold
        assert fitted[row.name].match_threshold != fitted[row.name].threshold
