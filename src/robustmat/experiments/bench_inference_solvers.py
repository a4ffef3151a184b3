"""How few solver steps keep a trained model's decisions: every solver held to a fine solution of the same weights."""

from collections.abc import Sequence

import numpy as np

from robustmat.experiments.bench_inference_contest import Contestant, Section, Tell, hold
from robustmat.matching.matcher import RobustMatcher
from robustmat.models.robustmat import ModelConfig, RobustMat
from robustmat.models.solvers import SolverConfig
from robustmat.models.weights import Checkpoint
from robustmat.types import Array, Frame

FINE = SolverConfig(name="rk4", steps=16)
ONE_STEP, ADAPTIVE = "rk4, 1 step", "dopri5, the paper's tolerances"
SOLVERS = {
    "euler, 3 steps": SolverConfig(name="euler", steps=3),
    "midpoint, 1 step": SolverConfig(name="midpoint", steps=1),
    ONE_STEP: SolverConfig(name="rk4", steps=1),
    "rk4, 2 steps": SolverConfig(name="rk4", steps=2),
    ADAPTIVE: SolverConfig(name="dopri5", tolerance=1e-2),
}
GRAPH_TOLERANCE = 1e-3
ROUNDS = 5


def compare_solvers(checkpoint: Checkpoint, frames: Sequence[Frame], tell: Tell, clock: str = "wall") -> Section:
    """Decisions of a trained model by vertex and graph solver; all candidates of all frame pairs, by pair score.

    A solver other than the one it was trained with may move scores near the threshold; the stored threshold is
    used for all.
    """
    fine = _matcher(checkpoint, FINE)
    pairs = [(i, j) for i in range(len(frames)) for j in range(i + 1, len(frames))]
    wanted = _scores(fine, frames, pairs)
    contestants, facts, decided = [], {}, {}
    for name, solver in SOLVERS.items():
        tell(f"solvers: {name}")
        try:
            matcher = _matcher(checkpoint, solver)
        except ValueError:
            continue  # steps too long for a contractive field
        found = _scores(matcher, frames, pairs)
        decided[name] = found >= matcher.threshold
        same = decided[name] == (wanted >= matcher.threshold)
        facts[name] = {
            "largest_score_difference": float(np.abs(found - wanted).max()),
            "decisions_equal": float(same.mean()),
            "candidates": int(same.size),
        }
        contestants.append(Contestant(name, lambda matcher=matcher: matcher.embed(frames[0])))  # type: ignore[misc]
    agree = float((decided[ONE_STEP] == decided[ADAPTIVE]).mean())
    contest = hold(contestants, ROUNDS, lambda what: tell(f"solvers: {what}"), clock=clock)
    return Section(
        f"solver steps of '{checkpoint.name}' against rk4 with {FINE.steps} steps, one frame embedded",
        contest.rows(),
        facts={"against_fine": facts, "decisions_equal_rk4_1_and_dopri5": agree},
    )


def _matcher(checkpoint: Checkpoint, solver: SolverConfig) -> RobustMatcher:
    config = checkpoint.model.config
    graph = solver.model_copy(update={"tolerance": GRAPH_TOLERANCE})
    changed = config.model_copy(
        update={
            "vertex": config.vertex.model_copy(update={"solver": solver}),
            "graph": config.graph.model_copy(update={"solver": graph}),
        }
    )
    model = RobustMat(ModelConfig.model_validate(changed.model_dump()))
    model.load_state_dict(checkpoint.model.state_dict())
    changed_checkpoint = Checkpoint(checkpoint.name, model, checkpoint.decisions, checkpoint.provenance)
    return RobustMatcher(changed_checkpoint, evidence="pair")


def _scores(matcher: RobustMatcher, frames: Sequence[Frame], pairs: Sequence[tuple[int, int]]) -> Array:
    embedded = [matcher.embed(it) for it in frames]
    return np.concatenate([matcher.score(embedded[i], embedded[j]).ravel() for i, j in pairs])
