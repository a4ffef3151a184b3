"""What training minimises: the paper's total loss, its quotient regularisers, metric terms, and
the joint diffusion's assignment.

Pure functions of tensors; `weight` [P] says how much each pair counts and is zero for pairs left out.
"""

from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional as F

from robustmat.models.joint import Assignment
from robustmat.models.robustmat import PairLogits
from robustmat.models.vertex import Evolved
from robustmat.types import AMBIGUOUS, MATCHED


def pair_loss(logits: Tensor, matched: Tensor, weight: Tensor) -> Tensor:
    """Cross entropy of a comparison, averaged over pairs: l_vv, and each half of l_vG."""
    loss = F.binary_cross_entropy_with_logits(logits, matched.to(logits.dtype), reduction="none")
    return (loss * weight).sum() / weight.sum().clamp(min=1e-12)


def total_loss(logits: PairLogits, matched: Tensor, weight: Tensor, graph_loss_weight: float) -> Tensor:
    """(1 - lambda) l_vv + lambda l_vG; a part with no weight is not computed."""
    loss = logits.vertex.new_zeros(())
    if graph_loss_weight < 1:
        loss = loss + (1 - graph_loss_weight) * pair_loss(logits.vertex, matched, weight)
    if graph_loss_weight > 0:
        vertex_to_graph = pair_loss(logits.graph_ab, matched, weight) + pair_loss(logits.graph_ba, matched, weight)
        loss = loss + graph_loss_weight * vertex_to_graph / 2
    return loss


def quotient(initial_x: Tensor, initial_y: Tensor, final_x: Tensor, final_y: Tensor) -> Tensor:
    """How much a diffusion spreads pairs of states [P, ...]: mean of |final difference| / |initial difference|."""

    def norm(difference: Tensor) -> Tensor:
        # Two identical patches differ by nothing, and the root of 0 has no slope.
        return (difference.flatten(1).square().sum(dim=1) + 1e-12).sqrt()

    return (norm(final_x - final_y) / norm(initial_x - initial_y)).mean()


def diffusion_quotient(evolved: Evolved, first: Tensor, second: Tensor, mask: Tensor | None = None) -> Tensor:
    """`quotient` for the pairs (first[p], second[p]) of a diffusion's samples.

    Graph states [N, K, D] are first averaged over the vertices that `mask` [N, K] says exist: the vertices
    of two graphs have no common order, their means can be compared.
    """
    initial, final = evolved.initial, evolved.final
    if mask is not None:
        count = mask.sum(dim=1, keepdim=True).clamp(min=1)
        initial, final = initial.sum(dim=1) / count, final.sum(dim=1) / count  # padding holds zeros
    return quotient(initial[first], initial[second], final[first], final[second])


def triplet_loss(vertex_a: Tensor, vertex_b: Tensor, matched: Tensor, unmatched: Tensor, margin: float) -> Tensor:
    """Hardest-negative triplet loss on the cosine distances of a frame pair's vertex embeddings.

    Args:
        vertex_a, vertex_b: [A, D], [B, D].
        matched, unmatched: [A, B], who is the same landmark and who is surely another.

    Each match must be nearer than the nearest wrong partner of either side by `margin`; a frame pair without
    matches or without negatives costs nothing.
    """
    cosine = F.normalize(vertex_a, dim=1) @ F.normalize(vertex_b, dim=1).T
    distance = (2 - 2 * cosine).clamp(min=1e-8).sqrt()  # [A, B], of unit vectors
    far = torch.full_like(distance, torch.inf)
    wrong = torch.where(unmatched, distance, far)
    nearest_wrong = torch.minimum(wrong.amin(dim=1, keepdim=True), wrong.amin(dim=0, keepdim=True))
    usable = matched & nearest_wrong.isfinite()
    if not usable.any():
        return distance.sum() * 0
    return F.relu(margin + distance[usable] - nearest_wrong[usable]).mean()


def contrastive_loss(
    vertex_a: Tensor, vertex_b: Tensor, matched: Tensor, unmatched: Tensor, temperature: float
) -> Tensor:
    """How surely each match is picked out among all rivals of its row and of its column, by cosine similarity.

    All wrong partners count, the near ones more: with many near-identical landmarks in a frame, the hardest
    negative alone pulls every embedding together.
    """
    logits = F.normalize(vertex_a, dim=1) @ F.normalize(vertex_b, dim=1).T / temperature  # [A, B]
    rivals = logits.masked_fill(~(matched | unmatched), -torch.inf)
    if not matched.any():
        return logits.sum() * 0
    picked = rivals.log_softmax(dim=1)[matched] + rivals.log_softmax(dim=0)[matched]
    return -picked.mean() / 2


def denoising_loss(noisy: Tensor, clean: Tensor, temperature: float) -> Tensor:
    """How surely each noisy patch is picked out among all clean ones by the cosine of their embeddings [N, D].

    What counts is noise against the distance between landmarks: shrinking both alike gains nothing.
    """
    logits = F.normalize(noisy, dim=1) @ F.normalize(clean, dim=1).T / temperature  # [N, N]
    return F.cross_entropy(logits, torch.arange(len(logits), device=logits.device))


def assignment_loss(assignment: Assignment, label: Tensor, weight: Tensor) -> Tensor:
    """How far the joint diffusion is from the truth of one frame pair, [A, B] each.

    Three terms: the evidence for each candidate by itself (cross entropy, weighted as in `pair_loss`), the trust
    that both sides of a match should have in each other, and that of a landmark without partner in having none.
    Candidates that cannot be judged compete with nobody, and whoever has one is not said to be alone.
    """
    matched, judged = label == MATCHED, label != AMBIGUOUS
    single = pair_loss(assignment.logits.flatten(), matched.flatten(), weight.flatten())
    shut = torch.finfo(assignment.logits.dtype).min / 4
    by_row, by_column = replace(assignment, logits=assignment.logits.masked_fill(~judged, shut)).log_shares()
    trust = (by_row[:, :-1] + by_column[:-1])[matched] / 2
    alone = torch.cat([by_row[(~matched & judged).all(dim=1), -1], by_column[-1, (~matched & judged).all(dim=0)]])
    return single - _mean(trust) - _mean(alone)


def _mean(values: Tensor) -> Tensor:
    return values.sum() / max(1, values.numel())
