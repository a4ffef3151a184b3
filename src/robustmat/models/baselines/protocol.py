"""What the paper's nine rivals have in common: a patch becomes numbers, two sets of numbers become scores."""

from torch import Tensor, nn

from robustmat.config import Config
from robustmat.features.patches import PatchConfig


class BaselineConfig(Config):
    """The crops, the same for every method, and the length of what is remembered of each."""

    patch: PatchConfig = PatchConfig(size=64, margin=15, max_aspect=2.0)
    embedding_dim: int = 128


class PatchMatcher(nn.Module):
    """Compares single patches, without their neighbourhood.

    Where crops come with their surroundings (`patch.context`), both views go through one network and their embeddings
    stand side by side; methods that compare maps instead of vectors refuse that.

    A patch's embedding depends on that patch alone, once the module is in evaluation mode; `compare` gives the
    same for (a, b) and, transposed, for (b, a). What a method minimises is in `training/baseline_objectives.py`.
    """

    learned_elsewhere: tuple[str, ...] = ()  # modules that `warm_start` fills with what need only be adapted

    def __init__(self, config: BaselineConfig) -> None:
        super().__init__()
        self.config = config

    def embed(self, patches: Tensor) -> Tensor:
        """What is remembered of each patch: [N, 3, S, S], or 6 channels with context, -> [N, ...]."""
        raise NotImplementedError

    def compare(self, a: Tensor, b: Tensor) -> Tensor:
        """Scores of all pairs of two sets of embeddings, higher is likelier: [A, B]."""
        raise NotImplementedError

    def warm_start(self, patches: Tensor) -> None:
        """Load what a method starts its training from, and suit it to some patches [N, 3, S, S] of the training side;
        checkpoints bring everything with them."""

    def forward(self, patches: Tensor) -> Tensor:
        return self.embed(patches)


class Descriptor(PatchMatcher):
    """A method whose embedding is a unit vector, compared by the cosine."""

    def compare(self, a: Tensor, b: Tensor) -> Tensor:
        return a @ b.T
