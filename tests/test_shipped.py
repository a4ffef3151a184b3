"""The checkpoints that come with the package."""

import pytest

import robustmat
from robustmat.checkpoints.store import load_checkpoint, read_scores, shipped_checkpoints
from robustmat.cli.demo import TOWN
from robustmat.training.config import load_training_config


@pytest.mark.filterwarnings("ignore::robustmat.errors.TermsWarning")
@pytest.mark.parametrize("name", shipped_checkpoints())
def test_shipped_checkpoints_are_small_and_say_where_they_come_from(name: str) -> None:
    checkpoint, folder = load_checkpoint(name), shipped_checkpoints()[name]
    assert sum(path.stat().st_size for path in folder.iterdir()) < 20e6
    provenance = checkpoint.provenance
    assert provenance.drives
    assert f"street-{TOWN}" not in " ".join(provenance.drives)
    simulated = all(drive.startswith("street-") for drive in provenance.drives)
    assert (provenance.licence == "Apache-2.0") == simulated
    assert bool(provenance.terms) != simulated  # weights from real drives say what their makers ask
    assert provenance.licence in (folder / "card.md").read_text()
    assert all(0.5 < it <= 1 for it in read_scores(folder).values())


def test_the_default_checkpoint_is_street() -> None:
    assert robustmat.load().name == "street"


def test_fine_tuning_goes_on_with_the_model_that_is_shipped() -> None:
    assert load_training_config("street-real").model == load_checkpoint("street").network.config
