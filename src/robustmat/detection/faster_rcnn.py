"""The paper's own detector: Faster R-CNN with a ResNet-50 feature pyramid, through torchvision.

The paper trains it with Adam at 2e-4, weight decay 1e-4, 50 epochs, batches of two, horizontal flips; so does
`train_faster_rcnn`. It begins with random weights: the package brings no ImageNet weights for it, and loads none.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from robustmat.config import Config, parse, read_toml
from robustmat.detection.config import SourceConfig
from robustmat.detection.runtime import check_image
from robustmat.detection.samples import find_samples
from robustmat.detection.torchvision_ops import import_torchvision
from robustmat.detection.truth import Truth, sample_truth
from robustmat.detection.weights import FORMAT, VERSION, read_description
from robustmat.errors import DataError, WeightsError
from robustmat.files import replacing, write_json
from robustmat.types import CATEGORIES, Frame, Image, Landmark


class FasterRcnnConfig(Config):
    """The paper's values; `kind` tells a configuration file of it from a dense detector's."""

    kind: Literal["faster-rcnn"] = "faster-rcnn"
    sources: tuple[SourceConfig, ...] = ()
    name: str = "faster-rcnn"
    license: str = "unspecified"
    learning_rate: float = 2e-4
    weight_decay: float = 1e-4
    epochs: int = 50
    batch: int = 2
    seed: int = 0
    smallest_side: int = 375  # pixels, to which frames are scaled: KITTI's own
    largest_side: int = 1333
    proposals: int = 512  # regions a frame that the second stage learns from
    steps: int | None = None  # stop after so many, for a look or a fair race


def read_faster_rcnn_config(path: Path | str) -> FasterRcnnConfig:
    return parse(FasterRcnnConfig, read_toml(path, "detector configuration"), str(path))


def build(config: FasterRcnnConfig) -> Any:
    """The network; class 0 is the background."""
    torchvision = import_torchvision()
    return torchvision.models.detection.fasterrcnn_resnet50_fpn(
        weights=None,
        weights_backbone=None,
        num_classes=len(CATEGORIES) + 1,
        min_size=config.smallest_side,
        max_size=config.largest_side,
        box_batch_size_per_image=config.proposals,
    )


def train_faster_rcnn(
    config: FasterRcnnConfig,
    data: Path | str | Sequence[Truth],
    out: Path | str,
    progress: Callable[[int, int, float], None] | None = None,
) -> Path:
    """Train on the configuration's sources below the folder `data`, or on given frames, and write a checkpoint."""
    if isinstance(data, str | Path):
        truths = [sample_truth(sample) for source in config.sources for sample in find_samples(source, data)]
    else:
        truths = list(data)
    truths = [truth for truth in truths if truth.landmarks]
    if not truths:
        raise DataError("Faster R-CNN: no frames with landmarks to train on; name some in the configuration's sources")
    out = Path(out)
    torch.manual_seed(config.seed)
    network = build(config).train()
    optimizer = torch.optim.Adam(network.parameters(), lr=config.learning_rate, weight_decay=config.weight_decay)
    whole = max(config.epochs * len(truths) // config.batch, 1)
    steps = whole if config.steps is None else min(config.steps, whole)
    for step in range(steps):
        rng = np.random.default_rng([config.seed, step])
        pairs = [training_pair(truths[int(k)], rng) for k in rng.integers(len(truths), size=config.batch)]
        losses = network([image for image, _ in pairs], [target for _, target in pairs])
        loss: Tensor = torch.stack(list(losses.values())).sum()
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        if progress is not None:
            progress(step + 1, steps, float(loss.detach()))
    _save(out, network, config, steps)
    return out


def training_pair(truth: Truth, rng: np.random.Generator) -> tuple[Tensor, dict[str, Tensor]]:
    """An image [3, H, W] in 0..1 with its boxes and class numbers, mirrored half of the time."""
    pixels = truth.frame.image
    boxes = np.array([mark.box for mark in truth.landmarks], np.float32).reshape(-1, 4)
    if rng.random() < 0.5:
        pixels = pixels[:, ::-1]
        boxes = boxes[:, [2, 1, 0, 3]] * np.array([-1, 1, -1, 1], np.float32)
        boxes += np.array([pixels.shape[1], 0, pixels.shape[1], 0], np.float32)
    classes = [CATEGORIES.index(mark.category) + 1 for mark in truth.landmarks]
    return _tensor(pixels), {"boxes": torch.from_numpy(boxes), "labels": torch.tensor(classes, dtype=torch.int64)}


class FasterRcnnDetector:
    """A trained Faster R-CNN; needs torch and torchvision."""

    def __init__(self, folder: Path | str, least_confidence: float = 0.5) -> None:
        from safetensors.torch import load_file

        description = read_description(folder)
        if description.get("kind") != "faster-rcnn":
            raise WeightsError(f"{folder} holds no Faster R-CNN but '{description.get('kind')}'")
        self.name = str(description["name"])
        self.least_confidence = least_confidence
        self._network = build(FasterRcnnConfig.model_validate(description["training"])).eval()
        try:
            self._network.load_state_dict(load_file(Path(folder) / "model.safetensors"))
        except (RuntimeError, OSError) as problem:
            raise WeightsError(f"weights of Faster R-CNN in {folder} cannot be used: {problem}") from None

    def detect(self, frame: Frame) -> tuple[Landmark, ...]:
        image = frame.image
        check_image(image, frame.name)
        with torch.no_grad():
            found = self._network([_tensor(image)])[0]
        landmarks = []
        for box, label, score in zip(found["boxes"].tolist(), found["labels"].tolist(), found["scores"], strict=True):
            confidence = round(float(score), 4)
            if confidence >= self.least_confidence and box[2] > box[0] and box[3] > box[1]:
                landmarks.append(Landmark(tuple(box), CATEGORIES[label - 1], confidence=confidence))
        return tuple(landmarks)


def _tensor(image: Image) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(image.transpose(2, 0, 1))).float() / 255


def _save(out: Path, network: Any, config: FasterRcnnConfig, steps: int) -> None:
    from safetensors.torch import save_file

    with replacing(out / "model.safetensors") as temporary:
        save_file({name: value.contiguous() for name, value in network.state_dict().items()}, temporary)
    description = {
        "format": FORMAT,
        "version": VERSION,
        "kind": "faster-rcnn",
        "name": config.name,
        "license": config.license,
        "steps": steps,
        "training": config.model_dump(mode="json"),
    }
    write_json(out / "model.json", description)
