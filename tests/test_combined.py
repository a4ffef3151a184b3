"""All evidence in one probability: the matcher that `load` gives, how it is fitted, and how it is reported."""

import json
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest

from models_for_tests import untrained
from robustmat.checkpoints.load import from_checkpoint, load, network_matcher
from robustmat.checkpoints.store import load_checkpoint, save_checkpoint
from robustmat.errors import ConfigError, DataError, InputError
from robustmat.features.scale import MOST_PIXELS
from robustmat.fitting.diffusion import associate, diffusion_loss, fit_diffusion
from robustmat.fitting.evidence import (
    KINDS,
    collect_cases,
    evidence_matcher,
    fit_combinations,
    read_cases,
    weigh,
    write_cases,
)
from robustmat.geometry.relative_pose import MotionPrior
from robustmat.matching.combine import EVIDENCE_FEATURES, Combination
from robustmat.matching.combined import CombinedMatcher, whole_frame
from robustmat.matching.diffusion import DiffusionConfig
from robustmat.sources.motion import read_motion
from robustmat.tables import leave_one_out as table
from robustmat.tables.leave_one_out_page import write_report
from robustmat.tables.parts import NETWORK_PARTS, DissectedMatcher, dissect, write_parts
from robustmat.types import Camera, Frame
from small_world import drive, make_boards

WEIGHTS = {
    kind: Combination(
        weights=dict.fromkeys(EVIDENCE_FEATURES[kind], 0.5),
        intercept=-1.0,
        precision=((0.5, 0.9), (0.8, 0.96)),
    )
    for kind in KINDS
}


@pytest.fixture(scope="module")
def matchers() -> dict[str, CombinedMatcher]:
    checkpoint = replace(untrained(), combinations=WEIGHTS)
    made = {kind: from_checkpoint(checkpoint, kind) for kind in KINDS}
    assert all(isinstance(matcher, CombinedMatcher) for matcher in made.values())
    return made  # type: ignore[return-value]


@pytest.fixture(scope="module")
def frames() -> tuple[Frame, ...]:
    return drive(make_boards(12, seed=1), frames=8).frames


def test_the_score_is_a_probability_and_a_half_decides(
    matchers: dict[str, CombinedMatcher], frames: tuple[Frame, ...]
) -> None:
    for matcher in matchers.values():
        result = matcher.match(frames[0], frames[3])
        assert ((result.score >= 0) & (result.score <= 1)).all()
        assert np.array_equal(result.score, result.probability)
        assert all(match.probability >= 0.5 for match in result.matches)


def test_a_frame_that_was_kept_without_keypoints_is_matched_by_placement(
    matchers: dict[str, CombinedMatcher], frames: tuple[Frame, ...]
) -> None:
    a, b = (matchers["placement"].embed(frame) for frame in (frames[0], frames[3]))
    assert not any("keypoint" in name for name in a.arrays)
    wanted = matchers["placement"].score(a, b)
    assert np.array_equal(matchers["scene"].score(a, b), wanted)
    with_keypoints = matchers["scene"].embed(frames[0])
    assert np.array_equal(matchers["scene"].score(with_keypoints, b), wanted)


def enlarged(frame: Frame, factor: int) -> Frame:
    """The same view by a camera with more pixels."""
    camera = frame.camera
    assert camera is not None
    matrix = np.diag([factor, factor, 1]) @ camera.matrix
    pixels = cv2.resize(frame.image, None, fx=factor, fy=factor, interpolation=cv2.INTER_CUBIC)
    marks = tuple(replace(mark, box=tuple(factor * side for side in mark.box)) for mark in frame.landmarks)
    larger = replace(frame, landmarks=marks, camera=Camera(matrix, factor * camera.width, factor * camera.height))
    return larger.with_image(pixels)


def test_a_camera_with_more_pixels_tells_the_same(frames: tuple[Frame, ...]) -> None:
    matcher = load("street")
    large = [matcher.embed(enlarged(frames[k], 7)) for k in (0, 2)]  # 1.9 megapixels
    for one in large:
        view, (fx, *_, width, height) = whole_frame(one), one.arrays["view.camera"].tolist()
        assert view.width * view.height < 1.01 * MOST_PIXELS < 0.8 * width * height
        assert view.boxes[:, 2].max() <= view.width
        assert view.intrinsics[0] / view.width == pytest.approx(fx / width, rel=0.01)
        assert 0.6 * width < one.arrays["view.keypoint_place"][:, 0].max() <= width  # in the image's own pixels
    found, known = ({(it.a, it.b) for it in matcher.match(*pair).matches} for pair in (large, (frames[0], frames[2])))
    assert found <= known
    assert len(found) >= len(known) - 1  # a match near one half may be lost to other pixels
    assert len(known) > 3


