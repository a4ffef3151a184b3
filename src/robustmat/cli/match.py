"""`robustmat match`: two frames in, matched landmarks out."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from robustmat.export.runtime import OnnxMatcher
    from robustmat.matching import RobustMatcher

RUNTIMES = ("torch", "onnx", "onnx-int8")


def match(
    a: Annotated[Path, typer.Argument(help="First image.", show_default=False)],
    b: Annotated[Path, typer.Argument(help="Second image.", show_default=False)],
    boxes_a: Annotated[Path | None, typer.Option(help="Landmarks of A: JSON or COCO boxes.")] = None,
    boxes_b: Annotated[Path | None, typer.Option(help="Landmarks of B: JSON or COCO boxes.")] = None,
    masks_a: Annotated[Path | None, typer.Option(help="Or a label map of A (Cityscapes train ids, 19 window).")] = None,
    masks_b: Annotated[Path | None, typer.Option(help="Or a label map of B.")] = None,
    checkpoint: Annotated[str, typer.Option(help="A shipped name, a checkpoint folder or a training run.")] = "street",
    json: Annotated[Path | None, typer.Option(help="Write landmarks, matches and the unmatched here.")] = None,
    picture: Annotated[Path | None, typer.Option(help="Draw both frames and their matches here (.png, .jpg).")] = None,
    evidence: Annotated[
        str | None,
        typer.Option(help="What a score may know: pair, frames (all landmarks, by pixels), placement (boxes, too)."),
    ] = None,
    any_category: Annotated[bool, typer.Option(help="Let a sign match a pole, if it scores best.")] = False,
    runtime: Annotated[
        str,
        typer.Option(help="torch; or onnx, onnx-int8 with a folder of `robustmat export onnx` as checkpoint."),
    ] = "torch",
) -> None:
    """Match the landmarks of two frames.

    Landmarks come from box files or label maps:

        robustmat match a.png b.png --boxes-a a.json --boxes-b b.json --picture matches.png
    """
    from rich.console import Console
    from rich.table import Table

    from robustmat.files import write_json
    from robustmat.pipeline import read_frame

    frame_a = read_frame(a, boxes=boxes_a, masks=masks_a)
    frame_b = read_frame(b, boxes=boxes_b, masks=masks_b)
    result = _matcher(runtime, checkpoint, not any_category, evidence).match(frame_a, frame_b)
    table = Table("A", "B", "category", "score", "probability", title=f"{len(result.matches)} matches")
    for it in result.matches:
        table.add_row(
            str(it.a),
            str(it.b),
            result.landmarks_a[it.a].category,
            f"{it.score:.3f}",
            f"{it.probability:.3f}",
        )
    console = Console()
    console.print(table)
    for side, alone in (("A", result.unmatched_a), ("B", result.unmatched_b)):
        console.print(f"{side} without a partner: {', '.join(map(str, alone)) or 'none'}")
    if json is not None:
        write_json(json, result.to_json())
        console.print(f"wrote {json}", markup=False, soft_wrap=True)
    if picture is not None:
        result.draw(picture)
        console.print(f"wrote {picture}", markup=False, soft_wrap=True)


def _matcher(runtime: str, checkpoint: str, same_category: bool, evidence: str | None) -> "RobustMatcher | OnnxMatcher":
    from robustmat.config import nearest
    from robustmat.errors import ConfigError
    from robustmat.export.manifest import is_export
    from robustmat.export.runtime import OnnxMatcher

    if runtime not in RUNTIMES:
        raise ConfigError(f"unknown runtime '{runtime}' ({nearest(runtime, list(RUNTIMES))})")
    if is_export(checkpoint):
        if runtime == "torch":
            raise ConfigError(f"{checkpoint} is an ONNX export: give --runtime onnx, or its checkpoint")
        return OnnxMatcher(checkpoint, evidence=evidence, same_category=same_category, int8=runtime == "onnx-int8")
    from robustmat.matching import load

    if runtime == "torch":
        return load(checkpoint, same_category=same_category, evidence=evidence)
    command = f"robustmat export onnx --checkpoint {checkpoint} --out DIR"
    if runtime == "onnx-int8":
        raise ConfigError(f"'{checkpoint}' is no export with int8: `{command} --int8`, then give --checkpoint DIR")
    return _exported_for_now(checkpoint, evidence, same_category, command)


def _exported_for_now(checkpoint: str, evidence: str | None, same_category: bool, command: str) -> "OnnxMatcher":
    import tempfile

    from robustmat.export.runtime import OnnxMatcher
    from robustmat.export.write import check_exportable, write_parts
    from robustmat.models.weights import load_checkpoint

    loaded = load_checkpoint(checkpoint)
    typer.echo(f"exporting for this run alone; `{command}` spares that, and checks it", err=True)
    with tempfile.TemporaryDirectory(prefix="robustmat-onnx-") as folder:
        check_exportable(loaded, Path(folder))
        write_parts(loaded, Path(folder))
        return OnnxMatcher(folder, evidence=evidence, same_category=same_category)
