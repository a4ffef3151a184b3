"""Weather and noise: exact strength, same seed same bytes, input untouched."""

import hashlib
import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import PIL.Image
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from robustmat.errors import ConfigError, InputError
from robustmat.perturb import CLEAN, PERTURBATIONS, Perturbation, gallery, parse, perturb_frame, perturb_image, psnr
from robustmat.types import Image
from small_world import drive, make_boards

SEVERITIES = [name for name, kind in PERTURBATIONS.items() if kind.unit == "severity"]


def picture(kind: str, height: int, width: int, seed: int = 0) -> Image:
    rng = np.random.default_rng(seed)
    if kind == "noise":
        return rng.integers(0, 256, (height, width, 3), dtype=np.uint8)
    if kind == "street":  # smooth colours and hard edges
        down, across = np.mgrid[:height, :width]
        image = np.stack([120 + 80 * np.sin(across / 9), 90 + down * 60 / height, 110 + 0 * down], axis=2)
        for _ in range(12):
            y, x = rng.integers(0, height), rng.integers(0, width)
            image[y : y + height // 4, x : x + width // 10] = rng.integers(0, 256, 3)
        return image.astype(np.uint8)
    return np.full((height, width, 3), {"black": 0, "white": 255, "grey": 128}[kind], np.uint8)


def independent_psnr(clean: Image, other: Image) -> float:
    errors = [(int(a) - int(b)) ** 2 for a, b in zip(clean.ravel(), other.ravel(), strict=True)]
    return 10 * float(np.log10(255**2 / (sum(errors) / len(errors))))


@settings(max_examples=60, deadline=None)
@given(
    name=st.sampled_from(["paper", "awgn"]),
    kind=st.sampled_from(["noise", "street", "black", "white", "grey"]),
    shape=st.tuples(st.integers(8, 40), st.integers(8, 40)),
    level=st.floats(8, 22),
    seed=st.integers(0, 2**32 - 1),
)
@example(name="paper", kind="white", shape=(8, 8), level=8.0, seed=0)
@example(name="paper", kind="black", shape=(8, 8), level=22.0, seed=1)
def test_psnr_is_within_0_3_db_of_its_target_on_any_frame(
    name: str, kind: str, shape: tuple[int, int], level: float, seed: int
) -> None:
    clean = picture(kind, *shape, seed)
    noisy = perturb_image(clean, Perturbation(name, level), seed, "frame")
    assert independent_psnr(clean, noisy) == pytest.approx(level, abs=0.3)


@pytest.mark.parametrize("kind", ["noise", "street", "black", "white"])
@pytest.mark.parametrize("level", [13, 16, 19])
def test_psnr_is_within_0_3_db_on_full_frames_where_the_search_sees_a_sample(kind: str, level: float) -> None:
    clean = picture(kind, 375, 1242)
    noisy = perturb_image(clean, Perturbation("paper", level), 3, "frame")
    assert psnr(clean, noisy) == pytest.approx(level, abs=0.3)


def test_psnr_agrees_with_its_definition() -> None:
    clean, noisy = picture("noise", 9, 11, 0), picture("noise", 9, 11, 1)
    assert psnr(clean, noisy) == pytest.approx(independent_psnr(clean, noisy))
    assert psnr(clean, clean) == float("inf")


def test_mix_holds_weather_of_22_db_before_the_noise() -> None:
    clean = picture("street", 120, 320)
    weather_only = perturb_image(clean, parse("paper:22"), 0, "frame")
    assert psnr(clean, weather_only) == pytest.approx(22, abs=0.3)
    # Weather is smooth where white noise is not: neighbours err alike.
    error = weather_only.astype(float) - clean
    assert np.corrcoef(error[:, 1:].ravel(), error[:, :-1].ravel())[0, 1] > 0.5


@pytest.mark.parametrize("name", PERTURBATIONS)
@pytest.mark.parametrize("shape", [(8, 8), (8, 200), (200, 8), (37, 61)])
def test_every_perturbation_works_from_8_pixels_up_and_leaves_its_input_alone(
    name: str, shape: tuple[int, int]
) -> None:
    clean = picture("street", *shape)
    before = clean.copy()
    clean.setflags(write=False)
    for level in (PERTURBATIONS[name].lowest, PERTURBATIONS[name].highest):
        noisy = perturb_image(clean, Perturbation(name, level), 0, "frame")
        assert noisy.shape == clean.shape
        assert noisy.dtype == np.uint8
        assert not np.shares_memory(noisy, clean)
    np.testing.assert_array_equal(clean, before)


@pytest.mark.parametrize("name", SEVERITIES)
def test_higher_severity_distorts_more(name: str) -> None:
    pictures = [picture("street", 90, 240, seed) for seed in range(4)]
    distortion = [
        np.mean(
            [
                np.mean((perturb_image(it, Perturbation(name, level), 5, str(n)).astype(float) - it) ** 2)
                for n, it in enumerate(pictures)
            ]
        )
        for level in (1, 2, 3, 4, 5)
    ]
    assert distortion[0] > 0.5
    assert all(np.diff(distortion) > 0)


@pytest.mark.parametrize("name", PERTURBATIONS)
def test_same_seed_and_frame_same_bytes_and_others_differ(name: str) -> None:
    clean = picture("street", 40, 90)
    chosen = Perturbation(name, PERTURBATIONS[name].lowest)
    first = perturb_image(clean, chosen, 1, "a")
    np.testing.assert_array_equal(first, perturb_image(clean, chosen, 1, "a"))
    others = [perturb_image(clean, chosen, seed, key) for seed in range(4) for key in "abcd"]
    assert any((it != first).any() for it in others)


def test_weather_does_not_depend_on_the_process() -> None:
    code = (
        "import hashlib, numpy as np\n"
        "from robustmat.perturb import parse, perturb_image\n"
        "clean = np.arange(20 * 30 * 3, dtype=np.uint8).reshape(20, 30, 3)\n"
        "print(hashlib.sha256(perturb_image(clean, parse('paper:16'), 7, 'x/1').tobytes()).hexdigest())"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "12345"}
    there = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    clean = np.arange(20 * 30 * 3, dtype=np.uint8).reshape(20, 30, 3)
    here = hashlib.sha256(perturb_image(clean, parse("paper:16"), 7, "x/1").tobytes()).hexdigest()
    assert there.stdout.strip() == here


@pytest.mark.parametrize("text", ["clean", "paper:16", "awgn:13.5", "snow:3", "motion_blur:1"])
def test_str_gives_back_what_was_parsed(text: str) -> None:
    assert str(parse(text)) == text


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("papre:16", "did you mean paper"),
        ("xyz:1", "choose one of clean, awgn"),
        ("snow:9", "severity, 1 to 5"),
        ("paper:40", "PSNR in dB, 8 to 22"),
        ("paper", "write paper:16"),
        ("paper:lots", "not a number"),
        ("paper:nan", "8 to 22"),
        ("clean:3", "takes no level"),
    ],
)
def test_a_wrong_name_or_level_says_what_to_write(text: str, hint: str) -> None:
    with pytest.raises(ConfigError, match=hint):
        parse(text)


