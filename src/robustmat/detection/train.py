"""The training run of a detector: a plain loop that can be stopped and resumed at any step."""

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from robustmat.detection.augment import SMALLEST_SHARE, change_look, draw_crop, fill_canvas, halved
from robustmat.detection.config import DetectorTrainingConfig, SourceConfig
from robustmat.detection.labels import CLASSES, INSIDE, UNKNOWN, LabelledImage
from robustmat.detection.network import WIDTHS, DenseDetector
from robustmat.detection.samples import Sample, find_samples
from robustmat.detection.weights import load_network, read_network, save_network
from robustmat.errors import DataError
from robustmat.files import replacing, write_json

Progress = Callable[[int, int, float], None]  # step, of so many, loss
INSIDE_WEIGHT = 0.1  # it is asked about landmarks' pixels alone, where nearly every pixel is a question
MOST_PIECES = 6  # images on one canvas


class SampleDraw:
    """Draws training samples from the sources, each by its share."""

    def __init__(self, config: DetectorTrainingConfig, root: Path | str) -> None:
        self.config = config
        self.samples = [find_samples(source, root) for source in config.sources]
        shares = np.array([source.share for source in config.sources])
        self.shares = shares / shares.sum()

    def batch(self, step: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Images [B, 3, H, W], targets and weights [B, CHANNELS, H/2, W/2], classes [B, H/4, W/4] of a step."""
        rng = np.random.default_rng([self.config.seed, step])
        images, targets, weights, classes = [], [], [], []
        for _ in range(self.config.batch):
            drawn = self._one(rng)
            target, weight = halved(drawn)
            images.append(change_look(drawn.image, rng).transpose(2, 0, 1))
            targets.append(target)
            weights.append(weight)
            classes.append(drawn.semantics[2::4, 2::4].astype(np.int64))
        planes: list[NDArray[np.float32]] = [np.stack(one).astype(np.float32) for one in (images, targets, weights)]
        shown, covered, known = (torch.from_numpy(plane) for plane in planes)
        around = torch.from_numpy(np.stack(classes))
        return shown.contiguous(memory_format=torch.channels_last), covered, known, around

    def _one(self, rng: np.random.Generator) -> LabelledImage:
        number = int(rng.choice(len(self.samples), p=self.shares))
        source, samples = self.config.sources[number], self.samples[number]
        size = self.config.crop
        pieces: list[LabelledImage] = []
        covered = 0
        while covered < size[0] and len(pieces) < MOST_PIECES:
            piece = self._piece(source, samples, rng)
            pieces.append(piece)
            covered += piece.target.shape[1]
            if piece.target.size >= SMALLEST_SHARE * size[0] * size[1]:
                break
        if len(pieces) == 1 and pieces[0].target.shape == size[::-1]:
            return pieces[0]
        return fill_canvas(pieces, size, rng)

    def _piece(self, source: SourceConfig, samples: list[Sample], rng: np.random.Generator) -> LabelledImage:
        labelled = samples[int(rng.integers(len(samples)))].load()
        low, high = source.scale
        scale = float(low * (high / low) ** rng.random())
        return draw_crop(labelled, self.config.crop, scale, self.config.focus, rng)


def detection_loss(logits: Tensor, target: Tensor, weight: Tensor) -> Tensor:
    """Cross-entropy of each cell's covered share, and Dice's loss, which does not drown in background."""
    entropy = F.binary_cross_entropy_with_logits(logits, target, weight, reduction="none")
    known = weight.sum(dim=(0, 2, 3))
    entropy = entropy.sum(dim=(0, 2, 3)) / known.clamp(min=1.0)
    entropy = entropy[:INSIDE].sum() + INSIDE_WEIGHT * entropy[INSIDE]
    share = torch.sigmoid(logits) * weight
    covered = target * weight
    both = 2 * (share * covered).sum(dim=(0, 2, 3)) + 50.0  # cells: a channel with little to learn weighs little
    dice = 1 - both / ((share * share + covered * covered).sum(dim=(0, 2, 3)) + 50.0)
    return 10 * entropy + dice.sum()


class Surroundings(nn.Module):
    """What stands around landmarks, asked in training alone: who knows trees takes fewer of them for poles."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Conv2d(WIDTHS[1], CLASSES, 1)

    def forward(self, coarse: Tensor, classes: Tensor) -> Tensor:
        """The cross-entropy of the cells whose class is known; 0 without one."""
        losses = F.cross_entropy(self.head(coarse), classes, ignore_index=UNKNOWN, reduction="sum")
        return losses / (classes != UNKNOWN).sum().clamp(min=1)


def train(
    config: DetectorTrainingConfig,
    data: Path | str,
    out: Path | str,
    *,
    resume: bool = False,
    progress: Progress | None = None,
) -> Path:
    """Train, and write a checkpoint into OUT; `last.pt` in it lets a stopped run go on. Gives back OUT."""
    out = Path(out)
    last = out / "last.pt"
    if out.exists() and any(out.iterdir()) and not resume:
        raise DataError(f"{out} is not empty: choose another folder, or resume the run in it")
    torch.manual_seed(config.seed)
    network = DenseDetector()
    if config.start == "imagenet":
        network.load_imagenet()
    else:
        load_network(network, read_network(config.start).weights)
    network.freeze_first_layers()
    network = network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # faster on a CPU
    surroundings = Surroundings()
    begun = {name: value.detach().clone() for name, value in network.state_dict().items()}
    average = {name: value.clone() for name, value in begun.items()}
    groups = [*_groups(network, config), {"params": list(surroundings.parameters()), "factor": 1.0}]
    optimizer = torch.optim.AdamW(groups, weight_decay=config.weight_decay)
    drawn = SampleDraw(config, data)
    first = 0
    if resume and last.is_file():
        try:
            state = torch.load(last, weights_only=True)
            network.load_state_dict(state["network"])
            surroundings.load_state_dict(state["surroundings"])
            optimizer.load_state_dict(state["optimizer"])
            average, first = state["average"], int(state["step"])
        except Exception:  # whatever a file of any bytes makes torch raise
            raise DataError(f"{last} is broken or of another run: delete it, and --resume begins anew") from None
    history = []
    for step in range(first, config.steps):
        rate = _rate(step, config)
        for group in optimizer.param_groups:
            group["lr"] = rate * group["factor"]
        loss = _loss(network, surroundings, drawn.batch(step), config.context)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(network.parameters(), 5.0)
        optimizer.step()
        keep = min(config.average, (step + 1) / (step + 10))
        with torch.no_grad():
            for name, value in network.state_dict().items():
                average[name].lerp_(value, 1 - keep)
        history.append(float(loss.detach()))
        if progress is not None:
            progress(step + 1, config.steps, float(np.mean(history[-50:])))
        if (step + 1) % config.save_every == 0 or step + 1 == config.steps:
            kept = {"network": network.state_dict(), "surroundings": surroundings.state_dict(), "average": average}
            with replacing(last) as temporary:
                torch.save({**kept, "optimizer": optimizer.state_dict(), "step": step + 1}, temporary)
            save_network(out, config, mixed(average, begun, config.start_share), step + 1)
    write_json(out / "curve.json", history)
    return out


def mixed(learned: dict[str, Tensor], start: dict[str, Tensor], start_share: float) -> dict[str, Tensor]:
    """Weights between what was learned and what it began with."""
    return {name: value.lerp(start[name], start_share) for name, value in learned.items()}


def _loss(
    network: DenseDetector, surroundings: Surroundings, batch: tuple[Tensor, Tensor, Tensor, Tensor], context: float
) -> Tensor:
    image, target, weight, classes = batch
    with torch.no_grad():
        first_maps = network.begin(image)
    logits, coarse = network.decode(first_maps)
    loss = detection_loss(logits, target, weight)
    return loss + context * surroundings(coarse, classes) if context else loss


def _groups(network: DenseDetector, config: DetectorTrainingConfig) -> list[dict[str, object]]:
    learned = [(name, value) for name, value in network.named_parameters() if value.requires_grad]
    backbone = [value for name, value in learned if name.startswith(("stem", "blocks"))]
    decoder = [value for name, value in learned if not name.startswith(("stem", "blocks"))]
    return [{"params": backbone, "factor": config.backbone_rate}, {"params": decoder, "factor": 1.0}]


def _rate(step: int, config: DetectorTrainingConfig) -> float:
    warm = min((step + 1) / max(config.warm_up, 1), 1.0)
    return config.learning_rate * warm * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * step / config.steps)))
