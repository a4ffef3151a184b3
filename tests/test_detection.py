"""Detectors: probability maps become landmarks, landmarks are judged fairly, files travel."""

import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import PIL.Image
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import robustmat
from robustmat.detection.augment import halved
from robustmat.detection.boxes import write_boxes, write_coco
from robustmat.detection.calibration import best_limit, fit_confidence
from robustmat.detection.classic import ClassicDetector
from robustmat.detection.config import SourceConfig
from robustmat.detection.evaluate import Judged, average_precision, box_overlaps, evaluate_detector, judge
from robustmat.detection.labels import CHANNELS, INSIDE, label_from_boxes, label_from_masks
from robustmat.detection.regions import calibrated, extract_landmarks
from robustmat.detection.registry import DETECTORS, load_detector
from robustmat.detection.samples import find_samples
from robustmat.detection.truth import Truth, sample_truth
from robustmat.errors import ConfigError, InputError, WeightsError
from robustmat.evaluation.detected import evaluate_detected, link
from robustmat.features.scale import shrink
from robustmat.landmarks.boxes import read_boxes
from robustmat.methods.cross_correlation import CrossCorrelation
from robustmat.simulation import build_town, drive_town
from robustmat.sources.images import read_image
from robustmat.types import CATEGORIES, Frame, InMemory, Landmark, Match, MatchResult
from small_world import drive, make_boards

SIGN, LIGHT, POLE, WINDOW = range(4)


def maps(height: int = 120, width: int = 160) -> np.ndarray:
    return np.zeros((len(CHANNELS), height, width), np.float32)


def framed(image: np.ndarray, name: str = "frame") -> Frame:
    return Frame(name, InMemory(image))


class Recited:
    """A detector that says what it was told to."""

    name = "recited"

    def __init__(self, *landmarks: Landmark) -> None:
        self.landmarks = landmarks

    def detect(self, frame: Frame) -> tuple[Landmark, ...]:
        return self.landmarks


# Probability maps to landmarks


def test_a_region_becomes_a_landmark_with_its_mean_probability() -> None:
    planes = maps()
    planes[SIGN, 20:40, 30:50] = 0.8
    (found,) = extract_landmarks(planes)
    assert (found.box, found.category) == ((30, 20, 50, 40), "traffic_sign")
    assert found.confidence == pytest.approx(0.8, abs=1e-4)


def test_windows_in_a_row_that_touch_are_separate_landmarks() -> None:
    planes = maps()
    planes[WINDOW, 20:50, 10:100] = 0.9  # three windows, 30 pixels each, without a wall between them
    for left in (10, 40, 70):
        planes[INSIDE, 24:46, left + 4 : left + 26] = 0.9
    boxes = sorted(landmark.box for landmark in extract_landmarks(planes))
    assert len(boxes) == 3
    for box, left in zip(boxes, (10, 40, 70), strict=True):
        assert np.abs(np.array(box) - (left, 20, left + 30, 50)).max() <= 1


def test_a_lamp_is_its_shaft_without_its_arm() -> None:
    planes = maps()
    planes[POLE, 10:110, 50:55] = 0.9
    planes[POLE, 10:14, 50:90] = 0.9
    (found,) = extract_landmarks(planes)
    assert found.category == "pole"
    assert found.box == (50, 10, 55, 110)


def test_two_poles_that_an_arm_joins_are_two() -> None:
    planes = maps()
    planes[POLE, 10:110, 40:45] = planes[POLE, 10:110, 100:105] = 0.9
    planes[POLE, 12:16, 40:105] = 0.9
    assert sorted(it.box for it in extract_landmarks(planes)) == [(40, 10, 45, 110), (100, 10, 105, 110)]


