"""An export runs in an environment of its own, into which torch was never installed."""

import subprocess
import sys
import venv
from pathlib import Path

import pytest

from robustmat.checkpoints.load import network_matcher
from robustmat.checkpoints.store import load_checkpoint
from robustmat.export.frames import street_frames
from robustmat.export.write import export_onnx
from test_export import check_lines

ROOT = Path(__file__).parent.parent


def ran(*command: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(it) for it in command], capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_the_example_runs_where_only_numpy_and_onnxruntime_are_installed(tmp_path: Path) -> None:
    home = tmp_path / "alone"
    venv.create(home, with_pip=True)
    python = home / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    done = ran(
        python, "-m", "pip", "install", "--quiet", "--constraint", ROOT / "constraints.txt", "numpy", "onnxruntime"
    )
    if done.returncode:
        pytest.skip(f"nothing can be installed here: {done.stderr[-200:]}")
    for name in ("torch", "robustmat", "cv2"):
        assert "ModuleNotFoundError" in ran(python, "-I", "-c", f"import {name}").stderr
    frames = street_frames(1)
    checkpoint = load_checkpoint("street")
    assert export_onnx(checkpoint, tmp_path / "street", frames).passed
    shown = ran(python, "-I", ROOT / "examples" / "onnx_numpy.py", tmp_path / "street")
    expected = network_matcher(checkpoint, "placement").match(frames[0], frames[-1])
    assert shown.returncode == 0, shown.stderr
    check_lines(shown.stdout.splitlines(), expected)
