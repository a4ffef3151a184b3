"""Denoising: frames become cleaner, keep their shape, and every matcher and verb can be shown them."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch

from robustmat.checkpoints.load import load
from robustmat.cli.denoise import DEFAULT, _is_value
from robustmat.denoising.crops import draw_crops, perturbed_copies
from robustmat.denoising.export import TOLERANCE, largest_difference
from robustmat.denoising.frames import DenoisedMatcher, Remembering
from robustmat.denoising.measure import draw_sheet, measure_denoisers
from robustmat.denoising.network import Sgn, SgnConfig
from robustmat.denoising.nlm import NonLocalMeans
from robustmat.denoising.registry import DEFAULT_DENOISER, DENOISERS, SHIPPED, load_denoiser
from robustmat.denoising.runtime import SgnDenoiser
from robustmat.denoising.weights import load_network
from robustmat.errors import ConfigError, InputError, RobustMatError, WeightsError
from robustmat.perturb import parse, perturb_image, psnr
from robustmat.pipeline import read_frame
from robustmat.simulation import build_town, drive_town
from robustmat.sources.images import write_image
from robustmat.training.denoising import DenoiserTrainingConfig, Pictures, load_denoiser_config, train_denoiser
from robustmat.types import Camera, Frame, Image, Landmark


def street(height: int = 96, width: int = 160, seed: int = 3) -> Image:
    """Flat areas and edges: what frames are made of, small."""
    rng = np.random.default_rng(seed)
    canvas = np.full((height, width, 3), 140, np.uint8)
    for _ in range(14):
        x, y = int(rng.integers(width)), int(rng.integers(height))
        corner = (x + int(rng.integers(10, 60)), y + int(rng.integers(10, 60)))
        cv2.rectangle(canvas, (x, y), corner, rng.integers(20, 235, 3).tolist(), -1)
    return canvas


def noisy(image: Image, name: str = "awgn:16") -> Image:
    return perturb_image(image, parse(name), 0, "frame")


@pytest.mark.parametrize("name", DENOISERS)
def test_noise_is_taken_off(name: str) -> None:
    clean = street()
    shown = noisy(clean)
    kept = shown.copy()
    assert psnr(clean, load_denoiser(name).denoise(shown)) > psnr(clean, shown) + 4
    assert (shown == kept).all()  # the input is not changed


@pytest.mark.parametrize("name", DENOISERS)
@pytest.mark.parametrize(("height", "width"), [(61, 83), (8, 8), (5, 40), (1, 1)])
def test_any_size_comes_back_as_it_was(name: str, height: int, width: int) -> None:
    image = np.random.default_rng(0).integers(0, 256, (height, width, 3), np.uint8)
    found = load_denoiser(name).denoise(image)
    assert (found.shape, found.dtype) == (image.shape, np.uint8)


@pytest.mark.parametrize("name", DENOISERS)
def test_grey_frames_stay_grey_and_become_cleaner(name: str) -> None:
    clean = np.repeat(street()[:, :, :1], 3, axis=2)
    shown = np.repeat(noisy(clean)[:, :, :1], 3, axis=2)  # a grey camera's noise is the same in all channels
    found = load_denoiser(name).denoise(shown)
    assert (found == found[:, :, :1]).all()
    assert psnr(clean, found) > psnr(clean, shown) + 3


def test_the_default_is_registered_and_a_wrong_name_is_answered_with_the_nearest(tmp_path: Path) -> None:
    assert DEFAULT == DEFAULT_DENOISER
    assert DEFAULT in DENOISERS
    with pytest.raises(ConfigError, match=r"unknown denoiser 'nml' \(did you mean 'nlm'"):
        load_denoiser("nml")
    with pytest.raises(WeightsError, match="no denoiser in"):
        load_denoiser(tmp_path)


def test_a_denoised_matcher_sees_denoised_pixels_and_refuses_frames_with_their_noise() -> None:
    marks = [Landmark((10.0, 10.0, 60.0, 60.0), "pole"), Landmark((90.0, 20.0, 140.0, 80.0), "pole")]
    frame = Frame.from_array(noisy(street()), marks, name="a")
    plain, denoiser = load("cross-correlation"), Remembering(load_denoiser("nlm"))
    matcher = DenoisedMatcher(plain, denoiser)
    wanted = plain.embed(frame.with_image(load_denoiser("nlm").denoise(frame.image)))
    found = matcher.embed(frame)
    for name, array in wanted.arrays.items():
        np.testing.assert_array_equal(found.arrays[name], array)
    np.testing.assert_array_equal(matcher.score(found, found), plain.score(wanted, wanted))
    with pytest.raises(InputError, match="embedded by another model"):
        matcher.match(plain.embed(frame), found)


def test_a_remembering_denoiser_works_once_for_the_same_image() -> None:
    class Counting:
        name = fingerprint = "counting"
        calls = 0

        def denoise(self, image: Image) -> Image:
            self.calls += 1
            return image

    counting = Counting()
    denoiser = Remembering(counting)
    for image in (street(), street(), street(seed=4), street()):
        np.testing.assert_array_equal(denoiser.denoise(image), image)
    assert counting.calls == 3  # it keeps one result
    counting.calls, keeps_two = 0, Remembering(counting, kept=2)
    for seed in (4, 5, 4, 6, 4, 5):  # 4 is used in between, so that 5 is the oldest when 6 comes
        keeps_two.denoise(street(seed=seed))
    assert counting.calls == 4


def test_read_frame_denoises_before_the_detector_looks() -> None:
    class Detector:
        name = "curious"

        def detect(self, frame: Frame) -> tuple[Landmark, ...]:
            self.saw = frame.image
            return (Landmark((1.0, 1.0, 9.0, 9.0), "pole"),)

    detector, shown = Detector(), noisy(street())
    frame = read_frame(shown, detector=detector, denoiser="nlm")
    np.testing.assert_array_equal(detector.saw, frame.image)
    assert psnr(street(), frame.image) > psnr(street(), shown) + 4


def test_crops_repeat_by_seed_fit_their_clean_side_and_some_are_grey() -> None:
    frames = [Frame.from_array(street(seed=seed), name=str(seed)) for seed in range(4)]
    bank = perturbed_copies(frames, ["clean"], (12.0, 20.0), 2, seed=0)
    noise = [psnr(clean, copy) for clean, copies in zip(bank.clean, bank.noisy, strict=True) for copy in copies]
    assert [one == float("inf") for one in noise] == [True, False] * 4
    assert all(11.5 < one < 20.5 for one in noise[1::2])
    first, again = (draw_crops(bank, 20, 32, 0.5, np.random.default_rng(1)) for _ in range(2))
    np.testing.assert_array_equal(first[0], again[0])
    shown, clean = first
    assert shown.shape == clean.shape == (20, 3, 32, 32)
    grey = (shown == shown[:, :1]).all(axis=(1, 2, 3))
    assert 3 < grey.sum() < 17
    untouched = (shown == clean).all(axis=(1, 2, 3))
    assert 3 < untouched.sum() < 17  # clean copies, crop on crop


def test_the_option_takes_what_follows_only_if_it_names_a_denoiser(tmp_path: Path) -> None:
    (tmp_path / "a.png").touch()
    (tmp_path / "mine").mkdir()
    assert not _is_value(str(tmp_path / "a.png"))  # match --denoise a.png b.png
    assert not _is_value(str(tmp_path / "mine"))
    assert not _is_value("--json")
    assert _is_value("nlm")
    assert _is_value("nml")  # to be refused by name
    (tmp_path / "mine" / "model.json").touch()
    assert _is_value(str(tmp_path / "mine"))


def test_measuring_tells_psnr_before_and_after_and_draws_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frames, kinds = [Frame.from_array(street(), name="a")], [parse("awgn:16"), parse("awgn:13")]
    gains = measure_denoisers([load_denoiser("nlm")], frames, kinds)
    assert [gain.perturbation for gain in gains] == ["awgn:16", "awgn:13"]
    for gain, wanted in zip(gains, (16, 13), strict=True):
        assert gain.before == pytest.approx(wanted, abs=0.1)
        assert gain.after == pytest.approx(gain.before + gain.gain)
        assert gain.gain == pytest.approx(gain.least_gain)  # one frame
        assert json.loads(json.dumps(gain.to_json()))["gain"] > 4
    idle = NonLocalMeans()
    monkeypatch.setattr(idle, "denoise", lambda image: image)
    both = measure_denoisers([NonLocalMeans(), idle], frames, kinds[:1])  # of one name, and yet two
    assert [(gain.denoiser, gain.frames) for gain in both] == [("nlm", 1), ("nlm", 1)]
    assert both[0] == gains[0]
    assert both[1].gain == 0
    sheet = draw_sheet([load_denoiser("nlm")], frames[0].image, kinds, 0, "a")
    write_image(tmp_path / "sheet.png", sheet)
    assert sheet.shape[1] > 3 * 160


@pytest.fixture(scope="module")
def town() -> Image:
    """A frame of a town that nothing was trained on, by a small camera."""
    camera = Camera(np.array([[240.0, 0, 160], [0, 240.0, 60], [0, 0, 1]]), 320, 120)
    return drive_town(build_town(31), 1, start=40.0, camera=camera).frames[0].image


@pytest.mark.parametrize(("name", "gain"), [("paper:16", 3.0), ("awgn:16", 5.0), ("awgn:13", 6.0)])
def test_the_shipped_network_cleans_towns_it_never_saw(town: Image, name: str, gain: float) -> None:
    shown = noisy(town, name)
    assert psnr(town, load_denoiser("sgn").denoise(shown)) > psnr(town, shown) + gain


def test_the_shipped_network_leaves_a_clean_frame_nearly_as_it_is(town: Image) -> None:
    assert psnr(town, load_denoiser("sgn").denoise(town)) > 24


def test_the_exported_network_computes_what_torch_does() -> None:
    assert largest_difference(SHIPPED / "sgn", seed=1) <= TOLERANCE


def test_strips_give_what_the_whole_image_gives(town: Image) -> None:
    whole = SgnDenoiser(SHIPPED / "sgn").denoise(town)
    np.testing.assert_array_equal(SgnDenoiser(SHIPPED / "sgn", strip_pixels=320 * 24).denoise(town), whole)


def test_nothing_beyond_its_reach_counts_for_a_pixel() -> None:
    """What strips rely on, told by gradients, not by counting layers."""
    config = SgnConfig(widths=(4, 4, 4), blocks=(1, 1, 1))
    torch.manual_seed(0)
    network = Sgn(config)
    torch.nn.init.normal_(network.noise.weight)
    side = 2 * (config.reach // config.cell + 2) * config.cell
    image = torch.rand(1, 3, side, side, requires_grad=True)
    middle = side // 2
    network(image)[0, :, middle, middle].sum().backward()
    assert image.grad is not None
    rows = image.grad.abs().sum(dim=(0, 1, 3)).nonzero().flatten()
    assert middle - config.reach <= int(rows.min()) < int(rows.max()) <= middle + config.reach
    assert int(rows.max()) - middle > config.reach / 2  # and it does look far


def test_the_shipped_checkpoint_says_where_it_comes_from_and_stays_small() -> None:
    folder = SHIPPED / "sgn"
    header = json.loads((folder / "model.json").read_text())
    assert header["provenance"]["licence"] == "Apache-2.0"
    assert header["provenance"]["drives"] == ["towns"]
    assert (folder / "card.md").is_file()
    assert sum(path.stat().st_size for path in folder.iterdir()) < 3.2e6


def tiny(**changes: object) -> DenoiserTrainingConfig:
    values = {"steps": 4, "validate_every": 2, "crop": 16, "crops_per_step": 2, "perturbations": ["awgn:16"]}
    values |= {"validation_perturbation": "awgn:16", "white_noise": None}
    values |= {"model": {"widths": [4, 4], "blocks": [1, 1]}}
    return load_denoiser_config("sgn", {**values, **changes})


def test_a_denoiser_trains_in_the_common_loop_and_a_killed_run_resumes_to_the_same_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.set_num_threads(1)
    pictures = [Pictures("towns", tuple(Frame.from_array(street(seed=seed), name=str(seed)) for seed in range(3)))]
    train_denoiser(tiny(), pictures, [], tmp_path / "whole")
    drawn: list[object] = []

    class KilledError(Exception):
        pass

    def deadly(*given: object) -> object:
        drawn.append(given)
        if len(drawn) == 4:
            raise KilledError
        return draw_crops(*given)  # type: ignore[arg-type]

    monkeypatch.setattr("robustmat.training.denoising.draw_crops", deadly)
    with pytest.raises(KilledError):
        train_denoiser(tiny(), pictures, [], tmp_path / "cut")
    monkeypatch.undo()
    best = train_denoiser(tiny(), pictures, [], tmp_path / "cut", resume=True)
    for folder in ("best", "final"):
        weights = [(tmp_path / run / folder / "model.safetensors").read_bytes() for run in ("whole", "cut")]
        assert weights[0] == weights[1]
    assert load_denoiser(tmp_path / "cut").denoise(street()).shape == street().shape  # a run stands for its best
    assert load_network(best).config.widths == (4, 4)
    assert json.loads((best / "model.json").read_text())["provenance"]["drives"] == ["towns"]


def damaged(tmp_path: Path, name: str, change: Callable[[bytes], bytes]) -> Path:
    """A copy of the shipped denoiser with one file changed."""
    folder = Path(shutil.copytree(SHIPPED / "sgn", tmp_path / "sgn"))
    (folder / name).write_bytes(change((folder / name).read_bytes()))
    return folder


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("model.onnx", lambda content: content[:-100], "is broken or belongs to other weights"),
        ("model.onnx", lambda _: b"", "is broken or belongs to other weights"),
        ("model.json", lambda content: content.replace(b'"cell": 8', b'"cell": 0'), "cell"),
        ("model.json", lambda content: content.replace(b'"cell": 8', b'"cell": 99999999'), "cell"),
        ("model.json", lambda content: content.replace(b'"onnx_sha256": "3', b'"onnx_sha256": "4'), "is broken or"),
    ],
)
def test_a_damaged_denoiser_is_refused_in_one_line(
    tmp_path: Path, name: str, change: Callable[[bytes], bytes], message: str
) -> None:
    with pytest.raises(RobustMatError, match=message) as refused:
        load_denoiser(damaged(tmp_path, name, change))
    assert str(refused.value).isprintable()


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("model.safetensors", lambda content: content[: len(content) // 2], "cannot be read"),
        ("model.safetensors", lambda content: content[:-1] + b"\x7f", "is not what model.json was written with"),
        ("model.json", lambda content: content.replace(b"64\n", b"9999999996\n"), "widths"),
        ("model.json", lambda content: content.replace(b"64\n", b"68\n"), "has shape"),
    ],
)
def test_weights_of_a_denoiser_are_compared_before_a_network_is_made(
    tmp_path: Path, name: str, change: Callable[[bytes], bytes], message: str
) -> None:
    with pytest.raises(RobustMatError, match=message):
        load_network(damaged(tmp_path, name, change))


def test_a_denoisers_configuration_refuses_what_it_does_not_know(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('method = "sgn"\ncropp = 3\n')
    with pytest.raises(ConfigError, match=r"mine\.toml: unknown key 'cropp' .did you mean 'crop'"):
        load_denoiser_config(tmp_path / "mine.toml", {})
    with pytest.raises(ConfigError, match="multiples of 4"):
        tiny(model={"widths": [4, 6], "blocks": [1, 1]})
