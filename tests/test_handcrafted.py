"""What is known without learning: blind to light and contrast, turned with the patch, of the crop alone."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from models_for_tests import small
from robustmat.models.handcrafted import (
    CELLS,
    ColourLayout,
    Handcrafted,
    Likeness,
    OrientedEnergy,
    gaussian_derivatives,
    in_cells,
)
from robustmat.models.robustmat import Embeddings, RobustMat


def patches(seed: int, channels: int = 3) -> torch.Tensor:
    noise = torch.randn(2, channels, 36, 36, generator=torch.Generator().manual_seed(seed))
    return torch.nn.functional.avg_pool2d(noise, 5, 1) * 3


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 99), gain=st.floats(0.5, 4), light=st.floats(-3, 3))
def test_light_and_contrast_mean_nothing(seed: int, gain: float, light: float) -> None:
    energy = OrientedEnergy(8)
    seen = patches(seed)
    assert torch.allclose(energy(seen), energy(gain * seen + light), atol=1e-3)


def test_a_mirror_swaps_left_and_right() -> None:
    energy = OrientedEnergy(8)
    seen = patches(3)
    seen = torch.nn.functional.avg_pool2d(seen, 7, 1, 3)  # filters stand on every second pixel: nothing may be finer
    mirrored = energy(seen.flip(-1)).unflatten(1, (8, 4, 4)).flip(-1)
    swapped = [(4 - k) % 8 for k in range(8)]  # the direction at angle t becomes the one at 180 degrees - t
    expected = energy(seen).unflatten(1, (8, 4, 4))[:, swapped]
    likeness = torch.cosine_similarity(mirrored.flatten(1), expected.flatten(1))
    unlike = torch.cosine_similarity(mirrored.flatten(1), energy(seen))
    assert likeness.min() > 0.98
    assert (likeness > unlike + 0.1).all()


def test_a_ramp_has_energy_in_its_own_direction_alone() -> None:
    ramp = torch.arange(32.0).expand(1, 3, 32, 32)  # rises to the right
    cells = OrientedEnergy(4)(ramp).unflatten(1, (4, 4, 4))[0]
    assert cells[0].min() > 0.1
    assert cells[1:].max() < 1e-2
    assert cells.norm() == pytest.approx(1)


def test_only_the_crop_counts() -> None:
    both = patches(5, channels=6)
    known = Handcrafted(8, colours=True)
    assert torch.equal(known(both), known(both[:, :3]))


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 99), gain=st.floats(0.5, 4), light=st.floats(-3, 3))
def test_colours_know_neither_light_nor_strength(seed: int, gain: float, light: float) -> None:
    layout = ColourLayout()
    seen = patches(seed)
    grey = torch.randn(2, 1, *seen.shape[2:], generator=torch.Generator().manual_seed(seed))
    assert torch.allclose(layout(seen), layout(gain * seen + light + grey), atol=2e-2)
    assert not torch.allclose(layout(seen), layout(seen[:, [1, 2, 0]]), atol=0.1)


def test_a_grey_patch_has_no_colours() -> None:
    grey = patches(2)[:, :1].expand(2, 3, -1, -1)
    assert ColourLayout()(grey).norm(dim=1).max() < 1e-2


def test_cells_overlap_and_together_see_every_pixel_alike() -> None:
    size = 32
    pixel = torch.eye(size * size).view(-1, 1, size, size)
    seen = in_cells(pixel).view(-1, CELLS * CELLS)
    share = seen.sum(dim=1).view(size, size) * (size / CELLS) ** 2
    inside = slice(size // CELLS // 2, -(size // CELLS // 2))  # beyond the outer centers no one shares
    assert torch.allclose(share[inside, inside], torch.ones(1), atol=1e-5)
    assert (seen > 0).sum(dim=1).max() == 4
    moved = in_cells(torch.roll(patches(1), 1, dims=3))
    assert torch.cosine_similarity(moved, in_cells(patches(1))).min() > 0.9


def test_a_weight_is_learned_as_a_share_of_itself() -> None:
    likeness = Likeness({"energy": 2, "colour": 2})
    a = torch.tensor([[1.0, 0, 1, 0]])
    assert likeness(a, a).item() == pytest.approx(30 * 0.1 + 3 * 0.3, abs=1e-5)
    with torch.no_grad():
        likeness.power += torch.tensor([0.0, 0.1])
    assert likeness(a, a).item() == pytest.approx(30 * 0.1 + 3 * 2.71828 * 0.3, abs=1e-4)


def test_opposite_colours_say_no_more_than_unrelated_ones() -> None:
    likeness = Likeness({"colour": 2})
    warm = torch.tensor([[1.0, 0]])
    cold, other = -warm, torch.tensor([[0.0, 1]])
    assert torch.equal(likeness(warm, cold), likeness(warm, other))
    assert likeness(warm, warm) > likeness(warm, other)


def test_filters_ignore_a_flat_patch_and_cancel_over_all_directions() -> None:
    filters = gaussian_derivatives(8)
    assert filters.sum(dim=(1, 2, 3)).abs().max() < 1e-6
    assert filters.sum(dim=0).abs().max() < 1e-6


@pytest.mark.parametrize("evidence", ["pair", "frames", "placement"])
def test_like_energies_speak_for_one_object(evidence: str) -> None:
    torch.manual_seed(0)
    config = small()
    model = RobustMat(config).eval()
    dim, numbers = config.vertex.embedding_dim, config.vertex.descriptor_dim
    vertex = torch.cat([torch.randn(3, dim), torch.nn.functional.normalize(torch.rand(3, numbers - dim), dim=1)], dim=1)
    graph, placement = torch.randn(3, dim), torch.randn(3, 10)
    other = vertex.clone()
    other[0, dim:] = vertex[1, dim:]  # the first landmark now has the second one's energy
    with torch.no_grad():
        scores = [
            model.match_score(Embeddings(it, graph, placement), Embeddings(vertex, graph, placement), evidence)
            for it in (vertex, other)
        ]
    assert scores[1][0, 1] > scores[0][0, 1]
    assert scores[1][0, 0] < scores[0][0, 0]
