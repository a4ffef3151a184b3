"""`robustmat match`: two frames in, matched landmarks out."""

from pathlib import Path
from typing import Annotated

import typer


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
        typer.Option(help="auto (torch where it is installed), torch, onnx, onnx-int8."),
    ] = "auto",
) -> None:
    """Match the landmarks of two frames.

    Landmarks come from box files or label maps:

        robustmat match a.png b.png --boxes-a a.json --boxes-b b.json --picture matches.png
    """
    from rich.console import Console
    from rich.table import Table

    from robustmat.checkpoints.load import load
    from robustmat.files import write_json
    from robustmat.pipeline import read_frame

    frame_a = read_frame(a, boxes=boxes_a, masks=masks_a)
    frame_b = read_frame(b, boxes=boxes_b, masks=masks_b)
    matcher = load(checkpoint, runtime=runtime, evidence=evidence, same_category=not any_category)
    result = matcher.match(frame_a, frame_b)
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
