"""A torch network written as an ONNX file."""

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor, nn

OPSET = 18


def write_graph(
    network: "nn.Module",
    path: Path,
    examples: "Mapping[str, Tensor]",
    outputs: Sequence[str],
    open_axes: Mapping[str, Mapping[int, str]],
) -> None:
    """Trace `network` once and write what it computes.

    Args:
        examples: its inputs in order, by name.
        open_axes: of inputs and outputs, the axes whose length is not fixed, with a name for each.
    """
    import torch

    with warnings.catch_warnings(), torch.no_grad():
        # Tracing warns where Python looks at a count, and about its own age; parity checks judge the outcome.
        warnings.simplefilter("ignore")
        torch.onnx.export(
            network.eval(),
            tuple(examples.values()),
            str(path),
            input_names=list(examples),
            output_names=list(outputs),
            dynamic_axes={name: dict(axes) for name, axes in open_axes.items()},
            opset_version=OPSET,
            dynamo=False,  # the newer exporter takes minutes for these small graphs, and fixes the landmark counts
        )
