"""Exp-TLoss (Wang et al., ICCV 2019): HardNet's network under an exponential triplet loss.

Kept: the network of the descriptors it was shown with (L2-Net's, as HardNet's), the exponential of the triplet's
difference instead of a hinge, so that hard triplets weigh more, and the mining of hard positives beside hard
negatives. Smaller: the batch.
"""

from robustmat.models.baselines.hardnet import HardNet


class ExpTLoss(HardNet):
    """The method is its loss; the network is HardNet's."""
