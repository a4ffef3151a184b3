"""The whole flow on one page: read this first.

    frames -> landmarks -> patches -> neighbourhood graphs -> embeddings -> scores -> matches

`read_frame` makes a frame from files or arrays, `match_frames` matches two of them, `match_sequence` each frame of a
drive with the one before it. What happens in between is one call per arrow:

    landmarks   landmarks.boxes, landmarks.regions      boxes from a box file, or from a label map
                detection.registry.load_detector        or found in the image
    patches     features.patches.cut_patches            each box grown, cut and squared
    graphs      features.neighborhoods.neighborhoods    the K nearest landmarks of each
    embeddings  models.robustmat.RobustMat.embed        f by vertex diffusion, g by graph diffusion
    placements  features.placement.placements           where each box stands, apart from all pixels
    scores      models.robustmat.RobustMat.match_score  S_match of all pairs, or the joint diffusion of both frames
    matches     matching.assign.mutual_best             one-to-one, above the threshold
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path

from numpy.typing import ArrayLike

from robustmat.checkpoints.load import load
from robustmat.denoising.frames import Remembering, denoise_frame
from robustmat.denoising.registry import load_denoiser
from robustmat.detection.protocol import LandmarkDetector, detect_for_matching
from robustmat.detection.registry import DEFAULT_DETECTOR, load_detector
from robustmat.geometry.relative_pose import MotionPrior
from robustmat.landmarks import reading, sequences
from robustmat.landmarks.reading import Boxes, Detect
from robustmat.landmarks.sequences import FrameSequence
from robustmat.matching.embedded import EmbeddedFrame
from robustmat.matching.matcher import Matcher
from robustmat.sources.cameras import CameraLike
from robustmat.types import Frame, MatchResult

__all__ = ["FrameSequence", "load", "match_frames", "match_sequence", "read_frame", "read_sequence"]


Detector = LandmarkDetector | str | Path | None


def read_frame(
    image: Path | str | ArrayLike,
    boxes: Boxes | None = None,
    masks: Path | str | ArrayLike | None = None,
    camera: CameraLike | None = None,
    *,
    name: str | None = None,
    detector: Detector = DEFAULT_DETECTOR,
    denoiser: str | Path | None = None,
) -> Frame:
    """A frame from an image and its landmarks: given as boxes or as a label map, or else found by a detector.

    Args:
        image: a file (PNG, JPEG, BMP, TIFF, WebP, PPM), or pixels: uint8, RGB [H, W, 3], grey or RGBA. A file is
            turned upright if its EXIF data say so; boxes and masks refer to the upright image.
        boxes: a box file, `{"landmarks": [{"box": [x0, y0, x1, y1], "category": "traffic_sign"}]}` or COCO; or a
            list of landmarks, dictionaries or (box, category) pairs. Boxes are tight, in pixels.
        masks: a label image, or an array [H, W], in Cityscapes train ids (5 pole, 6 traffic light, 7 traffic sign)
            and 19 for windows.
        camera: a `Camera`, a 3x3 matrix, (fx, fy, cx, cy), or a file such as camera.json. Without it a usual field
            of view is assumed.
        name: the frame's name in results; by default the file's.
        detector: who finds the landmarks where neither boxes nor masks are given: a detector, its name or the folder
            of its checkpoint; None refuses such a frame.
        denoiser: takes the noise off the image before anyone looks at it: a name (`sgn`, `nlm`) or the folder of a
            checkpoint.
    """
    clean = _denoise(denoiser)
    detect = None if boxes is not None or masks is not None else _detect(detector, clean)
    return clean(reading.read_frame(image, boxes, masks, camera, name=name, detect=detect))


def read_sequence(
    source: Path | str,
    boxes: Path | str | None = None,
    masks: Path | str | None = None,
    camera: CameraLike | None = None,
    *,
    every: int = 1,
    image_topic: str | None = None,
    detector: Detector = DEFAULT_DETECTOR,
    denoiser: str | Path | None = None,
) -> FrameSequence:
    """The frames of a folder of images, of a video or of a ROS bag, each read when its turn comes.

    Args:
        source: a folder of images, or one that holds `images/` and beside it `boxes/`, `masks/`, `camera.json`; a
            video; a ROS bag (.bag, .mcap, .db3, or its folder).
        boxes: a COCO file, or a folder of box files named like the frames.
        masks: a folder of label maps named like the frames.
        camera: as for `read_frame`; one for all frames.
        every: 1 takes every frame, 5 every fifth.
        image_topic: of a ROS bag with several cameras: which.
        detector, denoiser: as for `read_frame`.
    """
    clean = _denoise(denoiser)
    detect = None if boxes is not None or masks is not None else _detect(detector, clean)
    found = sequences.read_sequence(source, boxes, masks, camera, every=every, image_topic=image_topic, detect=detect)
    return replace(found, read=lambda: map(clean, found.read())) if denoiser else found


@lru_cache(maxsize=2)
def _loaded(detector: str | Path) -> LandmarkDetector:
    return load_detector(detector)


def _detect(detector: Detector, clean: Callable[[Frame], Frame]) -> Detect | None:
    if detector is None:
        return None
    loaded = _loaded(detector) if isinstance(detector, str | Path) else detector
    return lambda frame: detect_for_matching(loaded, clean(frame))


@lru_cache(maxsize=2)
def _loaded_denoiser(denoiser: str | Path) -> Remembering:
    return Remembering(load_denoiser(denoiser))  # the detector and the matcher look at the same frame


def _denoise(denoiser: str | Path | None) -> Callable[[Frame], Frame]:
    if denoiser is None:
        return lambda frame: frame
    return partial(denoise_frame, denoiser=_loaded_denoiser(denoiser))


def match_frames(
    a: Frame | EmbeddedFrame,
    b: Frame | EmbeddedFrame,
    matcher: Matcher | str | Path = "street",
    *,
    threshold: float | None = None,
    min_probability: float | None = None,
    motion: MotionPrior | None = None,
) -> MatchResult:
    """Match the landmarks of two frames, each patch embedded once.

    Args:
        matcher: a matcher, or what `load` takes: the name or the folder of a checkpoint.
        threshold: the least score of a match, instead of the checkpoint's own.
        min_probability: the least probability of a match.
        motion: how the camera moved from `a` to `b`, where odometry or poses tell.
    """
    ready = matcher if isinstance(matcher, Matcher) else load(matcher)
    return ready.match(a, b, threshold=threshold, min_probability=min_probability, motion=motion)


def match_sequence(
    frames: Iterable[Frame],
    matcher: Matcher | str | Path = "street",
    *,
    threshold: float | None = None,
    min_probability: float | None = None,
) -> Iterator[MatchResult]:
    """Match each frame with the one before it; a frame is read and embedded once."""
    ready = matcher if isinstance(matcher, Matcher) else load(matcher)
    before = None
    for frame in frames:
        embedded = ready.embed(frame)
        if before is not None:
            yield ready.match(before, embedded, threshold=threshold, min_probability=min_probability)
        before = embedded
