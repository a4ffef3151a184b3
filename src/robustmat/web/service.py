"""What requests compute, as plain functions: frames in, what JSON can hold out."""

import base64
import io
import time
from dataclasses import dataclass
from typing import Any, Literal

import PIL.Image
from pydantic import Field

from robustmat.config import Config
from robustmat.errors import InputError
from robustmat.matching.matcher import Matcher
from robustmat.perturb import parse, perturb_image
from robustmat.types import Frame, Image, Landmark, MatchResult
from robustmat.web.detection import detect
from robustmat.web.jobs import StillWanted
from robustmat.web.models import Models
from robustmat.web.problems import HttpError
from robustmat.web.settings import Settings
from robustmat.web.uploads import Upload, check_count, decode, parse_camera, to_frame

MOST_PERTURBATIONS = 4


class ModelOptions(Config):
    """Which model, and what it may know."""

    checkpoint: str | None = Field(None, description="One of /api/models; the server's default unless given.")
    evidence: str | None = Field(
        None, description="What a score may know; the most the checkpoint can use unless given."
    )
    camera: str | None = Field(None, description="fx,fy,cx,cy in pixels, of all images; a usual one unless given.")


class FrameOptions(ModelOptions):
    """Of requests that bring two frames."""

    perturb: str = Field("clean", description="Weather and noise: 'rain:3', 'awgn:20', or several: 'rain:3,awgn:20'.")
    perturb_side: Literal["both", "second"] = Field("both", description="Which frames are perturbed.")
    seed: int = Field(0, ge=0, le=2**31 - 1, description="Of weather and noise.")
    any_category: bool = Field(False, description="Let a sign match a pole.")


class MatchOptions(FrameOptions):
    """Of `POST /api/match`."""

    min_probability: float | None = Field(None, ge=0, le=1, description="The least probability of a match.")
    threshold: float | None = Field(None, description="The least score, instead of the checkpoint's own.")
    compare: bool = Field(False, description="Also match by each other kind of evidence.")
    pictures: bool = Field(False, description="Send perturbed frames back, as JPEG in data URLs.")


class ExplainOptions(FrameOptions):
    """Of `POST /api/explain`."""

    index_a: int = Field(ge=0, description="The landmark of frame a, counted from 0.")
    index_b: int = Field(ge=0, description="The landmark of frame b.")


@dataclass(frozen=True)
class Sent:
    """One frame as it was sent: the encoded image, and the content of its box file, or None."""

    image: Upload
    boxes: Any
    part: str  # how the boxes are called in messages


@dataclass(frozen=True)
class Ready:
    """Frames ready to match, and what there is to say about them."""

    frames: tuple[Frame, ...]
    warnings: list[str]


def prepare(sent: list[Sent], camera: str | None, settings: Settings, still_wanted: StillWanted) -> Ready:
    """Decode images and read or detect their landmarks."""
    frames, told = [], []
    for one in sent:
        still_wanted()
        pixels = decode(one.image, settings)
        boxes: Any = one.boxes
        if boxes is None:
            boxes = list(detect(pixels, one.image.name))
        frame, warnings = to_frame(pixels, one.image.name, boxes, one.part, parse_camera(camera), settings)
        frames.append(frame)
        told += warnings
    return Ready(tuple(frames), told)


def perturbed(frames: tuple[Frame, ...], options: FrameOptions, settings: Settings) -> tuple[Frame, ...]:
    """The frames in the weather that was asked for, each in its own."""
    wanted = [parse(text) for text in options.perturb.split(",") if text.strip()]
    wanted = [one for one in wanted if one.level is not None]
    if not wanted:
        return frames
    if len(wanted) > MOST_PERTURBATIONS:
        raise InputError(f"{len(wanted)} perturbations, allowed are {MOST_PERTURBATIONS}")
    changed = []
    for side, frame in zip("ab", frames, strict=True):
        pixels = frame.image
        if side == "a" and options.perturb_side == "second":
            changed.append(frame)
            continue
        if pixels.shape[0] * pixels.shape[1] > settings.max_perturbed_pixels:
            most = settings.max_perturbed_pixels / 1e6
            raise HttpError(
                413, f"weather and noise are for images of up to {most:g} megapixels: reduce '{frame.name}'"
            )
        for one in wanted:
            pixels = perturb_image(pixels, one, options.seed, side)
        changed.append(frame.with_image(pixels))
    return tuple(changed)


