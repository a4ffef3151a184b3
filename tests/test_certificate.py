"""A certificate is never beaten: neither by gradient attacks, nor by the crop, nor by rivals in the frame."""

import json
import math
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from PIL import Image
from typer.testing import CliRunner

from models_for_tests import untrained
from robustmat.checkpoints.load import from_checkpoint
from robustmat.checkpoints.store import Checkpoint, save_checkpoint
from robustmat.cli import app
from robustmat.errors import ConfigError
from robustmat.features.patches import cut_patches, resizing, to_input
from robustmat.matching.decision import Decision
from robustmat.matching.network import NetworkMatcher
from robustmat.models.bounds import diagonal_bound
from robustmat.models.certified import CertifiedConfig, CertifiedNetwork
from robustmat.robustness.attack import smallest_change
from robustmat.robustness.certificate import ROUNDED, certify, one_direction, psnr, radius, resize_norm
from robustmat.robustness.certificate_report import RADII, measure_certificates, write_certificates
from robustmat.types import Frame
from small_world import drive, make_boards

SMALL = CertifiedConfig(
    patch={"size": 16, "margin": 2}, stem_channels=4, channels=8, hidden_channels=6, embedding_dim=24
)
SIZE = math.sqrt(3 * 16 * 16)


def network(seed: int = 0) -> CertifiedNetwork:
    torch.manual_seed(seed)
    made = CertifiedNetwork(SMALL)
    torch.nn.init.normal_(made.field.bias, std=0.5)
    return made.eval()


def matcher(least: float = -20.0) -> NetworkMatcher:
    decision = Decision(threshold=least, match_threshold=least, slope=0.3, intercept=6.0)
    return NetworkMatcher("certified", network(), decision)


def some_patches(seed: int, count: int = 6) -> torch.Tensor:
    pixels = np.random.default_rng(seed).integers(0, 256, (count, 4, 4, 3), dtype=np.uint8)
    return torch.from_numpy(to_input(pixels.repeat(4, axis=1).repeat(4, axis=2), SMALL.patch))


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**31 - 1), outputs=st.integers(1, 4), inputs=st.integers(1, 4))
def test_diagonal_bound_is_above_the_operator(seed: int, outputs: int, inputs: int) -> None:
    kernel = torch.from_numpy(np.random.default_rng(seed).normal(size=(outputs, inputs, 3, 3)))
    side = 6
    basis = torch.eye(inputs * side * side, dtype=torch.float64).view(-1, inputs, side, side)
    operator = torch.nn.functional.conv2d(basis, kernel, padding=1).flatten(1).T  # K
    bound = diagonal_bound(kernel).repeat_interleave(side * side)
    assert torch.linalg.eigvalsh(torch.diag(bound) - operator @ operator.T).min() >= -1e-9


@pytest.mark.parametrize("least", [-8.0, -25.0])
def test_our_attack_never_beats_the_certificate_and_comes_near_it(least: float) -> None:
    first, second = some_patches(0), some_patches(1)
    second = 0.8 * first + 0.2 * second
    model = network()
    with torch.no_grad():
        score = -(model.embed(first) - model.embed(second)).norm(dim=1)
    proven = radius(score.numpy(), least, model.lipschitz)
    found = smallest_change(model, first, second, least, steps=40).numpy()
    assert (found >= proven).all()
    assert np.isfinite(found).all()
    assert np.median(found / proven) < 20  # a bound that says nothing would pass the first line, too


