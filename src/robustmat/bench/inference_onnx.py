"""The exported model as a contestant: the same checkpoint through onnxruntime, in floats and in eight bits."""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import torch

from robustmat.checkpoints.store import Checkpoint
from robustmat.matching.onnx import OnnxMatcher
from robustmat.types import Frame


@contextmanager
def exported(checkpoint: Checkpoint, frames: Sequence[Frame]) -> Iterator[dict[str, OnnxMatcher]]:
    """Matchers by name, with as many threads as torch has; none where onnx or onnxruntime is not installed.

    The ranges of the eight bits are set on the frames themselves: here only the time counts.
    """
    if any(find_spec(one) is None for one in ("onnx", "onnxruntime")):
        yield {}
        return
    from robustmat.export.write import write_parts

    with tempfile.TemporaryDirectory(prefix="robustmat-onnx-") as folder:
        write_parts(checkpoint, Path(folder), frames)
        threads = torch.get_num_threads()
        yield {
            f"{checkpoint.name}, onnxruntime": OnnxMatcher(folder, threads=threads),
            f"{checkpoint.name}, onnxruntime, int8": OnnxMatcher(folder, threads=threads, int8=True),
        }
