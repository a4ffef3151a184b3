"""The recipe of docs/maps.md, run as it stands there: a map at noon, a drive in winter, a picture of where it was."""

import json
import shlex
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from robustmat.cli import app
from robustmat.sources import open_kitti_odometry

DOCS = Path(__file__).parent.parent / "docs" / "maps.md"


def recipe() -> list[list[str]]:
    """The commands below the heading, without `robustmat`; a backslash continues a line."""
    section = DOCS.read_text().split("## Recipe")[1].split("\n## ")[0]
    code = "\n".join(line.strip() for line in section.splitlines() if line.startswith("    "))
    return [shlex.split(line)[1:] for line in code.replace("\\\n", " ").splitlines()]


@pytest.mark.slow
def test_the_recipe_ends_in_a_picture_of_where_the_drive_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("lancedb")
    monkeypatch.chdir(tmp_path)
    for words in recipe():
        expanded = [
            one
            for word in words
            for one in (sorted(str(path) for path in Path().glob(word)) if "*" in word else [word])
        ]
        done = CliRunner().invoke(app, expanded, catch_exceptions=False)
        assert done.exit_code == 0, done.output
    answers = json.loads(Path("where.json").read_text())
    truth = {f"{frame.name}.png": frame.T_world_camera for frame in open_kitti_odometry("winter", "00").frames}
    errors = [
        np.linalg.norm(np.array(one["T_world_camera"])[:3, 3] - truth[one["image"]][:3, 3])
        for one in answers
        if one["T_world_camera"] is not None
    ]
    assert len(errors) > len(answers) / 2
    assert np.median(errors) < 0.5
    assert "plotly" in Path("where.html").read_text()
