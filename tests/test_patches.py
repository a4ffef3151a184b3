"""Crops and neighbourhood graphs."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from robustmat.features.neighborhoods import neighborhoods
from robustmat.features.patches import PatchConfig, crop_window, cut_patches, to_input

PAPER = PatchConfig()
STREET = PatchConfig(size=64, max_aspect=2.0)

coordinates = st.floats(0, 200)
boxes_strategy = st.lists(
    st.tuples(coordinates, coordinates, st.floats(1, 80), st.floats(1, 80)).map(
        lambda it: (it[0], it[1], it[0] + it[2], it[1] + it[3])
    ),
    min_size=1,
    max_size=7,
)


@given(
    x=st.floats(-50, 330),
    y=st.floats(-50, 130),
    width=st.floats(0.1, 400),
    height=st.floats(0.1, 400),
    aspect=st.none() | st.floats(1, 4),
)
def test_a_crop_is_never_empty_and_never_leaves_the_image(
    x: float, y: float, width: float, height: float, aspect: float | None
) -> None:
    left, top, right, bottom = crop_window((x, y, x + width, y + height), 320, 120, PatchConfig(max_aspect=aspect))
    assert 0 <= left < right <= 320
    assert 0 <= top < bottom <= 120


def test_the_margin_is_added_at_cropping_and_clipped_at_the_border() -> None:
    assert crop_window((100, 50, 120, 80), 320, 120, PAPER) == (85, 35, 135, 95)
    assert crop_window((5, 50, 20, 110), 320, 120, PAPER) == (0, 35, 35, 120)


def test_bounded_aspect_cuts_the_long_side_around_its_middle() -> None:
    left, top, right, bottom = crop_window((100, 20, 110, 300), 640, 320, PatchConfig(margin=0, max_aspect=2.0))
    assert (left, right) == (100, 110)
    assert (top, bottom) == (150, 170)


def test_a_long_box_is_padded_with_the_mean_color() -> None:
    image = np.full((100, 200, 3), 250, np.uint8)
    config = PatchConfig(size=32, margin=0, mean_color=(10.0, 20.0, 30.0))
    patch = cut_patches(image, [(50, 10, 60, 90)], config)[0]
    assert (patch[:, 16] == 250).all()  # the pole, over the full height
    assert (patch[:, 0] == (10, 20, 30)).all()
    assert (to_input(patch[None], config)[0, :, :, 0] == 0).all()  # padding is zero to the network


def test_context_shows_the_surroundings_where_they_are_and_the_mean_color_beyond_the_image() -> None:
    """A box of 16 x 16 with context 2 shows 32 x 32 pixels, one each: no scaling, so pixels can be compared."""
    image = np.random.default_rng(0).integers(0, 256, (60, 80, 3)).astype(np.uint8)
    config = PatchConfig(size=32, context=2.0, mean_color=(10.0, 20.0, 30.0))
    inside, corner = cut_patches(image, [(32, 22, 48, 38), (0, 0, 16, 16)], config)
    assert (inside[..., 3:] == image[14:46, 24:56]).all()
    assert (corner[8:, 8:, 3:] == image[:24, :24]).all()
    assert (corner[:8, :, 3:] == (10, 20, 30)).all()
    assert (corner[:, :8, 3:] == (10, 20, 30)).all()


@given(
    x=st.floats(-50, 330),
    y=st.floats(-50, 130),
    width=st.floats(0.1, 400),
    height=st.floats(0.1, 400),
    context=st.floats(1, 6),
)
def test_any_box_has_a_context_view(x: float, y: float, width: float, height: float, context: float) -> None:
    image = np.full((120, 320, 3), 200, np.uint8)
    patches = cut_patches(image, [(x, y, x + width, y + height)], PatchConfig(size=16, context=context))
    assert patches.shape == (1, 16, 16, 6)
    assert to_input(patches, PatchConfig(size=16, context=context)).shape == (1, 6, 16, 16)


def test_cropping_does_not_change_the_image() -> None:
    image = np.random.default_rng(0).integers(0, 256, (60, 80, 3)).astype(np.uint8)
    before = image.copy()
    cut_patches(image, [(10, 10, 30, 50)], STREET)
    assert (image == before).all()


def test_no_boxes_give_no_patches() -> None:
    assert cut_patches(np.zeros((10, 10, 3), np.uint8), [], STREET).shape == (0, 64, 64, 3)


@given(boxes=boxes_strategy, k=st.integers(1, 4), center=st.booleans())
def test_neighbourhoods_agree_with_a_plain_search(
    boxes: list[tuple[float, float, float, float]], k: int, center: bool
) -> None:
    graphs = neighborhoods(boxes, k, center)
    for row, box in enumerate(boxes):
        others = [i for i in range(len(boxes)) if i != row]

        def distance(i: int, box: tuple[float, float, float, float] = box) -> float:
            return float(
                np.hypot(
                    (boxes[i][0] + boxes[i][2]) / 2 - (box[0] + box[2]) / 2,
                    (boxes[i][1] + boxes[i][3]) / 2 - (box[1] + box[3]) / 2,
                )
            )

        expected = sorted(distance(i) for i in others)[:k]
        found = graphs.index[row][graphs.mask[row]].tolist()
        if center or not others:
            assert found[0] == row
            found = found[1:]
        assert len(set(found)) == len(found) == len(expected)
        assert [distance(i) for i in found] == pytest.approx(expected, abs=1e-6)


@given(boxes=boxes_strategy, seed=st.integers(0, 1000))
def test_neighbourhoods_do_not_depend_on_the_order_of_landmarks(
    boxes: list[tuple[float, float, float, float]], seed: int
) -> None:
    order = np.random.default_rng(seed).permutation(len(boxes))
    plain, shuffled = neighborhoods(boxes, 3, False), neighborhoods([boxes[i] for i in order], 3, False)
    for row, source in enumerate(order):
        expected = [boxes[i] for i in plain.index[source][plain.mask[source]]]
        assert [boxes[order[i]] for i in shuffled.index[row][shuffled.mask[row]]] == expected


def test_ties_break_by_box_coordinates() -> None:
    around = [(0, 10, 2, 12), (20, 10, 22, 12), (10, 0, 12, 2), (10, 20, 12, 22)]
    graphs = neighborhoods([(10, 10, 12, 12), *around], 2, False)  # all four equally far
    assert graphs.index[0].tolist() == [1, 3]  # the two smallest x0, then y0


@given(count=st.integers(0, 3), context=st.none() | st.just(2.0), seed=st.integers(0, 99))
def test_numbers_are_pixels_less_the_mean_color_and_lie_channels_last(
    count: int, context: float | None, seed: int
) -> None:
    config = PatchConfig(size=8, context=context, mean_color=(10.0, 20.5, 30.0), scale=50.0)
    pixels = np.random.default_rng(seed).integers(0, 256, (count, 8, 8, config.channels), dtype=np.uint8)
    numbers = to_input(pixels, config)
    assert numbers.shape == (count, config.channels, 8, 8)
    assert numbers.dtype == np.float32
    assert numbers.transpose(0, 2, 3, 1).flags.c_contiguous
    for channel in range(config.channels):
        expected = (pixels[..., channel].astype(np.float64) - config.mean_color[channel % 3]) / 50.0
        np.testing.assert_allclose(numbers[:, channel], expected, atol=1e-6)
