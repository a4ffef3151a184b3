"""The training run of a denoiser: from folders of frames to a checkpoint, in the same loop as all others."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import lightning
import numpy as np
import torch
from pydantic import Field, PositiveInt
from torch import Tensor
from torch.nn import functional as F

from robustmat.checkpoints.store import Provenance
from robustmat.config import merged, parse
from robustmat.dataset.store import open_dataset
from robustmat.denoising.crops import NoisyFrames, Pixels, draw_crops, middle_crop, perturbed_copies
from robustmat.denoising.export import write_onnx
from robustmat.denoising.network import Sgn, SgnConfig
from robustmat.denoising.weights import find_denoiser, load_network, save_denoiser
from robustmat.errors import DataError
from robustmat.perturb import psnr
from robustmat.progress import Progress, silent
from robustmat.sources.folder import named_files
from robustmat.sources.images import READABLE, read_image
from robustmat.training.config import LoopConfig, read_training_values
from robustmat.training.loop import Headline, KeepBest, check_run, fit
from robustmat.training.module import make_optimizer
from robustmat.types import Frame

HEADLINE = Headline("psnr", "validation PSNR")
VALIDATED = (4, 256, 512)  # frames, and rows and columns of the middle of each that is measured


class DenoiserTrainingConfig(LoopConfig):
    """Everything that decides the weights but the data. The defaults made the shipped `sgn`."""

    method: str = "sgn"
    model: SgnConfig = SgnConfig()
    perturbations: tuple[str, ...] = Field(default=("paper:19", "paper:16", "paper:13", "clean"), min_length=1)
    white_noise: tuple[float, float] | None = (10.0, 40.0)  # dB, of every second copy
    views: PositiveInt = 1  # perturbed copies of each frame, made before training
    crop: PositiveInt = 64  # pixels
    crops_per_step: PositiveInt = 4
    grey_share: float = Field(default=0.2, ge=0, le=1)
    optimizer: Any = "adam"
    learning_rate: float = Field(default=2e-3, gt=0)
    schedule: Any = "cosine"
    steps: int = Field(default=1500, ge=0)
    validate_every: PositiveInt = 250


@dataclass(frozen=True)
class Pictures:
    """Frames to denoise, and what they are called."""

    name: str
    frames: tuple[Frame, ...]


def open_pictures(path: Path | str) -> Pictures:
    """The frames of a data set made by `prepare`, or of a folder of images or with `images/` in it."""
    path = Path(path)
    if (path / "dataset.json").is_file():
        dataset = open_dataset(path)
        return Pictures(dataset.name, dataset.frames)
    files = named_files(path / "images" if (path / "images").is_dir() else path, READABLE, "images")
    return Pictures(path.name, tuple(Frame(file.name, partial(read_image, file)) for file in files.values()))


def load_denoiser_config(name: str | Path, changes: dict[str, Any]) -> DenoiserTrainingConfig:
    """The defaults under the denoiser's name, or a TOML file; `changes` are laid over it."""
    return parse(DenoiserTrainingConfig, merged(read_training_values(name), changes), str(name))


class DenoiserModule(lightning.LightningModule):
    """A denoiser in training: noisy crops in, the squared error against the clean ones out."""

    def __init__(self, config: DenoiserTrainingConfig) -> None:
        super().__init__()
        self.config, self.network = config, Sgn(config.model)

    def training_step(self, batch: tuple[Tensor, Tensor], _: int) -> Tensor:
        noisy, clean = batch
        loss = F.mse_loss(self.network(noisy) / 255, clean / 255)
        self.log("loss", loss.detach(), prog_bar=True)
        return loss

    def configure_optimizers(self) -> Any:
        return make_optimizer(self.network.parameters(), self.config)


