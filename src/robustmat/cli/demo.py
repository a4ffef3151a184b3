"""`robustmat demo`: the whole flow on a simulated street."""

import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from robustmat.cli.checks import output_folder
from robustmat.cli.console import make_console

if TYPE_CHECKING:
    from robustmat.detection.protocol import LandmarkDetector
    from robustmat.simulation import StreetDrive
    from robustmat.types import Frame, Landmark

TOWN = 2026  # no town of this number was trained on
START, FRAMES, SPACING = 0.0, 5, 3.0  # metres
FEWEST_LANDMARKS, FEWEST_UNMATCHED = 8, 2
CLEAR_HEIGHT = 28  # pixels
WEATHER = "paper:16"


def demo(
    out: Annotated[
        Path, typer.Option(callback=output_folder, help="Where the picture, the report and both frames go.")
    ] = Path("demo-output"),
    checkpoint: Annotated[str, typer.Option(help="A shipped name, a checkpoint folder or a training run.")] = "street",
) -> None:
    """Drive a simulated street at noon and again on a rainy evening, and match two of the frames.

    Ends with a table, a picture and an HTML report in under a minute.
    """
    from rich.progress import track
    from rich.table import Table
    from rich.text import Text

    from robustmat.detection.registry import load_detector
    from robustmat.files import write_json
    from robustmat.pipeline import load, match_frames
    from robustmat.report import VERDICTS, Section, summarize, write_match_report
    from robustmat.simulation import build_town, drive_town
    from robustmat.sources.images import write_image
    from robustmat.types import plural

    console = make_console()
    console.print(INTRODUCTION, highlight=False)
    matcher = load(checkpoint)
    town = build_town(TOWN)
    noon = drive_town(town, FRAMES, look="noon", lane="right", start=START, spacing=SPACING, drive_seed=1)
    evening = drive_town(town, FRAMES, look="evening", lane="left", start=START, spacing=SPACING, drive_seed=2)
    frames_a = [_see(noon, i, None) for i in track(range(FRAMES), "driving at noon, right lane", console=console)]
    frames_b = [
        _see(evening, i, WEATHER) for i in track(range(FRAMES), "driving in evening rain, left lane", console=console)
    ]
    frame_a, frame_b = choose_pair(frames_a, frames_b)
    result = match_frames(frame_a, frame_b, matcher)
    detector = load_detector()
    detected = match_frames(_find(frame_a, detector), _find(frame_b, detector), matcher)

    table = Table(
        "", "A", "B", "category", "probability", "ground truth", title="Matches, noon (A) to evening rain (B)"
    )
    colors = {True: "green", False: "red", None: "dim"}
    for number, (match, correct) in enumerate(zip(result.matches, result.correct, strict=True), start=1):
        category = result.landmarks_a[match.a].category.replace("_", " ")
        verdict = Text(VERDICTS[correct], style=colors[correct])
        table.add_row(str(number), str(match.a), str(match.b), category, f"{match.probability:.2f}", verdict)
    console.print(table)
    shared = _identities(frame_a.landmarks) & _identities(frame_b.landmarks)
    console.print(summarize(result, result.correct), highlight=False)
    counts = f"{plural(len(frame_a.landmarks), 'landmark')} in A, {len(frame_b.landmarks)} in B"
    console.print(f"({counts}, {len(shared)} of them in both frames)", highlight=False)
    likely = [sum(mark.is_likely for mark in marks) for marks in (detected.landmarks_a, detected.landmarks_b)]
    finding = f"{plural(likely[0], 'landmark')} found in A, {likely[1]} in B"
    without = f"Without boxes, by '{detector.name}': {finding}; {summarize(detected, detected.correct)}"
    console.print(f"\n{without}", highlight=False)
    picture = result.draw(out / "matches.png", result.correct)
    detected_picture = detected.draw(out / "matches-detected.png", detected.correct)
    write_json(out / "matches.json", result.to_json())
    for name, frame, listed in (("noon", frame_a, result.to_json()["a"]), ("evening", frame_b, result.to_json()["b"])):
        write_image(out / f"{name}.png", frame.image)
        write_json(out / f"{name}.json", {"landmarks": listed["landmarks"]})
    following = next_commands(out)
    report = write_match_report(
        result,
        out / "report.html",
        "A simulated street, at noon and in evening rain",
        "Frame A (above) was taken at noon from the right lane, frame B (below) on a rainy evening from the left lane, "
        f"with noise at 16 dB. The checkpoint '{result.checkpoint}' was never trained on this town (number {TOWN}). "
        f"{len(shared)} landmarks are visible in both frames.",
        result.correct,
        [
            Section("The same frames without boxes", (DETECTED, f"{without}."), png=detected_picture.read_bytes()),
            Section("What to try next", commands=following),
        ],
    )
    pictures = f"pictures {picture}\n         {detected_picture}"
    console.print(f"\n{pictures}\nreport   {report}", soft_wrap=True, highlight=False)
    console.print(f"frames   {out / 'noon.png'} {out / 'evening.png'}", soft_wrap=True, highlight=False)
    console.print("try next " + "\n         ".join(following), soft_wrap=True, highlight=False)


