"""The whole evaluation, with matchers whose worth is known beforehand."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from robustmat.checkpoints.store import Provenance
from robustmat.dataset.pairs import draw_frame_pairs, draw_pairs
from robustmat.dataset.store import LandmarkDataset
from robustmat.dataset.truth import read_truth
from robustmat.errors import ConfigError, DataError
from robustmat.evaluation.evaluate import evaluate
from robustmat.evaluation.failures import draw_failures, missed_matches, worst_pairs
from robustmat.evaluation.metrics import auc_paper, best_threshold
from robustmat.evaluation.predictions import Predictions, read_predictions, write_predictions
from robustmat.evaluation.report import compare_rows, make_report
from robustmat.evaluation.scoring import embed_sample, hide_truth, views_of
from robustmat.fitting.decision import balance_worlds, fit_decision, score_frames
from robustmat.fitting.references import geometry_examples, make_references
from robustmat.matching.decision import Decision
from robustmat.matching.embedded import EmbeddedFrame
from robustmat.matching.matcher import Matcher
from robustmat.methods.always_match import AlwaysMatch
from robustmat.methods.box_geometry import BoxGeometry, fit_box_geometry, read_examples, write_examples
from robustmat.methods.cross_correlation import CrossCorrelation
from robustmat.methods.same_class import SameClass
from robustmat.perturb import CLEAN, parse, psnr
from robustmat.types import Array, Frame
from small_world import drive, make_boards

DRIVE = drive(make_boards(14, seed=0), frames=16, spacing=2.0)
TRAINING = drive(make_boards(14, seed=1), name="training", world="elsewhere", frames=16, spacing=2.0)

CONTRACT = {
    *("precision", "recall", "f1", "auc_paper", "roc_auc", "average_precision", "fpr95", "threshold"),
    *("n_matched", "n_unmatched", "n_identities", "n_frame_pairs", "match_precision", "match_recall"),
    *(
        "match_f1",
        "intervals",
        "references",
        "seconds",
        "method",
        "checkpoint",
        "perturb",
        "negatives",
        "seed",
    ),
}


class Judge(Matcher):
    """A matcher for tests: remembers what it was shown and scores with a given function of two identities."""

    name = fingerprint = "judge"
    same_category = False

    def __init__(self, datasets: list[LandmarkDataset], rule: Any, threshold: float = 0.5) -> None:
        self.rule = rule
        self.decision = Decision(threshold=threshold, match_threshold=threshold)
        self.shown: list[Frame] = []
        # Frames come without identities; the judge looks them up by their boxes.
        self.identity = {mark.box: mark.identity for it in datasets for frame in it.frames for mark in frame.landmarks}
        self.scored = 0

    def embed(self, frame: Frame) -> EmbeddedFrame:
        self.shown.append(frame)
        return EmbeddedFrame(frame.landmarks, {}, self.fingerprint, frame.name, frame)

    def score(self, a: EmbeddedFrame, b: EmbeddedFrame) -> Array:
        self.scored += 1
        names_a, names_b = ([self.identity[mark.box] for mark in frame.landmarks] for frame in (a, b))
        return np.array([[self.rule(x, y) for y in names_b] for x in names_a], float).reshape(
            len(names_a), len(names_b)
        )


def same(first: int | None, second: int | None) -> float:
    return float(first == second)


def numbers(report: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in report.items() if name != "seconds"}


def test_a_matcher_that_knows_the_truth_is_perfect_in_both_protocols() -> None:
    report, _ = evaluate(Judge([DRIVE], same), [DRIVE], resamples=50)
    for name in ("precision", "recall", "f1", "auc_paper", "roc_auc", "average_precision"):
        assert report[name] == 1
    assert (report["match_precision"], report["match_recall"], report["match_f1"]) == (1, 1, 1)
    assert report["fpr95"] == report["threshold_loss"] == 0
    assert report["intervals"]["roc_auc"] == report["intervals"]["match_f1"] == [1, 1]


def test_a_matcher_that_is_always_wrong_gets_nothing() -> None:
    report, _ = evaluate(Judge([DRIVE], lambda x, y: float(x != y)), [DRIVE], resamples=20)
    assert report["roc_auc"] == report["auc_paper"] == report["recall"] == report["match_f1"] == 0
    assert report["fpr95"] == 1


def test_a_matcher_that_guesses_has_a_roc_auc_about_one_half() -> None:
    rng = np.random.default_rng(0)
    report, _ = evaluate(Judge([DRIVE], lambda x, y: rng.random()), [DRIVE], resamples=200)
    assert report["roc_auc"] == pytest.approx(0.5, abs=0.12)
    low, high = report["intervals"]["roc_auc"]
    assert low < 0.5 < high


def test_report_has_every_key_of_the_contract_and_is_plain_json() -> None:
    report, _ = evaluate(Judge([DRIVE], same), [DRIVE], parse("paper:16"), "random", 5, resamples=20)
    assert set(report) >= CONTRACT
    assert json.loads(json.dumps(report, allow_nan=False)) == report
    assert (report["perturb"], report["negatives"], report["seed"]) == ("paper:16", "random", 5)
    assert report["n_matched"] == 3 * report["n_unmatched"]


def test_fewer_frame_pairs_leave_the_landmark_pairs_alone() -> None:
    whole, few = (evaluate(Judge([DRIVE], same), [DRIVE], resamples=20, most_frame_pairs=n)[1] for n in (300, 3))
    assert len(few.frame_pairs.pairs) == 3 < len(whole.frame_pairs.pairs)
    np.testing.assert_array_equal(few.pairs.identity_a, whole.pairs.identity_a)
    np.testing.assert_array_equal(few.pairs.label, whole.pairs.label)


def test_both_kinds_of_negatives_are_reported_whichever_was_asked_for() -> None:
    # Right about everything but landmarks of two classes, which only random negatives ask about.
    category = {mark.identity: mark.category for frame in DRIVE.frames for mark in frame.landmarks}
    judge = Judge([DRIVE], lambda x, y: float(x == y or category[x] != category[y]))
    reports = {kind: evaluate(judge, [DRIVE], negatives=kind, resamples=5)[0] for kind in ("same-class", "random")}
    assert reports["same-class"]["roc_auc"] == 1 > reports["random"]["roc_auc"]
    for report in reports.values():
        for kind, rows in report["by_negatives"].items():
            assert rows["judge"]["roc_auc"] == reports[kind]["roc_auc"]
            assert rows["judge"]["f1"] == reports[kind]["f1"]
    assert reports["same-class"]["match_f1"] == reports["random"]["match_f1"]


def test_the_matcher_sees_pixels_and_boxes_but_no_truth() -> None:
    judge = Judge([DRIVE], same)
    evaluate(judge, [DRIVE], resamples=5)
    for frame in judge.shown:
        assert frame.T_world_camera is None
        assert frame.load_points is None
        assert all(mark.identity is None and mark.position is None for mark in frame.landmarks)


@pytest.mark.parametrize("side", ["both", "second"])
def test_every_frame_is_read_and_embedded_once(side: str) -> None:
    reads: Counter[str] = Counter()

    def counted(frame: Frame) -> Frame:
        def load() -> Any:
            reads[frame.name] += 1
            return frame.load_image()

        return replace(frame, load_image=load)

    watched = replace(DRIVE, frames=tuple(counted(frame) for frame in DRIVE.frames))
    judge = Judge([DRIVE], same)
    pixels = (CrossCorrelation(), CrossCorrelation(0.6))
    evaluate(judge, [watched], parse("awgn:20"), perturbed_frames=side, references=pixels, resamples=5)
    views = 1 if side == "both" else 2  # clean and perturbed
    embedded = Counter(frame.name for frame in judge.shown)
    assert max(embedded.values()) <= views
    assert reads == embedded


def test_sides_are_perturbed_as_asked_and_pixels_are_let_go_of() -> None:
    clean = {frame.name: frame.image for frame in DRIVE.frames}

    class Watching(Judge):
        def embed(self, frame: Frame) -> EmbeddedFrame:
            strength.append(round(psnr(clean[frame.name], frame.image), 1))
            return super().embed(frame)

    strength: list[float] = []
    judge = Watching([DRIVE], same)
    evaluate(judge, [DRIVE], parse("paper:16"), perturbed_frames="both", resamples=5)
    assert strength == pytest.approx([16] * len(strength), abs=0.3)
    assert all(frame.load_image.held is None for frame in judge.shown)  # type: ignore[attr-defined]
    strength.clear()
    evaluate(judge, [DRIVE], parse("paper:16"), perturbed_frames="second", resamples=5)
    assert {value == float("inf") for value in strength} == {True, False}
    with pytest.raises(ConfigError, match="both, second"):
        evaluate(judge, [DRIVE], perturbed_frames="first")


def test_frames_of_two_drives_with_one_name_get_their_own_noise() -> None:
    boards = make_boards(14, seed=0)
    twin = drive(boards, name="twin", frames=16, spacing=2.0)
    seen: dict[tuple[str, bytes], int] = {}

    class Watching(Judge):
        def embed(self, frame: Frame) -> EmbeddedFrame:
            key = (frame.name, frame.image.tobytes())
            seen[key] = seen.get(key, 0) + 1
            return super().embed(frame)

    evaluate(Watching([DRIVE, twin], same), [DRIVE, twin], parse("awgn:16"), resamples=5)
    assert max(seen.values()) == 1


def test_same_seed_same_bytes(tmp_path: Path) -> None:
    short, other = replace(DRIVE, frames=DRIVE.frames[::2]), replace(TRAINING, frames=TRAINING.frames[::2])
    files, reports = [], []
    for number in range(2):
        references = make_references([other], parse("paper:16"), seed=3)
        report, predictions = evaluate(
            CrossCorrelation(), [short], parse("paper:16"), seed=3, references=references.rows, resamples=30
        )
        write_predictions(tmp_path / f"{number}.npz", predictions)
        files.append((tmp_path / f"{number}.npz").read_bytes())
        reports.append(numbers(report))
    assert files[0] == files[1]
    assert reports[0] == reports[1]


@pytest.fixture(scope="module")
def with_references() -> tuple[dict[str, Any], Predictions]:
    references = make_references([TRAINING])
    return evaluate(Judge([DRIVE], same), [DRIVE], references=references.rows, checkpoint="mine", resamples=30)


def test_the_table_can_be_computed_again_from_the_file_alone(
    with_references: tuple[dict[str, Any], Predictions], tmp_path: Path
) -> None:
    report, predictions = with_references
    write_predictions(tmp_path / "p.npz", predictions)
    read = read_predictions(tmp_path / "p.npz")
    assert make_report(read, resamples=30) == numbers(report)
    assert [row.name for row in read.rows] == [row.name for row in predictions.rows]
    marks = {frame.name: frame.landmarks for frame in DRIVE.frames}
    for row in (0, 5):
        name = read.frames[read.pairs.frame_a[row]].removeprefix("drive/")
        assert tuple(read.pairs.box_a[row]) == marks[name][read.pairs.landmark_a[row]].box
    found = compare_rows(read, read.method, read.references[3], resamples=30)
    assert found["roc_auc"].value == pytest.approx(1 - report["references"]["cross-correlation"]["roc_auc"])
    assert found["roc_auc"].is_clear
    written = report["differences"]["cross-correlation"]["roc_auc"]
    assert written == {key: getattr(found["roc_auc"], key) for key in ("value", "low", "high")}


@pytest.mark.parametrize("damage", ["missing", "empty", "text", "cut", "other"])
def test_a_broken_prediction_file_is_named(damage: str, tmp_path: Path) -> None:
    path = tmp_path / "p.npz"
    if damage == "empty":
        path.write_bytes(b"")
    elif damage == "text":
        path.write_text("not a table")
    elif damage == "cut":
        _, predictions = evaluate(AlwaysMatch(), [DRIVE], resamples=5)
        write_predictions(path, predictions)
        path.write_bytes(path.read_bytes()[:-200])
    elif damage == "other":
        np.savez(path, head=np.array('{"format": "else", "version": 1}'))
    with pytest.raises(DataError, match=r"p\.npz"):
        read_predictions(path)


def test_frame_protocol_counts_as_a_person_would() -> None:
    """A matcher that finds one object only, and mistakes a second one for a third."""
    judge = Judge([DRIVE], lambda x, y: {(4, 4): 1.0, (5, 7): 0.9, (7, 5): 0.9}.get((x, y), 0.0))
    report, predictions = evaluate(judge, [DRIVE], resamples=5)
    right = wrong = possible = 0
    truth = read_truth([DRIVE])
    for a, b in draw_frame_pairs(truth, 300, seed=0):
        names = [{mark.identity for mark in truth.frame(it).landmarks} for it in (a, b)]
        possible += len(names[0] & names[1])
        right += 4 in names[0] and 4 in names[1]
        wrong += (5 in names[0] and 7 in names[1]) + (7 in names[0] and 5 in names[1])
    assert right > 0
    assert wrong > 0
    assert len(predictions.method.returned.match_pair) == right + wrong
    assert report["match_precision"] == pytest.approx(right / (right + wrong))
    assert report["match_recall"] == pytest.approx(right / possible)
    assert report["match_f1"] == pytest.approx(2 * right / (right + wrong + possible))


def test_matches_with_landmarks_nobody_knows_count_neither_way() -> None:
    strangers = drive(make_boards(14, seed=0), frames=16, spacing=2.0, strangers=True)
    report, predictions = evaluate(Judge([strangers], same), [strangers], resamples=5)
    assert report["match_ignored"] == len(predictions.frame_pairs.pairs)  # the stranger of one with the other's
    assert report["match_f1"] == 1


def test_references_stand_where_they_must(with_references: tuple[dict[str, Any], Predictions]) -> None:
    report, _ = with_references
    rows = report["references"]
    classic = ["root-sift", "vgg", "boost-desc"]
    assert list(rows)[:4] == ["always-match", "same-class", "box-geometry", "cross-correlation"]
    assert list(rows)[4:] == [*classic, "keypoints-in-boxes"]
    assert rows["always-match"]["f1"] == pytest.approx(6 / 7, abs=0.01)
    assert rows["always-match"]["roc_auc"] == rows["same-class"]["roc_auc"] == 0.5
    assert rows["always-match"]["match_recall"] < 0.6
    assert rows["box-geometry"]["roc_auc"] > 0.6
    assert rows["cross-correlation"]["roc_auc"] > 0.6
    for values in rows.values():
        assert set(values) >= {"precision", "recall", "f1", "auc_paper", "fpr95", "match_f1", "threshold"}


def test_class_alone_helps_against_random_negatives_only() -> None:
    report, _ = evaluate(SameClass(), [DRIVE], negatives="random", resamples=5)
    assert report["recall"] == 1
    assert report["roc_auc"] > 0.6


def test_without_training_side_the_fitted_row_is_left_out_with_its_reason() -> None:
    references = make_references()
    known = ["always-match", "same-class", "cross-correlation", "root-sift", "vgg", "boost-desc", "keypoints-in-boxes"]
    assert [row.name for row in references.rows] == known
    assert "--reference-data" in references.omitted["box-geometry"]
    rows, omitted = references.rows, references.omitted
    report, _ = evaluate(AlwaysMatch(), [DRIVE], references=rows, references_omitted=omitted, resamples=5)
    assert report["references_omitted"] == omitted


def test_box_geometry_never_looks_at_a_pixel() -> None:
    def blind() -> Any:
        raise AssertionError("pixels were read")

    unseen = replace(TRAINING, frames=tuple(replace(it, load_image=blind) for it in TRAINING.frames))
    geometry = fit_box_geometry(geometry_examples([unseen]))
    a, b = (geometry.embed(frame) for frame in (unseen.frames[0], unseen.frames[4]))
    np.testing.assert_allclose(geometry.score(a, b), geometry.score(b, a).T)


@pytest.fixture(scope="module")
def geometry() -> BoxGeometry:
    return fit_box_geometry(geometry_examples([TRAINING]))


def test_every_reference_bears_frames_with_nothing_in_them(geometry: BoxGeometry) -> None:
    full, empty = DRIVE.frames[0], replace(DRIVE.frames[0], landmarks=())
    for matcher in (AlwaysMatch(), SameClass(), CrossCorrelation(), geometry):
        a, b = matcher.embed(full), matcher.embed(empty)
        assert matcher.score(a, b).shape == (len(full.landmarks), 0)
        assert matcher.match(b, a).matches == ()
        assert matcher.match(b, b).matches == ()


def test_every_reference_matches_one_to_one_and_above_its_threshold(geometry: BoxGeometry) -> None:
    for matcher in (AlwaysMatch(), SameClass(), CrossCorrelation(), geometry):
        a, b = matcher.embed(DRIVE.frames[3]), matcher.embed(DRIVE.frames[4])
        result = matcher.match(a, b)
        assert len(result.matches) > 0
        assert len({it.a for it in result.matches}) == len({it.b for it in result.matches}) == len(result.matches)
        assert all(it.score >= matcher.decision.match_threshold for it in result.matches)


def test_cross_correlation_of_a_patch_with_itself_is_one() -> None:
    matcher = CrossCorrelation()
    embedded = matcher.embed(DRIVE.frames[3])
    np.testing.assert_allclose(np.diag(matcher.score(embedded, embedded)), 1, atol=1e-5)


def test_candidates_are_all_of_them_and_not_three_to_one() -> None:
    sample, judge = draw_pairs([DRIVE]), Judge([DRIVE], same)
    views = views_of(sample.frame_pairs, CLEAN, "both")
    (memory,) = embed_sample([judge], sample)
    found = score_frames(judge, memory, sample.truth, views)
    np.testing.assert_array_equal(found.score == 1, found.right)
    assert (found.best >= found.right).all()  # a right pair scores best; of an unmatched rest, some is best as well
    truth = read_truth([DRIVE])
    total = sum(
        len(truth.frame(a).landmarks) * len(truth.frame(b).landmarks) for a, b in draw_frame_pairs(truth, 300, 0)
    )
    assert len(found.score) == total  # boards stand 4 m apart: nothing is ambiguous
    assert found.right.mean() < 0.5


def test_a_fitted_decision_separates_what_can_be_separated() -> None:
    """Right pairs score 0.8, wrong ones 0.3: both thresholds must lie between, the probability must rise."""
    judge = Judge([DRIVE], lambda a, b: 0.8 if a == b else 0.3, threshold=0.9)
    sample = draw_pairs([DRIVE])
    (memory,) = embed_sample([judge], sample)
    decision = fit_decision(judge, memory, sample).decision
    assert 0.3 < decision.threshold < 0.8
    assert 0.3 < decision.match_threshold <= 0.8
    assert decision.probability(np.array(0.8)) > 0.9
    assert decision.probability(np.array(0.3)) < 0.1


def test_data_sets_without_identities_are_refused() -> None:
    with pytest.raises(DataError, match="no landmark identities"):
        evaluate(AlwaysMatch(), [replace(DRIVE, has_identities=False)])


def test_progress_is_told_what_is_going_on() -> None:
    told = []

    def progress(items: Any, what: str) -> Any:
        told.append((what, len(items)))
        return items

    evaluate(AlwaysMatch(), [DRIVE], references=make_references().rows, resamples=5, progress=progress)
    assert [what for what, _ in told] == ["embedding frames", "matching"]
    assert told[1][1] == 8  # the matcher and seven references


def run_command(
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    trained_on: tuple[str, ...] = (),
    validated_on: tuple[str, ...] = (),
) -> Any:
    from robustmat.cli import app

    judge = Judge([DRIVE], same)
    provenance = Provenance(drives=trained_on, validation_drives=validated_on)
    short, other = replace(DRIVE, frames=DRIVE.frames[::2]), replace(TRAINING, frames=TRAINING.frames[::2])
    opened = {"test": short, "train": other}
    monkeypatch.setattr("robustmat.checkpoints.load.describe_source", lambda name: ("robustmat", provenance))
    monkeypatch.setattr("robustmat.checkpoints.load.load", lambda name, evidence: judge)
    monkeypatch.setattr("robustmat.checkpoints.store.find_checkpoint", Path)
    monkeypatch.setattr("robustmat.dataset.store.open_dataset", lambda path: opened[str(path)])
    return CliRunner().invoke(app, ["evaluate", *arguments])


def test_command_prints_the_table_and_writes_both_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    arguments = ["test", "--reference-data", "train", "--perturb", "awgn:20", "--negatives", "random"]
    files = ["--json", str(tmp_path / "r.json"), "--predictions", str(tmp_path / "p.npz")]
    files += ["--pictures", str(tmp_path / "pictures")]
    result = run_command(monkeypatch, [*arguments, *files], ("another",))
    assert result.exit_code == 0, result.output
    assert "geometry" in result.output
    report = json.loads((tmp_path / "r.json").read_text())
    assert set(report) >= CONTRACT
    assert (report["method"], report["checkpoint"], report["roc_auc"]) == ("robustmat", "street", 1)
    assert set(report["by_negatives"]) == {"same-class", "random"}
    assert report["by_negatives"]["random"]["robustmat"]["roc_auc"] == 1
    read = make_report(read_predictions(tmp_path / "p.npz"))
    assert read["intervals"] == report["intervals"]
    assert "0 pictures" in result.output  # it knows the truth: nothing to show


def test_the_worst_frame_pairs_are_drawn_with_what_is_wrong_and_what_is_missed(tmp_path: Path) -> None:
    """One object is always taken for another, a third one is never matched."""
    truth = read_truth([DRIVE])
    number = {  # of the drive's objects, as the truth counts them
        mark.identity: int(identity)
        for index, frame in enumerate(truth.frames)
        for mark, identity in zip(truth.frame(index).landmarks, frame.identity, strict=True)
    }
    confused, other, unseen = sorted(number.values())[1:4]

    def rule(first: int | None, second: int | None) -> float:
        a, b = number[first], number[second]
        return float((a, b) == (confused, other) or (a == b and a not in (confused, other, unseen)))

    judge = Judge([DRIVE], rule)
    _, predictions = evaluate(judge, [DRIVE], resamples=20)
    row, truths = predictions.rows[0], predictions.frame_pairs
    worst = worst_pairs(row, truths, most=3)
    errors = []
    for a, b in truths.pairs:
        first, second = truth.frames[a], truth.frames[b]
        shared = set(first.identity.tolist()) & set(second.identity.tolist())
        wrong = confused in first.identity and other in second.identity
        errors.append(wrong + len(shared & {confused, other, unseen}))
    assert [errors[index] for index in worst] == sorted(errors, reverse=True)[:3]
    drawn = draw_failures(judge, truth, predictions, CLEAN, tmp_path, most=3)
    assert [path.name[:2] for path in drawn] == ["01", "02", "03"]
    assert all(path.stat().st_size > 10_000 for path in drawn)
    a, b = truths.pairs[worst[0]]
    result = judge.match(*(judge.embed(truth.frame(index)) for index in (a, b)))
    missed = {int(truth.frames[a].identity[i]) for i, _ in missed_matches(result, truth.frames[a], truth.frames[b])}
    shared = set(truth.frames[a].identity.tolist()) & set(truth.frames[b].identity.tolist())
    assert missed == shared & {confused, other, unseen}


def test_command_refuses_a_drive_that_was_trained_on_unless_told(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = run_command(monkeypatch, ["test"], ("drive",))
    assert isinstance(refused.exception, DataError)
    assert "--allow-seen" in str(refused.exception)
    assert run_command(monkeypatch, ["test", "--allow-seen"], ("drive",)).exit_code == 0
    assert isinstance(run_command(monkeypatch, ["test"], (), ("drive",)).exception, DataError)
    unfair = run_command(monkeypatch, ["test", "--reference-data", "test"])
    assert isinstance(unfair.exception, DataError)


def test_box_geometry_learns_the_same_from_a_checkpoints_examples_as_from_the_data(tmp_path: Path) -> None:
    write_examples(tmp_path, geometry_examples([TRAINING]))
    stored = make_references(examples=read_examples(tmp_path))
    assert not stored.omitted
    fresh = make_references([TRAINING])
    frames = [hide_truth(frame, frame.load_image) for frame in DRIVE.frames[:2]]
    scores = []
    for rows in (stored.rows, fresh.rows):
        geometry = next(it for it in rows if it.name == "box-geometry")
        scores.append(geometry.score(*(geometry.embed(frame) for frame in frames)))
    assert (scores[0] == scores[1]).all()


def test_every_world_counts_alike_for_a_threshold_however_many_pairs_it_has() -> None:
    world = np.array(["town"] * 90 + ["drive"] * 10)
    chosen = np.arange(100) % 2 == 0
    weight = balance_worlds(world, chosen)
    assert weight[world == "town"].sum() == pytest.approx(1)
    assert weight[world == "drive"].sum() == pytest.approx(1)
    assert not weight[~chosen].any()

    # A town whose scores lie one higher than the drive's, ten times as often: alike, the drive keeps half a voice.
    label = np.arange(100) % 4 != 0
    scores = label + (world == "town") + np.linspace(0, 0.5, 100)
    alike = best_threshold(scores, label, balance_worlds(world, label) + balance_worlds(world, ~label))

    def right(name: str, threshold: float) -> float:
        return auc_paper(scores[world == name], label[world == name], threshold)

    others = [right("town", it) + right("drive", it) for it in scores]
    assert right("town", alike) + right("drive", alike) == pytest.approx(max(others))
