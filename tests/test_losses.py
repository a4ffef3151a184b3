"""Losses against numpy re-computations."""

import numpy as np
import pytest
import torch

from models_for_tests import seeded, small
from robustmat.errors import ConfigError
from robustmat.features.patches import PatchConfig
from robustmat.features.placement import PLACEMENT_DIM
from robustmat.methods.robustmat import RobustMatObjective, RobustMatSettings
from robustmat.models.batch import UNKNOWN, LabelledPair, TrainingBatch
from robustmat.models.losses import (
    contrastive_loss,
    denoising_loss,
    diffusion_quotient,
    quotient,
    total_loss,
    triplet_loss,
)
from robustmat.models.mining import pair_weights
from robustmat.models.robustmat import PairLogits, RobustMat
from robustmat.models.vertex import Evolved
from robustmat.types import AMBIGUOUS, MATCHED, UNMATCHED


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


@pytest.mark.parametrize("graph_loss_weight", [0.0, 0.3, 1.0])
def test_total_loss_equals_the_papers_formula_in_numpy(graph_loss_weight: float) -> None:
    rng = np.random.default_rng(0)
    r, d_ab, d_ba = rng.normal(size=(3, 20))
    matched = rng.random(20) < 0.6

    def cross_entropy(logit: np.ndarray) -> float:
        p = sigmoid(logit)
        return float(-np.mean(np.where(matched, np.log(p), np.log(1 - p))))

    vertex_to_graph = 0.5 * (cross_entropy(d_ab) + cross_entropy(d_ba))
    expected = (1 - graph_loss_weight) * cross_entropy(r) + graph_loss_weight * vertex_to_graph
    logits = PairLogits(*(torch.from_numpy(it) for it in (r, d_ab, d_ba)))
    loss = total_loss(logits, torch.from_numpy(matched), torch.ones(20), graph_loss_weight)
    assert loss.item() == pytest.approx(expected, rel=1e-9)


def test_pair_weights_share_the_loss_and_drop_the_ambiguous() -> None:
    label = torch.tensor([MATCHED, MATCHED, UNMATCHED, UNMATCHED, UNMATCHED, AMBIGUOUS])
    weight = pair_weights(label, 0.75)
    assert weight.tolist() == pytest.approx([0.375, 0.375, 0.25 / 3, 0.25 / 3, 0.25 / 3, 0])


def test_quotient_is_output_over_input_difference() -> None:
    rng = np.random.default_rng(1)
    before_x, before_y, after_x, after_y = rng.normal(size=(4, 5, 2, 3))
    expected = np.mean(
        [np.linalg.norm(after_x[i] - after_y[i]) / np.linalg.norm(before_x[i] - before_y[i]) for i in range(5)]
    )
    found = quotient(*(torch.from_numpy(it) for it in (before_x, before_y, after_x, after_y)))
    assert found.item() == pytest.approx(expected, rel=1e-6)


def test_graph_quotient_compares_means_over_existing_vertices() -> None:
    rng = np.random.default_rng(2)
    initial, final = rng.normal(size=(2, 3, 4, 5))
    mask = np.array([[1, 1, 0, 0], [1, 1, 1, 0], [1, 1, 1, 1]], bool)
    initial[~mask] = final[~mask] = 0
    means = [[state[i][mask[i]].mean(axis=0) for i in range(3)] for state in (initial, final)]
    expected = np.mean(
        [
            np.linalg.norm(means[1][i] - means[1][j]) / np.linalg.norm(means[0][i] - means[0][j])
            for i, j in ((0, 1), (2, 1))
        ]
    )
    evolved = Evolved(torch.from_numpy(initial), torch.from_numpy(final), 1)
    found = diffusion_quotient(evolved, torch.tensor([0, 2]), torch.tensor([1, 1]), torch.from_numpy(mask))
    assert found.item() == pytest.approx(expected, rel=1e-6)


def test_identical_patches_do_not_break_the_quotients_gradient() -> None:
    state = torch.ones(1, 3, requires_grad=True)
    quotient(state, state, state * 2, state * 2).backward()
    assert state.grad is not None
    assert state.grad.isfinite().all()


