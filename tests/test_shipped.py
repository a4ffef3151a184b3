"""The checkpoints that come with the package."""

import pytest

import robustmat
from robustmat.cli.demo import TOWN
from robustmat.models.weights import load_checkpoint, shipped_checkpoints


@pytest.mark.parametrize("name", shipped_checkpoints())
def test_shipped_checkpoints_are_small_free_and_say_where_they_come_from(name: str) -> None:
    checkpoint = load_checkpoint(name)
    size = sum(path.stat().st_size for path in shipped_checkpoints()[name].iterdir())
    assert size < 20e6
    assert checkpoint.provenance.licence == "Apache-2.0"
    assert checkpoint.provenance.drives
    assert all(drive.startswith("street-") for drive in checkpoint.provenance.drives)
    assert f"street-{TOWN}" not in " ".join(checkpoint.provenance.drives)


def test_the_default_checkpoint_is_street() -> None:
    assert robustmat.load().name == "street"