def train_denoiser(
    config: DenoiserTrainingConfig,
    sources: Sequence[Pictures],
    validation: Sequence[Pictures],
    out: Path | str,
    *,
    start: Path | str | None = None,
    resume: bool = False,
    provenance: Provenance | None = None,
    device: str = "cpu",
    progress: Progress | None = None,
) -> Path:
    """Train, and return the folder of the best checkpoint by PSNR on held-out frames, exported to ONNX.

    Without `validation` the last of several sources is held out, or the last third of a single one.
    """
    out, show = Path(out), progress or silent
    sources, validation = _hold_out(sources, validation)
    names = {"drives": [one.name for one in sources], "validation_drives": [one.name for one in validation]}
    facts = (provenance or Provenance()).model_copy(
        update={"seed": config.seed, **{key: tuple(sorted(set(value))) for key, value in names.items()}}
    )
    record = check_run(out, config, facts, resume)
    frames = [frame for one in sources for frame in one.frames]
    bank = perturbed_copies(frames, config.perturbations, config.white_noise, config.views, config.seed, show)
    held = _held_out_frames(validation, config, show)
    with torch.random.fork_rng():
        torch.manual_seed(config.seed)
        module = DenoiserModule(config)
    if start is not None:
        module.network.load_state_dict(load_network(find_denoiser(start)).state_dict())

    def draw(rng: np.random.Generator) -> tuple[Pixels, Pixels]:
        return draw_crops(bank, config.crops_per_step, config.crop, config.grey_share, rng)

    def save(folder: str, _: None, steps: int) -> None:
        save_denoiser(out / folder, module.network, facts.model_copy(update={"steps": steps}))

    keeper = KeepBest(config, lambda: (None, {"psnr": mean_psnr(module.network, held)}), save, out, HEADLINE)
    fit(module, draw, keeper, config, out, record, resume=resume, device=device, bar=progress is not None)
    for folder in ("best", "final"):
        write_onnx(out / folder)
    return out / "best"


def mean_psnr(network: Sgn, held: NoisyFrames) -> float:
    """Of the denoised frames against the clean ones, in dB."""
    found = []
    with torch.inference_mode():
        for clean, copies in zip(held.clean, held.noisy, strict=True):
            for noisy in copies:
                shown = torch.from_numpy(noisy).permute(2, 0, 1)[None].float()
                pixels = network(shown.to(next(network.parameters()).device))[0].permute(1, 2, 0)
                found.append(psnr(clean, pixels.clamp(0, 255).round().to(torch.uint8).cpu().numpy()))
    return float(np.mean(found))


def _hold_out(
    sources: Sequence[Pictures], validation: Sequence[Pictures]
) -> tuple[Sequence[Pictures], Sequence[Pictures]]:
    if not sources or not all(one.frames for one in (*sources, *validation)):
        raise DataError("no frames to train a denoiser on: give folders of images or data sets with --data")
    if validation:
        return sources, validation
    if len(sources) > 1:
        return sources[:-1], sources[-1:]
    (only,) = sources
    kept = max(1, 2 * len(only.frames) // 3)
    if kept == len(only.frames):
        raise DataError(f"{only.name} holds a single frame: none is left to validate on; give more, or --val")
    return [Pictures(only.name, only.frames[:kept])], [Pictures(f"{only.name}, last third", only.frames[kept:])]


def _held_out_frames(validation: Sequence[Pictures], config: DenoiserTrainingConfig, progress: Progress) -> NoisyFrames:
    count, rows, columns = VALIDATED
    frames = [frame for one in validation for frame in one.frames]
    chosen = [frames[int(at)] for at in np.unique(np.linspace(0, len(frames) - 1, count).round())]
    copies = perturbed_copies(chosen, [config.validation_perturbation], None, 1, config.seed, progress)
    cell = config.model.cell

    def middle(image: Any) -> Any:
        cut = middle_crop(image, rows, columns)
        height, width = (side - side % cell for side in cut.shape[:2])
        return cut[:height, :width]

    return NoisyFrames(tuple(map(middle, copies.clean)), tuple(tuple(map(middle, some)) for some in copies.noisy))