def test_triplet_loss_uses_the_hardest_negative_of_either_side() -> None:
    rng = np.random.default_rng(3)
    a, b = rng.normal(size=(3, 4)), rng.normal(size=(4, 4))
    matched = np.zeros((3, 4), bool)
    matched[0, 1] = matched[2, 0] = True
    unmatched = ~matched
    unmatched[0, 2] = False  # ambiguous: no negative
    unit_a, unit_b = (it / np.linalg.norm(it, axis=1, keepdims=True) for it in (a, b))
    distance = np.linalg.norm(unit_a[:, None] - unit_b, axis=-1)
    terms = []
    for i, j in np.argwhere(matched):
        rivals = [distance[i, c] for c in range(4) if unmatched[i, c]] + [
            distance[r, j] for r in range(3) if unmatched[r, j]
        ]
        terms.append(max(0.0, 0.5 + distance[i, j] - min(rivals)))
    found = triplet_loss(*(torch.from_numpy(it) for it in (a, b, matched, unmatched)), margin=0.5)
    assert found.item() == pytest.approx(np.mean(terms), rel=1e-6)


def test_triplet_loss_is_zero_where_nothing_can_be_compared() -> None:
    vertices = torch.randn(2, 4, requires_grad=True)
    nothing = torch.zeros(2, 2, dtype=torch.bool)
    assert triplet_loss(vertices, vertices, nothing, ~nothing, 0.5).item() == 0
    assert triplet_loss(vertices, vertices, ~nothing, nothing, 0.5).item() == 0


def test_contrastive_loss_picks_each_match_among_the_rivals_of_its_row_and_column() -> None:
    rng = np.random.default_rng(4)
    a, b = rng.normal(size=(3, 4)), rng.normal(size=(4, 4))
    matched = np.zeros((3, 4), bool)
    matched[0, 1] = matched[2, 0] = True
    unmatched = ~matched
    unmatched[0, 2] = False  # ambiguous: no rival
    unit_a, unit_b = (it / np.linalg.norm(it, axis=1, keepdims=True) for it in (a, b))
    likelihood = np.exp(unit_a @ unit_b.T / 0.1) * (matched | unmatched)
    terms = [
        -(np.log(likelihood[i, j] / likelihood[i].sum()) + np.log(likelihood[i, j] / likelihood[:, j].sum())) / 2
        for i, j in np.argwhere(matched)
    ]
    found = contrastive_loss(*(torch.from_numpy(it) for it in (a, b, matched, unmatched)), temperature=0.1)
    assert found.item() == pytest.approx(np.mean(terms), rel=1e-6)
    assert contrastive_loss(*(torch.from_numpy(it) for it in (a, b, matched & False, unmatched)), 0.1).item() == 0


def test_rows_of_ambiguous_candidates_alone_do_not_break_the_contrastive_gradient() -> None:
    vertex = torch.randn(2, 4, requires_grad=True)
    matched = torch.tensor([[True, False], [False, False]])
    contrastive_loss(vertex, vertex.detach(), matched, torch.zeros(2, 2, dtype=torch.bool), 0.1).backward()
    assert vertex.grad is not None
    assert vertex.grad.isfinite().all()


def test_denoising_counts_noise_against_the_distance_between_landmarks() -> None:
    generator = torch.Generator().manual_seed(0)
    clean = torch.randn(6, 8, generator=generator, dtype=torch.float64)
    noise = torch.randn(6, 8, generator=generator, dtype=torch.float64)
    loss = denoising_loss(clean + 0.5 * noise, clean, 0.1)
    a, b = (it / it.norm(dim=1, keepdim=True) for it in (clean + 0.5 * noise, clean))
    shares = np.exp((a @ b.T).numpy() / 0.1)
    assert float(loss) == pytest.approx(-np.log(np.diag(shares) / shares.sum(axis=1)).mean())
    assert denoising_loss(clean + 0.1 * noise, clean, 0.1) < loss
    assert torch.allclose(
        denoising_loss(0.2 * (clean + 0.5 * noise), 0.2 * clean, 0.1), loss
    )  # shrinking gains nothing


def test_the_denoising_term_teaches_the_flow_and_is_off_unless_asked_for() -> None:
    network = seeded(small()).train()
    assert "denoising" not in losses_of(network, RobustMatSettings())
    losses_of(network, RobustMatSettings(denoising_weight=1.0))["denoising"].backward()
    learned = {name.partition(".")[0] for name, it in network.named_parameters() if it.grad is not None}
    assert learned == {"vertex"}


