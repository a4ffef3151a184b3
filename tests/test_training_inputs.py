"""What trainings of one table share: perturbed frames and box geometry."""

import numpy as np
import pytest

from robustmat.dataset.truth import label_candidates, read_truth
from robustmat.fitting.references import geometry_examples
from robustmat.perturb import parse, perturb_image
from robustmat.progress import silent
from robustmat.training import inputs as module
from robustmat.training.config import load_training_config
from robustmat.training.inputs import Inputs
from small_world import drive, make_boards


def test_methods_that_crop_to_other_sizes_share_perturbed_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    def counted(image: np.ndarray, *facts: object) -> np.ndarray:
        made.append(facts)
        return perturb_image(image, *facts)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "perturb_image", counted)
    street, inputs = [drive(make_boards(6, 0), frames=4)], Inputs()
    small = load_training_config("hardnet", {"views": 2, "model": {"patch": {"size": 32}}})
    banks = [inputs.bank(config, street, silent) for config in (small, load_training_config("hardnet", {"views": 2}))]
    assert banks[0].patches[0].shape[2:] != banks[1].patches[0].shape[2:]
    assert len(made) == len(set(made)) == 2 * len(banks[0].patches)
    again = Inputs().bank(load_training_config("hardnet", {"views": 2}), street, silent)
    for one, other in zip(banks[1].patches, again.patches, strict=True):
        np.testing.assert_array_equal(one, other)


def test_another_seed_or_level_is_another_frame() -> None:
    inputs, image = Inputs(), np.full((64, 96, 3), 90, np.uint8)
    kinds = [(parse("paper:16"), 0, "a"), (parse("paper:13"), 0, "a"), (parse("paper:16"), 1, "a")]
    found = [inputs.perturb(image, *kind) for kind in kinds]
    for one, kind in zip(found, kinds, strict=True):
        np.testing.assert_array_equal(one, perturb_image(image, *kind))


def test_box_geometry_is_fitted_once_for_the_same_data_and_seed() -> None:
    street, inputs = [drive(make_boards(8, 0), frames=6)], Inputs()
    examples, prior = inputs.geometry(street, 0)
    assert inputs.geometry(street, 0)[1] is prior
    assert inputs.geometry(street, 1)[1] is not prior
    np.testing.assert_array_equal(examples.features, geometry_examples(street, 0).features)


def test_labels_of_two_frames_are_kept_and_cannot_be_written() -> None:
    a, b, *_ = read_truth([drive(make_boards(6, 0), frames=4)]).frames
    label = label_candidates(a, b)
    assert label_candidates(a, b) is label
    with pytest.raises(ValueError, match="read-only"):
        label[0, 0] = 1
