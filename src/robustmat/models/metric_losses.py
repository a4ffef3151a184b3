"""What the rivals' papers minimise, as pure functions of tensors.

Descriptors are [N, D], one for each patch of a batch. `first` and `second` [P] are the two sides of its matched pairs;
`unmatched` [N, N] says which patches surely show different objects: nothing else serves as a negative, neither the same
object seen twice nor a pair that the ground truth leaves open.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

NEIGHBORS = 8  # whose distances SOSNet compares
HARD_NEGATIVES = 5  # of each match, that SOLAR learns by


def distances(a: Tensor, b: Tensor) -> Tensor:
    """Euclidean distances of unit vectors [A, B], with a slope where two are equal."""
    return (2 - 2 * a @ b.T).clamp(min=1e-8).sqrt()


def contrastive_margin_loss(distance: Tensor, matched: Tensor, weight: Tensor, margin: float) -> Tensor:
    """SiameseNet: half the square of a match's distance, and of what a non-match lacks to the margin."""
    loss = torch.where(matched, distance, F.relu(margin - distance)).square() / 2
    return (loss * weight).sum() / weight.sum().clamp(min=1e-12)


def hardest_negative(distance: Tensor, unmatched: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """The smallest distance of either side of each matched pair to a patch of another object: [P], infinite if none."""
    wrong = torch.where(unmatched, distance, torch.inf).amin(dim=1)  # [N]
    return torch.minimum(wrong[first], wrong[second])


def triplet_margin_loss(positive: Tensor, negative: Tensor, margin: float, power: int = 1) -> Tensor:
    """max(0, margin + positive - negative), to a power, over triplets that have a negative: HardNet, SOSNet squared."""
    usable = negative.isfinite()
    if not usable.any():
        return positive.sum() * 0
    return F.relu(margin + positive[usable] - negative[usable]).pow(power).mean()


def averaged_triplet_loss(squared: Tensor, unmatched: Tensor, first: Tensor, second: Tensor, margin: float) -> Tensor:
    """SOLAR: max(0, margin + positive - negative) of squared distances, the mean over each match's hardest negatives.

    Over all negatives, which are mostly of other classes, descriptors would learn classes and forget objects.
    """
    wrong = torch.where(unmatched[first], squared[first], torch.inf)  # [P, N]
    negative = wrong.topk(min(HARD_NEGATIVES, wrong.shape[1]), dim=1, largest=False).values
    return triplet_margin_loss(squared[first, second][:, None].expand_as(negative), negative, margin)


def exponential_triplet_loss(positive: Tensor, negative: Tensor) -> Tensor:
    """Exp-TLoss: exp(positive - negative), no margin; the harder a triplet, the more its slope weighs."""
    usable = negative.isfinite()
    if not usable.any():
        return positive.sum() * 0
    return (positive[usable] - negative[usable]).exp().mean()


def hardest_positive(distance: Tensor, matched: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """The farthest sighting of each matched pair's object in the batch, from either side: [P]."""
    far = torch.where(matched, distance, -torch.inf).amax(dim=1)  # [N]
    return torch.maximum(far[first], far[second])


def hybrid(distance: Tensor, alpha: float) -> Tensor:
    """HyNet's dissimilarity: the distance, whose slope is even, plus alpha times one minus the cosine."""
    return distance + alpha * distance.square() / 2


def norm_difference(raw: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """HyNet's regulariser: how much the lengths of two matching descriptors differ before normalisation, squared."""
    length = (raw.square().sum(dim=1) + 1e-12).sqrt()
    return (length[first] - length[second]).square().mean()


def second_order_difference(distance: Tensor, unmatched: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """SOSNet's regulariser: matching descriptors must be equally far from the pairs around them.

    For pair i, over the pairs j of other objects that are among the eight nearest of either side: the root of the sum
    of (d(first_i, first_j) - d(second_i, second_j))^2.
    """
    among_first, among_second = distance[first][:, first], distance[second][:, second]  # [P, P]
    others = unmatched[first][:, first] & unmatched[second][:, second]
    near = nearest(among_first, others) | nearest(among_second, others)
    square = torch.where(near, (among_first - among_second).square(), 0).sum(dim=1)
    return (square + 1e-6).sqrt().mean()


def nearest(distance: Tensor, allowed: Tensor, count: int = NEIGHBORS) -> Tensor:
    """Which of the allowed columns are among the `count` nearest of each row: [P, P]."""
    ranked = torch.where(allowed, distance.detach(), torch.inf).argsort(dim=1)[:, :count]
    return torch.zeros_like(allowed).scatter(1, ranked, True) & allowed


def second_order_similarity(squared: Tensor, unmatched: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """SOLAR's term: both sides of a match must be equally far from its negatives, by squared distances."""
    wrong = unmatched[first] & unmatched[second]  # [P, N]
    if not wrong.any():
        return squared.sum() * 0
    difference = torch.where(wrong, squared[first] - squared[second], 0)
    return (difference.square().sum(dim=1) / wrong.sum(dim=1).clamp(min=1) + 1e-12).sqrt().mean()


def margin_softmax_loss(cosine: Tensor, identity: Tensor, scale: Tensor | float, margin: float) -> Tensor:
    """ArcFace: cross entropy over objects, after the right one's angle was made larger by `margin`.

    Args:
        cosine: [N, objects].
        identity: [N], the object of each patch, -1 where unknown.
    """
    known = identity >= 0
    if not known.any():
        return cosine.sum() * 0
    cosine, identity = cosine[known], identity[known]
    angle = cosine.clamp(-1 + 1e-6, 1 - 1e-6).acos()
    right = F.one_hot(identity, cosine.shape[1]).bool()
    return F.cross_entropy(scale * torch.where(right, (angle + margin).cos(), cosine), identity)


def picking_loss(cosine: Tensor, unmatched: Tensor, first: Tensor, second: Tensor, temperature: float) -> Tensor:
    """How surely each match is picked out among itself and all its negatives in the batch (contrastive, InfoNCE)."""
    right = cosine[first, second] / temperature  # [P]
    losses = []
    for side in (first, second):
        wrong = torch.where(unmatched[side], cosine[side] / temperature, -torch.inf)  # [P, N]
        losses.append(torch.cat([right[:, None], wrong], dim=1).logsumexp(dim=1) - right)
    return torch.cat(losses).mean() if len(first) else cosine.sum() * 0
