"""What a matcher remembers of one frame: enough to match it with any other, without its pixels."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from robustmat.errors import InputError
from robustmat.files import parse_json, replacing
from robustmat.types import Frame, Landmark

FORMAT = "robustmat-embedded-frame"


@dataclass(frozen=True, eq=False)
class EmbeddedFrame:
    """All that matching needs of a frame: store it, match it with many.

    `arrays` holds [landmarks, ...] each; which ones is the method's business. `fingerprint` names the weights and the
    preprocessing that made them: another model's matcher refuses them. `frame` is kept for drawing alone and is not
    saved.
    """

    landmarks: tuple[Landmark, ...]
    arrays: Mapping[str, NDArray[Any]]
    fingerprint: str
    name: str = ""
    frame: Frame | None = None

    def __repr__(self) -> str:
        shapes = ", ".join(f"{name} {list(array.shape)}" for name, array in self.arrays.items())
        return f"EmbeddedFrame({self.name!r}, {len(self.landmarks)} landmarks, {shapes}, model {self.fingerprint})"

    def save(self, path: Path | str) -> Path:
        """Write one safetensors file, landmarks and fingerprint in its header."""
        path = Path(path)
        landmarks = [
            {"box": list(mark.box), "category": mark.category, "confidence": mark.confidence} for mark in self.landmarks
        ]
        header = {"format": FORMAT, "name": self.name, "fingerprint": self.fingerprint}
        arrays = {name: np.ascontiguousarray(array) for name, array in self.arrays.items()}
        with replacing(path) as temporary:
            save_file(arrays, temporary, {**header, "landmarks": json.dumps(landmarks)})
        return path


def load_embedded(path: Path | str) -> EmbeddedFrame:
    """Read what `EmbeddedFrame.save` wrote; nothing in the file is executed."""
    try:
        with safe_open(path, framework="numpy") as file:
            header = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  (not a dict)
    except FileNotFoundError:
        raise InputError(f"embedded frame not found: {path}") from None
    except (SafetensorError, OSError) as problem:
        raise InputError(f"embedded frame cannot be read: {path}: {problem}; embed the frame again") from None
    if header.get("format") != FORMAT:
        raise InputError(f"not an embedded frame: {path} lacks format '{FORMAT}'; write one with EmbeddedFrame.save")
    try:
        marks = [
            Landmark(tuple(mark["box"]), mark["category"], confidence=mark.get("confidence"))
            for mark in parse_json(header["landmarks"], "no JSON", InputError)
        ]
    except (KeyError, TypeError, ValueError, AttributeError, InputError) as problem:
        raise InputError(f"embedded frame {path} has a broken header ({problem}): embed the frame again") from None
    return EmbeddedFrame(tuple(marks), arrays, header.get("fingerprint", ""), header.get("name", ""))