def test_clean_is_the_identity_on_a_copy() -> None:
    clean = picture("noise", 9, 9)
    same = perturb_image(clean, CLEAN, 0, "frame")
    np.testing.assert_array_equal(same, clean)
    assert not np.shares_memory(same, clean)


@pytest.mark.parametrize(
    "image",
    [np.zeros((7, 20, 3), np.uint8), np.zeros((20, 20), np.uint8), np.zeros((20, 20, 3), np.float32)],
)
def test_images_that_cannot_be_perturbed_are_refused(image: Image) -> None:
    with pytest.raises(InputError):
        perturb_image(image, parse("awgn:20"), 0, "frame")


def test_frame_is_perturbed_when_its_pixels_are_asked_for_and_not_before() -> None:
    frame = drive(make_boards(8, 0), frames=1).frames[0]
    reads = []

    def load() -> Image:
        reads.append(1)
        return frame.load_image()

    watched = replace(frame, load_image=load)
    noisy = perturb_frame(watched, parse("paper:16"), seed=4)
    assert not reads
    assert (noisy.name, noisy.landmarks) == (frame.name, frame.landmarks)
    np.testing.assert_array_equal(noisy.image, perturb_image(frame.image, parse("paper:16"), 4, frame.name))
    assert psnr(watched.image, noisy.image) == pytest.approx(16, abs=0.3)


