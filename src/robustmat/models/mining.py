"""Which pairs of a batch a loss learns by: hard ones, but not only the hardest."""

import torch
from torch import Tensor

from robustmat.models.batch import LabelledPatches
from robustmat.models.metric_losses import distances, hardest_negative
from robustmat.types import MATCHED, UNMATCHED


def pair_weights(label: Tensor, matched_share: float) -> Tensor:
    """Weights [P] that give all matched pairs together `matched_share` of the loss, all unmatched the rest."""
    matched, unmatched = label == MATCHED, label == UNMATCHED
    weight = torch.zeros(label.shape, device=label.device)
    weight[matched] = matched_share / matched.sum().clamp(min=1)
    weight[unmatched] = (1 - matched_share) / unmatched.sum().clamp(min=1)
    return weight


def hard_candidates(batch: LabelledPatches, similarity: Tensor, negatives_per_match: float) -> Tensor:
    """All matched candidates, and the most similar unmatched ones, so many for each match: [M, 2].

    Of all the wrong pairs of two frames most are easy and teach nothing; an even draw would be mostly of those.

    Args:
        similarity: of each candidate, [candidates].
    """
    first, second = batch.candidates.T
    matched = batch.label[first, second] == MATCHED
    unmatched = (batch.unmatched[first, second]).nonzero().squeeze(1)
    order = similarity[unmatched].argsort(descending=True)
    count = max(1, round(negatives_per_match * int(matched.sum())))
    return torch.cat([batch.candidates[matched], batch.candidates[unmatched[order[:count]]]])


def pairwise_distances(descriptors: Tensor) -> Tensor:
    """Of every two unit vectors of a batch: [N, N]."""
    return distances(descriptors, descriptors)


def triplets(distance: Tensor, batch: LabelledPatches, negatives_share: float) -> tuple[Tensor, Tensor]:
    """Each match's distance, and that of its hardest negative among a share of all: [P]."""
    negative = hardest_negative(distance, sample_negatives(batch, negatives_share), batch.first, batch.second)
    return distance[batch.first, batch.second], negative


def sample_negatives(batch: LabelledPatches, share: float) -> Tensor:
    """A share of the unmatched pairs [N, N], drawn anew at every step, for a loss that takes the hardest of them.

    The hardest of all is mostly an equal pole of the same row, and training on it collapses.
    """
    chance = torch.rand(batch.unmatched.shape, device=batch.unmatched.device)
    drawn = batch.unmatched & (chance < share)
    return drawn | drawn.T