def test_the_explanation_adds_up_to_the_log_odds_before_competition(
    matchers: dict[str, CombinedMatcher], frames: tuple[Frame, ...]
) -> None:
    matcher = matchers["scene"]
    a, b = matcher.embed(frames[0]), matcher.embed(frames[2])
    features, combination = matcher.features(a, b)
    parts = matcher.explain(a, b, 1, 2)
    assert sum(value for _, value in parts) == pytest.approx(combination.logits(features)[1, 2])
    assert {name for name, _ in parts} == {*EVIDENCE_FEATURES["scene"], "base rate"}


def test_a_known_motion_favours_the_candidates_that_it_explains(frames: tuple[Frame, ...]) -> None:
    only_motion = {"placement": Combination(weights={"diffusion": 1.0}, intercept=0.0)}
    matcher = CombinedMatcher(network_matcher(untrained(), "placement"), only_motion, "placement")
    a, b = matcher.embed(frames[0]), matcher.embed(frames[4])
    identities = [[mark.identity for mark in frame.landmarks] for frame in (frames[0], frames[4])]
    right = np.array([[x == y for y in identities[1]] for x in identities[0]])
    T_b_a = np.eye(4)
    T_b_a[2, 3] = -6.0  # what stood 6 m further ahead
    told = matcher.with_motion(MotionPrior(T_b_a)).score(a, b)[right].mean()
    T_b_a[2, 3] = 6.0
    misled = matcher.with_motion(MotionPrior(T_b_a)).score(a, b)[right].mean()
    assert told > misled + 0.03


def test_a_motion_is_refused_where_nothing_can_be_made_of_it(
    matchers: dict[str, CombinedMatcher], frames: tuple[Frame, ...]
) -> None:
    motion = MotionPrior(np.eye(4))
    with pytest.raises(ConfigError, match="placement or scene"):
        matchers["frames"].match(frames[0], frames[1], motion=motion)
    with pytest.raises(ConfigError, match="cannot use a known motion"):
        load("root-sift").match(frames[0], frames[1], motion=motion)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[]", "T_b_a"),
        ('{"T_b_a": [[1, 2], [3]]}', "no number"),
        ('{"T_b_a": [[1, 0], [0, 1]]}', "4 x 4"),
        (json.dumps({"T_b_a": (2 * np.eye(4)).tolist()}), "rotation"),
        (json.dumps({"T_b_a": np.eye(4).tolist(), "rotation_deviation": -1}), "positive"),
    ],
)
def test_a_broken_motion_file_is_explained(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "motion.json").write_text(content)
    with pytest.raises(InputError, match=message):
        read_motion(tmp_path / "motion.json")


def test_a_wanted_precision_is_answered_from_the_calibration(matchers: dict[str, CombinedMatcher]) -> None:
    assert matchers["scene"].min_probability_for(0.9) == 0.5
    assert matchers["scene"].min_probability_for(0.95) == 0.8
    with pytest.raises(ConfigError, match=r"0\.960 at most"):
        matchers["scene"].min_probability_for(0.99)


def test_combinations_travel_with_the_checkpoint_and_the_last_is_the_default(tmp_path: Path) -> None:
    save_checkpoint(tmp_path / "mine", replace(untrained(), combinations=WEIGHTS))
    assert load_checkpoint(tmp_path / "mine").combinations == WEIGHTS
    assert load(tmp_path / "mine", runtime="torch").evidence == "scene"
    assert not isinstance(load(tmp_path / "mine", runtime="torch", evidence="pair"), CombinedMatcher)


@pytest.fixture(autouse=True)
def few_unrelated_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "UNRELATED", 4)


@pytest.fixture(scope="module")
def worlds() -> list:  # type: ignore[type-arg]
    return [
        drive(
            make_boards(14, seed=seed), name=f"drive{seed}", world=f"world{seed}", frames=10, first_identity=100 * seed
        )
        for seed in (1, 2, 3)
    ]


def test_collected_cases_survive_the_disk(worlds: list, tmp_path: Path) -> None:  # type: ignore[type-arg]
    matcher = evidence_matcher(network_matcher(untrained(), "placement"))
    cases = collect_cases(matcher, worlds[:2], "clean", frame_pairs=6, unrelated=4, cache=tmp_path)
    assert {case.related for case in cases} == {True, False}
    assert all((case.case.label != 1).all() for case in cases if not case.related)
    write_cases(tmp_path / "copy.npz", cases)
    for one, other in zip(cases, read_cases(tmp_path / "copy.npz"), strict=True):
        assert (one.worlds, one.perturbation, one.distance) == (other.worlds, other.perturbation, other.distance)
        assert np.array_equal(one.case.label, other.case.label)
        for name, values in one.case.features.items():
            np.testing.assert_allclose(values, other.case.features[name], rtol=1e-6)


