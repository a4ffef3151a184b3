"""Go on training a checkpoint in memory, such as a pruned one, for a few steps at a low rate."""

from collections.abc import Sequence
from pathlib import Path

from robustmat.checkpoints.store import Checkpoint
from robustmat.dataset.store import LandmarkDataset
from robustmat.progress import Progress
from robustmat.training.config import load_training_config
from robustmat.training.run import train

LEARNING_RATE = 2e-4


def fine_tune(
    checkpoint: Checkpoint,
    datasets: Sequence[LandmarkDataset],
    validation: Sequence[LandmarkDataset],
    out: Path | str,
    *,
    config: str = "street",
    steps: int = 100,
    learning_rate: float = LEARNING_RATE,
    command: str = "",
    resume: bool = False,
    progress: Progress | None = None,
) -> Path:
    """The folder of the fine-tuned checkpoint; its network is the given one's, whatever `config` says of networks."""
    changes = {
        "model": checkpoint.network.config.model_dump(mode="json"),
        "steps": steps,
        "validate_every": steps,
        "learning_rate": learning_rate,
    }
    facts = checkpoint.provenance
    return train(
        load_training_config(config, changes),
        datasets,
        validation,
        out,
        start=checkpoint,
        licence=facts.licence,
        terms=facts.terms,
        command=command,
        resume=resume,
        progress=progress,
    )
