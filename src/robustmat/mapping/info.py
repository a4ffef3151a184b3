"""What a map holds and what it costs: counts, metres, bytes a kilometre at each precision."""

from collections import Counter
from dataclasses import dataclass
from typing import Any

from robustmat.mapping.landmark_map import LandmarkMap
from robustmat.mapping.packing import pack
from robustmat.mapping.settings import Precision
from robustmat.mapping.words import VECTOR

PRECISIONS: tuple[Precision, ...] = ("float32", "float16", "int8")
BYTES: dict[Precision, int] = {"float32": 4, "float16": 2, "int8": 1}
SAMPLE = 50  # keyframes that are packed anew to measure other precisions


@dataclass(frozen=True)
class MapInfo:
    """What `map info` says."""

    version: int
    world: str
    checkpoint: str
    evidence: str
    fingerprint: str
    precision: str
    drives: tuple[str, ...]
    keyframes: int
    landmarks: int
    views: int
    objects: dict[str, int]  # by category, those whose place is known
    unplaced: int  # sightings without a place: they help to recognise, not to locate
    metres: float
    bytes_per_kilometre: dict[str, float]  # of embeddings, boxes and poses, at each precision
    stored_bytes: int  # of all tables, old versions and indexes left out

    def to_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


def map_info(opened: LandmarkMap) -> MapInfo:
    """Count a map; bytes at other precisions are measured on some of its keyframes."""
    rows = list(opened.snapshot.batches.values())
    total: Counter[str] = Counter()
    for row in rows:
        total.update({name: row[name] for name in ("keyframes", "landmarks", "views")})
    metres = float(sum(row["metres"] for row in rows))
    header, objects = opened.header, opened.objects()
    return MapInfo(
        version=opened.snapshot.version,
        world=header.world,
        checkpoint=header.checkpoint,
        evidence=header.evidence,
        fingerprint=header.fingerprint,
        precision=header.settings.precision,
        drives=tuple(sorted({row["dataset"] for row in rows})),
        keyframes=total["keyframes"],
        landmarks=total["landmarks"],
        views=total["views"],
        objects=dict(sorted(Counter(one.category for one in objects if one.position is not None).items())),
        unplaced=sum(one.position is None for one in objects),
        metres=metres,
        bytes_per_kilometre={
            precision: 1000 * size / max(metres, 1e-9)
            for precision, size in _sizes(opened, total["keyframes"], total["views"]).items()
        },
        stored_bytes=opened.store.bytes(),
    )


def _sizes(opened: LandmarkMap, keyframes: int, views: int) -> dict[Precision, float]:
    """Bytes of all keyframes and views at each precision."""
    infos = opened.keyframes()
    sample = infos[:: max(1, len(infos) // SAMPLE)]
    packed = dict.fromkeys(PRECISIONS, 0)
    for info in sample:
        _, frame = opened.keyframe(info.name)
        for precision in PRECISIONS:
            packed[precision] += len(pack(frame, precision))
    beside = 8 * (16 + 9 + 5)  # pose, camera, time and place of a keyframe
    whole = VECTOR if opened.header.settings.keypoints else 0  # numbers of what a whole frame looks like
    share = keyframes / max(len(sample), 1)
    return {
        precision: packed[precision] * share
        + (beside + whole * (4 if precision == "float32" else 2)) * keyframes
        + views * (opened.header.dimension * BYTES[precision] + 40)
        for precision in PRECISIONS
    }