def test_poles_that_cross_are_cut_where_they_meet() -> None:
    planes = maps()
    for y in range(5, 115):
        for x in (50 + y // 4, 80 - y // 4):  # they cross at the 60th row
            planes[POLE, y, x : x + 5] = 0.9
    boxes = [it.box for it in extract_landmarks(planes)]
    assert len(boxes) >= 4  # two above, two below
    assert all(x1 - x0 < 20 for x0, _, x1, _ in boxes)


def test_gaps_in_a_shaft_are_closed_only_where_a_pole_is_possible() -> None:
    planes = maps()
    for top in range(10, 100, 15):  # dashes of ten pixels
        planes[POLE, top : top + 10, 50:55] = 0.9
        planes[POLE, top + 10 : top + 15, 50:55] = 0.3
    assert [it.box for it in extract_landmarks(planes)] == [(50, 10, 55, 95)]
    planes[POLE][planes[POLE] < 0.5] = 0.0
    assert extract_landmarks(planes) == ()


@pytest.mark.parametrize(("left", "hidden", "count"), [(50, 20, 1), (51, 20, 1), (70, 20, 2), (50, 60, 2)])
def test_a_pole_is_one_though_a_sign_hides_its_middle(left: int, hidden: int, count: int) -> None:
    planes = maps(160)
    planes[POLE, 10:60, 50:55] = 0.9
    planes[POLE, 60 + hidden : 150, left : left + 5] = 0.9
    found = extract_landmarks(planes)
    assert len(found) == count
    if count == 1:
        assert found[0].box == (50, 10, max(55, left + 5), 150)


def test_the_blurred_rim_of_a_pole_is_not_part_of_it() -> None:
    planes = maps()
    planes[POLE, 10:110, 45:60] = 0.45
    planes[POLE, 10:110, 50:55] = 0.9
    assert [it.box for it in extract_landmarks(planes)] == [(50, 10, 55, 110)]


def test_a_pixel_belongs_to_its_likeliest_category() -> None:
    planes = maps()
    planes[SIGN, 20:50, 20:50] = 0.7
    planes[WINDOW, 20:50, 20:50] = 0.6
    assert [it.category for it in extract_landmarks(planes)] == ["traffic_sign"]


def test_nothing_likely_is_an_empty_list() -> None:
    assert extract_landmarks(maps()) == ()
    assert extract_landmarks(maps(1, 1)) == ()


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_boxes_are_inside_the_image_and_confidences_are_probabilities(seed: int) -> None:
    rng = np.random.default_rng(seed)
    planes = maps(60, 80)
    for _ in range(12):
        y, x, channel = rng.integers(60), rng.integers(80), rng.integers(len(CHANNELS))
        planes[channel, y : y + rng.integers(1, 50), x : x + rng.integers(1, 30)] = rng.random()
    for landmark in extract_landmarks(planes):
        x0, y0, x1, y1 = landmark.box
        assert 0 <= x0 < x1 <= 80
        assert 0 <= y0 < y1 <= 60
        assert 0 <= landmark.confidence <= 1


# What the network learns


def test_walls_say_nothing_about_windows_that_nobody_labelled() -> None:
    semantics = np.zeros((8, 8), np.uint8)  # road
    semantics[:4] = 2  # building
    labelled = label_from_masks(np.zeros((8, 8, 3), np.uint8), semantics, ("traffic_sign", "traffic_light", "pole"))
    assert not (labelled.known[:4] & (1 << WINDOW)).any()
    assert (labelled.known[4:] & (1 << WINDOW)).all()
    assert (labelled.known & (1 << POLE)).all()


def test_unlabelled_pixels_are_unknown_and_halves_are_shares_of_the_known() -> None:
    semantics = np.zeros((4, 4), np.uint8)
    semantics[:, 1] = 5  # a pole of one pixel
    semantics[:2, 3] = 255
    target, weight = halved(label_from_masks(np.zeros((4, 4, 3), np.uint8), semantics, CATEGORIES))
    assert target.shape == (len(CHANNELS), 2, 2)
    assert target[POLE].tolist() == [[0.5, 0.0], [0.5, 0.0]]
    assert weight[POLE].tolist() == [[1.0, 0.5], [1.0, 1.0]]


def test_numbered_windows_have_insides_that_do_not_touch() -> None:
    semantics = np.full((30, 60), 19, np.uint8)
    instances = np.ones((30, 60), np.uint16)
    instances[:, 30:] = 2
    image = np.zeros((30, 60, 3), np.uint8)
    one = label_from_masks(image, semantics, CATEGORIES).target >> INSIDE & 1
    two = label_from_masks(image, semantics, CATEGORIES, instances).target >> INSIDE & 1
    assert one[15, 30]
    assert not two[:, 28:32].any()
    assert two[15, 15]
    assert two[15, 45]


def test_drawn_boxes_say_nothing_about_the_rest_of_the_image() -> None:
    labelled = label_from_boxes(np.zeros((60, 60, 3), np.uint8), (Landmark((20, 20, 40, 40), "traffic_sign"),))
    assert labelled.target[30, 30] & (1 << SIGN)
    assert labelled.known[17, 30] & (1 << SIGN)
    assert not labelled.target[17, 30]
    assert not labelled.known[5, 5]
    assert not (labelled.known & (1 << POLE)).any()


def test_a_pole_whose_label_has_an_unknown_gap_is_one_landmark(tmp_path: Path) -> None:
    semantics = np.zeros((100, 60), np.uint8)
    semantics[10:90, 20:26] = 5
    semantics[40:46, 20:26] = 255  # a segmentation was not sure
    for folder, pixels in (("images", np.zeros((100, 60, 3), np.uint8)), ("semantics", semantics)):
        (tmp_path / folder).mkdir()
        PIL.Image.fromarray(pixels).save(tmp_path / folder / "a.png")
    (sample,) = find_samples(SourceConfig(path="."), tmp_path)
    assert [it.box for it in sample_truth(sample).landmarks] == [(20, 10, 26, 90)]


# Judging


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(*[st.integers(0, 12)] * 4), min_size=1, max_size=5))
def test_overlaps_are_counted_pixels(corners: list[tuple[int, int, int, int]]) -> None:
    boxes = [(min(a, c), min(b, d), max(a, c) + 1, max(b, d) + 1) for a, b, c, d in corners]
    masks = np.zeros((len(boxes), 14, 14), bool)
    for mask, (x0, y0, x1, y1) in zip(masks, boxes, strict=True):
        mask[y0:y1, x0:x1] = True
    both = (masks[:, None] & masks[None]).sum((2, 3))
    either = (masks[:, None] | masks[None]).sum((2, 3))
    np.testing.assert_allclose(box_overlaps(boxes, boxes), both / either)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.booleans(), min_size=1, max_size=12), st.integers(0, 4))