INTRODUCTION = (
    "This demo drives through a simulated street twice: at noon, and again on a rainy evening in another lane. "
    "It takes one frame of each drive, matches their signs, lights, poles and windows, and checks the matches against "
    "what the simulator knows: first with given landmarks, then with detected ones. "
    "All this takes about half a minute and downloads nothing.\n"
)

DETECTED = (
    "Above, landmarks were cut out of the simulator's label maps. Here the detector finds them in the pixels, as in "
    "your photographs. A match counts as correct if both boxes show one object of the simulator."
)


def next_commands(out: Path) -> tuple[str, ...]:
    """What to try next, ready to be pasted: the files that the demo wrote, and a drive of one's own."""
    a, b = out / "noon", out / "evening"
    activate = Path(sys.prefix) / "bin" / "activate"
    activate = activate.relative_to(Path.cwd()) if activate.is_relative_to(Path.cwd()) else activate
    commands = (
        f"robustmat match {a}.png {b}.png --boxes-a {a}.json --boxes-b {b}.json --picture matches.png",
        f"robustmat match {a}.png {b}.png --picture detected.png",
        "robustmat simulate town --layout kitti-odometry --frames 60 --seed 7 --look winter",
        "robustmat prepare kitti-odometry town --sequence 00 --name town-7 --world town-7 --out data",
        "robustmat inspect data --out sheets",
    )
    found = shutil.which("robustmat") is not None or not activate.exists()
    return commands if found else (f". {activate}", *commands)


def _see(drive: "StreetDrive", index: int, weather: str | None) -> "Frame":
    """A frame as a user would bring it, pixels and landmarks, with the simulator's identities as ground truth."""
    from dataclasses import replace

    from robustmat.landmarks.boxes import landmarks_from_mask
    from robustmat.landmarks.known import identify
    from robustmat.perturb import parse, perturb_image

    frame = drive.frames[index]
    semantics = frame.semantics
    assert semantics is not None
    known = [(seen.box, seen.category, seen.identity) for seen in drive.truth(index)]
    pixels = frame.image
    if weather:
        pixels = perturb_image(pixels, parse(weather), seed=index, key=drive.name)
    name = f"{drive.name}/{frame.name}"
    return replace(frame.with_image(pixels), name=name, landmarks=identify(landmarks_from_mask(semantics), known))


def _find(frame: "Frame", detector: "LandmarkDetector") -> "Frame":
    """The frame with detected landmarks; those that show a given one have its identity."""
    from dataclasses import replace

    from robustmat.detection.protocol import detect_for_matching
    from robustmat.evaluation.detected import link

    found = detect_for_matching(detector, frame)
    links = link(found, frame.landmarks)
    known = {i: frame.landmarks[j].identity for i, j in links.items()}
    return replace(frame, landmarks=tuple(replace(mark, identity=known.get(i)) for i, mark in enumerate(found)))


def choose_pair(frames_a: "list[Frame]", frames_b: "list[Frame]") -> "tuple[Frame, Frame]":
    """The frame pair that shares most landmarks of a size that a reader can make out, among those with enough
    landmarks and some without a partner."""
    best = None
    for a in frames_a:
        for b in frames_b:
            shared = len(_identities(a.landmarks) & _identities(b.landmarks))
            clear = len(_identities(filter(_is_clear, a.landmarks)) & _identities(filter(_is_clear, b.landmarks)))
            fewest = min(len(a.landmarks), len(b.landmarks))
            fits = fewest >= FEWEST_LANDMARKS and fewest - shared >= FEWEST_UNMATCHED
            if fits and (best is None or clear > best[0]):
                best = (clear, a, b)
    assert best is not None, "the demo's town has such a pair; its test says so"
    return best[1], best[2]


def _is_clear(landmark: "Landmark") -> bool:
    return landmark.box[3] - landmark.box[1] >= CLEAR_HEIGHT


def _identities(landmarks: "Iterable[Landmark]") -> set[int]:
    return {landmark.identity for landmark in landmarks if landmark.identity is not None}
