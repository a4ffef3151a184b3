"""Dense graph layers against torch_geometric's sparse ones on complete graphs."""

import pytest
import torch
from torch_geometric.nn import GATConv, GCNConv

from robustmat.models.graph import (
    AttentionLayer,
    ContractiveConvolutionField,
    ConvolutionLayer,
    GraphConfig,
    GraphDiffusion,
)

DIM = 8


def complete_edges(count: int) -> torch.Tensor:
    pairs = [(i, j) for i in range(count) for j in range(count) if i != j]
    return torch.tensor(pairs, dtype=torch.long).reshape(-1, 2).T


def masked_state(count: int, padding: int) -> tuple[torch.Tensor, torch.Tensor]:
    state = torch.randn(1, count + padding, DIM)
    return state, (torch.arange(count + padding) < count)[None]


@pytest.mark.parametrize(("count", "padding"), [(1, 0), (3, 0), (4, 0), (2, 2)])
def test_attention_layer_equals_gatconv(count: int, padding: int) -> None:
    torch.manual_seed(0)
    ours, theirs = AttentionLayer(DIM, heads=4), GATConv(DIM, DIM // 4, heads=4)
    with torch.no_grad():
        torch.nn.init.normal_(ours.bias)
        theirs.lin.weight.copy_(ours.project.weight)
        theirs.att_src.copy_(ours.attend_source[None])
        theirs.att_dst.copy_(ours.attend_target[None])
        theirs.bias.copy_(ours.bias)
    state, mask = masked_state(count, padding)
    expected = theirs(state[0, :count], complete_edges(count))
    assert torch.allclose(ours(state, mask)[0, :count], expected, atol=1e-6)


@pytest.mark.parametrize(("count", "padding"), [(1, 0), (3, 0), (4, 0), (2, 2)])
def test_convolution_layer_equals_gcnconv(count: int, padding: int) -> None:
    torch.manual_seed(0)
    ours, theirs = ConvolutionLayer(DIM), GCNConv(DIM, DIM)
    with torch.no_grad():
        torch.nn.init.normal_(ours.bias)
        theirs.lin.weight.copy_(ours.project.weight)
        theirs.bias.copy_(ours.bias)
    state, mask = masked_state(count, padding)
    expected = theirs(state[0, :count], complete_edges(count))
    assert torch.allclose(ours(state, mask)[0, :count], expected, atol=1e-6)


def test_contractive_field_equals_two_gcnconvs_minus_the_decay() -> None:
    torch.manual_seed(0)
    ours = ContractiveConvolutionField(DIM, rate=0.5, lipschitz=4.0)  # roomy: orthogonal weights stay as they are
    first, second = GCNConv(DIM, DIM), GCNConv(DIM, DIM)
    with torch.no_grad():
        for layer, weight, bias in ((first, ours.weight1, ours.bias1), (second, ours.weight2, ours.bias2)):
            torch.nn.init.normal_(bias)
            layer.lin.weight.copy_(weight)
            layer.bias.copy_(bias)
    state, mask = masked_state(3, 0)
    edges = complete_edges(3)
    expected = second(torch.nn.functional.elu(first(state[0], edges)), edges) - 4.5 * state[0]
    assert torch.allclose(ours.dynamics(mask)(torch.zeros(()), state)[0], expected, atol=1e-5)


@pytest.mark.parametrize("field", ["attention", "convolution", "contractive"])
@pytest.mark.parametrize("solver", ["rk4", "dopri5"])
@pytest.mark.parametrize("pooling", ["mean", "max", "center"])
def test_graph_embedding_ignores_padding_and_vertex_order(field: str, solver: str, pooling: str) -> None:
    torch.manual_seed(0)
    config = GraphConfig(field=field, solver={"name": solver}, pooling=pooling, include_center=True)
    diffusion = GraphDiffusion(config, DIM)
    state, mask = masked_state(3, 0)
    reference, _ = diffusion(state, mask)
    garbage = torch.cat([state[:, [0, 2, 1]], torch.full((1, 2, DIM), 1e3)], dim=1)
    padded, _ = diffusion(garbage, torch.tensor([[True, True, True, False, False]]))
    assert torch.allclose(reference, padded, atol=1e-5)


def test_a_graph_without_evolution_is_the_mean_of_its_vertices() -> None:
    state, mask = masked_state(2, 1)
    pooled, _ = GraphDiffusion(GraphConfig(evolution="none"), DIM)(state, mask)
    assert torch.allclose(pooled, state[:, :2].mean(dim=1))
