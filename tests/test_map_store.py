"""Maps on disk: batches are there once or not at all, versions stay, errors say what to do."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from map_world import DIMENSION, IdentityMatcher, drive, street
from robustmat.errors import DataError, InputError
from robustmat.mapping.build import add_datasets, build_map, drive_stretches, make_batch
from robustmat.mapping.info import map_info
from robustmat.mapping.landmark_map import open_map
from robustmat.mapping.objects import farthest_points
from robustmat.mapping.packing import keep_landmarks, pack, unpack
from robustmat.mapping.search import Area
from robustmat.mapping.settings import VERSION, MapSettings
from robustmat.mapping.store import open_store
from robustmat.matching.embedded import EmbeddedFrame
from robustmat.types import Frame

MATCHER = IdentityMatcher()
SETTINGS = MapSettings(keyframe_spacing=2.0, stretch=8)


@pytest.fixture
def town(tmp_path: Path) -> Path:
    build_map(tmp_path / "town", [drive(street())], MATCHER, SETTINGS)
    return tmp_path / "town"


def everything(place: Path, at: int | None = None) -> list[str]:
    return sorted(info.name for info in open_map(place, matcher=MATCHER, at=at).keyframes())


def test_keyframes_are_a_spacing_apart(town: Path) -> None:
    along = np.array([info.position[2] for info in open_map(town, matcher=MATCHER).keyframes()])
    assert len(along) == 30
    assert np.allclose(np.diff(along), 2.0)


def test_objects_know_their_place_category_and_sightings(town: Path) -> None:
    things = street()
    for found in open_map(town, matcher=MATCHER).objects():
        category, place, _, _ = things[int(found.names[0].split("#")[1])]
        assert found.category == category
        assert np.allclose(found.position, place)
        assert found.sightings == len(found.keyframes)
        assert found.first_time <= found.last_time


def test_objects_are_filtered_by_category_and_area(town: Path) -> None:
    opened = open_map(town, matcher=MATCHER)
    poles = opened.objects(category="pole")
    assert poles
    assert {one.category for one in poles} == {"pole"}
    near = opened.objects(area=Area((0.0, 0.0, 20.0), 8.0))
    assert near
    assert all(abs(one.position[2] - 20) <= 8 for one in near)


def test_adding_twice_adds_once(town: Path) -> None:
    before = everything(town)
    added = add_datasets(town, [drive(street())], MATCHER)
    assert added.written == 0
    assert everything(town) == before


def test_drives_of_one_street_share_objects(town: Path) -> None:
    opened = open_map(town, matcher=MATCHER)
    alone = len(opened.objects())
    add_datasets(town, [drive(street(), name="tuesday", right=1.0)], MATCHER)
    opened.refresh()
    objects = opened.objects()
    assert len(objects) <= alone + 2  # the other lane sees another one at the ends
    assert sum(len(one.names) == 2 for one in objects) > 0.8 * alone


def test_an_old_version_stays_as_it_was(town: Path) -> None:
    opened = open_map(town, matcher=MATCHER)
    before, version = everything(town), opened.snapshot.version
    add_datasets(town, [drive(street(), name="tuesday")], MATCHER)
    assert everything(town, at=version) == before
    assert len(everything(town)) == 2 * len(before)
    assert len(opened.keyframes()) == len(before)  # an open map does not change under its reader
    with pytest.raises(DataError, match="versions 1 to"):
        open_map(town, at=99)


def test_rows_of_an_attempt_without_its_log_row_do_not_exist(town: Path) -> None:
    before = everything(town)
    store = open_store(town)
    stretch = drive_stretches(drive(street(), name="tuesday"), store.header)[0]
    batch = make_batch(stretch, MATCHER, SETTINGS)
    store._add("keyframes", [{"attempt": "killed", "batch": batch.name, **row} for row in batch.keyframes])
    assert everything(town) == before
    assert store.append(batch)
    assert len(everything(town)) == len(before) + len(batch.keyframes)


def test_of_two_attempts_that_both_finish_one_counts(town: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = open_store(town), open_store(town)
    before = everything(town)
    stretch = drive_stretches(drive(street(), name="tuesday"), first.header)[0]
    batch = make_batch(stretch, MATCHER, SETTINGS)
    snapshot = second.snapshot()
    answers = [snapshot]  # the second looked before the first was done

    def looked_early(at: int | None = None):  # type: ignore[no-untyped-def]
        return answers.pop() if answers else type(second).snapshot(second, at)

    assert first.append(batch)
    monkeypatch.setattr(second, "snapshot", looked_early)
    assert not second.append(batch)
    assert len(everything(town)) == len(before) + len(batch.keyframes)
    assert len(first.rows("keyframes", first.snapshot())) == len(before) + len(batch.keyframes)


def test_compacting_changes_no_answer(town: Path) -> None:
    store = open_store(town)
    before = everything(town)
    store._add("objects", [{"attempt": "killed", "batch": "x", "object": "ghost", "category": "pole"}])
    store.compact()
    assert everything(town) == before
    assert not store.rows("objects", replace(store.snapshot(), batches={"x": {"attempt": "killed"}}))


def test_another_matcher_is_refused(town: Path) -> None:
    with pytest.raises(InputError, match=r"identity-1.*identity-2"):
        open_map(town, matcher=IdentityMatcher(fingerprint="identity-2"))
    with pytest.raises(InputError, match="build the map again"):
        add_datasets(town, [drive(street(), name="tuesday")], IdentityMatcher(fingerprint="identity-2"))


def test_another_world_is_refused(town: Path) -> None:
    with pytest.raises(InputError, match=r"'town'.*'village'"):
        add_datasets(town, [drive(street(), name="tuesday", world="village")], MATCHER)


def test_a_changed_drive_of_the_same_name_is_refused(town: Path) -> None:
    with pytest.raises(DataError, match="'monday' with other content"):
        add_datasets(town, [drive(street(), jitter=1.0)], MATCHER)


def test_building_again_continues_and_building_otherwise_is_refused(town: Path) -> None:
    assert build_map(town, [drive(street())], MATCHER, SETTINGS).written == 0
    with pytest.raises(DataError, match="another map"):
        build_map(town, [drive(street())], MATCHER, MapSettings(keyframe_spacing=5.0))


def test_what_is_no_map_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="map not found"):
        open_map(tmp_path / "nothing")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="is no map"):
        open_map(tmp_path / "empty")


def test_a_truncated_file_is_named_as_damage(town: Path) -> None:
    for path in (town / "keyframes.lance" / "data").glob("*.lance"):
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(DataError, match="restore its files"):
        open_map(town, matcher=MATCHER).keyframe("monday/monday-0000")


@pytest.mark.parametrize(("precision", "close"), [("float32", 0.0), ("float16", 1e-3), ("int8", 8e-3)])
def test_packing_keeps_embeddings_to_its_precision(precision: str, close: float) -> None:
    frame = MATCHER.embed(drive(street()).frames[3])
    back = unpack(pack(frame, precision), frame.fingerprint, "town")  # type: ignore[arg-type]
    assert back.landmarks == frame.landmarks
    assert np.abs(back.arrays["vertex"] - frame.arrays["vertex"]).max() <= close
    assert np.array_equal(back.arrays["keypoint_place"], frame.arrays["keypoint_place"])  # pixels lose nothing


def test_a_broken_keyframe_is_an_error() -> None:
    with pytest.raises(DataError, match="cannot be read"):
        unpack(b"not a frame", "f", "town")


def test_leaving_landmarks_out_keeps_the_rest() -> None:
    frame = MATCHER.embed(drive(street()).frames[3])
    part = keep_landmarks(frame, np.array([2, 0]))
    assert part.landmarks == (frame.landmarks[2], frame.landmarks[0])
    assert np.array_equal(part.arrays["vertex"], frame.arrays["vertex"][[2, 0]])
    assert len(part.arrays["keypoint_place"]) == 1


def test_farthest_points_cover_the_rest() -> None:
    rng = np.random.default_rng(0)
    groups = np.repeat(np.eye(4, 8, dtype=np.float32), 10, axis=0) + 0.01 * rng.normal(size=(40, 8)).astype(np.float32)
    chosen = farthest_points(groups, 4)
    assert sorted(index // 10 for index in chosen) == [0, 1, 2, 3]


def test_info_counts_and_lower_precision_takes_fewer_bytes(town: Path) -> None:
    told = map_info(open_map(town, matcher=MATCHER))
    assert told.keyframes == 30
    assert told.metres == pytest.approx(60, rel=0.1)
    sizes = told.bytes_per_kilometre
    assert sizes["float32"] > sizes["float16"] > sizes["int8"] > 0
    assert told.stored_bytes > 0
    assert sum(told.objects.values()) + told.unplaced == len(open_map(town, matcher=MATCHER).objects())
    json.dumps(told.to_json())


def test_a_map_keeps_what_it_was_told_to(tmp_path: Path) -> None:
    few = SETTINGS.model_copy(update={"max_landmarks": 3, "min_height": 20.0})
    build_map(tmp_path / "few", [drive(street())], MATCHER, few)
    opened = open_map(tmp_path / "few", matcher=MATCHER)
    for info in opened.keyframes():
        marks = opened.keyframe(info.name)[1].landmarks
        assert 0 < len(marks) <= 3
        assert all(mark.box[3] - mark.box[1] >= 20 for mark in marks)


def test_search_vectors_are_padded(town: Path) -> None:
    assert open_store(town).header.dimension == 24 > DIMENSION


def test_a_map_of_another_format_is_refused_before_anything_is_asked(
    town: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("robustmat.mapping.store.VERSION", VERSION + 1)
    with pytest.raises(DataError, match=rf"version {VERSION}, this robustmat reads version {VERSION + 1}: build"):
        open_map(town, matcher=MATCHER)


def test_a_matcher_that_keeps_more_of_a_frame_than_the_map_is_refused(town: Path) -> None:
    class Keeps(IdentityMatcher):
        def embed(self, frame: Frame) -> EmbeddedFrame:
            embedded = super().embed(frame)
            return replace(embedded, arrays={**embedded.arrays, "view.camera": np.zeros(6)})

    with pytest.raises(InputError, match=r"also needs view\.camera: build the map again"):
        open_map(town, matcher=Keeps()).query(drive(street()).frames[3])
