"""`robustmat odometry` takes a path or a layout's name, and refuses what cannot work in one line."""

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from robustmat.cli.odometry import app
from robustmat.errors import RobustMatError
from robustmat.sources import SOURCES
from robustmat.sources.images import write_image


@pytest.mark.parametrize("layout", sorted(SOURCES))
def test_every_layout_is_a_verb_with_the_options_of_odometry(layout: str) -> None:
    told = CliRunner().invoke(app, [layout, "--help"], env={"COLUMNS": "200", "TERM": "dumb"})
    assert told.exit_code == 0, told.output
    assert "--assist" in told.output
    assert "--scale" in told.output
    assert "--lidar" in told.output


def test_help_lists_the_layouts() -> None:
    told = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "200", "TERM": "dumb"})
    assert told.exit_code == 0, told.output
    assert "kitti-odometry" in told.output


def test_a_path_that_is_not_there_is_refused(tmp_path: Path) -> None:
    told = CliRunner().invoke(app, [str(tmp_path / "nowhere"), "--out", str(tmp_path / "out")])
    assert isinstance(told.exception, RobustMatError)
    assert "not found" in str(told.exception)


def test_assist_and_no_assist_together_are_refused(tmp_path: Path) -> None:
    (tmp_path / "0.png").write_bytes(b"")
    told = CliRunner().invoke(app, [str(tmp_path), "--assist", "guided", "--no-assist", "--out", str(tmp_path / "out")])
    assert isinstance(told.exception, RobustMatError)
    assert "not both" in str(told.exception)


def test_lidar_without_scans_is_refused(tmp_path: Path) -> None:
    for i in range(2):
        write_image(tmp_path / "frames" / f"{i}.png", np.zeros((40, 60, 3), np.uint8))
    told = CliRunner().invoke(app, [str(tmp_path / "frames"), "--lidar", "--out", str(tmp_path / "out")])
    assert isinstance(told.exception, RobustMatError)
    assert "scan for every frame" in str(told.exception)
