"""The names of the perturbations, how they are written, and how they are applied to images and frames."""

import difflib
import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from robustmat.errors import ConfigError, InputError
from robustmat.perturb import light, mix, noise, weather
from robustmat.perturb.noise import Pixels
from robustmat.types import Frame, Image

SMALLEST_SIDE = 8


@dataclass(frozen=True)
class Kind:
    """What stands behind a name: the function, and what its level means."""

    apply: Callable[[Pixels, float, np.random.Generator], Pixels]
    unit: str
    lowest: float
    highest: float


def _severity(apply: Callable[[Pixels, float, np.random.Generator], Pixels]) -> Kind:
    return Kind(apply, "severity", 1, 5)


# Below 8 dB not every frame can be met (see noise.add_noise); above 22 dB the mix would have to be weaker
# than the weather in it; above 50 dB rounding alone is as strong as the noise.
PERTURBATIONS: dict[str, Kind] = {
    "awgn": Kind(noise.awgn, "PSNR in dB", 8, 50),
    "paper": Kind(mix.paper, "PSNR in dB", 8, mix.WEATHER_DECIBELS),
    "rain": _severity(weather.rain),
    "spatter": _severity(weather.spatter),
    "snow": _severity(weather.snow),
    "fog": _severity(weather.fog),
    "brightness": _severity(light.brightness),
    "saturation": _severity(light.saturation),
    "motion_blur": _severity(light.motion_blur),
    "dusk": _severity(light.dusk),
}


@dataclass(frozen=True)
class Perturbation:
    """A named perturbation with its level; `clean` has none. `str()` gives back what `parse` read."""

    name: str = "clean"
    level: float | None = None

    def __post_init__(self) -> None:
        if self.name == "clean":
            if self.level is not None:
                raise ConfigError(f"perturbation clean takes no level, found {self.level:g}: write clean")
            return
        kind = PERTURBATIONS.get(self.name)
        if kind is None:
            names = ["clean", *PERTURBATIONS]
            near = difflib.get_close_matches(self.name, names, n=1)
            advice = f"did you mean {near[0]}?" if near else f"choose one of {', '.join(names)}"
            raise ConfigError(f"unknown perturbation {self.name!r}: {advice}")
        allowed = f"{kind.unit}, {kind.lowest:g} to {kind.highest:g}"
        if self.level is None:
            raise ConfigError(f"perturbation {self.name} needs a level ({allowed}): write {_example(self.name)}")
        if not kind.lowest <= self.level <= kind.highest:  # also refuses nan
            raise ConfigError(f"perturbation {self.name} has level {self.level:g}, allowed is {allowed}")

    def __str__(self) -> str:
        return self.name if self.level is None else f"{self.name}:{self.level:g}"


CLEAN = Perturbation()


def parse(text: str) -> Perturbation:
    """Read `clean`, `paper:16`, `snow:3`."""
    name, colon, level = text.strip().partition(":")
    name = name.strip().lower().replace("-", "_")
    if not colon:
        return Perturbation(name)
    try:
        return Perturbation(name, float(level))
    except ValueError:
        raise ConfigError(
            f"perturbation {text!r} has the level {level!r}, which is not a number: write {_example(name)}"
        ) from None


def _example(name: str) -> str:
    return f"{name}:16" if name in {"awgn", "paper"} else f"{name}:3"


def perturb_image(image: Image, perturbation: Perturbation | str, seed: int = 0, key: str = "frame") -> Image:
    """A perturbed copy of an RGB image.

    Args:
        perturbation: such as `"snow:3"` or `"paper:16"`; `robustmat perturb --help` lists them.
        seed: the same seed, the same weather.
        key: names the frame, so that each frame of a drive has its own weather.
    """
    if isinstance(perturbation, str):
        perturbation = parse(perturbation)
    if image.ndim != 3 or image.shape[2] != 3 or image.dtype != np.uint8:
        raise InputError(f"an image must be uint8 [height, width, 3], found {image.dtype} {image.shape}")
    if min(image.shape[:2]) < SMALLEST_SIDE:
        raise InputError(
            f"image {key} is {image.shape[1]} x {image.shape[0]} pixels: "
            f"perturbations need at least {SMALLEST_SIDE} on each side"
        )
    if perturbation.level is None:
        return image.copy()
    rng = _generator(seed, key, perturbation.name)
    pixels = image.astype(np.float32)
    changed = PERTURBATIONS[perturbation.name].apply(pixels, perturbation.level, rng)
    return noise.stored(changed).astype(np.uint8)


def perturb_frame(frame: Frame, perturbation: Perturbation, seed: int, key: str | None = None) -> Frame:
    """The same frame with perturbed pixels, made when they are asked for.

    `key` is the frame's name unless given; give one where frames of several drives share their names.
    """
    if perturbation.level is None:
        return frame
    chosen = frame.name if key is None else key
    return replace(frame, load_image=partial(_perturbed, frame.load_image, perturbation, seed, chosen))


def _perturbed(load_image: Callable[[], Image], perturbation: Perturbation, seed: int, key: str) -> Image:
    return perturb_image(load_image(), perturbation, seed, key)


def _generator(seed: int, *words: str) -> np.random.Generator:
    """A generator that depends on the words' letters, not on Python's per-process hash."""
    digest = hashlib.blake2b("\0".join(words).encode(), digest_size=16).digest()
    return np.random.default_rng([seed, *np.frombuffer(digest, dtype="<u4").tolist()])
