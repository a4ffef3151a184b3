"""Promises that every configuration of the model keeps."""

import numpy as np
import pytest
import torch
from scipy.special import expit

from models_for_tests import ALL_CONFIGS, seeded, small
from robustmat.features.frame import frame_features
from robustmat.features.patches import to_input
from robustmat.features.placement import PLACEMENT_DIM
from robustmat.models.presets import preset
from robustmat.models.robustmat import Embeddings, ModelConfig, PairLogits, RobustMat
from robustmat.models.summary import summarize
from robustmat.models.vertex import VERTEX_FIELDS
from robustmat.types import CATEGORIES, Frame, Landmark

BOXES = [
    (10, 10, 30, 60),
    (40, 20, 60, 40),
    (70, 5, 80, 90),
    (85, 50, 110, 70),
    (12, 40, 50, 80),
    (100, 10, 118, 30),
]
LANDMARKS = [Landmark(box, CATEGORIES[number % 3]) for number, box in enumerate(BOXES)]
every_config = pytest.mark.parametrize("config", ALL_CONFIGS.values(), ids=list(ALL_CONFIGS))


def picture(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (100, 120, 3)).astype(np.uint8)


def patches_of(config: ModelConfig, count: int) -> torch.Tensor:
    return torch.randn(count, config.patch.channels, 16, 16)


@every_config
def test_embedding_alone_equals_embedding_in_a_batch(config: ModelConfig) -> None:
    """A calm frame of four landmarks and a violent one of two, whose graphs are padded: together and apart."""
    model = seeded(config)
    patches = patches_of(config, 6) * torch.tensor([0.1, 0.2, 0.5, 1, 5, 10])[:, None, None, None]
    index = torch.tensor([[0, 1, 2], [1, 2, 3], [2, 0, 3], [3, 1, 0], [4, 5, 4], [5, 4, 4]])
    mask = torch.tensor([[True, True, True]] * 4 + [[True, True, False]] * 2)
    with torch.inference_mode():
        together = model.embed(patches, index, mask)
        for rows in (slice(0, 4), slice(4, 6)):
            apart = model.embed(patches[rows], index[rows] - rows.start, mask[rows])
            assert torch.allclose(apart.vertex, together.vertex[rows], atol=1e-5)
            assert torch.allclose(apart.graph, together.graph[rows], atol=1e-5)
        for row in range(6):
            alone = model.vertex(patches[row : row + 1])[0][0]
            assert torch.allclose(alone, together.vertex[row], atol=1e-5)


def embedded(model: RobustMat, seed: int, landmarks: list[Landmark] = LANDMARKS) -> Embeddings:
    """As a matcher does it: what is described is all that a score knows."""
    pixels, config = picture(seed), model.config
    found = frame_features(Frame("frame", lambda: pixels, tuple(landmarks)), pixels, config.patch, config.neighborhood)
    arrays = to_input(found.patches, config.patch), found.index, found.mask, found.placement
    with torch.inference_mode():
        described = model.describe(*map(torch.from_numpy, arrays))
    return Embeddings(described["vertex"], described["graph"], described["placement"])


@every_config
def test_score_is_symmetric_and_in_range(config: ModelConfig) -> None:
    model = seeded(config)
    a, b = embedded(model, 0), embedded(model, 1, LANDMARKS[:4])
    for evidence in config.evidence:
        with torch.inference_mode():
            forward, backward = model.match_score(a, b, evidence), model.match_score(b, a, evidence)
        assert forward.shape == (6, 4)
        assert torch.allclose(forward, backward.T, atol=1e-6)
        assert forward.std() > 0
        assert 0 <= forward.min() <= forward.max() <= (2 if config.score == "both" and evidence == "pair" else 1)


@every_config
def test_before_anything_is_learned_a_warm_start_tells_patches_apart(config: ModelConfig) -> None:
    """By numpy: f is the principal components of what was pooled, each divided by the root of its spread. By score:
    a patch is likest itself, whatever comparisons count."""
    model = seeded(config)
    patches = patches_of(config, 40)
    model.warm_start(patches)
    with torch.inference_mode():
        pooled = model.vertex.pool(model.vertex.evolve(model.vertex.downsample(patches)).final).flatten(1)
        projected = model.vertex.project(pooled).double().numpy()
        vertex = model.vertex.embed(patches)
    spread = np.linalg.svd((pooled - pooled.mean(dim=0)).double().numpy(), compute_uv=False)[:16] / 40**0.5
    np.testing.assert_allclose(
        projected.T @ projected / 40, np.diag(spread**2 / (spread + 1e-4)), atol=1e-3 * spread.max()
    )
    learned = model.learned(vertex)
    alone = Embeddings(vertex, learned)  # graphs that say what their centers say
    with torch.inference_mode():
        logits = model.compare(alone, alone)
    for kind, counts in (("vertex", config.score != "graph"), ("graph_ab", config.score != "vertex")):
        if counts:
            said = getattr(logits, kind)
            assert (said.argmax(dim=1) == torch.arange(40)).all()
            assert 0.1 < said.std() < 100


