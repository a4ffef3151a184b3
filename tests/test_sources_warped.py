"""Warped pairs: views of single labelled images, whose boxes follow their pixels and whose identities are certain."""

from collections import defaultdict

import cv2
import numpy as np
import PIL.Image
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from robustmat.cli.prepare import app
from robustmat.dataset.store import open_dataset
from robustmat.dataset.truth import frame_pairs, label_candidates, read_truth
from robustmat.errors import DataError, InputError
from robustmat.simulation.layers import take_apart
from robustmat.simulation.seeing import see
from robustmat.simulation.views import SHRINK, View, draw_views, shrunk
from robustmat.simulation.warped import MOST_VIEWS, prepare_warped
from robustmat.sources.labelled_images import open_labelled_images
from robustmat.types import AMBIGUOUS, MATCHED, UNMATCHED, Camera

WIDTH, HEIGHT = 320, 200
GREY, RED, GREEN, BLUE = (90, 90, 90), (220, 20, 20), (20, 220, 20), (20, 20, 220)
CAMERA = Camera(np.array([[190.0, 0, 159.5], [0, 190.0, 99.5], [0, 0, 1]]), WIDTH, HEIGHT)
POLE, SIGN = 5, 7


def painted(*things):
    """An image and its label map with rectangles (x0, y0, x1, y1, label, color) on grey."""
    image = np.full((HEIGHT, WIDTH, 3), GREY, np.uint8)
    labels = np.full((HEIGHT, WIDTH), 2, np.uint8)
    for x0, y0, x1, y1, label, color in things:
        image[y0:y1, x0:x1] = color
        labels[y0:y1, x0:x1] = label
    return image, labels


def found(image, color):
    """The box of the pixels that are more of `color` than of the grey around them."""
    distance = [np.abs(image.astype(int) - it).sum(2) for it in (color, GREY)]
    rows, columns = np.nonzero(distance[0] < distance[1])
    return columns.min(), rows.min(), columns.max() + 1, rows.max() + 1


def view(zoom, rotation=None):
    return View(CAMERA, shrunk(CAMERA, SHRINK), np.eye(3) if rotation is None else rotation, zoom)


STREET = [(100, 60, 108, 130, POLE, RED), (190, 40, 198, 140, POLE, BLUE), (183, 60, 205, 82, SIGN, GREEN)]


@pytest.fixture
def street(tmp_path):
    """Three labelled images: a pole, and two pieces of a pole with a sign between them."""
    root = tmp_path / "street"
    for folder in ("images", "semantics"):
        (root / folder).mkdir(parents=True)
    for number in range(3):
        image, labels = painted(*[(x0 + 9 * number, y0, x1 + 9 * number, *rest) for x0, y0, x1, *rest in STREET])
        PIL.Image.fromarray(image).save(root / f"images/{number}.png")
        PIL.Image.fromarray(labels).save(root / f"semantics/{number}.png")
    return root


@pytest.fixture
def opened(street, tmp_path):
    return open_dataset(prepare_warped(open_labelled_images(street), tmp_path / "data"))


def image_of(frame):
    return frame.name.rsplit("_", 1)[0]


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10_000), st.integers(2, MOST_VIEWS))
def test_views_have_no_holes(seed, count):
    views = draw_views(CAMERA, count, np.random.default_rng(seed))
    assert len(views) == count
    for it in views:
        white = np.full((HEIGHT, WIDTH), 255, np.uint8)
        assert cv2.warpPerspective(white, it.warp(), (it.camera.width, it.camera.height)).min() == 255


def test_a_view_without_zoom_and_turn_is_the_image_in_small():
    rng = np.random.default_rng(0)
    image = cv2.resize(rng.integers(0, 255, (20, 32, 3)).astype(np.uint8), (WIDTH, HEIGHT))
    seen = see(take_apart(image, np.zeros((HEIGHT, WIDTH), np.uint8)), view(1.0), np.ones(1))
    small = cv2.resize(image, (round(SHRINK * WIDTH), round(SHRINK * HEIGHT)), interpolation=cv2.INTER_AREA)
    assert np.abs(seen.image.astype(int) - small).mean() < 2


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10_000), st.integers(120, 190), st.integers(60, 80), st.floats(1, 1.5))
def test_boxes_follow_their_pixels(seed, left, top, nearness):
    layers = take_apart(*painted((left, top, left + 9, top + 50, POLE, RED)))
    for it in draw_views(CAMERA, 2, np.random.default_rng(seed)):
        seen = see(layers, it, np.array([1.0, nearness]))
        assert np.abs(np.array(found(seen.image, RED)) - seen.boxes[0]).max() < 1.6