def two_frame_batch(patch: PatchConfig) -> TrainingBatch:
    rng = np.random.default_rng(0)
    label = torch.tensor([[MATCHED, UNMATCHED], [UNMATCHED, MATCHED], [UNMATCHED, AMBIGUOUS]])
    return TrainingBatch(
        pixels=rng.integers(0, 256, (5, 16, 16, 6)).astype(np.uint8),
        patch=patch,
        placement=torch.from_numpy(rng.normal(size=(5, PLACEMENT_DIM)).astype(np.float32)),
        index=torch.tensor([[1], [2], [0], [4], [3]]),
        mask=torch.ones(5, 1, dtype=torch.bool),
        pairs=(LabelledPair(slice(0, 3), slice(3, 5), label),),
        views=((0, 0, False), (1, 0, False)),
        label=torch.full((5, 5), AMBIGUOUS),
        identity=torch.full((5,), UNKNOWN),
    )


def losses_of(network: RobustMat, settings: RobustMatSettings) -> dict[str, torch.Tensor]:
    return RobustMatObjective(settings, network)(network, two_frame_batch(network.config.patch))


HEADS = {"graph", "graph_matrix", "vertex_similarity", "likeness", "trust", "joint"}


@pytest.mark.parametrize(
    ("learns", "weighs", "expected_names"),
    [
        ("heads", True, HEADS),
        ("heads", False, HEADS - {"likeness", "trust"}),
        ("weights", True, {"likeness", "trust", "joint"}),
    ],
)
def test_heads_or_weights_alone_learn_from_the_same_objective(
    learns: str, weighs: bool, expected_names: set[str]
) -> None:
    network = seeded(small()).train()
    expected = losses_of(network, RobustMatSettings())["loss"]
    settings = RobustMatSettings.model_validate({"learns": learns, "trains_handcrafted_weights": weighs})
    objective = RobustMatObjective(settings, network)
    for _ in range(2):  # the second time from memory
        loss = objective(network, two_frame_batch(network.config.patch))["loss"]
        assert torch.allclose(loss, expected, atol=1e-6)
    assert len(objective.embedded) == 2
    loss.backward()
    learned = {name.partition(".")[0] for name, it in network.named_parameters() if it.grad is not None}
    assert learned == expected_names
    count = sum(it.numel() for it in network.parameters() if it.grad is not None)
    assert (count == 10) == (learns == "weights")


def test_weights_alone_need_something_to_weigh() -> None:
    learned = small(joint=None, vertex={"orientations": 0, "colours": False})
    with pytest.raises(ConfigError, match="handcrafted evidence"):
        RobustMatObjective(RobustMatSettings(learns="weights"), RobustMat(learned))


def test_the_objective_is_the_weighted_sum_of_its_terms() -> None:
    settings = RobustMatSettings(
        triplet_weight=0.7,
        contrastive_weight=0.6,
        vertex_regularizer=0.2,
        graph_regularizer=0.3,
        graph_loss_weight=0.4,
        joint_weight=0.8,
    )
    losses = {name: value.item() for name, value in losses_of(seeded(small()), settings).items()}
    expected = (
        losses["pairs"]
        + 0.7 * losses["triplet"]
        + 0.6 * losses["contrastive"]
        + 0.2 * losses["vertex_quotient"]
        + 0.3 * losses["graph_quotient"]
        + 0.8 * losses["joint"]
    )
    assert losses["loss"] == pytest.approx(expected, rel=1e-5)


def test_ambiguous_pairs_do_not_touch_the_objective() -> None:
    """Changing the only landmark pair that is ambiguous in label changes nothing but through its other pairs."""
    model = seeded(small("ode-only", joint=None, vertex={"orientations": 0, "colours": False}))
    batch = two_frame_batch(model.config.patch)
    losses = losses_of(model, RobustMatSettings(graph_loss_weight=0.4))
    embeddings = model.embed(
        torch.from_numpy(((batch.pixels - [95.0, 99, 96] * 2) / 64).astype(np.float32).transpose(0, 3, 1, 2)),
        batch.index,
        batch.mask,
    ).vertex
    logits = model.vertex_similarity((embeddings[:3, None] - embeddings[3:]).square()).squeeze(-1).detach().numpy()
    p = sigmoid(logits.astype(np.float64))
    expected = -0.5 * np.mean(np.log([p[0, 0], p[1, 1]])) - 0.5 * np.mean(
        np.log(1 - np.array([p[0, 1], p[1, 0], p[2, 0]]))
    )
    assert losses["loss"].item() == pytest.approx(expected, rel=1e-5)
