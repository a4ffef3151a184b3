"""Every method by its name: RobustMat with its kinds of evidence, the rivals with the steps on top of them."""

from pathlib import Path

from robustmat.config import nearest
from robustmat.errors import ConfigError
from robustmat.fitting.references import fit_box_geometry, read_examples
from robustmat.matching.baseline import BaselineMatcher
from robustmat.matching.matcher import RobustMatcher
from robustmat.matching.protocol import Matcher
from robustmat.matching.steps import STEPS, StepConfig, SteppedMatcher
from robustmat.models.baselines import BASELINES
from robustmat.models.baselines.weights import PAIR, load_baseline, method_of
from robustmat.models.weights import Provenance, find_checkpoint, load_checkpoint

ROBUSTMAT = "robustmat"
EVIDENCE = ("pair", "frames", "placement")


def split_method(method: str) -> tuple[str, str | None]:
    """`hardnet+neighbors` as the method and what goes on top of it."""
    name, plus, step = method.partition("+")
    known = (ROBUSTMAT, *BASELINES)
    if name not in known:
        raise ConfigError(f"unknown method '{name}' ({nearest(name, list(known))})")
    steps = EVIDENCE if name == ROBUSTMAT else STEPS
    if plus and step not in steps:
        raise ConfigError(f"unknown step '+{step}' on top of {name} ({nearest(step, list(steps))})")
    return name, step or None


def with_evidence(method: str, evidence: str | None) -> str:
    """`robustmat` and `pair` as `robustmat+pair`; the rivals have steps, not kinds of evidence."""
    name, step = split_method(method)
    if evidence is None:
        return method
    if name != ROBUSTMAT or step not in (None, evidence):
        raise ConfigError(f"--evidence {evidence} does not go with method '{method}': write METHOD+STEP instead")
    split_method(f"{name}+{evidence}")  # refuses what there is not
    return f"{name}+{evidence}"


def evidence_of(matcher: Matcher) -> str:
    """What a matcher's scores know: the pair alone, or what was put on top."""
    if isinstance(matcher, RobustMatcher):
        return matcher.evidence
    return matcher.step if isinstance(matcher, SteppedMatcher) else PAIR


def load_method(method: str, checkpoint: str | Path) -> tuple[Matcher, Provenance]:
    """`robustmat`, `robustmat+frames`, `hardnet`, `hardnet+neighbors` from its checkpoint, and where that is from."""
    name, step = split_method(method)
    found = method_of(checkpoint) or ROBUSTMAT
    if found != name:
        raise ConfigError(f"checkpoint '{checkpoint}' holds {found}, not {name}: give the folder of a {name} run")
    if name == ROBUSTMAT:
        robust = RobustMatcher(load_checkpoint(checkpoint), evidence=step)
        return robust, robust.provenance
    loaded = load_baseline(checkpoint)
    matcher = BaselineMatcher(name, loaded.model, loaded.decisions[PAIR], loaded.provenance)
    if step is None:
        return matcher, loaded.provenance
    if step not in loaded.steps:
        raise ConfigError(f"checkpoint '{checkpoint}' has no fitted step '{step}': finish its training with --resume")
    prior = None
    if step == "placement":
        examples = read_examples(find_checkpoint(checkpoint))
        if examples is None:
            raise ConfigError(f"checkpoint '{checkpoint}' lacks its box geometry: finish its training with --resume")
        prior = fit_box_geometry(examples, loaded.provenance.seed or 0)
    stepped = SteppedMatcher(matcher, step, StepConfig(**loaded.steps[step]), loaded.decisions[step], prior)
    return stepped, loaded.provenance