@pytest.mark.parametrize("nearness", [1.0, 1.3])
def test_nearer_things_grow_faster_and_away_from_the_middle(nearness):
    layers = take_apart(*painted((190, 80, 196, 120, POLE, RED)))
    (x0, y0, x1, y1) = see(layers, view(1.5), np.array([1.0, nearness])).boxes[0]
    growth = SHRINK * 1.5**nearness
    assert y1 - y0 == pytest.approx(40 * growth, rel=0.01)
    assert (x0 + x1) / 2 - SHRINK * WIDTH / 2 == pytest.approx((193 - WIDTH / 2) * growth, rel=0.01)


def test_what_moved_leaves_no_trace_where_it_was():
    layers = take_apart(*painted((190, 80, 196, 120, POLE, RED)))
    seen = see(layers, view(1.5), np.array([1.0, 1.5]))
    x0, y0, x1, y1 = (round(it) for it in seen.boxes[0])
    rest = seen.image.copy()
    rest[y0 - 6 : y1 + 6, x0 - 6 : x1 + 6] = GREY
    assert np.abs(rest.astype(int) - GREY).max() < 12


def test_a_landmark_that_left_the_view_is_dropped():
    layers = take_apart(*painted((150, 80, 156, 120, POLE, RED), (300, 80, 306, 120, POLE, BLUE)))
    assert sorted(see(layers, view(1.0), np.ones(3)).boxes) == [0, 1]
    assert sorted(see(layers, view(1.5), np.ones(3)).boxes) == [0]


def test_a_landmark_behind_a_nearer_one_is_dropped():
    # Both stand right of the middle; the first comes four times as near and then covers the second.
    layers = take_apart(*painted((170, 60, 190, 140, POLE, RED), (200, 90, 206, 110, POLE, BLUE)))
    thing = layers.region_thing[0]
    assert sorted(see(layers, view(2.0), np.ones(3)).boxes) == [0, 1]
    nearness = np.ones(3)
    nearness[thing] = 2.0
    assert 1 not in see(layers, view(2.0), nearness).boxes


def test_a_landmark_that_became_too_small_is_dropped():
    layers = take_apart(*painted((200, 90, 204, 110, POLE, RED)))
    assert len(layers.regions) == 1
    assert not see(layers, view(1.0), np.ones(2)).boxes
    assert see(layers, view(2.0), np.ones(2)).boxes


def test_an_identity_belongs_to_one_image_and_is_seen_in_its_views(opened):
    seen = defaultdict(list)
    for frame in opened.frames:
        for it in frame.landmarks:
            seen[it.identity].append((image_of(frame), it.category))
    assert len(seen) == 12
    assert all(len(set(sightings)) == 1 for sightings in seen.values())
    assert sum(len(sightings) >= 2 for sightings in seen.values()) >= 9


def test_only_views_of_one_image_are_paired_and_all_of_them(opened):
    truth = read_truth([opened])
    pairs = frame_pairs(truth)
    assert len(pairs) == 9
    assert all(image_of(truth.frame(a)) == image_of(truth.frame(b)) for a, b in pairs.tolist())


def test_views_with_a_single_landmark_are_left_out(street, tmp_path):
    image, labels = painted((190, 40, 198, 140, POLE, BLUE))
    PIL.Image.fromarray(image).save(street / "images/1.png")
    PIL.Image.fromarray(labels).save(street / "semantics/1.png")
    made = open_dataset(prepare_warped(open_labelled_images(street), tmp_path / "data"))
    assert {image_of(frame) for frame in made.frames} == {"0", "2"}
    assert len(frame_pairs(read_truth([made]))) == 6


def test_the_most_views_are_still_all_paired(street, tmp_path):
    drive = open_labelled_images(street, limit=1)
    truth = read_truth([open_dataset(prepare_warped(drive, tmp_path / "data", views=MOST_VIEWS))])
    assert len(frame_pairs(truth)) == MOST_VIEWS * (MOST_VIEWS - 1) / 2