@pytest.mark.parametrize("weight", [1.0, 0.02])
def test_the_graphs_half_of_the_score_counts_as_much_as_the_configuration_says(weight: float) -> None:
    config = small(graph_weight=weight)
    logits = PairLogits(*torch.randn(3, 4, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64))
    r, d, back = (expit(it.numpy()) for it in (logits.vertex, logits.graph_ab, logits.graph_ba))
    np.testing.assert_allclose(RobustMat(config).score(logits).numpy(), r + weight * (d + back) / 2, atol=1e-12)
    assert RobustMat(config).max_score("pair") == 1 + weight


@every_config
def test_embeddings_and_scores_do_not_depend_on_the_order_of_landmarks(config: ModelConfig) -> None:
    model = seeded(config)
    order = [3, 0, 5, 1, 4, 2]
    plain, shuffled = (embedded(model, 0, it) for it in (LANDMARKS, [LANDMARKS[i] for i in order]))
    assert torch.allclose(plain.vertex[order], shuffled.vertex, atol=1e-5)
    assert torch.allclose(plain.graph[order], shuffled.graph, atol=1e-5)
    other = embedded(model, 1)
    for evidence in config.evidence:
        with torch.inference_mode():
            scores = [model.match_score(it, other, evidence) for it in (plain, shuffled)]
        assert torch.allclose(scores[0][order], scores[1], atol=1e-5)


@every_config
def test_every_parameter_gets_a_finite_gradient(config: ModelConfig) -> None:
    model = seeded(config).train()
    patches = patches_of(config, 6)
    index = torch.tensor([[1, 2], [0, 2], [0, 1], [4, 5], [3, 5], [3, 4]])
    placement = torch.randn(6, PLACEMENT_DIM)
    embeddings = model.embed(patches, index, torch.ones(6, 2, dtype=torch.bool), placement)
    sum(model.match_score(embeddings, embeddings, it).square().sum() for it in config.evidence).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        assert parameter.grad.abs().sum() > 0, name


@pytest.mark.parametrize("count", [0, 1, 2, 3])
@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("solver", ["rk4", "dopri5"])
def test_frames_with_few_landmarks_embed(count: int, center: bool, solver: str) -> None:
    model = seeded(small(graph={"include_center": center, "pooling": "mean", "solver": {"name": solver}}))
    embeddings = embedded(model, 0, LANDMARKS[:count])
    assert embeddings.vertex.shape == (count, model.config.vertex.descriptor_dim)
    assert embeddings.graph.shape == (count, 16)
    assert embeddings.graph.isfinite().all()
    with torch.inference_mode():
        for evidence in model.config.evidence:
            score = model.match_score(embeddings, embedded(model, 1), evidence)
            assert score.shape == (count, 6)
            assert score.isfinite().all()


def test_end_time_zero_leaves_the_state_as_it_was() -> None:
    model = seeded(small(vertex={"end_time": 0.0}, graph={"end_time": 0.0}))
    embeddings = model.embed(
        patches_of(model.config, 3), torch.tensor([[1, 2]] * 3), torch.ones(3, 2, dtype=torch.bool)
    )
    for evolved in (embeddings.vertex_evolved, embeddings.graph_evolved):
        assert evolved is not None
        assert torch.equal(evolved.initial, evolved.final)
        assert evolved.evaluations == 0


def test_parts_of_the_paper_model_have_the_shapes_of_its_table() -> None:
    parts = {part.name: part for part in summarize(preset("paper", changes={"vertex": {"solver": {"name": "euler"}}}))}
    assert parts["downsample (h_DS)"].output == (128, 64, 64)
    assert parts["vertex diffusion (F_CNN)"].output == (128, 64, 64)
    assert parts["vertex embedding f"].output == (512,)
    assert parts["graph diffusion g"].output == (512,)
    assert parts["similarity r, hidden"].output == (256,)
    assert parts["similarity r"].output == (1,)
    assert parts["discriminator d"].output == (1,)
    assert parts["discriminator d"].parameters == 512 * 512


def test_the_summary_counts_all_parameters_and_the_operations_of_a_layer() -> None:
    config = small()
    parts = summarize(config)
    assert sum(part.parameters for part in parts) == sum(it.numel() for it in RobustMat(config).parameters())
    last = next(part for part in parts if part.name == "similarity r")
    assert last.multiply_adds == 8
    field = next(part for part in parts if part.name == "vertex diffusion (F_CNN)")
    assert field.multiply_adds == 4 * 2 * (4 * 4) * (8 * 8 * 9)  # evaluations, convolutions, pixels, kernel


def test_downsampling_has_seven_convolutions_and_no_batch_statistics() -> None:
    kinds = [type(module) for module in RobustMat(preset("paper")).vertex.downsample.modules()]
    assert kinds.count(torch.nn.Conv2d) == 7
    assert not any("BatchNorm" in kind.__name__ for kind in kinds)


@pytest.mark.parametrize("field", VERTEX_FIELDS)
def test_one_time_for_all_and_a_time_for_each_sample_give_one_slope(field: str) -> None:
    """Fixed steps pass a number, dopri5 a time for every sample; the shift is computed in two ways."""
    dynamics = seeded(small(vertex={"field": field})).vertex.field.dynamics()
    state = torch.randn(3, 8, 4, 4, generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        together = dynamics(torch.tensor(0.7), state)
        each = dynamics(torch.full((3, 1, 1, 1), 0.7), state)
        earlier = dynamics(torch.tensor(0.2), state)
    torch.testing.assert_close(together, each, atol=1e-6, rtol=1e-5)
    assert not torch.allclose(together, earlier, atol=1e-3)
