"""The whole flow on one page: read this first.

    frames -> landmarks -> patches -> neighbourhood graphs -> embeddings -> scores -> matches

`read_frame` makes a frame from files, `match_frames` matches two of them. What happens in between is one call
per arrow:

    landmarks   landmarks.boxes, landmarks.regions      boxes from a box file, or from a label map
    patches     dataset.patches.cut_patches             each box grown, cut and squared
    graphs      dataset.graphs.neighborhoods            the K nearest landmarks of each
    embeddings  models.robustmat.RobustMat.embed        f by vertex diffusion, g by graph diffusion
    placements  dataset.placement.placements            where each box stands, apart from all pixels
    scores      models.robustmat.RobustMat.match_score  S_match of all pairs, or the joint diffusion of both frames
    matches     matching.assign.mutual_best             one-to-one, above the threshold
"""

from pathlib import Path

from robustmat.checkpoints.load import load
from robustmat.errors import InputError
from robustmat.landmarks.boxes import check_landmarks, landmarks_from_mask, read_boxes
from robustmat.matching.matcher import Matcher
from robustmat.sources.images import read_image, read_semantics
from robustmat.types import Frame, Landmark, MatchResult


def read_frame(image: Path | str, boxes: Path | str | None = None, masks: Path | str | None = None) -> Frame:
    """A frame from an image file and its landmarks: a box file (JSON or COCO) or a label map.

    Args:
        image: any common image; grey, RGBA and 16-bit ones are converted.
        boxes: `{"landmarks": [{"box": [x0, y0, x1, y1], "category": "traffic_sign"}]}` or a COCO file.
        masks: a label image in Cityscapes train ids (5 pole, 6 traffic light, 7 traffic sign) and 19 for windows.
    """
    pixels = read_image(image)
    height, width = pixels.shape[:2]
    landmarks: tuple[Landmark, ...]
    if boxes is not None and masks is not None:
        raise InputError(f"{image}: give boxes or masks, not both")
    if boxes is not None:
        landmarks = read_boxes(boxes, Path(image).name)
    elif masks is not None:
        semantics = read_semantics(masks)
        if semantics.shape != (height, width):
            raise InputError(
                f"mask {masks} is {semantics.shape[1]}x{semantics.shape[0]} pixels but its image {image} is "
                f"{width}x{height}: a mask labels every pixel of its image"
            )
        landmarks = landmarks_from_mask(semantics)
    else:
        raise InputError(
            f"no landmarks for {image}: give a box file (--boxes-a, --boxes-b) or a label map (--masks-a, --masks-b); "
            "there is no built-in detector"
        )
    return Frame(name=Path(image).stem, load_image=lambda: pixels, landmarks=check_landmarks(landmarks, width, height))


def match_frames(a: Frame, b: Frame, matcher: Matcher | str | Path = "street") -> MatchResult:
    """Match the landmarks of two frames, each patch embedded once."""
    if not isinstance(matcher, Matcher):
        matcher = load(matcher)
    embedded_a, embedded_b = matcher.embed(a), matcher.embed(b)
    return matcher.match(embedded_a, embedded_b)