def test_average_precision_is_the_mean_of_the_best_precision_at_each_recall(right: list[bool], missed: int) -> None:
    count = sum(right) + missed
    if count == 0:
        return
    offered = [(1 - 0.01 * rank, it) for rank, it in enumerate(right)]
    precisions = [sum(right[: k + 1]) / (k + 1) for k in range(len(right))]
    best = [max(precisions[k:]) for k, it in enumerate(right) if it]  # one for each landmark that is found
    assert average_precision(offered, count) == pytest.approx(sum(best) / count)


def test_each_landmark_is_found_once_and_doubtful_places_do_not_count() -> None:
    image = np.zeros((100, 100, 3), np.uint8)
    doubtful = np.zeros((100, 100), bool)
    doubtful[60:, 60:] = True
    truth = Truth(framed(image), (Landmark((10, 10, 30, 30), "traffic_sign"),), {"traffic_sign": doubtful})
    found = [
        Landmark((10, 10, 30, 30), "traffic_sign", confidence=0.9),
        Landmark((11, 10, 31, 30), "traffic_sign", confidence=0.8),  # the same sign again
        Landmark((70, 70, 90, 90), "traffic_sign", confidence=0.7),  # nobody can say
        Landmark((10, 10, 30, 30), "window", confidence=0.9),
    ]
    judged = judge(found, truth)
    assert sorted((it.category, it.right) for it in judged) == [
        ("traffic_sign", False),
        ("traffic_sign", True),
        ("window", False),
    ]
    report = evaluate_detector(Recited(*found), [truth], ("traffic_sign",))
    assert report["classes"] == {"traffic_sign": {"ap": 1.0, "precision": 0.5, "recall": 1.0, "n": 1, "detections": 2}}


