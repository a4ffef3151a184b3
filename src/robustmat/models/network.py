"""What every network offers, ours and its rivals': describe landmarks once, score all pairs from that."""

from typing import Any

from torch import Tensor, nn

from robustmat.config import Config
from robustmat.errors import ConfigError
from robustmat.features.patches import PatchConfig

Described = dict[str, Tensor]  # [N, ...] each


class Network(nn.Module):
    """Describes landmarks and compares them.

    What is known of a landmark depends on its own frame alone once the module is in evaluation mode, and the scores
    of (a, b) are those of (b, a), transposed.
    """

    config: Any
    evidence: tuple[str, ...] = ("pair",)  # what its scores can be asked to know; the last is the default
    learned_elsewhere: tuple[str, ...] = ()  # modules that `warm_start` fills with what need only be adapted

    def describe(self, patches: Tensor, index: Tensor, mask: Tensor, placement: Tensor) -> Described:
        """What is remembered of N landmarks.

        Args:
            patches: [N, 3, S, S], or 6 channels with context.
            index, mask: [N, K], the vertices of each landmark's graph and which of them exist.
            placement: [N, P].
        """
        raise NotImplementedError

    def score_pairs(self, a: Described, b: Described, evidence: str) -> Tensor:
        """Scores of all pairs of landmarks of two frames, higher is likelier: [A, B]."""
        raise NotImplementedError

    def score_logits(self, a: Described, b: Described, evidence: str) -> Tensor:
        """Log odds of every pair against having no partner, before any competition: [A, B]."""
        raise ConfigError(f"{type(self).__name__} gives scores alone: its evidence cannot be combined")

    def max_score(self, evidence: str) -> float | None:
        """Scores lie between 0 and this; None where they have no bound."""
        return None

    def warm_start(self, patches: Tensor) -> None:
        """Initialise by some patches [N, C, S, S] of the training side; checkpoints bring everything with them."""

    def start_from(self, other: "Network", name: str) -> None:
        """Take over the weights of another network; errors call it `name`."""
        if type(other) is not type(self) or other.config != self.config:
            raise ConfigError(
                f"checkpoint '{name}' holds another network than this training: start from one of the same method and "
                "[model], or leave --start out"
            )
        self.load_state_dict(other.state_dict())


class PatchNetworkConfig(Config):
    """The crops, the same for every method, and the length of what is remembered of each."""

    patch: PatchConfig = PatchConfig(size=64, margin=15, max_aspect=2.0)
    embedding_dim: int = 128

    @property
    def neighborhood(self) -> tuple[int, bool]:
        return 3, False  # K of the paper; single patches do not look at them


class PatchNetwork(Network):
    """Compares single patches, without their neighbourhood.

    Where crops come with their surroundings (`patch.context`), both views go through one network and their embeddings
    stand side by side; methods that compare maps instead of vectors refuse that.
    """

    def __init__(self, config: PatchNetworkConfig) -> None:
        super().__init__()
        self.config = config

    def embed(self, patches: Tensor) -> Tensor:
        """What is remembered of each patch: [N, 3, S, S], or 6 channels with context, -> [N, ...]."""
        raise NotImplementedError

    def compare(self, a: Tensor, b: Tensor) -> Tensor:
        """Scores of all pairs of two sets of embeddings: [A, B]."""
        raise NotImplementedError

    def describe(self, patches: Tensor, index: Tensor, mask: Tensor, placement: Tensor) -> Described:
        if not len(patches):
            return {"patch": patches.new_zeros(0, 0)}
        return {"patch": self.embed(patches)}

    def score_pairs(self, a: Described, b: Described, evidence: str) -> Tensor:
        return self.compare(a["patch"], b["patch"])

    def forward(self, patches: Tensor) -> Tensor:
        return self.embed(patches)


class DescriptorNetwork(PatchNetwork):
    """A method whose embedding is a unit vector, compared by the cosine."""

    def compare(self, a: Tensor, b: Tensor) -> Tensor:
        return a @ b.T
