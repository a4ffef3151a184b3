"""A network as a matcher: torch."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
import torch

from robustmat.features.frame import frame_features
from robustmat.features.patches import to_input
from robustmat.matching.decision import Decision
from robustmat.matching.embedded import EmbeddedFrame
from robustmat.matching.matcher import Matcher, checked_pixels
from robustmat.types import Array, Frame

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from robustmat.models.network import Described, Network


class NetworkMatcher(Matcher):
    """Matches on whatever device the network is on; its mode and weights stay as the caller left them.

    Without a fingerprint, frames are known by the weights that the network has now.
    """

    def __init__(
        self,
        name: str,
        network: "Network",
        decision: Decision,
        *,
        evidence: str = "pair",
        fingerprint: str = "",
        same_category: bool = True,
    ) -> None:
        self.name, self.network, self.decision = name, network, decision
        self.evidence, self.same_category = evidence, same_category
        self.fingerprint = fingerprint or weights_fingerprint(network)

    def embed(self, frame: Frame) -> EmbeddedFrame:
        config = self.network.config
        found = frame_features(frame, checked_pixels(frame), config.patch, config.neighborhood)
        arrays = (to_input(found.patches, config.patch), found.index, found.mask, found.placement)
        with inference(self.network) as device:
            described = self.network.describe(*(torch.from_numpy(array).to(device) for array in arrays))
        numbers = {name: tensor.cpu().numpy() for name, tensor in described.items()}
        return EmbeddedFrame(frame.landmarks, numbers, self.fingerprint, frame.name, frame)

    def score(self, a: EmbeddedFrame, b: EmbeddedFrame) -> Array:
        if not a.landmarks or not b.landmarks:
            return np.zeros((len(a.landmarks), len(b.landmarks)))
        return self._compare(self.network.score_pairs, a, b, self.evidence)

    def logits(self, a: EmbeddedFrame, b: EmbeddedFrame, evidence: str) -> Array:
        """Log odds of every pair against having no partner, by any evidence that the network knows: [A, B]."""
        if not a.landmarks or not b.landmarks:
            return np.zeros((len(a.landmarks), len(b.landmarks)))
        return self._compare(self.network.score_logits, a, b, evidence)

    def _compare(
        self,
        compare: "Callable[[Described, Described, str], Tensor]",
        a: EmbeddedFrame,
        b: EmbeddedFrame,
        evidence: str,
    ) -> Array:
        with inference(self.network) as device:
            first, second = (
                {name: torch.from_numpy(array).to(device) for name, array in frame.arrays.items() if "." not in name}
                for frame in (a, b)
            )
            return compare(first, second, evidence).cpu().numpy().astype(np.float64)


@contextmanager
def inference(network: "Network") -> Iterator[torch.device]:
    """Evaluation mode without gradients, and the caller's modes again afterwards; gives the network's device."""
    training = [module for module in network.modules() if module.training]
    if training:
        network.eval()
    try:
        with torch.inference_mode():
            yield next(network.parameters()).device
    finally:
        for module in training:  # each by itself: some of a network may be kept in evaluation mode
            module.training = True


def weights_fingerprint(network: "Network") -> str:
    """Names the configuration and the weights of a network in memory."""
    found = hashlib.sha256(network.config.model_dump_json().encode())
    for name, tensor in network.state_dict().items():
        found.update(name.encode() + tensor.cpu().contiguous().numpy().tobytes())
    return found.hexdigest()[:16]
