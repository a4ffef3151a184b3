"""Promises that every configuration of the model keeps."""

import numpy as np
import pytest
import torch

from models_for_tests import ALL_CONFIGS, seeded, small
from robustmat.matching.matcher import embed_boxes
from robustmat.models.presets import preset
from robustmat.models.robustmat import ModelConfig, RobustMat
from robustmat.models.summary import summarize

BOXES = [
    (10, 10, 30, 60),
    (40, 20, 60, 40),
    (70, 5, 80, 90),
    (85, 50, 110, 70),
    (12, 40, 50, 80),
    (100, 10, 118, 30),
]
every_config = pytest.mark.parametrize("config", ALL_CONFIGS.values(), ids=list(ALL_CONFIGS))


def picture(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (100, 120, 3)).astype(np.uint8)


@every_config
def test_embedding_alone_equals_embedding_in_a_batch(config: ModelConfig) -> None:
    """A calm frame of four landmarks and a violent one of two, whose graphs are padded: together and apart."""
    model = seeded(config)
    patches = torch.randn(6, 3, 16, 16) * torch.tensor([0.1, 0.2, 0.5, 1, 5, 10])[:, None, None, None]
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


@every_config
def test_score_is_symmetric_and_in_range(config: ModelConfig) -> None:
    model = seeded(config)
    a, b = embed_boxes(model, picture(0), BOXES), embed_boxes(model, picture(1), BOXES[:4])
    with torch.inference_mode():
        forward, backward = model.score(model.compare(a, b)), model.score(model.compare(b, a))
    assert forward.shape == (6, 4)
    assert torch.allclose(forward, backward.T, atol=1e-6)
    assert forward.std() > 0
    assert 0 <= forward.min() <= forward.max() <= (2 if config.score == "both" else 1)


@every_config
def test_embeddings_do_not_depend_on_the_order_of_landmarks(config: ModelConfig) -> None:
    model = seeded(config)
    order = [3, 0, 5, 1, 4, 2]
    plain, shuffled = (embed_boxes(model, picture(), boxes) for boxes in (BOXES, [BOXES[i] for i in order]))
    assert torch.allclose(plain.vertex[order], shuffled.vertex, atol=1e-5)
    assert torch.allclose(plain.graph[order], shuffled.graph, atol=1e-5)


@every_config
def test_every_parameter_gets_a_finite_gradient(config: ModelConfig) -> None:
    model = seeded(config).train()
    patches = torch.randn(6, 3, 16, 16)
    index = torch.tensor([[1, 2], [0, 2], [0, 1], [4, 5], [3, 5], [3, 4]])
    embeddings = model.embed(patches, index, torch.ones(6, 2, dtype=torch.bool))
    model.score(model.compare(embeddings, embeddings)).square().sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        assert parameter.grad.abs().sum() > 0, name


@pytest.mark.parametrize("count", [0, 1, 2, 3])
@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("solver", ["rk4", "dopri5"])
def test_frames_with_few_landmarks_embed(count: int, center: bool, solver: str) -> None:
    model = seeded(small(graph={"include_center": center, "pooling": "mean", "solver": {"name": solver}}))
    embeddings = embed_boxes(model, picture(), BOXES[:count])
    assert embeddings.vertex.shape == embeddings.graph.shape == (count, 16)
    assert embeddings.graph.isfinite().all()
    with torch.inference_mode():
        assert model.score(model.compare(embeddings, embed_boxes(model, picture(1), BOXES))).shape == (
            count,
            6,
        )


def test_end_time_zero_leaves_the_state_as_it_was() -> None:
    model = seeded(small(vertex={"end_time": 0.0}, graph={"end_time": 0.0}))
    embeddings = model.embed(torch.randn(3, 3, 16, 16), torch.tensor([[1, 2]] * 3), torch.ones(3, 2, dtype=torch.bool))
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
