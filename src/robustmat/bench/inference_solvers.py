"""How few solver steps keep a trained model's decisions: every solver held to a fine solution of the same weights."""

from collections.abc import Sequence

import numpy as np

from robustmat.bench.inference_authors import AuthorsWay, default_layout
from robustmat.bench.inference_contest import Contestant, Figure, Section, Tell, hold
from robustmat.bench.runs import Spread
from robustmat.checkpoints.store import Checkpoint
from robustmat.export.write import robustmat_of
from robustmat.matching.network import NetworkMatcher
from robustmat.models.robustmat import ModelConfig, RobustMat
from robustmat.models.solvers import SolverConfig
from robustmat.types import Array, Frame

FINE = SolverConfig(name="rk4", steps=16)
SOLVERS = {
    "rk4, 1 step": SolverConfig(name="rk4", steps=1),
    "euler, 3 steps": SolverConfig(name="euler", steps=3),
    "midpoint, 1 step": SolverConfig(name="midpoint", steps=1),
    "rk4, 2 steps": SolverConfig(name="rk4", steps=2),
    "dopri5, the paper's tolerances": SolverConfig(name="dopri5", tolerance=1e-2),
}
GRAPH_TOLERANCE = 1e-3
ROUNDS = 5
CANDIDATES = 400  # that the authors' way decides about, one by one


def compare_solvers(checkpoint: Checkpoint, frames: Sequence[Frame], tell: Tell, clock: str = "wall") -> Section:
    """Decisions of a trained model by vertex and graph solver; all candidates of all frame pairs, by pair score.

    A solver other than the one it was trained with may move scores near the threshold; the stored threshold is
    used for all.
    """
    fine = _matcher(checkpoint, FINE)
    pairs = [(i, j) for i in range(len(frames)) for j in range(i + 1, len(frames))]
    wanted = _scores(fine, frames, pairs)
    contestants, facts = [], {}
    for name, solver in SOLVERS.items():
        tell(f"solvers: {name}")
        try:
            matcher = _matcher(checkpoint, solver)
        except ValueError:
            continue  # steps too long for a contractive field
        found = _scores(matcher, frames, pairs)
        same = (found >= matcher.decision.threshold) == (wanted >= matcher.decision.threshold)
        facts[name] = {
            "largest_score_difference": float(np.abs(found - wanted).max()),
            "decisions_equal": float(same.mean()),
            "candidates": int(same.size),
        }
        contestants.append(Contestant(name, lambda matcher=matcher: matcher.embed(frames[0])))  # type: ignore[misc]
    tell("solvers: every pair anew with dopri5")
    agree = Spread.of([agreement(checkpoint, frames, pairs)])
    contest = hold(contestants, ROUNDS, lambda what: tell(f"solvers: {what}"), clock=clock)
    return Section(
        f"solver steps of '{checkpoint.name}' against rk4 with {FINE.steps} steps, one frame embedded",
        contest.rows(),
        (Figure("decisions as every pair anew with dopri5 has them: a share of {}", agree, 0.99),),
        {"against_fine": facts, "candidates_decided_anew": CANDIDATES},
    )


def agreement(checkpoint: Checkpoint, frames: Sequence[Frame], pairs: Sequence[tuple[int, int]]) -> float:
    """On which share of candidates the authors' way, with torchdiffeq's dopri5, decides as each patch once does."""
    model = robustmat_of(checkpoint)
    matcher = NetworkMatcher(checkpoint.name, model, checkpoint.decisions["pair"])
    embedded = [matcher.embed(frame) for frame in frames]
    way = AuthorsWay(default_layout(model), adaptive=True)
    rng = np.random.default_rng(0)
    same = []
    for pair in rng.integers(0, len(pairs), CANDIDATES):
        a, b = pairs[pair]
        i, j = (int(rng.integers(0, len(frames[one].landmarks))) for one in (a, b))
        ours = matcher.score(embedded[a], embedded[b])[i, j]
        theirs = way.score(frames[a], frames[b], i, j)
        same.append((ours >= matcher.decision.threshold) == (theirs >= matcher.decision.threshold))
    return float(np.mean(same))


def _matcher(checkpoint: Checkpoint, solver: SolverConfig) -> NetworkMatcher:
    config = robustmat_of(checkpoint).config
    graph = solver.model_copy(update={"tolerance": GRAPH_TOLERANCE})
    changed = config.model_copy(
        update={
            "vertex": config.vertex.model_copy(update={"solver": solver}),
            "graph": config.graph.model_copy(update={"solver": graph}),
        }
    )
    model = RobustMat(ModelConfig.model_validate(changed.model_dump()))
    model.load_state_dict(checkpoint.network.state_dict())
    return NetworkMatcher(checkpoint.name, model.eval(), checkpoint.decisions["pair"])


def _scores(matcher: NetworkMatcher, frames: Sequence[Frame], pairs: Sequence[tuple[int, int]]) -> Array:
    embedded = [matcher.embed(frame) for frame in frames]
    return np.concatenate([matcher.score(embedded[i], embedded[j]).ravel() for i, j in pairs])