def test_truth_matches_identities_and_leaves_a_sign_and_its_own_pole_open(opened):
    truth = read_truth([opened])
    met = set()
    for a, b in frame_pairs(truth).tolist():
        label = label_candidates(truth.frames[a], truth.frames[b])
        for i, first in enumerate(truth.frame(a).landmarks):
            for j, second in enumerate(truth.frame(b).landmarks):
                same_thing = first.position == second.position
                expected = MATCHED if first.identity == second.identity else AMBIGUOUS if same_thing else UNMATCHED
                assert label[i, j] == expected
                met.add(expected)
    assert met == {MATCHED, AMBIGUOUS, UNMATCHED}


def test_a_sign_and_the_pieces_of_its_pole_are_one_thing():
    layers = take_apart(*painted(*STREET))
    thing = dict(zip([region.box[:2] for region in layers.regions], layers.region_thing, strict=True))
    assert thing[190, 40] == thing[190, 82] == thing[183, 60] != thing[100, 60]


def test_windows_stay_on_their_wall():
    layers = take_apart(*painted((40, 60, 70, 100, 19, RED), (190, 40, 198, 140, POLE, BLUE)))
    assert [layers.region_thing[i] for i, it in enumerate(layers.regions) if it.category == "window"] == [0]
    assert (layers.background[65:95, 45:65] == RED).all()


def contents(folder):
    return {path.relative_to(folder): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_the_same_seed_gives_the_same_bytes(street, tmp_path):
    drive = open_labelled_images(street)
    first, again, other = (
        contents(prepare_warped(drive, tmp_path / f"{i}", seed=seed)) for i, seed in enumerate([3, 3, 4])
    )
    assert first == again
    assert first != other


def test_an_image_gives_the_same_views_whatever_stands_beside_it(street, tmp_path):
    alone = prepare_warped(open_labelled_images(street, limit=1), tmp_path / "alone")
    together = prepare_warped(open_labelled_images(street), tmp_path / "together")
    assert (alone / "images/0_1.jpg").read_bytes() == (together / "images/0_1.jpg").read_bytes()


def test_the_record_says_that_poses_are_nominal(street, tmp_path):
    text = (prepare_warped(open_labelled_images(street), tmp_path / "data") / "dataset.json").read_text()
    assert '"poses": "nominal"' in text


def test_images_may_lie_in_the_root_and_are_thinned_evenly(street):
    drive = open_labelled_images(street / "images", semantics=street / "semantics", limit=2)
    assert [frame.name for frame in drive.frames] == ["0", "2"]
    assert drive.frames[0].camera.matrix[0, 0] == pytest.approx(0.58 * WIDTH)


def test_a_known_camera_is_used(street):
    (street / "intrinsics.txt").write_text("250 250 160 90\n")
    assert open_labelled_images(street).frames[0].camera.matrix[1, 2] == 90


def test_images_without_a_label_map_are_left_out(street):
    (street / "semantics/1.png").unlink()
    assert [frame.name for frame in open_labelled_images(street).frames] == ["0", "2"]


def test_missing_label_maps_are_named(street, tmp_path):
    with pytest.raises(DataError, match=r"label maps not found.*masks.*--semantics"):
        open_labelled_images(street, semantics=street / "masks")
    other = tmp_path / "other"
    other.mkdir()
    (street / "semantics/0.png").rename(other / "elsewhere.png")
    with pytest.raises(DataError, match=r"expected 0\.png, found elsewhere\.png"):
        open_labelled_images(street, semantics=other)


def test_broken_label_maps_are_named_and_leave_nothing_behind(street, tmp_path):
    (street / "semantics/1.png").write_bytes(b"no picture")
    with pytest.raises(InputError, match=r"label map.*1\.png"):
        prepare_warped(open_labelled_images(street), tmp_path / "out" / "data")
    assert not any((tmp_path / "out").iterdir())


def test_images_without_any_landmark_are_an_error(street, tmp_path):
    for path in (street / "semantics").iterdir():
        PIL.Image.new("L", (WIDTH, HEIGHT)).save(path)
    with pytest.raises(DataError, match="no frames"):
        prepare_warped(open_labelled_images(street), tmp_path / "data")


def test_the_command_makes_a_data_set_and_refuses_a_missing_folder(street, tmp_path):
    done = CliRunner().invoke(app, ["warped", str(street), "--out", str(tmp_path / "data"), "--name", "mine"])
    assert done.exit_code == 0, done.output
    assert "9 frames" in done.output
    made = open_dataset(tmp_path / "data")
    assert (made.name, made.world) == ("mine", "mine")
    done = CliRunner().invoke(app, ["warped", str(tmp_path / "none"), "--out", str(tmp_path / "x")])
    assert isinstance(done.exception, DataError)
