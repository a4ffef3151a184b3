"""Pictures of matches: what must be visible in them."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import PIL.Image
import pytest

from robustmat.drawing import FEW, MANY, WRONG, caption_parts, distinct_color, picture_of_matches
from robustmat.errors import InputError
from robustmat.types import Frame, Landmark, Match, MatchResult

GREY = 90


def made(count: int, probability: float = 0.95, size: tuple[int, int] = (375, 1242), unmatched: int = 0) -> MatchResult:
    """Frames of one grey with `count` poles in a row, each matched with itself, and some without a partner."""
    height, width = size
    step = (width - 40) / max(count + unmatched, 1)
    marks = tuple(
        Landmark((20 + step * i, 0.4 * height, 20 + step * i + min(12, step / 2), 0.6 * height), "pole")
        for i in range(count + unmatched)
    )
    frame = Frame.from_array(np.full((height, width, 3), GREY, np.uint8), marks)
    matches = tuple(Match(i, i, 1.0, probability) for i in range(count))
    scores = np.zeros((len(marks), len(marks)))
    return MatchResult(marks, marks, matches, scores, scores, 0.0, frame, frame)


def drawn(result: MatchResult, correct: list[bool | None] | None = None) -> np.ndarray:
    return np.asarray(picture_of_matches(result, correct)).astype(int)


def near(pixels: np.ndarray, color: tuple[int, int, int]) -> int:
    return int((np.abs(pixels - color).max(2) < 40).sum())


def test_wide_frames_are_stacked_and_others_stand_side_by_side() -> None:
    for size, stacked in (((375, 1242), True), ((720, 1280), True), ((720, 960), False), ((800, 600), False)):
        picture = picture_of_matches(made(1, size=size))
        share = picture.height / picture.width
        alone = size[0] / size[1]
        assert (share > 1.9 * alone) == stacked


def test_a_wrong_match_is_red_and_crossed_out_and_a_correct_one_is_not() -> None:
    right, wrong = drawn(made(1), [True]), drawn(made(1), [False])
    assert near(right, WRONG) < 20
    assert near(wrong, WRONG) > 300
    unknown = drawn(made(1), [None])
    assert (unknown[40:] == right[40:]).all()  # below the caption


def test_the_caption_says_what_labels_leave_out_when_there_are_many_matches() -> None:
    few, many, most = (caption_parts(made(count), None, 0) for count in (FEW, FEW + 1, MANY))
    assert few == [f"{FEW} matches", "0 + 0 landmarks unmatched (grey)"]
    assert many[2:] == ["numbers: rows of the list of matches"]
    assert most[2:] == ["numbered: wrong and doubtful matches alone"]
    verdicts = [True, None, False]
    assert caption_parts(made(3), verdicts, 2)[:2] == ["1 correct, 1 wrong, 1 not known", "2 missed (white, dotted)"]


def test_the_colours_of_matches_are_apart_from_each_other_and_from_red() -> None:
    colors = np.array([WRONG, *(distinct_color(i) for i in range(8))])
    apart = np.abs(colors[:, None] - colors[None]).max(2) + 1000 * np.eye(9, dtype=int)
    assert apart.min() >= 40


def between_frames(pixels: np.ndarray) -> np.ndarray:
    """The band between both landmarks of a match, where only its line is."""
    return pixels[290:380]


def test_a_line_fades_with_the_probability_and_is_dashed_when_doubtful() -> None:
    def marked(probability: float) -> np.ndarray:
        return np.abs(between_frames(drawn(made(1, probability))) - GREY).max(2)

    sure, unsure, doubtful = marked(0.99), marked(0.75), marked(0.6)
    assert sure.max() > unsure.max()
    rows = [(strength > 20).any(1).mean() for strength in (sure, unsure, doubtful)]
    assert rows[0] == rows[1] == 1.0  # a solid line crosses every row
    assert 0.3 < rows[2] < 0.8


def test_unmatched_landmarks_are_there_but_less_visible_than_matched_ones() -> None:
    nothing, alone, matched = (drawn(made(count, unmatched=other))[40:] for count, other in ((0, 0), (0, 1), (1, 0)))
    changed_alone, changed_matched = (np.abs(pixels - nothing).max(2) > 20 for pixels in (alone, matched))
    assert 0 < changed_alone.sum() < 0.5 * changed_matched.sum()


@pytest.mark.parametrize("count", [0, 1, 15, 40, 150])
def test_many_matches_stay_drawable(count: int) -> None:
    picture = picture_of_matches(made(count, unmatched=3), [index % 5 > 0 for index in range(count)])
    assert picture.width == 1242


def test_a_pair_of_frames_of_different_sizes_keeps_every_box_on_its_frame() -> None:
    small, large = made(1, size=(60, 90)), made(1, size=(300, 400))
    mixed = replace(small, landmarks_b=large.landmarks_a, frame_b=large.frame_a)
    assert picture_of_matches(mixed).width >= 490


def test_a_picture_is_written_only_under_a_name_that_says_its_format(tmp_path: Path) -> None:
    result = made(2)
    for suffix in ("png", "jpg"):
        assert PIL.Image.open(result.draw(tmp_path / f"m.{suffix}")).width == 1242
    with pytest.raises(InputError, match=r"use \.png or \.jpg"):
        result.draw(tmp_path / "m.txt")
    with pytest.raises(InputError, match="no frames to draw"):
        replace(result, frame_a=None).draw(tmp_path / "n.png")
    with pytest.raises(InputError, match="1 verdicts for 2 matches"):
        result.draw(tmp_path / "n.png", [True])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.jpg", "m.png"]