# Files


def test_box_files_carry_confidences_and_match_reads_them(tmp_path: Path) -> None:
    landmarks = (Landmark((1, 2, 30, 40), "pole", confidence=0.75), Landmark((5, 5, 20, 20), "window"))
    write_boxes(tmp_path / "a.json", landmarks)
    assert read_boxes(tmp_path / "a.json") == landmarks
    write_coco(tmp_path / "many.json", {"a.png": landmarks, "b.png": ()}, {"a.png": (64, 48), "b.png": (64, 48)})
    assert read_boxes(tmp_path / "many.json", "a.png") == landmarks
    assert read_boxes(tmp_path / "many.json", "b.png") == ()


def test_a_confidence_that_is_no_probability_is_refused(tmp_path: Path) -> None:
    entry = {"box": [0, 0, 5, 5], "category": "pole", "confidence": 7}
    (tmp_path / "a.json").write_text(json.dumps({"landmarks": [entry]}))
    with pytest.raises(InputError, match="from 0 to 1; found 7"):
        read_boxes(tmp_path / "a.json")


# Detectors, all of them


@pytest.fixture(scope="module", params=list(DETECTORS))
def detector(request: pytest.FixtureRequest) -> object:
    return load_detector(request.param)


@pytest.mark.parametrize("shape", [(8, 8), (1, 1), (9, 300), (375, 40)])
def test_small_and_odd_images_give_a_list(detector, shape: tuple[int, int]) -> None:  # type: ignore[no-untyped-def]
    image = np.random.default_rng(0).integers(0, 256, (*shape, 3)).astype(np.uint8)
    for landmark in detector.detect(framed(image)):
        x0, y0, x1, y1 = landmark.box
        assert 0 <= x0 < x1 <= shape[1]
        assert 0 <= y0 < y1 <= shape[0]


def test_an_empty_sky_holds_no_landmark(detector) -> None:  # type: ignore[no-untyped-def]
    assert detector.detect(framed(np.full((96, 160, 3), 200, np.uint8))) == ()


def test_a_detector_is_repeatable_and_changes_nothing(detector) -> None:  # type: ignore[no-untyped-def]
    image = np.random.default_rng(1).integers(0, 256, (64, 96, 3)).astype(np.uint8)
    before = image.copy()
    assert detector.detect(framed(image)) == detector.detect(framed(image))
    assert (image == before).all()


def test_what_is_no_image_is_refused(detector) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InputError, match="must be uint8"):
        detector.detect(framed(np.zeros((10, 10), np.uint8)))


def test_thresholds_find_a_red_disc_and_a_pole() -> None:
    image = np.full((200, 200, 3), 150, np.uint8)
    ys, xs = np.mgrid[:200, :200]
    image[(ys - 60) ** 2 + (xs - 60) ** 2 < 15**2] = (220, 20, 30)
    image[20:180, 140:148] = 20
    found = {it.category: it.box for it in ClassicDetector().detect(framed(image))}
    assert box_overlaps([found["traffic_sign"]], [(45, 45, 76, 76)])[0, 0] > 0.7
    assert box_overlaps([found["pole"]], [(140, 20, 148, 180)])[0, 0] > 0.6


def test_unknown_names_and_broken_folders_are_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="did you mean 'street-detector'"):
        load_detector("street-detektor")
    with pytest.raises(WeightsError, match=r"expected model\.json"):
        load_detector(tmp_path)
    (tmp_path / "model.json").write_text('{"format": "something"}')
    with pytest.raises(WeightsError, match="not a detector checkpoint"):
        load_detector(tmp_path)


# The shipped one


