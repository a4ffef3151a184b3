"""RobustMat whole: embed all landmarks of a frame, score all pairs of two frames."""

from dataclasses import dataclass, replace
from typing import Literal, cast

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from robustmat.config import Config, Size
from robustmat.errors import ConfigError
from robustmat.features.patches import PatchConfig
from robustmat.models.graph import GraphConfig, GraphDiffusion
from robustmat.models.handcrafted import Likeness
from robustmat.models.joint import Assignment, JointConfig, JointDiffusion
from robustmat.models.network import Described, Network
from robustmat.models.starts import SAMPLE, begin_as_distance
from robustmat.models.vertex import Evolved, VertexConfig, VertexDiffusion

# What a score may know: the two landmarks and their neighbourhoods (the paper's score); all landmarks of both
# frames, by their pixels; their boxes and categories, too.
EVIDENCE = ("pair", "frames", "placement")
LOGIT_CLIP = 1e-5  # the log odds of a pair's score are taken that far from 0 and 1


class ModelConfig(Config):
    """Everything that decides an embedding and a score. `score` says which comparisons count in the paper's
    S_match; with `joint`, two whole frames are compared beyond it."""

    patch: PatchConfig = Field(default_factory=PatchConfig)
    vertex: VertexConfig = Field(default_factory=VertexConfig)
    graph: GraphConfig = Field(default_factory=GraphConfig)
    similarity_hidden: tuple[Size, ...] = Field(default=(1024, 512, 256), max_length=16)
    score: Literal["both", "vertex", "graph"] = "both"
    graph_weight: float = Field(default=1.0, gt=0, le=1)  # of the graphs' half of S_match; the paper's is 1
    joint: JointConfig | None = None

    @model_validator(mode="after")
    def _fits(self) -> "ModelConfig":
        if self.patch.size % 4 or self.patch.size < 4 * self.vertex.pooling_grid:
            raise ValueError(
                f"patch.size must be a multiple of 4 and at least 4 x vertex.pooling_grid = "
                f"{4 * self.vertex.pooling_grid}, found {self.patch.size}"
            )
        if self.vertex.embedding_dim % self.graph.heads:
            raise ValueError(
                f"graph.heads = {self.graph.heads} must divide vertex.embedding_dim = {self.vertex.embedding_dim}"
            )
        return self

    @property
    def evidence(self) -> tuple[str, ...]:
        """What a score of this model can be asked to know; the last is the default."""
        return EVIDENCE if self.joint else EVIDENCE[:1]

    @property
    def neighborhood(self) -> tuple[int, bool]:
        """How many neighbours a graph has, and whether the landmark itself is part of it."""
        return self.graph.num_neighbors, self.graph.include_center


@dataclass(frozen=True)
class Embeddings:
    """What the model knows of N landmarks: f [N, D + E] and g [N, D], their placements, how the diffusions went."""

    vertex: Tensor
    graph: Tensor
    placement: Tensor | None = None  # [N, P]
    vertex_evolved: Evolved | None = None
    graph_evolved: Evolved | None = None


@dataclass(frozen=True)
class PairLogits:
    """The three comparisons of every landmark of one frame with every one of another, before the sigmoid: [A, B]."""

    vertex: Tensor  # r of f(x), f(y)
    graph_ab: Tensor  # d of f(x), g(G^y)
    graph_ba: Tensor  # d of f(y), g(G^x)


def similarity(dim: int, hidden: tuple[int, ...]) -> nn.Sequential:
    """r without its sigmoid: fully connected layers on the squared difference of two vertex embeddings."""
    layers: list[nn.Module] = []
    for width in hidden:
        layers += [nn.Linear(dim, width), nn.ReLU()]
        dim = width
    return nn.Sequential(*layers, nn.Linear(dim, 1))