def test_torchattacks_pgd_never_beats_the_certificate() -> None:
    torchattacks = pytest.importorskip("torchattacks")
    first, second = some_patches(0), some_patches(1)
    second = 0.8 * first + 0.2 * second
    model, least = network(), -10.0
    anchor = model.embed(second).detach()
    mean, scale = torch.tensor(SMALL.patch.mean_color).view(1, 3, 1, 1), SMALL.patch.scale

    class Decides(torch.nn.Module):
        """Two classes from pixels in 0..1: no match, match."""

        def forward(self, pixels: torch.Tensor) -> torch.Tensor:
            pixels = pixels.flatten(1).view(pixels.shape)  # torchattacks wants gradients in this order
            embedded = model.embed((255 * pixels - mean) / scale)
            margin = -(embedded - anchor).norm(dim=1) - least
            return torch.stack([-margin, margin], dim=1)

    pixels = ((first * scale + mean) / 255).clamp(0, 1).contiguous()
    with torch.no_grad():
        decided = Decides()(pixels)
        margins = (decided[:, 1]).numpy()
    certified = radius(margins + least, least, model.lipschitz)
    smallest = float(certified.min())
    assert smallest > 0.5
    attack = torchattacks.PGDL2(Decides(), eps=smallest * SIZE / 255, alpha=0.2 * smallest * SIZE / 255, steps=15)
    attack.set_device("cpu")
    attacked = attack(pixels, decided.argmax(dim=1))
    moved = 255 * (attacked - pixels).flatten(1).norm(dim=1) / SIZE
    assert 0.5 * smallest < moved.max() <= smallest * (1 + 1e-4)  # it used what it was allowed
    with torch.no_grad():
        assert torch.equal(Decides()(attacked).argmax(dim=1), decided.argmax(dim=1))


@settings(max_examples=8, deadline=None)
@given(
    height=st.integers(3, 90),
    width=st.integers(3, 90),
    scale=st.floats(0.3, 3.0),
    seed=st.integers(0, 2**31 - 1),
)
@example(height=43, width=40, scale=1.921875, seed=4270)  # 0.81 off
def test_a_crops_resize_stretches_no_more_than_its_norm_and_rounds_no_more_than_said(
    height: int, width: int, scale: float, seed: int
) -> None:
    rows, columns = max(1, round(height * scale)), max(1, round(width * scale))
    rng = np.random.default_rng(seed)
    crop = rng.integers(0, 256, (height, width, 3), dtype=np.uint8)
    exact = cv2.resize(crop.astype(np.float64), (columns, rows), interpolation=resizing(height, rows))
    rounded = cv2.resize(crop, (columns, rows), interpolation=resizing(height, rows))
    assert np.abs(exact - rounded).max() <= ROUNDED
    norm = resize_norm(height, width, rows, columns)
    change = rng.normal(size=(height, width))
    for _ in range(5):  # towards the worst direction
        moved = cv2.resize(change, (columns, rows), interpolation=resizing(height, rows))
        assert np.linalg.norm(moved) <= norm * np.linalg.norm(change) * (1 + 1e-6)
        down, across = (one_direction(height, width, rows, columns, axis) for axis in (0, 1))
        change = down.T @ moved.reshape(rows, columns) @ across


def test_changed_patches_within_the_certificate_leave_all_matches_as_they_were() -> None:
    """The certificate for whole frames, held against changes of the images themselves."""
    data = drive(make_boards(12, 0), frames=4)
    model = matcher()
    a, b = data.frames[0], data.frames[2]
    result = model.match(a, b)
    certificates = certify(model, result)
    assert len(certificates) >= 3
    assert any(one.all_patches > 0.5 for one in certificates)
    rng = np.random.default_rng(0)
    embedded = []
    for frame in (a, b):
        numbers = torch.from_numpy(
            to_input(cut_patches(frame.image, [m.box for m in frame.landmarks], SMALL.patch), SMALL.patch)
        )
        embedded.append((model.embed(frame), numbers))
    for match, certificate in zip(result.matches, certificates, strict=True):
        assert certificate.all_patches <= certificate.patch
        if certificate.all_patches <= 0:
            continue
        changed = []
        for one, numbers in embedded:
            change = torch.from_numpy(rng.normal(size=numbers.shape).astype(np.float32))
            length = change.flatten(1).norm(dim=1).view(-1, 1, 1, 1)
            change *= 0.999 * certificate.all_patches * SIZE / SMALL.patch.scale / length
            with torch.no_grad():
                rows = model.network.embed(numbers + change).numpy()
            changed.append(replace(one, arrays={"patch": rows}))
        assert (match.a, match.b) in {(kept.a, kept.b) for kept in model.match(*changed).matches}