def test_the_shipped_detector_finds_most_windows_and_signs_of_a_town() -> None:
    drive = drive_town(build_town(2026), 3, spacing=25.0)
    shipped = load_detector()
    found = right = there = 0
    for number, frame in enumerate(drive.frames):
        seen = [it for it in drive.truth(number) if it.visible > 0.9 and min(it.box[2] - it.box[0], 99) > 12]
        wanted = [Landmark(it.box, it.category) for it in seen if it.category in ("window", "traffic_sign")]
        offered = shipped.detect(frame)
        judged = judge(offered, Truth(frame, tuple(wanted), {}), ("window", "traffic_sign"))
        right += sum(it.right for it in judged)
        there += len(wanted)
        found += sum(it.confidence is not None and it.confidence > 0.7 for it in judged)
    assert there >= 5
    assert right >= 0.6 * there
    assert found


def test_an_image_that_lies_on_its_side_is_detected_upright(tmp_path: Path) -> None:
    view = drive_town(build_town(2026), 1).view(0).image
    PIL.Image.fromarray(view).save(tmp_path / "upright.png")
    exif = PIL.Image.Exif()
    exif[0x0112] = 6  # to be turned clockwise by a quarter
    PIL.Image.fromarray(np.rot90(view)).save(tmp_path / "lying.png", exif=exif)
    shipped = load_detector()
    upright, lying = (shipped.detect(framed(read_image(tmp_path / f"{name}.png"))) for name in ("upright", "lying"))
    assert upright
    assert upright == lying


def test_large_images_are_shrunk_and_boxes_grow_back() -> None:
    image = np.zeros((10_000, 10_000, 3), np.uint8)  # 100 megapixels
    small, scale = shrink(image)
    assert small.shape[0] * small.shape[1] <= 1_310_000
    assert scale == pytest.approx(small.shape[0] / 10_000, rel=1e-3)
    view = drive_town(build_town(2026), 1).view(0).image
    shipped = load_detector()
    near = shipped.detect(framed(view))
    large = shipped.detect(framed(view.repeat(3, 0).repeat(3, 1)))  # 4.2 megapixels
    assert large
    grown = [tuple(3 * value for value in it.box) for it in near]
    best = box_overlaps([it.box for it in large], grown).max(axis=1)
    assert np.median(best) > 0.5


