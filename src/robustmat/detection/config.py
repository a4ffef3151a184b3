"""What a detector is trained on, and how."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from robustmat.config import Config, parse, read_toml
from robustmat.types import CATEGORIES

Category = Literal["traffic_sign", "traffic_light", "pole", "window"]


class SourceConfig(Config):
    """Labelled images: `images` beside label maps (`masks`) or beside a COCO file (`boxes`)."""

    path: str  # relative to the folder that `--data` names; shell patterns name several
    images: str = "images"
    masks: str = "semantics"
    instances: str = "instances"  # numbers of single objects, where there are any
    boxes: str = "boxes.json"  # read where there are no label maps
    include: str = "*"  # file names
    exclude: str = ""
    every: Annotated[int, Field(ge=1)] = 1  # take one image of so many
    labelled: tuple[Category, ...] = CATEGORIES  # type: ignore[assignment]  # labelled wherever they are
    share: Annotated[float, Field(gt=0)] = 1.0  # of the training samples, relative to the other sources
    scale: tuple[float, float] = (0.6, 1.8)  # the sizes at which images are shown, drawn log-uniformly


class DetectorTrainingConfig(Config):
    """A training run; step s draws its batch from (seed, s)."""

    name: str
    license: str = "Apache-2.0"
    start: str = "imagenet"  # or the folder of a checkpoint to go on from
    steps: Annotated[int, Field(ge=1)] = 2000
    batch: Annotated[int, Field(ge=1)] = 4
    crop: tuple[int, int] = (512, 256)  # width and height, in pixels
    learning_rate: Annotated[float, Field(gt=0)] = 2e-3
    backbone_rate: Annotated[float, Field(gt=0)] = 0.25  # of the learning rate, for the layers ImageNet taught
    weight_decay: Annotated[float, Field(ge=0)] = 1e-4
    warm_up: Annotated[int, Field(ge=0)] = 50  # steps
    average: Annotated[float, Field(ge=0, lt=1)] = 0.995  # of the weights over the steps; what is kept at the end
    context: Annotated[float, Field(ge=0)] = 0.0  # weight of what stands around landmarks: road, wall, tree, fence, ...
    # Of the start's own weights in what is kept: the middle of the way may carry over better than its end.
    start_share: Annotated[float, Field(ge=0, lt=1)] = 0.0
    focus: Annotated[float, Field(ge=0, le=1)] = 0.7  # share of the crops that are laid around a landmark
    seed: int = 0
    save_every: Annotated[int, Field(ge=1)] = 100  # steps
    sources: tuple[SourceConfig, ...]
    # What confidences are fitted on (`robustmat detect calibrate`): nothing of `sources`, nothing that is reported.
    validation: tuple[SourceConfig, ...] = ()


def read_training_config(path: Path | str) -> DetectorTrainingConfig:
    return parse(DetectorTrainingConfig, read_toml(path, "detector configuration"), str(path))