def test_a_certified_change_of_the_image_leaves_the_pair_decided() -> None:
    data = drive(make_boards(12, 0), frames=3)
    model = matcher(-40.0)
    a, b = data.frames[0], data.frames[1]
    result = model.match(a, b)
    certificates = certify(model, result)
    least = min(one.image for one in certificates if one.image > 0)
    noise = np.random.default_rng(1).normal(size=a.image.shape)
    noise = np.clip(np.round(noise / np.abs(noise).max() * math.floor(least)), -least, least)  # no pixel beyond it
    pixels = np.clip(a.image.astype(float) + noise, 0, 255).astype(np.uint8)
    again = model.score(model.embed(Frame.from_array(pixels, a.landmarks)), model.embed(b))
    for match, certificate in zip(result.matches, certificates, strict=True):
        if certificate.image >= least:
            assert again[match.a, match.b] >= result.threshold


def test_a_probability_as_the_limit_is_certified_like_a_threshold() -> None:
    data = drive(make_boards(12, 0), frames=3)
    model = matcher()
    by_probability = model.match(data.frames[0], data.frames[1], min_probability=0.5)
    by_score = model.match(data.frames[0], data.frames[1], threshold=-20.0)  # where 0.3 s + 6 is 0
    assert by_probability.matches == by_score.matches
    for one, other in zip(certify(model, by_probability), certify(model, by_score), strict=True):
        assert one.patch == pytest.approx(other.patch)


def test_decibels_are_those_of_the_root_mean_square() -> None:
    assert psnr(255.0) == 0
    assert psnr(1.0) == pytest.approx(48.13, abs=0.01)
    assert psnr(0.0) == math.inf


def test_a_network_that_normalises_is_refused() -> None:
    model = from_checkpoint(untrained(), "pair")
    data = drive(make_boards(12, 0), frames=2)
    with pytest.raises(ConfigError, match=r"cannot be certified.*street-certified"):
        certify(model, model.match(data.frames[0], data.frames[1]))


def test_match_certify_prints_and_writes_certificates(tmp_path: Path) -> None:
    data = drive(make_boards(12, 0), frames=2)
    folder = save_checkpoint(tmp_path / "run", Checkpoint("run", "certified", network(), {"pair": matcher().decision}))
    options = []
    for name, frame in zip("ab", data.frames, strict=True):
        Image.fromarray(frame.image).save(tmp_path / f"{name}.png")
        marks = [{"box": list(mark.box), "category": mark.category} for mark in frame.landmarks]
        (tmp_path / f"{name}.json").write_text(json.dumps({"landmarks": marks}))
        options += [f"--boxes-{name}", str(tmp_path / f"{name}.json")]
    out = tmp_path / "matches.json"
    command = ["match", str(tmp_path / "a.png"), str(tmp_path / "b.png"), *options, "--checkpoint", str(folder)]
    result = CliRunner().invoke(app, [*command, "--certify", "--json", str(out)])
    assert result.exit_code == 0, result.output
    assert "grey levels" in result.output
    matches = json.loads(out.read_text())["matches"]
    assert matches
    for match in matches:
        assert set(match["certificate"]) == {"patch", "psnr", "image", "all_patches"}
    plain = CliRunner().invoke(app, [*command, "--json", str(out)])
    assert plain.exit_code == 0
    assert "certificate" not in json.loads(out.read_text())["matches"][0]


def test_the_report_counts_what_is_certified_and_no_attack_beats_it(tmp_path: Path) -> None:
    data = drive(make_boards(12, 0), frames=6)
    report = measure_certificates(matcher(-30.0), [data], frame_pairs=4, attacks=4)
    facts = report.to_json()
    assert facts["beaten"] == 0
    assert facts["attacked"] > 0
    shares = [facts["certified"]["patch"][str(radius)] for radius in RADII]
    assert shares == sorted(shares, reverse=True)
    assert shares[0] > 0
    page = write_certificates(tmp_path, "certified", 0.9, [report], "robustmat certify DATA")
    assert f"{report.right} right, {report.wrong} wrong" in page.read_text()
    assert Image.open(tmp_path / "certificate.png").width > 400
