"""The two real KITTI drives, for those who have them: set ROBUSTMAT_KITTI to the raw data's folder."""

import os
from pathlib import Path

import pytest

from robustmat.dataset.inspect import count
from robustmat.dataset.prepare import prepare
from robustmat.dataset.store import LandmarkDataset, open_dataset
from robustmat.evaluation.evaluate import evaluate
from robustmat.fitting.references import make_references
from robustmat.perturb import parse
from robustmat.sources.kitti_raw import open_kitti_raw

ROOT = os.environ.get("ROBUSTMAT_KITTI")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(not ROOT, reason="set ROBUSTMAT_KITTI to the KITTI raw folder")]


@pytest.fixture(scope="module")
def drives(tmp_path_factory: pytest.TempPathFactory) -> list[LandmarkDataset]:
    out = tmp_path_factory.mktemp("kitti")
    return [
        open_dataset(prepare(open_kitti_raw(Path(str(ROOT)), "2011_09_26", number), out / number))
        for number in ("0013", "0002")
    ]


def test_the_drives_hold_the_landmarks_that_a_trial_found(drives: list[LandmarkDataset]) -> None:
    counts = [count(drive) for drive in drives]
    assert sum(it["identities"] for it in counts) >= 60
    assert sum(it["matched_pairs"] for it in counts) >= 5000


def test_reference_rows_stand_where_they_should_on_real_pixels(drives: list[LandmarkDataset]) -> None:
    references = make_references(drives[:1], parse("paper:16"))
    correlation = next(it for it in references.rows if it.name == "cross-correlation")
    report, _ = evaluate(correlation, drives[1:], parse("paper:16"), references=references.rows, resamples=20)
    assert report["roc_auc"] > 0.75
    assert report["references"]["box-geometry"]["roc_auc"] > 0.8
    assert report["references"]["always-match"]["f1"] == pytest.approx(6 / 7, abs=0.005)