def match(
    sent: list[Sent], options: MatchOptions, models: Models, settings: Settings, still_wanted: StillWanted
) -> dict[str, Any]:
    """The command line's JSON of a match, and more where it was asked for."""
    start = time.perf_counter()
    matcher = models.matcher(options.checkpoint, options.evidence, not options.any_category)
    ready = prepare(sent, options.camera, settings, still_wanted)
    still_wanted()
    frames = perturbed(ready.frames, options, settings)
    # What all evidence needs is enough for each kind of it.
    embedder = models.matcher(options.checkpoint, None, not options.any_category) if options.compare else matcher
    embedded = []
    for frame in frames:
        still_wanted()
        embedded.append(embedder.embed(frame))
    still_wanted()
    limits: dict[str, Any] = {"threshold": options.threshold, "min_probability": options.min_probability}
    a, b = embedded
    result = matcher.match(a, b, **limits)
    answer = result.to_json() | {"perturb": options.perturb, "warnings": ready.warnings}
    if options.compare:
        answer["by_evidence"] = {}
        for kind in models.evidence[options.checkpoint or models.default]:
            still_wanted()
            other = models.matcher(options.checkpoint, kind, not options.any_category)
            answer["by_evidence"][kind] = _matches(result if other is matcher else other.match(a, b, **limits))
    if options.pictures:
        answer["pictures"] = {
            side: None if before is after else as_data_url(after.image)
            for side, before, after in zip("ab", ready.frames, frames, strict=True)
        }
    return answer | {"seconds": round(time.perf_counter() - start, 3)}


def _matches(result: MatchResult) -> list[dict[str, Any]]:
    return list(result.to_json()["matches"])


def as_data_url(pixels: Image) -> str:
    buffer = io.BytesIO()
    PIL.Image.fromarray(pixels).save(buffer, "jpeg", quality=82)
    return f"data:image/jpeg;base64,{base64.b64encode(buffer.getvalue()).decode()}"


def find_landmarks(upload: Upload, settings: Settings, still_wanted: StillWanted) -> dict[str, Any]:
    """A box file of what is detected."""
    pixels = decode(upload, settings)
    still_wanted()
    marks = detect(pixels, upload.name)
    return {"width": pixels.shape[1], "height": pixels.shape[0], "landmarks": listed(marks)}


def listed(marks: tuple[Landmark, ...]) -> list[dict[str, Any]]:
    found = []
    for mark in marks:
        one: dict[str, Any] = {"box": [float(value) for value in mark.box], "category": mark.category}
        found.append(one if mark.confidence is None else one | {"confidence": float(mark.confidence)})
    return found


def embed(
    sent: Sent, options: ModelOptions, models: Models, settings: Settings, still_wanted: StillWanted
) -> dict[str, Any]:
    """What the model remembers of a frame."""
    matcher: Matcher = models.matcher(options.checkpoint, options.evidence)
    ready = prepare([sent], options.camera, settings, still_wanted)
    check_count(len(ready.frames[0].landmarks), sent.image.name, settings)
    still_wanted()
    embedded = matcher.embed(ready.frames[0])
    return {
        "image": embedded.name,
        "checkpoint": matcher.name,
        "fingerprint": embedded.fingerprint,
        "landmarks": listed(embedded.landmarks),
        "arrays": {name: array.tolist() for name, array in embedded.arrays.items()},
        "warnings": ready.warnings,
    }