def test_detecting_needs_no_torch() -> None:
    script = (
        "import sys, numpy as np; from robustmat.detection.registry import load_detector; "
        "from robustmat.types import Frame; "
        "load_detector().detect(Frame('a', lambda: np.zeros((64, 64, 3), np.uint8))); "
        "print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_confidences_come_in_order_within_a_category() -> None:
    found = load_detector().detect(drive_town(build_town(2026), 1).frames[0])
    for first, second in pairwise(found):
        if first.category == second.category:
            assert first.confidence >= second.confidence


def test_one_true_detection_is_enough_for_the_object_of_a_match() -> None:
    from robustmat.matching.matcher import existence

    sure, unsure, given = (Landmark((0, 0, 9, 9), "pole", confidence=value) for value in (0.9, 0.4, None))
    expected = [[1 - 0.1 * 0.6, 1.0], [1 - 0.6 * 0.6, 1.0]]
    np.testing.assert_allclose(existence([sure, unsure], [unsure, given]), expected)


def test_doubtful_candidates_are_matched_but_not_returned_by_detect() -> None:
    marks = [Landmark((k, 0, k + 9, 9), "pole", confidence=value) for k, value in enumerate((0.9, 0.3, 0.1))]

    class Telling:
        name = "telling"

        def candidates(self, frame: Frame) -> tuple[Landmark, ...]:
            return tuple(marks)

        def is_sure(self, landmark: Landmark) -> bool:
            return (landmark.confidence or 0) > 0.5

        def detect(self, frame: Frame) -> tuple[Landmark, ...]:
            return tuple(filter(self.is_sure, self.candidates(frame)))

    class Plain:
        name = "plain"

        def detect(self, frame: Frame) -> tuple[Landmark, ...]:
            return (marks[2],)

    image = np.zeros((20, 40, 3), np.uint8)
    assert robustmat.read_frame(image, detector=Telling()).landmarks == tuple(marks[:2])
    assert robustmat.read_frame(image, detector=Plain()).landmarks == (marks[2],)  # what it returns is kept


def test_a_doubtful_detection_counts_once_a_match_confirms_it() -> None:
    likely, doubtful = (Landmark((5, 5, 20, 30), "pole", confidence=value) for value in (0.5, 0.49))
    scores = np.ones((3, 2))
    result = MatchResult(
        (doubtful, likely, doubtful), (likely, doubtful), (Match(0, 0, 1.0, 0.9),), scores, scores, 0.5
    )
    assert result.left_alone == ((1,), ())
    assert set(result.unmatched_a) == {1, 2}  # the JSON's indices leave nothing out
    assert set(result.unmatched_b) == {1}
    assert "1 + 0 landmarks unmatched" in repr(result)


def random_detections(weights: tuple[float, ...], count: int = 3000) -> list[Judged]:
    """Poles whose chance of being right is the logistic model's."""
    rng = np.random.default_rng(3)
    judged = []
    for mean, height in zip(rng.uniform(0.4, 0.95, count), rng.uniform(20, 200, count), strict=True):
        pole = Landmark((0.0, 0.0, 6.0, float(height)), "pole", confidence=float(mean))
        judged.append(Judged("pole", 6, pole, bool(rng.random() < calibrated(mean, pole.box, weights))))
    return judged


def test_calibration_recovers_how_often_a_detection_is_right() -> None:
    truth = (2.0, 0.0, 0.8, -1.0)
    fitted = fit_confidence(random_detections(truth))["pole"]
    for mean, height in ((0.5, 30), (0.6, 100), (0.9, 25), (0.9, 150)):
        box = (0.0, 0.0, 6.0, float(height))
        assert calibrated(mean, box, fitted) == pytest.approx(calibrated(mean, box, truth), abs=0.05)


def test_no_other_limit_has_a_larger_f1() -> None:
    weights = (2.0, 0.0, 0.8, -1.0)
    judged = [*random_detections(weights, 300), *[Judged("pole", 6, None, False)] * 40]

    def f1(limit: float) -> float:
        kept = [it for it in judged if it.found and calibrated(it.confidence, it.found.box, weights) >= limit]
        right = sum(it.right for it in kept)
        return 2 * right / (len(kept) + sum(it.right for it in judged) + 40)

    limit, best = best_limit(judged, "pole", weights)
    assert best == pytest.approx(f1(limit))
    assert best >= max(f1(limit) for limit in np.linspace(0, 1, 101))
    assert best_limit(judged, "window", weights) == (limit, 0.0)  # too few windows: the limit of all categories
    assert best_limit(judged[:5], "window", weights) == (0.5, 0.0)  # nothing to choose it by


def test_detections_are_linked_to_what_they_show() -> None:
    given = [Landmark((10, 10, 60, 110), "pole"), Landmark((80, 10, 100, 30), "traffic_sign")]
    found = [
        Landmark((52, 20, 58, 110), "pole"),  # the shaft of a lamp whose box holds its arm
        Landmark((81, 11, 101, 31), "window"),
        Landmark((82, 11, 101, 31), "traffic_sign"),
        Landmark((84, 14, 101, 33), "traffic_sign"),
    ]
    assert link(found, given) == {0: 0, 2: 1}


def test_perfect_detections_lose_no_match() -> None:
    dataset = drive(make_boards(10, seed=0), frames=8, spacing=3.0)
    boxes = {frame.name: frame.landmarks for frame in dataset.frames}

    class Perfect:
        name = "perfect"

        def detect(self, frame: Frame) -> tuple[Landmark, ...]:
            return tuple(Landmark(it.box, it.category, confidence=1.0) for it in boxes[frame.name])

    counts = evaluate_detected(dataset, Perfect(), CrossCorrelation(), most_pairs=6)
    assert counts.possible == counts.detected > 0
    assert (counts.right, counts.wrong) == (counts.right_given, counts.wrong_given)
    assert json.loads(json.dumps(counts.to_json()))["detected_share"] == 1.0