class RobustMat(Network):
    """The paper's model; every ablation is a configuration of it.

    Example:
        >>> model = RobustMat(ModelConfig(patch={"size": 32}, vertex={"channels": 16, "stem_channels": 8}))
        >>> patches = torch.zeros(5, 3, 32, 32)
        >>> index, mask = torch.zeros(5, 3, dtype=torch.long), torch.ones(5, 3, dtype=torch.bool)
        >>> a = model.embed(patches, index, mask)
        >>> model.score(model.compare(a, a)).shape
        torch.Size([5, 5])
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config: ModelConfig = config
        self.evidence = config.evidence
        dim = config.vertex.embedding_dim
        self.vertex = VertexDiffusion(config.vertex, config.patch.channels)
        if config.score != "graph":
            self.vertex_similarity = similarity(dim, config.similarity_hidden)
            if config.vertex.handcrafted:
                self.likeness = Likeness(config.vertex.handcrafted)
                # Of what is learned, beside them: on streets that were not learned from it says less than it thinks.
                self.trust = nn.Parameter(torch.tensor(0.3))
        if config.score != "vertex":
            self.graph = GraphDiffusion(config.graph, dim)
            self.graph_matrix = nn.Parameter(torch.empty(dim, dim))  # M of d(a, b) = sigmoid(a' M b)
            nn.init.xavier_uniform_(self.graph_matrix)
        if config.joint:
            self.joint = JointDiffusion(config.joint, dim, config.vertex.handcrafted)

    @torch.no_grad()
    def warm_start(self, patches: Tensor) -> None:
        """Begin by what tells some patches [N, I, S, S] apart, before anything is learned: f as principal components of
        what the diffusion makes of them, r as a distance, d as a likeness."""
        self.vertex.warm_start(patches)
        some = self.learned(self.vertex.embed(patches[:SAMPLE]))
        if self.config.score != "graph":
            first = cast(nn.Linear, self.vertex_similarity[0])
            first.weight.abs_()
            difference = (some[:, None] - some).square()
            begin_as_distance(self.vertex_similarity, lambda: self.vertex_similarity(difference))
        if self.config.score != "vertex":
            self.graph_matrix.copy_(torch.eye(len(self.graph_matrix)) / (some @ some.T).std().clamp(min=1e-6))

    def describe(self, patches: Tensor, index: Tensor, mask: Tensor, placement: Tensor) -> Described:
        if not len(patches):
            vertex, graph = self.config.vertex.descriptor_dim, self.config.vertex.embedding_dim
            return {
                "vertex": patches.new_zeros(0, vertex),
                "graph": patches.new_zeros(0, graph),
                "placement": placement,
            }
        found = self.embed(patches, index, mask)
        return {"vertex": found.vertex, "graph": found.graph, "placement": placement}

    def score_pairs(self, a: Described, b: Described, evidence: str) -> Tensor:
        first, second = (Embeddings(known["vertex"], known["graph"], known["placement"]) for known in (a, b))
        return self.match_score(first, second, evidence)

    def score_logits(self, a: Described, b: Described, evidence: str) -> Tensor:
        first, second = (Embeddings(known["vertex"], known["graph"], known["placement"]) for known in (a, b))
        return self.match_logits(first, second, evidence)

    def match_logits(self, a: Embeddings, b: Embeddings, evidence: str) -> Tensor:
        """Log odds of all pairs [A, B] against having no partner, knowing what `evidence` says."""
        if evidence == "pair":
            share = self.match_score(a, b, evidence) / self.max_score(evidence)
            return share.clamp(LOGIT_CLIP, 1 - LOGIT_CLIP).logit()
        assignment = self.assign(a, b, placement=evidence == "placement")
        return assignment.logits - assignment.alone

    def max_score(self, evidence: str) -> float:
        """The paper's score is a sum of two halves, whole frames give shares of trust."""
        return 1.0 + self.config.graph_weight if evidence == "pair" and self.config.score == "both" else 1.0

    def start_from(self, other: Network, name: str) -> None:
        """Take over the weights of a model that sees the same crops; parts that it lacks begin anew.

        Crops may be scaled to other sizes: what a network learns from small patches in minutes, where it would take
        hours at its own size, is a start.
        """
        own, given = self.state_dict(), other.state_dict()
        fitting = {key: value for key, value in given.items() if key in own and own[key].shape == value.shape}
        same_crops = other.config.patch.model_copy(update={"size": self.config.patch.size}) == self.config.patch
        if not same_crops or "vertex.project.weight" not in fitting:
            raise ConfigError(
                f"checkpoint '{name}' has another model configuration than this training: start from a checkpoint "
                "that was trained with the same [model], or leave --start out"
            )
        self.load_state_dict(own | fitting)

    def embed(self, patches: Tensor, index: Tensor, mask: Tensor, placement: Tensor | None = None) -> Embeddings:
        """f and g of N landmarks at once, each patch embedded a single time.

        Args:
            patches: [N, 3, S, S], or 6 channels with context.
            index, mask: [N, K], the vertices of each landmark's graph and which of them exist.
            placement: [N, P], kept beside the embeddings for the joint diffusion.
        """
        if torch.is_grad_enabled():
            vertex, vertex_evolved = self.vertex(patches)  # [N, D]
        else:
            vertex, vertex_evolved = self.vertex.embed(patches), None
        return replace(self.surround(vertex, index, mask, placement), vertex_evolved=vertex_evolved)

    def surround(self, vertex: Tensor, index: Tensor, mask: Tensor, placement: Tensor | None = None) -> Embeddings:
        """g of N landmarks whose f [N, D + E] is known; see `embed`."""
        if self.config.score == "vertex":
            return Embeddings(vertex, torch.zeros_like(vertex), placement)
        graph, graph_evolved = self.graph(self.learned(vertex)[index], mask)  # [N, K, D] -> [N, D]
        return Embeddings(vertex, graph, placement, graph_evolved=graph_evolved)

    def handcrafted_weights(self) -> list[nn.Parameter]:
        """How much each hand-crafted descriptor counts, in r and in the joint diffusion, and in r what is learned
        beside them."""
        beside = [self.trust] if self.config.vertex.handcrafted and self.config.score != "graph" else []
        return [*(module.power for module in self.modules() if isinstance(module, Likeness)), *beside]

    def evidence_weights(self) -> list[nn.Parameter]:
        """The few numbers that say how much each kind of evidence counts, and having no partner."""
        weights = self.handcrafted_weights()
        if self.config.joint:
            weights += [self.joint.appearance, self.joint.emphasis, self.joint.offset, self.joint.alone]
        if not weights:
            raise ConfigError('learns = "weights" needs a model with [joint] or with handcrafted evidence: use "heads"')
        return weights

    def learned(self, vertex: Tensor) -> Tensor:
        """The learned part [N, D] of f."""
        return vertex[:, : self.config.vertex.embedding_dim]

    def compare(self, a: Embeddings, b: Embeddings) -> PairLogits:
        """All pairs of the landmarks of two frames: r in one batch, d as two matrix products."""
        zeros = a.vertex.new_zeros(a.vertex.shape[0], b.vertex.shape[0])  # not len(): a traced graph keeps counts open
        vertex = graph_ab = graph_ba = zeros
        learned_a, learned_b = self.learned(a.vertex), self.learned(b.vertex)
        if self.config.score != "graph":
            difference = (learned_a[:, None] - learned_b).square()  # [A, B, D]
            vertex = self.vertex_similarity(difference).squeeze(-1)
            if self.config.vertex.handcrafted:
                dim = self.config.vertex.embedding_dim
                vertex = self.trust * vertex + self.likeness(a.vertex[:, dim:], b.vertex[:, dim:])
        if self.config.score != "vertex":
            graph_ab = learned_a @ self.graph_matrix @ b.graph.T
            graph_ba = (learned_b @ self.graph_matrix @ a.graph.T).T
        return PairLogits(vertex, graph_ab, graph_ba)

    def assign(self, a: Embeddings, b: Embeddings, placement: bool = True) -> Assignment:
        """Two whole frames compared: evidence for all pairs that knows their rivals, with or without placements."""
        placed = (a.placement, b.placement) if placement else (None, None)
        assignment: Assignment = self.joint(a.vertex, b.vertex, *placed)
        return assignment

    def match_score(self, a: Embeddings, b: Embeddings, evidence: str) -> Tensor:
        """The score of all pairs [A, B], knowing what `evidence` says."""
        if evidence not in self.config.evidence:
            known = ", ".join(self.config.evidence)
            raise ConfigError(f"this model cannot score by evidence '{evidence}': choose one of {known}")
        if evidence == "pair":
            return self.score(self.compare(a, b))
        return self.assign(a, b, placement=evidence == "placement").score()

    def score(self, logits: PairLogits) -> Tensor:
        """S_match = r + w (d + d') / 2, in [0, 1 + w]; in [0, 1] where the config leaves one of them out."""
        vertex, graph = logits.vertex.sigmoid(), (logits.graph_ab.sigmoid() + logits.graph_ba.sigmoid()) / 2
        if self.config.score == "both":
            return vertex + self.config.graph_weight * graph
        return vertex if self.config.score == "vertex" else graph
