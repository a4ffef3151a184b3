"""The wheel as a stranger meets it: built, installed without torch in a fresh environment, and used there."""

import json
import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def run(*command: str | Path, cwd: Path | None = None) -> str:
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, cwd=cwd, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_wheel_matches_two_frames_where_there_is_no_torch(tmp_path: Path) -> None:
    run(sys.executable, "-m", "build", "--wheel", "--outdir", tmp_path / "dist", ROOT)
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    assert wheel.stat().st_size < 40e6
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv" / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", "--constraint", ROOT / "constraints.txt", wheel)
    installed = run(python, "-m", "pip", "list", "--format", "freeze").lower()
    assert "torch" not in installed
    assert "onnxruntime" in installed
    robustmat = tmp_path / "venv" / "bin" / "robustmat"
    run(robustmat, "demo", "--out", "demo", cwd=tmp_path)
    found = json.loads((tmp_path / "demo" / "matches.json").read_text())
    assert len(found["matches"]) >= 5
    assert (tmp_path / "demo" / "report.html").stat().st_size > 100_000
