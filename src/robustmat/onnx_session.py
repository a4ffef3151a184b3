"""ONNX files ready to run, with onnxruntime's errors in our words."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from robustmat.errors import ConfigError, WeightsError

if TYPE_CHECKING:
    from onnxruntime import InferenceSession


def open_session(content: bytes, where: str, threads: int | None = None) -> "InferenceSession":
    """An ONNX file's bytes, ready to run on the CPU; `where` names the file in errors."""
    try:
        import onnxruntime
    except ModuleNotFoundError:
        raise ConfigError("onnxruntime is not installed: pip install onnxruntime") from None

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # what is wrong with a file is said once, by us
    if threads is not None:
        options.intra_op_num_threads = threads
    try:
        return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    except Exception as problem:  # onnxruntime's own exceptions share no base of theirs
        raise WeightsError(f"ONNX file cannot be read: {where}: {problem}; export again") from None


def run_session(session: "InferenceSession", where: str, inputs: dict[str, NDArray[Any]]) -> list[NDArray[np.float32]]:
    """What the file computes."""
    try:
        return [np.asarray(found) for found in session.run(None, inputs)]
    except Exception as problem:
        raise WeightsError(f"{where} cannot compute what it should: {problem}; export again") from None