def test_nothing_is_fitted_on_the_drive_that_is_reported(
    worlds: list,  # type: ignore[type-arg]
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fitted_on = []

    def fit(cases):  # type: ignore[no-untyped-def]
        fitted_on.append({world for case in cases for world in case.worlds})
        return fit_combinations(cases)

    monkeypatch.setattr(table, "fit_combinations", fit)
    matcher = evidence_matcher(network_matcher(untrained(), "placement"))
    experiment = table.Experiment(matcher, worlds, conditions=("clean",), frame_pairs=8, cache=tmp_path / "cases")
    report = table.leave_one_out(experiment)
    assert fitted_on == [{"world2", "world3"}, {"world1", "world3"}, {"world1", "world2"}]
    assert set(report["clean"]) == {*KINDS, "keypoints-in-boxes"}
    for drives in report["clean"].values():
        for numbers in drives.values():
            assert 0 <= numbers["all"]["f1"] <= 1
            bands = [numbers[band] for band in ("2-5", "5-10", "10-25")]
            assert sum(band["right"] for band in bands) == numbers["all"]["right"]
    path = write_report(tmp_path, report, {}, "robustmat reproduce leave-one-out")
    assert "| clean | scene |" in path.read_text()


def test_other_data_counts_as_one_drive_and_test_worlds_are_never_fitted_on(worlds: list) -> None:  # type: ignore[type-arg]
    matcher = evidence_matcher(network_matcher(untrained(), "placement"))
    first, *others = worlds
    with pytest.raises(DataError, match=f"{others[0].name} cannot be tested on"):
        table.Experiment(matcher, [first], others, others[:1])
    experiment = table.Experiment(matcher, [first], others[1:], others[:1], conditions=("clean",), frame_pairs=6)
    cases = experiment.cases
    weight: dict[bool, float] = {True: 0.0, False: 0.0}
    for case, weighted in zip(cases, weigh(cases), strict=True):
        if case.related:
            weight[case.worlds[0] == first.world] += weighted.weight
    assert weight[True] == pytest.approx(weight[False])
    tests = table.measure_tests(experiment)
    assert set(tests["clean"]["scene"]) == {table.SAME_DRIVE}


def test_a_category_with_weights_of_its_own_leaves_the_others_alone() -> None:
    own = Combination(weights={"pair": 2.0}, intercept=1.0)
    plain = Combination(weights={"pair": 1.0}, intercept=-1.0)
    both = plain.model_copy(update={"categories": {"window": own}})
    rng = np.random.default_rng(0)
    category = np.array([0, 3, 3, 1]), np.array([3, 0, 3])
    allowed = category[0][:, None] == category[1]
    features = {"pair": rng.normal(size=allowed.shape)}
    found = both.probability(features, allowed, category)
    window = (category[0] == 3)[:, None] & (category[1] == 3)
    np.testing.assert_array_equal(found[~window], plain.probability(features, allowed)[~window])
    np.testing.assert_array_equal(found[window], own.probability(features, allowed & window)[window])
    assert Combination.model_validate_json(both.model_dump_json()) == both


def test_switched_off_parts_change_what_they_should_and_nothing_else(frames: tuple[Frame, ...]) -> None:
    inner = network_matcher(untrained(), "placement")
    dissected = DissectedMatcher(inner)
    a, b = dissected.embed(frames[0]), dissected.embed(frames[3])
    features, _ = dissected.features(a, b)
    whole = evidence_matcher(inner)
    plain, _ = whole.features(whole.embed(frames[0]), whole.embed(frames[3]))
    for name, values in plain.items():
        np.testing.assert_allclose(features[name], values, atol=1e-5)
    for part in NETWORK_PARTS:
        assert not np.allclose(features[f"placement without {part}"], features["placement"]), part
    assert np.ptp(features["placement without all pixels"]) == 0


def test_the_table_of_parts_holds_every_row(worlds: list, tmp_path: Path) -> None:  # type: ignore[type-arg]
    inner = network_matcher(untrained(), "placement")
    matcher = DissectedMatcher(inner, {"twin": inner})
    report = dissect(table.Experiment(matcher, worlds[:2], conditions=("clean",), frame_pairs=3))
    everything = report["everything"]["scene"]["clean"]
    assert everything["difference"] == 0
    assert everything["interval"] == [0, 0]
    text = write_parts(tmp_path, report, ("clean",), "robustmat reproduce").read_text()
    assert "agreement by a sum over motions" in text
    again = report["trained further: twin"]["scene"]["clean"]  # the same network: it must say the same
    assert again["difference"] == pytest.approx(0, abs=1e-6)
    assert "trained further: twin" in text
    assert '"everything",scene,clean,' in (tmp_path / "parts.csv").read_text()


def test_fitting_the_diffusion_makes_the_answers_likelier(worlds: list) -> None:  # type: ignore[type-arg]
    matcher = evidence_matcher(network_matcher(untrained(), "placement"))
    graphs = associate(matcher, worlds[:1], "clean", frame_pairs=6, unrelated=0)
    start = DiffusionConfig(coupling=0.0, own=0.1)
    fitted = fit_diffusion(graphs, start, most_tries=40)
    assert diffusion_loss(graphs, fitted) < diffusion_loss(graphs, start) - 0.01
    assert fitted.end_time == start.end_time
