"""Ground truth and the pairs drawn from it."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robustmat.dataset.pairs import PairSample, draw_frame_pairs, draw_pairs
from robustmat.dataset.store import LandmarkDataset
from robustmat.dataset.truth import frame_pairs, label_candidates, read_truth, unite_identities
from robustmat.errors import ConfigError, DataError
from robustmat.types import AMBIGUOUS, MATCHED, UNMATCHED, Landmark
from small_world import drive, make_boards

BOARDS = make_boards(14, seed=0)
DRIVE = drive(BOARDS, frames=30)


def drawn_landmarks(sample: PairSample, side: str) -> list[Landmark]:
    frames, marks = getattr(sample, f"frame_{side}"), getattr(sample, f"landmark_{side}")
    return [sample.truth.frame(frame).landmarks[mark] for frame, mark in zip(frames, marks, strict=True)]


def one_frame(*landmarks: Landmark) -> LandmarkDataset:
    frame = replace(DRIVE.frames[0], landmarks=landmarks)
    return replace(DRIVE, frames=(frame,))


def label_of(first: Landmark, second: Landmark) -> int:
    """Of two landmarks of one data set, seen in two frames."""
    frames = (*one_frame(first).frames, *one_frame(second).frames)
    truth = read_truth([replace(DRIVE, frames=frames)])
    return int(label_candidates(*truth.frames)[0, 0])


def test_frame_pairs_are_exactly_those_2_to_25_m_apart() -> None:
    truth = read_truth([DRIVE])
    expected = {
        (i, j)
        for i, a in enumerate(truth.frames)
        for j, b in enumerate(truth.frames)
        if i < j and 2 <= np.linalg.norm(a.centre - b.centre) <= 25
    }
    found = [tuple(pair) for pair in frame_pairs(truth).tolist()]
    assert set(found) == expected
    assert len(found) == len(expected)


@pytest.mark.parametrize(
    ("category", "offset", "expected"),
    [
        ("traffic_sign", (0.4, 0, 0), MATCHED),
        ("traffic_sign", (0.6, 0, 0), AMBIGUOUS),
        ("window", (0.9, 0, 0), MATCHED),
        ("window", (1.1, 0, 0), AMBIGUOUS),
        ("pole", (0.0, 1.5, 0), MATCHED),  # half of a pole was hidden
        ("pole", (0.6, 0, 0), AMBIGUOUS),
    ],
)
def test_one_identity_at_two_places_is_ambiguous(
    category: str, offset: tuple[float, float, float], expected: int
) -> None:
    first = Landmark((0, 0, 9, 9), category, 7, (1.0, 2.0, 3.0))
    second = replace(first, position=(1 + offset[0], 2 + offset[1], 3 + offset[2]))
    assert label_of(first, second) == expected
    assert label_of(second, first) == expected


@pytest.mark.parametrize(
    ("categories", "offset", "expected"),
    [
        (("traffic_sign", "traffic_sign"), (1.9, 0, 0), AMBIGUOUS),
        (("traffic_sign", "traffic_sign"), (2.1, 0, 0), UNMATCHED),
        (("traffic_sign", "pole"), (0.1, 2.5, 0), AMBIGUOUS),  # a sign high up on its own pole
        (("window", "window"), (0.0, 3.0, 0), UNMATCHED),  # one floor above the other
    ],
)
def test_different_identities_nearer_than_2_m_are_ambiguous(
    categories: tuple[str, str], offset: tuple[float, float, float], expected: int
) -> None:
    first = Landmark((0, 0, 9, 9), categories[0], 1, (0.0, 0.0, 0.0))
    second = Landmark((0, 0, 9, 9), categories[1], 2, offset)
    assert label_of(first, second) == expected


def test_a_landmark_without_identity_is_ambiguous_with_everything() -> None:
    stranger = Landmark((0, 0, 9, 9), "pole")
    known = Landmark((0, 0, 9, 9), "pole", 1, (0.0, 0.0, 0.0))
    assert label_of(stranger, known) == AMBIGUOUS
    assert label_of(known, stranger) == AMBIGUOUS


def board_and_its_ghost(**changes: object) -> tuple[LandmarkDataset, Landmark]:
    """Two frames of one board, 3 m apart; in the second LiDAR met what lies 10 m behind the board."""
    frames = DRIVE.frames[0], DRIVE.frames[2]
    seen = next(it for it in frames[0].landmarks if it.identity in {mark.identity for mark in frames[1].landmarks})
    again = next(it for it in frames[1].landmarks if it.identity == seen.identity)
    assert again.position is not None
    centre = np.array(frames[1].T_world_camera)[:3, 3]
    ray = (np.array(again.position) - centre) / np.linalg.norm(np.array(again.position) - centre)
    behind = tuple(float(it) for it in np.array(again.position) + 10 * ray)
    ghost = replace(again, **{"identity": 99, "position": behind, **changes})  # type: ignore[arg-type]
    pair = replace(frames[0], landmarks=(seen,)), replace(frames[1], landmarks=(ghost,))
    return replace(DRIVE, frames=pair), again


def ghost_label(dataset: LandmarkDataset) -> int:
    a, b = read_truth([dataset]).frames
    assert np.array_equal(label_candidates(a, b), label_candidates(b, a).T)
    return int(label_candidates(a, b)[0, 0])


def test_an_object_seen_just_where_another_must_stand_is_ambiguous() -> None:
    dataset, _ = board_and_its_ghost()
    assert ghost_label(dataset) == AMBIGUOUS


def test_an_object_seen_elsewhere_or_of_another_kind_is_unmatched() -> None:
    _, again = board_and_its_ghost()
    x0, y0, x1, y1 = again.box
    aside = (x0 + 30, y0, x1 + 30, y1) if x1 + 30 <= 320 else (x0 - 30, y0, x1 - 30, y1)
    # Its own place must not lie in the first frame's box either: 10 m to the side of where the ray ends.
    assert again.position is not None
    far = (again.position[0] + 10, again.position[1], again.position[2] + 10)
    assert ghost_label(board_and_its_ghost(box=aside, position=far)[0]) == UNMATCHED
    other = "pole" if again.category != "pole" else "traffic_sign"
    assert ghost_label(board_and_its_ghost(category=other)[0]) == UNMATCHED


def test_an_object_that_is_seen_itself_leaves_no_doubt_about_the_one_before_it() -> None:
    dataset, again = board_and_its_ghost()
    first, second = dataset.frames
    both = replace(dataset, frames=(first, replace(second, landmarks=(*second.landmarks, again))))
    a, b = read_truth([both]).frames
    assert label_candidates(a, b).tolist() == [[UNMATCHED, MATCHED]]


def test_without_a_camera_identities_alone_decide() -> None:
    dataset, _ = board_and_its_ghost()
    blind = replace(dataset, frames=tuple(replace(it, camera=None) for it in dataset.frames))
    assert ghost_label(blind) == UNMATCHED


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), negatives=st.sampled_from(["same-class", "random"]))
def test_pairs_keep_every_promise_of_the_protocol(seed: int, negatives: str) -> None:
    sample = draw_pairs([DRIVE], negatives, seed)
    matched, unmatched = int(sample.label.sum()), int((~sample.label).sum())
    assert matched == 3 * unmatched or unmatched == round(matched / 3)
    rows = zip(drawn_landmarks(sample, "a"), drawn_landmarks(sample, "b"), sample.label, strict=True)
    for first, second, label in rows:
        assert (first.identity == second.identity) == label
        if label:
            assert np.linalg.norm(np.subtract(first.position, second.position)) <= 0.5
        else:
            assert np.linalg.norm(np.subtract(first.position, second.position)) >= 2
            assert negatives == "random" or first.category == second.category
    columns = (sample.frame_a, sample.landmark_a, sample.frame_b, sample.landmark_b)
    keys = [frozenset([(fa, la), (fb, lb)]) for fa, la, fb, lb in zip(*columns, strict=True)]
    assert len(set(keys)) == len(keys), "a pair was drawn twice"
    assert max(Counter(sample.identity_a[sample.label].tolist()).values()) <= 20
    for a, b in [*zip(sample.frame_a, sample.frame_b, strict=True), *sample.frame_pairs]:
        distance = np.linalg.norm(sample.truth.frames[a].centre - sample.truth.frames[b].centre)
        assert 2 <= distance <= 25


def test_order_within_a_pair_does_not_tell_the_time() -> None:
    sample = draw_pairs([DRIVE], seed=1)
    forward = np.mean(sample.frame_a < sample.frame_b)
    assert 0.35 < forward < 0.65
    assert 0.35 < np.mean(sample.frame_pairs[:, 0] < sample.frame_pairs[:, 1]) < 0.65
    for label in (True, False):
        assert 0.3 < np.mean((sample.frame_a < sample.frame_b)[sample.label == label]) < 0.7


@pytest.mark.parametrize("negatives", ["same-class", "random"])
def test_every_object_gets_its_share_of_the_unmatched_pairs(negatives: str) -> None:
    """Also those that were in sight for a few frames only."""
    for seed in range(5):
        sample = draw_pairs([DRIVE], negatives, seed)
        wrong = ~sample.label
        counts = Counter([*sample.identity_a[wrong].tolist(), *sample.identity_b[wrong].tolist()])
        possible = Counter(possible_unmatched(sample, negatives))
        assert max(possible.values()) > 4 * min(possible.values()), "some are seen far more often"
        for identity, count in possible.items():
            assert counts[identity] >= min(count, wrong.sum() // len(possible))


def possible_unmatched(sample: PairSample, negatives: str) -> list[int]:
    """Both identities of every unmatched pair that could have been drawn."""
    frames, identities = sample.truth.frames, []
    for a, b in frame_pairs(sample.truth):
        for row, column in np.argwhere(label_candidates(frames[a], frames[b]) == UNMATCHED):
            if negatives == "random" or frames[a].category[row] == frames[b].category[column]:
                identities += [int(frames[a].identity[row]), int(frames[b].identity[column])]
    return identities


def test_same_seed_draws_the_same_pairs_and_another_seed_others() -> None:
    first, again, other = (
        draw_pairs([DRIVE], seed=3),
        draw_pairs([DRIVE], seed=3),
        draw_pairs([DRIVE], seed=4),
    )
    for column in ("frame_a", "frame_b", "landmark_a", "landmark_b", "label", "frame_pairs"):
        np.testing.assert_array_equal(getattr(first, column), getattr(again, column))
    assert not np.array_equal(first.frame_a, other.frame_a)


def test_both_kinds_of_negatives_are_judged_on_the_same_matched_pairs() -> None:
    def matched(negatives: str) -> set[tuple[int, ...]]:
        it = draw_pairs([DRIVE], negatives, seed=3)
        columns = np.stack([it.frame_a, it.frame_b, it.landmark_a, it.landmark_b], axis=1)[it.label]
        return {tuple(sorted([(a, c), (b, d)])) for a, b, c, d in columns.tolist()}

    assert matched("same-class") == matched("random")


def test_drives_of_one_world_share_objects_and_frame_pairs() -> None:
    another_day = drive(BOARDS, name="later", frames=30, side=1.0, first_identity=100)
    united = unite_identities([DRIVE, another_day])
    seen = {mark.identity for frame in DRIVE.frames for mark in frame.landmarks}
    seen &= {mark.identity - 100 for frame in another_day.frames for mark in frame.landmarks}
    assert len(seen) > 8
    assert all(united[0, identity] == united[1, identity + 100] for identity in seen)
    sample = draw_pairs([DRIVE, another_day], seed=0)
    drives = np.array([frame.dataset for frame in sample.truth.frames])
    across = drives[sample.frame_a] != drives[sample.frame_b]
    assert across[sample.label].any()
    assert across[~sample.label].any()


def test_objects_a_little_apart_on_two_days_are_one_and_further_apart_are_two() -> None:
    moved = [replace(it, position=(it.position[0] + 0.3, *it.position[1:])) for it in BOARDS]
    far = [replace(it, position=(it.position[0] + 0.8, *it.position[1:])) for it in BOARDS]
    one, near, apart = drive(BOARDS), drive(moved, name="near"), drive(far, name="apart")
    assert {*unite_identities([one, near]).values()} < {*unite_identities([one, apart]).values()}
    shared = unite_identities([one, apart])
    assert not {shared[key] for key in shared if key[0] == 0} & {shared[key] for key in shared if key[0] == 1}


def test_of_two_objects_near_a_known_one_only_the_nearer_is_it() -> None:
    x, y, z = BOARDS[3].position
    twins = [replace(BOARDS[3], position=(x + offset, y, z)) for offset in (0.4, 0.1)]
    united = unite_identities([drive(BOARDS[3:4]), drive(twins, name="later")])
    assert united[1, 1] == united[0, 0]
    assert united[1, 0] != united[0, 0]


def test_frames_of_other_worlds_are_never_paired() -> None:
    elsewhere = drive(BOARDS, name="other", world="village", frames=30)
    sample = draw_pairs([DRIVE, elsewhere], seed=0)
    drives = np.array([frame.dataset for frame in sample.truth.frames])
    np.testing.assert_array_equal(drives[sample.frame_a], drives[sample.frame_b])
    np.testing.assert_array_equal(drives[sample.frame_pairs[:, 0]], drives[sample.frame_pairs[:, 1]])
    own = [set(sample.identity_a[drives[sample.frame_a] == it].tolist()) for it in (0, 1)]
    assert not own[0] & own[1]


def test_frame_pairs_for_the_frame_protocol_are_capped_and_the_rest_is_counted() -> None:
    sample = draw_pairs([DRIVE], seed=0, most_frame_pairs=17)
    assert len(sample.frame_pairs) == 17
    assert sample.n_frame_pairs_found == len(frame_pairs(sample.truth)) > 17
    np.testing.assert_array_equal(sample.frame_pairs, draw_frame_pairs(sample.truth, 17, seed=0))


def test_a_data_set_without_identities_is_refused_with_advice() -> None:
    with pytest.raises(DataError, match=r"drive has no landmark identities.*poses"):
        draw_pairs([replace(DRIVE, has_identities=False)])


def test_a_drive_too_short_for_pairs_is_refused_with_what_was_found() -> None:
    with pytest.raises(DataError, match="0 frame pairs 2 to 25 m apart"):
        draw_pairs([drive(BOARDS, frames=2, spacing=1.0)])


def test_unknown_negatives_are_refused() -> None:
    with pytest.raises(ConfigError, match="choose one of same-class, random"):
        draw_pairs([DRIVE], "hard")
