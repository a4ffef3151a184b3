"""The frozen values that every stage speaks: frames, landmarks, matches."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from robustmat.errors import InputError

if TYPE_CHECKING:
    import pandas

Image = NDArray[np.uint8]  # [H, W, 3], RGB
Array = NDArray[np.float64]
Box = tuple[float, float, float, float]  # x0, y0, x1, y1: tight, in pixels

CATEGORIES = ("traffic_sign", "traffic_light", "pole", "window")

UNMATCHED, MATCHED, AMBIGUOUS = 0, 1, 2  # what the ground truth says of two landmarks


@dataclass(frozen=True)
class Landmark:
    """One street object as one frame sees it.

    `identity` says which object of the world it is and `position` where that stands in world metres;
    both are known only where LiDAR or a map told. `confidence` is a detector's, in 0..1; None where a person or a
    label map says that it is there.
    """

    box: Box
    category: str
    identity: int | None = None
    position: tuple[float, float, float] | None = None
    confidence: float | None = None

    @property
    def is_likely(self) -> bool:
        """Whether it is there rather than not, as far as its own frame tells."""
        return self.confidence is None or self.confidence >= 0.5


@dataclass(frozen=True)
class Camera:
    """A rectified pinhole camera: `matrix` [3, 3] maps metres in front of it to pixels."""

    matrix: Array
    width: int
    height: int


@dataclass(frozen=True, eq=False)
class InMemory:
    """A loader of something that is in memory already; it can be pickled, unlike a lambda."""

    array: NDArray[Any]

    def __call__(self) -> NDArray[Any]:
        return self.array


def to_rgb(pixels: ArrayLike, what: str = "image") -> Image:
    """Pixels as RGB [H, W, 3]: grey becomes three equal channels, transparency is dropped.

    >>> to_rgb(np.zeros((4, 6), np.uint8)).shape
    (4, 6, 3)
    """
    array = np.asarray(pixels)
    if array.dtype != np.uint8:
        raise InputError(f"{what}: pixels must be uint8 from 0 to 255, found {array.dtype}; scale and convert them")
    if array.ndim == 2:
        array = array[:, :, None]
    if array.ndim != 3 or array.shape[2] not in (1, 3, 4) or 0 in array.shape:
        raise InputError(
            f"{what}: pixels must be grey [H, W], RGB [H, W, 3] or RGBA [H, W, 4], found the shape {np.shape(pixels)}"
        )
    if array.shape[2] == 1:
        return np.repeat(array, 3, axis=2)
    return np.ascontiguousarray(array[:, :, :3])


@dataclass(frozen=True, repr=False)
class Frame:
    """One moment of a drive: what the camera saw and, where known, from where and with which depths.

    Pixels, points and labels stay on disk until asked for and are read anew each time, so that a long
    drive fits in memory; keep what you use twice in a variable. `robustmat.read_frame` makes a frame from files,
    `Frame.from_array` from pixels:

    >>> pixels = np.zeros((40, 60, 3), np.uint8)
    >>> Frame.from_array(pixels, [Landmark((5, 5, 20, 30), "pole")], name="front")
    Frame('front', 1 landmark)
    """

    name: str
    load_image: Callable[[], Image]
    landmarks: tuple[Landmark, ...] = ()
    camera: Camera | None = None
    T_world_camera: Array | None = None  # [4, 4]
    T_camera_lidar: Array | None = None  # [4, 4]
    load_points: Callable[[], NDArray[np.float32]] | None = None  # [N, 4]: x, y, z, reflectance
    load_semantics: Callable[[], NDArray[np.uint8]] | None = None  # [H, W], Cityscapes train ids, 19 window
    time: float | None = None  # seconds
    load_boxes: Callable[[], tuple[Landmark, ...]] | None = None  # landmarks whose boxes somebody drew
    load_point_labels: Callable[[], NDArray[np.uint8]] | None = None  # [N], one train id for each of the points

    @classmethod
    def from_array(
        cls, pixels: ArrayLike, landmarks: Iterable[Landmark] = (), *, name: str = "frame", camera: Camera | None = None
    ) -> Self:
        """A frame from pixels: uint8, RGB, grey or RGBA."""
        return cls(name, InMemory(to_rgb(pixels, f"frame '{name}'")), tuple(landmarks), camera)

    def with_image(self, pixels: ArrayLike) -> Self:
        """The same frame with other pixels, which are kept in memory."""
        return replace(self, load_image=InMemory(to_rgb(pixels, f"frame '{self.name}'")))

    def __repr__(self) -> str:
        return f"Frame({self.name!r}, {plural(len(self.landmarks), 'landmark')})"

    @property
    def image(self) -> Image:
        return self.load_image()

    @property
    def points_lidar(self) -> NDArray[np.float32] | None:
        return self.load_points() if self.load_points else None

    @property
    def semantics(self) -> NDArray[np.uint8] | None:
        return self.load_semantics() if self.load_semantics else None


@dataclass(frozen=True)
class Match:
    """Landmark `a` of the first frame is landmark `b` of the second."""

    a: int
    b: int
    score: float
    probability: float


@dataclass(frozen=True, repr=False)
class MatchResult:
    """What matching two frames gives: one-to-one matches, the unmatched landmarks, and every pair's score.

    The last fields say how it was made: the checkpoint (or the method) that scored, what its score was allowed to
    know (`evidence`) and the probability below which matches were not returned. In a notebook a result shows itself
    as a picture.

    >>> landmarks = (Landmark((5, 5, 20, 30), "pole"),)
    >>> result = MatchResult(landmarks, landmarks, (Match(0, 0, 1.5, 0.9),), np.eye(1), np.eye(1), 1.0)
    >>> result
    MatchResult(1 match: 1 pole; 0 + 0 landmarks unmatched)
    >>> result.to_rows()[0]["probability"]
    0.9
    """

    landmarks_a: tuple[Landmark, ...]
    landmarks_b: tuple[Landmark, ...]
    matches: tuple[Match, ...]
    score: Array  # [A, B]
    probability: Array  # [A, B]
    threshold: float
    frame_a: Frame | None = None
    frame_b: Frame | None = None
    checkpoint: str | None = None
    evidence: str | None = None
    min_probability: float | None = None
    name_a: str | None = None  # where the frame itself is not kept
    name_b: str | None = None

    @property
    def unmatched_a(self) -> tuple[int, ...]:
        taken = {match.a for match in self.matches}
        return tuple(i for i in range(len(self.landmarks_a)) if i not in taken)

    @property
    def unmatched_b(self) -> tuple[int, ...]:
        taken = {match.b for match in self.matches}
        return tuple(j for j in range(len(self.landmarks_b)) if j not in taken)

    @property
    def left_alone(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Of either frame, the unmatched landmarks that are likely there: what people are shown.

        The others are detections that were doubtful and that no match confirmed.
        """
        return (
            tuple(i for i in self.unmatched_a if self.landmarks_a[i].is_likely),
            tuple(j for j in self.unmatched_b if self.landmarks_b[j].is_likely),
        )

    @property
    def correct(self) -> tuple[bool | None, ...]:
        """For each match whether its landmarks have one identity; None where an identity is not known.

        This means something only where the identities of both frames are of the same world.
        """
        pairs = ((self.landmarks_a[match.a].identity, self.landmarks_b[match.b].identity) for match in self.matches)
        return tuple(None if a is None or b is None else a == b for a, b in pairs)

    def __repr__(self) -> str:
        kinds = Counter(self.landmarks_a[match.a].category.replace("_", " ") for match in self.matches)
        by_kind = ", ".join(plural(count, kind) for kind, count in kinds.most_common())
        alone = " + ".join(str(len(side)) for side in self.left_alone) + " landmarks unmatched"
        made_by = f"; by {self.checkpoint}" if self.checkpoint else ""
        matches = plural(len(self.matches), "match", "matches")
        return f"MatchResult({matches}{': ' if by_kind else ''}{by_kind}; {alone}{made_by})"

    def _repr_png_(self) -> bytes | None:
        """The picture that a notebook shows; without frames it falls back to the text."""
        if self.frame_a is None or self.frame_b is None:
            return None
        from robustmat.drawing import encode_png, picture_of_matches

        return encode_png(picture_of_matches(self))

    def draw(self, path: Path | str, correct: Sequence[bool | None] | None = None) -> Path:
        """Write a picture of both frames with their matches (.png, .jpg).

        Args:
            correct: what the ground truth says of each match (`result.correct` where identities are known); wrong
                matches are then drawn as such.
        """
        from robustmat.drawing import draw_matches  # Pillow is needed only here

        return draw_matches(self, path, correct)

    def to_rows(self) -> list[dict[str, Any]]:
        """One flat dictionary a match: indices, categories, score, probability, boxes."""
        rows = []
        for match in self.matches:
            a, b = self.landmarks_a[match.a], self.landmarks_b[match.b]
            row = {"a": match.a, "b": match.b, "category_a": a.category, "category_b": b.category}
            rows.append({**row, "score": match.score, "probability": match.probability, "box_a": a.box, "box_b": b.box})
        return rows

    def to_pandas(self) -> "pandas.DataFrame":
        """`to_rows` as a table; needs pandas, which the package does not bring along."""
        try:
            import pandas
        except ImportError:
            raise InputError("to_pandas needs pandas: pip install pandas, or use to_rows()") from None
        columns = ["a", "b", "category_a", "category_b", "score", "probability", "box_a", "box_b"]
        return pandas.DataFrame(self.to_rows(), columns=columns)

    def to_json(self) -> dict[str, Any]:
        """The command line's JSON contract, ready for `json.dumps`."""
        from robustmat import __version__

        return {
            "a": _listed(self.landmarks_a, self.name_a, self.frame_a),
            "b": _listed(self.landmarks_b, self.name_b, self.frame_b),
            "matches": [
                {"a": match.a, "b": match.b, "score": match.score, "probability": match.probability}
                for match in self.matches
            ],
            "unmatched_a": list(self.unmatched_a),
            "unmatched_b": list(self.unmatched_b),
            "checkpoint": self.checkpoint,
            "evidence": self.evidence,
            "threshold": float(self.threshold) if np.isfinite(self.threshold) else None,
            "min_probability": self.min_probability,
            "version": __version__,
        }


def plural(count: int, one: str, many: str | None = None) -> str:
    """`1 match`, `2 matches`."""
    return f"{count} {one if count == 1 else many or one + 's'}"


def _listed(landmarks: tuple[Landmark, ...], name: str | None, frame: Frame | None) -> dict[str, Any]:
    return {
        "image": name or (frame.name if frame else None),
        "landmarks": [
            {"box": [float(value) for value in landmark.box], "category": landmark.category}
            | ({} if landmark.confidence is None else {"confidence": landmark.confidence})
            for landmark in landmarks
        ],
    }
