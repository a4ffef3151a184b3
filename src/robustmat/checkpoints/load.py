"""The one way to a matcher: by the name of a shipped checkpoint, of a method that needs no training, or by a folder."""

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from robustmat.checkpoints.store import (
    EXPORTED,
    Checkpoint,
    CheckpointHeader,
    Provenance,
    find_checkpoint,
    load_checkpoint,
    read_header,
)
from robustmat.config import nearest
from robustmat.errors import ConfigError
from robustmat.matching.combined import CombinedMatcher
from robustmat.matching.manifest import is_export, read_manifest
from robustmat.matching.matcher import Matcher
from robustmat.methods import find_method, method_names, split_name

if TYPE_CHECKING:
    from robustmat.matching.network import NetworkMatcher

RUNTIMES = ("auto", "torch", "onnx", "onnx-int8")


def load(
    name: str | Path = "street",
    *,
    runtime: str = "auto",
    device: str = "cpu",
    evidence: str | None = None,
    same_category: bool = True,
) -> Matcher:
    """A matcher, ready to embed and match.

    Args:
        name: a shipped checkpoint (`street`), a checkpoint's or a training run's folder, a folder of exported files, or
            a method that needs no training (`root-sift`).
        runtime: `torch`, `onnx`, `onnx-int8`; `auto` takes torch where it is installed and onnxruntime where it is not.
        device: where torch computes: `cpu`, `cuda`, ...
        evidence: what a score may know: `pair`, `frames`, `placement`, `scene`, or a step on top of a rival
            (`competition`); the most that the checkpoint knows, unless given.
        same_category: match signs with signs and poles with poles only.
    """
    if runtime not in RUNTIMES:
        raise ConfigError(f"unknown runtime '{runtime}' ({nearest(runtime, list(RUNTIMES))})")
    if needs_no_training(name):
        return untrained_matcher(str(name), evidence, same_category=same_category)
    if is_export(name):
        if runtime == "torch":
            raise ConfigError(f"{name} is an ONNX export: leave --runtime out, or give its checkpoint")
        return _exported(Path(name), runtime, device, evidence, same_category)
    folder = find_checkpoint(name)
    if runtime == "auto":
        runtime = "torch" if find_spec("torch") else "onnx"
    if runtime == "torch":
        return from_checkpoint(load_on(name, device), evidence, same_category=same_category)
    read_header(folder)  # says what is wrong with the checkpoint, and its terms
    if not is_export(folder / EXPORTED):
        raise ConfigError(
            f"'{name}' brings no exported files: run `robustmat export onnx --checkpoint {name} --out DIR` where torch "
            "is installed and give DIR, or install torch: pip install 'robustmat[torch]'"
        )
    return _exported(folder / EXPORTED, runtime, device, evidence, same_category)


def needs_no_training(name: str | Path) -> bool:
    """Whether a name that `load` takes is that of a method, and not of a checkpoint; nothing is imported."""
    return str(name) in method_names() and not Path(name).is_dir()


def load_on(name: str | Path, device: str) -> Checkpoint:
    """A checkpoint with its network on a device."""
    if not find_spec("torch"):
        raise ConfigError("torch is not installed: pip install 'robustmat[torch]', or leave the runtime to onnxruntime")
    import torch

    checkpoint = load_checkpoint(name)
    try:
        checkpoint.network.to(torch.device(device))
    except (RuntimeError, AssertionError) as problem:
        reason = str(problem).splitlines()[0]
        raise ConfigError(f"device '{device}' cannot be used here ({reason}): choose cpu") from None
    return checkpoint


