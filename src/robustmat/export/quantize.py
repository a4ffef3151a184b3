"""The vertex embedder in eight bits: weights and activations, ranges calibrated on real-looking patches.

Nearly all operations of a frame pair are its convolutions, and most of its weights are the layer after them; the graph
embedder and the scorers stay in floats.
"""

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

BATCH = 16  # patches that are calibrated together
OPERATIONS = ("Conv", "Gemm", "MatMul")


class _Patches:
    """Batches of patches, the way onnxruntime's calibration wants to be fed."""

    def __init__(self, patches: Sequence[NDArray[np.uint8]]) -> None:
        whole = np.concatenate(patches)
        self._batches: Iterator[NDArray[np.uint8]] = iter(np.split(whole, range(BATCH, len(whole), BATCH)))

    def get_next(self) -> dict[str, NDArray[Any]] | None:
        batch = next(self._batches, None)
        return None if batch is None else {"patches": batch}


def quantize_vertex(source: Path, target: Path, patches: Sequence[NDArray[np.uint8]]) -> None:
    """Write `source`, the exported vertex embedder, to `target` with its weights in eight bits."""
    from onnxruntime.quantization import CalibrationMethod, QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    prepared = target.with_suffix(".prepared.onnx")
    quiet = logging.getLogger()
    before = quiet.level
    quiet.setLevel(logging.ERROR)  # its warnings are for people who tune quantisation by hand
    try:
        quant_pre_process(str(source), str(prepared), skip_symbolic_shape=True)
        quantize_static(
            str(prepared),
            str(target),
            _Patches(patches),
            quant_format=QuantFormat.QDQ,
            op_types_to_quantize=list(OPERATIONS),
            per_channel=True,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
            calibrate_method=CalibrationMethod.MinMax,
            extra_options={"ActivationSymmetric": False, "WeightSymmetric": True},
        )
    finally:
        quiet.setLevel(before)
        prepared.unlink(missing_ok=True)
