"""`robustmat demo`: the whole flow on a simulated street."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from robustmat.simulation import StreetDrive
    from robustmat.types import Frame, Landmark, MatchResult

TOWN = 2026  # no town of this number was trained on
START, FRAMES, SPACING = 0.0, 5, 3.0  # metres
FEWEST_LANDMARKS, FEWEST_ALONE = 8, 2
CLEAR_HEIGHT = 28  # pixels
WEATHER = "paper:16"


def demo(
    out: Annotated[Path, typer.Option(help="Where the picture and the report go.")] = Path("demo-output"),
    checkpoint: Annotated[str, typer.Option(help="A shipped name, a checkpoint folder or a training run.")] = "street",
) -> None:
    """Drive a simulated street at noon and again on a rainy evening, and match two of the frames.

    Ends with a table, a picture and an HTML report in under a minute.
    """
    from rich.console import Console
    from rich.progress import track
    from rich.table import Table

    from robustmat.checkpoints.load import load
    from robustmat.files import write_json
    from robustmat.matching.html import Section, write_match_report
    from robustmat.simulation import build_town, drive_town

    console = Console()
    matcher = load(checkpoint)
    town = build_town(TOWN)
    noon = drive_town(town, FRAMES, look="noon", lane="right", start=START, spacing=SPACING, drive_seed=1)
    evening = drive_town(town, FRAMES, look="evening", lane="left", start=START, spacing=SPACING, drive_seed=2)
    frames_a = [_see(noon, i, None) for i in track(range(FRAMES), "driving at noon, right lane", console=console)]
    frames_b = [
        _see(evening, i, WEATHER) for i in track(range(FRAMES), "driving in evening rain, left lane", console=console)
    ]
    frame_a, frame_b = choose_pair(frames_a, frames_b)
    result = matcher.match(frame_a, frame_b)
    verdicts = [_verdict(result, it.a, it.b) for it in result.matches]

    title = "matches, noon (A) to evening rain (B)"
    table = Table("", "A", "B", "category", "score", "probability", "truth", title=title)
    for number, (it, verdict) in enumerate(zip(result.matches, verdicts, strict=True), start=1):
        category = result.landmarks_a[it.a].category.replace("_", " ")
        mark = {"right": "[green]right[/]", "wrong": "[red]wrong[/]"}.get(verdict, "[dim]unknown[/]")
        table.add_row(str(number), str(it.a), str(it.b), category, f"{it.score:.2f}", f"{it.probability:.2f}", mark)
    console.print(table)
    possible = {it.identity for it in frame_a.landmarks} & {it.identity for it in frame_b.landmarks} - {None}
    console.print(
        f"{len(frame_a.landmarks)} and {len(frame_b.landmarks)} landmarks, {len(possible)} of them in both frames: "
        f"{verdicts.count('right')} matched rightly, {verdicts.count('wrong')} wrongly; "
        f"{len(result.unmatched_a)} and {len(result.unmatched_b)} said to have no partner"
    )
    picture = result.draw(out / "matches.png")
    write_json(out / "matches.json", result.to_json())
    report = write_match_report(
        result,
        picture,
        out / "report.html",
        "A simulated street, at noon and in evening rain",
        f"Above, frame A: noon, right lane. Below, frame B: evening, left lane, rain and noise at 16 dB. No shipped "
        f"checkpoint was trained on this town ({TOWN}). Matched with the checkpoint <code>{matcher.name}</code>.",
        verdicts,
        [Section("What to try next", f"<ul>{''.join(f'<li><code>{it}</code></li>' for it in NEXT)}</ul>")],
    )
    console.print(f"look at  {picture}\n         {report}", soft_wrap=True, markup=False)
    console.print("try next " + "\n         ".join(NEXT), soft_wrap=True)


NEXT = (
    "robustmat match a.png b.png --boxes-a a.json --boxes-b b.json --picture matches.png",
    "robustmat simulate town --layout kitti-odometry --frames 60 --seed 7 --look winter",
    "robustmat prepare kitti-odometry town --sequence 00 --name town-7 --world town-7 --out data",
    "robustmat evaluate data --perturb paper:16",
)


def _see(drive: "StreetDrive", index: int, weather: str | None) -> "Frame":
    """A frame as a user would bring it, pixels and landmarks, with the simulator's identities to judge matches by."""
    from dataclasses import replace

    from robustmat.landmarks.boxes import landmarks_from_mask
    from robustmat.landmarks.known import identify
    from robustmat.perturb import parse, perturb_image

    frame = drive.frames[index]
    semantics = frame.semantics
    assert semantics is not None
    known = [(it.box, it.category, it.identity) for it in drive.truth(index)]
    pixels = frame.image
    if weather:
        pixels = perturb_image(pixels, parse(weather), seed=index, key=drive.name)
    return replace(frame, load_image=lambda: pixels, landmarks=identify(landmarks_from_mask(semantics), known))


def choose_pair(frames_a: "list[Frame]", frames_b: "list[Frame]") -> "tuple[Frame, Frame]":
    """The frame pair that shares most landmarks of a size that a reader can make out, among those with enough
    landmarks and some without a partner."""
    best = None
    for a in frames_a:
        for b in frames_b:
            seen_a, seen_b = ({it.identity for it in frame.landmarks} - {None} for frame in (a, b))
            clear_a, clear_b = ({it.identity for it in frame.landmarks if _is_clear(it)} - {None} for frame in (a, b))
            shared, clear = len(seen_a & seen_b), len(clear_a & clear_b)
            fewest = min(len(a.landmarks), len(b.landmarks))
            fits = fewest >= FEWEST_LANDMARKS and fewest - shared >= FEWEST_ALONE
            if fits and (best is None or clear > best[0]):
                best = (clear, a, b)
    assert best is not None, "the demo's town has such a pair; its test says so"
    return best[1], best[2]


def _is_clear(landmark: "Landmark") -> bool:
    return landmark.box[3] - landmark.box[1] >= CLEAR_HEIGHT


def _verdict(result: "MatchResult", a: int, b: int) -> str:
    first, second = result.landmarks_a[a].identity, result.landmarks_b[b].identity
    if first is None or second is None:
        return "unknown"
    return "right" if first == second else "wrong"