def from_checkpoint(checkpoint: Checkpoint, evidence: str | None = None, *, same_category: bool = True) -> Matcher:
    """The matcher of a checkpoint: its network by itself, with a step on top, or with all evidence combined."""
    known = list(dict.fromkeys((*checkpoint.network.evidence, *checkpoint.steps, *checkpoint.combinations)))
    evidence = evidence or (*checkpoint.network.evidence, *checkpoint.combinations)[-1]
    if evidence not in known:
        hint = nearest(evidence, known)
        raise ConfigError(f"checkpoint '{checkpoint.name}' cannot score by evidence '{evidence}' ({hint})")
    if evidence in checkpoint.combinations:
        inner = network_matcher(checkpoint, checkpoint.network.evidence[-1], same_category=same_category)
        return CombinedMatcher(inner, checkpoint.combinations, evidence, same_category=same_category)
    if evidence in checkpoint.network.evidence:
        return network_matcher(checkpoint, evidence, same_category=same_category)
    own = network_matcher(checkpoint, checkpoint.network.evidence[-1], same_category=same_category)
    return with_step(checkpoint, own, evidence)


def network_matcher(checkpoint: Checkpoint, evidence: str, *, same_category: bool = True) -> "NetworkMatcher":
    """A checkpoint's network by itself."""
    from robustmat.matching.network import NetworkMatcher

    return NetworkMatcher(
        checkpoint.name,
        checkpoint.network,
        checkpoint.decisions[evidence],
        evidence=evidence,
        fingerprint=checkpoint.fingerprint,
        same_category=same_category,
    )


def with_step(checkpoint: Checkpoint, matcher: Matcher, step: str) -> Matcher:
    """A step that was fitted on top of a checkpoint, on top of its matcher."""
    from robustmat.matching.steps import SteppedMatcher
    from robustmat.methods.box_geometry import fit_box_geometry, read_examples

    prior = None
    if step == "placement":
        examples = read_examples(checkpoint.folder) if checkpoint.folder else None
        if examples is None:
            raise ConfigError(f"checkpoint '{checkpoint.name}' lacks its box geometry: finish its training (--resume)")
        prior = fit_box_geometry(examples, checkpoint.provenance.seed or 0)
    return SteppedMatcher(matcher, step, checkpoint.steps[step], checkpoint.decisions[step], prior)


def untrained_matcher(name: str, evidence: str | None = None, *, same_category: bool = True) -> Matcher:
    """A method that needs no training, with its default threshold."""
    make = find_method(name).matcher
    if make is None:
        raise ConfigError(f"{name} has to be trained first (`robustmat train {name} ...`): give the folder of its run")
    split_name(name, evidence)  # refuses what it cannot know
    matcher = make()
    matcher.same_category = same_category
    if evidence in (None, "pair"):
        return matcher
    from robustmat.matching.steps import SteppedMatcher

    return SteppedMatcher(matcher, evidence, decision=matcher.decision)


def describe_source(name: str | Path) -> tuple[str, Provenance]:
    """The method behind a name that `load` takes, and where its weights come from."""
    if needs_no_training(name):
        return str(name), Provenance()
    header: CheckpointHeader = read_header(find_checkpoint(name))
    return header.method, header.provenance


def _exported(folder: Path, runtime: str, device: str, evidence: str | None, same_category: bool) -> Matcher:
    from robustmat.matching.onnx import OnnxMatcher

    if device != "cpu":
        raise ConfigError(f"exported files run on the cpu, not on device '{device}': choose cpu, or runtime torch")
    int8, manifest = runtime == "onnx-int8", read_manifest(folder)
    known = list(dict.fromkeys((*manifest.decisions, *manifest.combinations)))
    if evidence is not None and evidence not in known:
        hint = nearest(evidence, known)
        raise ConfigError(f"checkpoint '{manifest.checkpoint}' cannot score by evidence '{evidence}' ({hint})")
    evidence = evidence or next(reversed(manifest.combinations), None)
    if evidence in manifest.combinations:
        inner = OnnxMatcher(folder, same_category=same_category, int8=int8)
        return CombinedMatcher(inner, manifest.combinations, evidence, same_category=same_category)
    return OnnxMatcher(folder, evidence=evidence, same_category=same_category, int8=int8)
