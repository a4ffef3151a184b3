"""`robustmat match`: two frames in, or a whole drive, matched landmarks out."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from robustmat.cli.checks import choose_device, need, output_file, output_folder, output_picture, output_video
from robustmat.cli.console import make_console, say
from robustmat.cli.denoise import Denoise

if TYPE_CHECKING:
    from robustmat.landmarks.sequences import FrameSequence
    from robustmat.matching.matcher import Matcher
    from robustmat.robustness.certificate import Certificate
    from robustmat.types import Frame, MatchResult

    Add = Callable[[MatchResult, Any], object]  # with its picture, where one is needed

VIDEO_RATE = 5.0  # pictures a second

INPUT, LANDMARKS, DECISION, MODEL, OUTPUT = "A whole drive", "Landmarks", "Which matches", "Model", "Output"


def match(
    a: Annotated[
        Path,
        typer.Argument(
            metavar="A",
            help="First image; or, without B, a folder of images, a video or a ROS bag.",
            show_default=False,
        ),
    ],
    b: Annotated[Path | None, typer.Argument(metavar="B", help="Second image.", show_default=False)] = None,
    boxes_a: Annotated[
        Path | None,
        typer.Option(
            rich_help_panel=LANDMARKS,
            help='Landmarks of A: `{"landmarks": [{"box": [x0, y0, x1, y1], "category": "pole"}]}`, or a COCO file. '
            "Boxes are tight, in pixels of the upright image.",
        ),
    ] = None,
    boxes_b: Annotated[Path | None, typer.Option(rich_help_panel=LANDMARKS, help="Landmarks of B.")] = None,
    masks_a: Annotated[
        Path | None,
        typer.Option(
            rich_help_panel=LANDMARKS,
            help="Or a label map of A: Cityscapes train ids (5 pole, 6 traffic light, 7 traffic sign), 19 for windows.",
        ),
    ] = None,
    masks_b: Annotated[Path | None, typer.Option(rich_help_panel=LANDMARKS, help="Or a label map of B.")] = None,
    boxes: Annotated[
        Path | None,
        typer.Option(
            rich_help_panel=LANDMARKS,
            help="Of a whole drive: a folder of box files named like the images, or one COCO file. Frames of a video "
            "are named by number: 000000.json.",
        ),
    ] = None,
    masks: Annotated[
        Path | None,
        typer.Option(rich_help_panel=LANDMARKS, help="Or a folder of label maps named like the images."),
    ] = None,
    detector: Annotated[
        str,
        typer.Option(
            metavar="NAME|PATH",
            rich_help_panel=LANDMARKS,
            help="Who finds the landmarks where neither boxes nor masks are given: a name, or a checkpoint's folder.",
        ),
    ] = "street-detector",
    no_detector: Annotated[
        bool,
        typer.Option("--no-detector", rich_help_panel=LANDMARKS, help="Refuse images without boxes and masks."),
    ] = False,
    denoise: Denoise = None,
    camera: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=LANDMARKS,
            help="`fx,fy,cx,cy` in pixels, a camera.json or an intrinsics.txt; of both images. Without it a usual "
            "field of view is assumed.",
        ),
    ] = None,
    every: Annotated[
        int, typer.Option(min=1, rich_help_panel=INPUT, help="Take every Nth frame and match it with the one before.")
    ] = 1,
    image_topic: Annotated[
        str | None, typer.Option(rich_help_panel=INPUT, help="Of a ROS bag with several cameras: which.")
    ] = None,
    min_probability: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            max=1.0,
            rich_help_panel=DECISION,
            help="Leave out matches below this probability. By default 0.5 where all evidence is combined, as "
            "`street` does; else the checkpoint's threshold on the score decides.",
        ),
    ] = None,
    precision: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            max=1.0,
            rich_help_panel=DECISION,
            help="Instead of a probability: the share of returned matches that should be right, such as 0.95.",
        ),
    ] = None,
    motion: Annotated[
        Path | None,
        typer.Option(
            rich_help_panel=DECISION,
            help='How the camera moved from A to B, where odometry tells: a JSON file with `"T_b_a"`, 4 x 4.',
        ),
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(rich_help_panel=DECISION, help="On the raw score, instead of the checkpoint's own."),
    ] = None,
    evidence: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=DECISION,
            help="What a score may know: `pair` (two landmarks and their neighbours), `frames` (all landmarks, by "
            "pixels), `placement` (where boxes stand, too), `scene` (keypoints of the whole images, too). By default "
            "all that the checkpoint can use.",
        ),
    ] = None,
    any_category: Annotated[
        bool, typer.Option("--any-category", rich_help_panel=DECISION, help="Let a sign match a pole.")
    ] = False,
    certify: Annotated[
        bool,
        typer.Option(
            "--certify",
            rich_help_panel=DECISION,
            help="Print with each match how far a patch may change before the decision can; needs a certified "
            "checkpoint (`robustmat train certified`) and torch.",
        ),
    ] = False,
    checkpoint: Annotated[
        str,
        typer.Option(rich_help_panel=MODEL, help="A shipped name (`robustmat models`), a checkpoint folder or a run."),
    ] = "street",
    runtime: Annotated[
        str,
        typer.Option(
            rich_help_panel=MODEL,
            help="`auto` (torch where it is installed), `torch`, `onnx` or `onnx-int8` (less exact).",
        ),
    ] = "auto",
    device: Annotated[
        str,
        typer.Option(
            callback=choose_device,
            rich_help_panel=MODEL,
            help="Where torch computes: `cpu`, `cuda`, `mps`, or `auto`.",
        ),
    ] = "cpu",
    json: Annotated[
        Path | None,
        typer.Option(
            callback=output_file,
            rich_help_panel=OUTPUT,
            help="Write landmarks and matches here; of a drive one line a pair (.jsonl).",
        ),
    ] = None,
    picture: Annotated[
        Path | None,
        typer.Option(
            callback=output_picture,
            rich_help_panel=OUTPUT,
            help="Draw both frames and their matches here (.png, .jpg).",
        ),
    ] = None,
    pictures: Annotated[
        Path | None,
        typer.Option(
            callback=output_folder, rich_help_panel=OUTPUT, help="Of a drive: draw every pair into this folder."
        ),
    ] = None,
    video: Annotated[
        Path | None,
        typer.Option(
            callback=output_video,
            rich_help_panel=OUTPUT,
            help="Of a drive: draw all pairs into a video (.mp4, .avi).",
        ),
    ] = None,
) -> None:
    """Match the landmarks of two frames, or of each two consecutive frames of a drive.

    Two images, whose landmarks are detected, and a picture of the result:

        robustmat match a.jpg b.jpg --picture matches.png

    The same with boxes of your own:

        robustmat match a.png b.png --boxes-a a.json --boxes-b b.json --picture matches.png

    Every fifth image of a folder, with label maps of the same names in another one:

        robustmat match drive/images --masks drive/masks --every 5 --json matches.jsonl --video matches.mp4

    A video or a ROS bag:

        robustmat match drive.mp4 --every 10 --video matches.mp4
    """
    from robustmat.errors import InputError
    from robustmat.pipeline import load, read_frame, read_sequence
    from robustmat.sources.motion import read_motion

    _refuse_misplaced(
        a,
        b,
        for_two={
            "--boxes-a": boxes_a,
            "--boxes-b": boxes_b,
            "--masks-a": masks_a,
            "--masks-b": masks_b,
            "--picture": picture,
            "--motion": motion,
            "--certify": certify or None,
        },
        for_a_drive={
            "--boxes": boxes,
            "--masks": masks,
            "--every": every if every > 1 else None,
            "--image-topic": image_topic,
            "--pictures": pictures,
            "--video": video,
        },
    )
    options: dict[str, Any] = {
        "runtime": runtime,
        "device": device,
        "evidence": evidence,
        "same_category": not any_category,
    }
    if precision is not None and min_probability is not None:
        raise InputError("--precision and --min-probability both say which matches are returned: give one of them")
    finder = None if no_detector else detector
    decision: dict[str, Any] = {"min_probability": min_probability, "threshold": threshold}
    if b is not None:
        decision["motion"] = read_motion(motion) if motion else None
        frames = (
            read_frame(a, boxes_a, masks_a, camera, detector=finder, denoiser=denoise),
            read_frame(b, boxes_b, masks_b, camera, detector=finder, denoiser=denoise),
        )
        matcher = load(checkpoint, **options)
        if precision is not None:
            decision["min_probability"] = matcher.min_probability_for(precision)
        _match_two(frames, matcher, decision, json, picture, certified=certify)
    else:
        sequence = read_sequence(
            a, boxes, masks, camera, every=every, image_topic=image_topic, detector=finder, denoiser=denoise
        )
        matcher = load(checkpoint, **options)
        if precision is not None:
            decision["min_probability"] = matcher.min_probability_for(precision)
        _match_drive(sequence, matcher, decision, json, pictures, video)


def _refuse_misplaced(a: Path, b: Path | None, for_two: dict[str, Any], for_a_drive: dict[str, Any]) -> None:
    """An option that would be ignored is refused."""
    from robustmat.errors import InputError

    misplaced = [name for name, value in (for_two if b is None else for_a_drive).items() if value is not None]
    if not misplaced and b is None and a.is_file() and not _is_drive(a):
        raise InputError(f"one image alone cannot be matched: {a}; give a second one, a folder, a video or a ROS bag")
    if b is None and (a / "dataset.json").is_file() and not (a / "images").is_dir():
        from robustmat.cli.prepare import quoted, to_match
        from robustmat.dataset.store import open_dataset

        images = quoted(to_match(open_dataset(a)))
        raise InputError(f"{a} is a data set, whose images are elsewhere: match those, with robustmat match {images}")
    if misplaced and b is None:
        raise InputError(f"{misplaced[0]} is for two images, but only {a} was given")
    if misplaced:
        raise InputError(f"{misplaced[0]} is for a whole drive: give one folder or one video, not two images")


def _is_drive(path: Path) -> bool:
    from robustmat.sources.rosbag_file import is_rosbag
    from robustmat.sources.video import is_video

    return is_video(path) or is_rosbag(path)


def _match_two(
    frames: "tuple[Frame, Frame]",
    matcher: "Matcher",
    decision: dict[str, Any],
    json: Path | None,
    picture: Path | None,
    *,
    certified: bool = False,
) -> None:
    from rich.table import Table

    from robustmat.files import write_json
    from robustmat.pipeline import match_frames
    from robustmat.report import summarize

    for frame in frames:
        if not frame.landmarks:
            say(f"robustmat: {frame.name} has no landmarks, so nothing can match", err=True)
    result = match_frames(*frames, matcher, **decision)
    proven = _certificates(matcher, result) if certified else ()
    console = make_console()
    table = Table("", "landmark of A", "of B", "category", "probability", *(["certified up to"] if proven else []))
    for number, match in enumerate(result.matches, start=1):
        category = result.landmarks_a[match.a].category.replace("_", " ")
        limit = [_limit(proven[number - 1])] if proven else []
        table.add_row(str(number), str(match.a), str(match.b), category, f"{match.probability:.2f}", *limit)
    if result.matches:
        console.print(table)
    console.print(summarize(result), highlight=False)
    if proven:
        from robustmat.robustness.certificate import summary

        console.print(summary(proven), highlight=False)
    if json is None and picture is None:
        console.print("see them with --picture matches.png, keep them with --json matches.json", highlight=False)
    if json is not None:
        written = result.to_json()
        for match, one in zip(written["matches"], proven, strict=False):
            match["certificate"] = one.to_json()
        write_json(json, written)
        console.print(f"wrote {json}", soft_wrap=True)
    if picture is not None:
        result.draw(picture)
        console.print(f"wrote {picture}", soft_wrap=True)


def _certificates(matcher: "Matcher", result: "MatchResult") -> "tuple[Certificate, ...]":
    need("torch", purpose="--certify")
    from robustmat.robustness.certificate import certify

    return certify(matcher, result)


def _limit(certificate: "Certificate") -> str:
    """`5.2 grey levels (34 dB)`"""
    from robustmat.robustness.certificate import psnr

    if not certificate.patch:
        return "nothing"
    return f"{certificate.patch:.1f} grey levels ({psnr(certificate.patch):.0f} dB)"


def _match_drive(
    sequence: "FrameSequence",
    matcher: "Matcher",
    decision: dict[str, Any],
    json: Path | None,
    pictures: Path | None,
    video: Path | None,
) -> None:
    from rich.progress import track

    from robustmat.drawing import picture_of_matches
    from robustmat.errors import InputError
    from robustmat.pipeline import match_sequence
    from robustmat.report import summarize
    from robustmat.types import plural

    console, errors = make_console(), make_console(stderr=True)
    frames = track(sequence, "matching", total=sequence.count or None, console=errors)
    pairs = matches = 0
    with ExitStack() as stack:
        outputs = [stack.enter_context(output) for output in _outputs(json, pictures, video)]
        for result in match_sequence(frames, matcher, **decision):
            pairs, matches = pairs + 1, matches + len(result.matches)
            picture = picture_of_matches(result) if pictures or video else None
            for add in outputs:
                add(result, picture)
            if json is None:
                line = f"{_name(result.frame_a)} - {_name(result.frame_b)}: {summarize(result)}"
                console.print(line, highlight=False, soft_wrap=True)
        if not pairs:
            raise InputError(f"{sequence.name} has fewer than two frames to match: lower --every or give more")
    console.print(f"{plural(pairs, 'frame pair')}, {plural(matches, 'match', 'matches')}", highlight=False)
    for path in (json, pictures, video):
        if path is not None:
            console.print(f"wrote {path}", soft_wrap=True)


def _outputs(json: Path | None, pictures: Path | None, video: Path | None) -> "Iterator[AbstractContextManager[Add]]":
    """What was asked for, each as something that takes one result after the other."""
    if json is not None:
        yield _json_lines(json)
    if pictures is not None:
        yield _picture_folder(pictures)
    if video is not None:
        yield _video(video)


@contextmanager
def _json_lines(path: Path) -> "Iterator[Add]":
    import json

    from robustmat.files import replacing

    with replacing(path) as temporary, temporary.open("w", encoding="utf-8") as file:
        yield lambda result, _: file.write(json.dumps(result.to_json(), allow_nan=False) + "\n")


@contextmanager
def _picture_folder(folder: Path) -> "Iterator[Add]":
    from robustmat.drawing import write_picture

    def add(result: "MatchResult", picture: Any) -> None:
        names = [Path(_name(frame)).stem for frame in (result.frame_a, result.frame_b)]
        write_picture(folder / f"{'-'.join(names)}.jpg", picture)

    yield add


@contextmanager
def _video(path: Path) -> "Iterator[Add]":
    import numpy as np

    from robustmat.sources.video import video_writer

    with video_writer(path, VIDEO_RATE) as add:
        yield lambda _, picture: add(np.asarray(picture))


def _name(frame: "Frame | None") -> str:
    return frame.name if frame else "frame"