def test_command_writes_the_perturbed_image(tmp_path) -> None:
    from robustmat.cli import app

    PIL.Image.fromarray(picture("street", 60, 90)).save(tmp_path / "in.png")
    arguments = [
        "perturb",
        str(tmp_path / "in.png"),
        "--with",
        "paper:16",
        "--out",
        str(tmp_path / "out.png"),
    ]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    written = np.asarray(PIL.Image.open(tmp_path / "out.png"))
    assert psnr(picture("street", 60, 90), written) == pytest.approx(16, abs=0.3)


def test_gallery_shows_every_perturbation_at_every_level(monkeypatch: pytest.MonkeyPatch) -> None:
    image = picture("street", 60, 180)
    made = []

    def watched(pixels: Image, chosen: Perturbation, seed: int, key: str) -> Image:
        made.append(str(chosen))
        return perturb_image(pixels, chosen, seed, key)

    monkeypatch.setattr(gallery, "perturb_image", watched)
    sheet = gallery.draw_gallery(image, seed=3)
    assert made == [f"{name}:{level:g}" for name in PERTURBATIONS for level in gallery.levels(name)]
    assert {"paper:19", "paper:16", "paper:13", "snow:1", "snow:5", "awgn:16"} <= set(made)
    # The cell of row 5, column 3 is what `perturb` writes, cut and scaled.
    height = gallery.thumbnail(image).shape[0]
    names = list(PERTURBATIONS)
    wanted = gallery.thumbnail(perturb_image(image, Perturbation(names[4], 3.0), 3, "gallery"))
    y = 8 + 5 * (height + 22 + 8) + 22
    x = 8 + 2 * (400 + 8)
    np.testing.assert_array_equal(sheet[y : y + height, x : x + 400], wanted)


@pytest.mark.parametrize("shape", [(8, 8), (300, 20), (20, 300)])
def test_gallery_can_be_drawn_of_any_image(shape: tuple[int, int]) -> None:
    assert gallery.draw_gallery(picture("street", *shape)).shape[1] == 8 + 5 * 408


def test_command_draws_the_gallery_of_an_image_and_of_a_simulated_street(tmp_path) -> None:
    from robustmat.cli import app

    PIL.Image.fromarray(picture("street", 60, 90)).save(tmp_path / "in.png")
    for arguments in ([str(tmp_path / "in.png")], []):
        out = tmp_path / f"sheet{len(arguments)}.png"
        result = CliRunner().invoke(app, ["perturb", *arguments, "--gallery", str(out)], catch_exceptions=False)
        assert result.exit_code == 0
        assert PIL.Image.open(out).width == 8 + 5 * 408


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        ([], "--gallery FILE"),
        (["x.png"], "nothing to do"),
        (["x.png", "--with", "snow:3"], "belong together"),
        (["--with", "snow:3", "--out", "y.png"], "which image"),
        (["--gallery", "y.gif"], "must end in"),
    ],
)
def test_command_says_what_is_missing(arguments: list[str], hint: str) -> None:
    from robustmat.cli import app

    with pytest.raises(InputError, match=hint):
        CliRunner().invoke(app, ["perturb", *arguments], catch_exceptions=False)
