"""The recipes and the notebook do what they say: every command and every line of Python in them is run."""

import itertools
import re
import shlex
import shutil
from pathlib import Path

import cv2
import pytest
from typer.testing import CliRunner

from robustmat.cli import app
from robustmat.sources.images import read_image
from rosbag_for_tests import START, Messages
from web_for_tests import SAMPLES

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
RECIPES = [DOCS / "tour.md", *sorted(path for path in (DOCS / "recipes").glob("*.md") if path.name != "README.md")]
QUICK = ("boxes",)
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ELSEWHERE = ("pip", "git", "make", ".", "cp")
WRITES = ("--json", "--picture", "--out", "--video", "--pictures")
NEEDS = {"rosbag": ("rosbags",), "map": ("lancedb", "plotly"), "fine-tuning": ("torch", "lightning"), "gpu": ("torch",)}


def lay_out(folder: Path, text: str) -> None:
    """What a recipe says that the reader has."""
    for side in "ab":
        for suffix in ("jpg", "json"):
            shutil.copy(SAMPLES / f"evening-{side}.{suffix}", folder / f"{side}.{suffix}")
    photographs = sorted(SAMPLES.glob("*.jpg"))[:4]
    (folder / "photos").mkdir()
    for path in photographs:
        shutil.copy(path, folder / "photos")
    if "drive.mp4" in text:
        pictures = [cv2.imread(str(path)) for path in photographs]
        height, width = pictures[0].shape[:2]
        video = cv2.VideoWriter(str(folder / "drive.mp4"), cv2.VideoWriter.fourcc(*"mp4v"), 5, (width, height))
        for picture in pictures:
            video.write(picture)
        video.release()
    if "drive.bag" in text:
        make = Messages("ros1")
        messages = [make.image(read_image(path), START + k * 10**9) for k, path in enumerate(photographs)]
        make.write(folder, [("/front/image_raw", one, START + k * 10**9) for k, one in enumerate(messages)])


def commands(block: str) -> list[list[str]]:
    """The words of each command; what installs, copies or serves for ever is left out."""
    lines = [shlex.split(line, comments=True) for line in block.replace("\\\n", " ").splitlines()]
    return [words for words in lines if words and words[0] not in ELSEWHERE and words != ["robustmat", "serve"]]


@pytest.mark.parametrize(
    "recipe",
    [pytest.param(path, id=path.stem, marks=[] if path.stem in QUICK else [pytest.mark.slow]) for path in RECIPES],
)
def test_a_recipe_works_from_top_to_bottom(recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in NEEDS.get(recipe.stem, ()):
        pytest.importorskip(package)
    text = recipe.read_text()
    lay_out(tmp_path, text)
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "recipe"}
    ran = 0
    for language, block in BLOCK.findall(text):
        if language == "python":
            exec(compile(block, recipe.name, "exec"), names)
            ran += 1
        for words in commands(block) if language == "bash" else []:
            assert words[0] == "robustmat", f"{recipe.name} asks for {words[0]}"
            done = CliRunner().invoke(app, words[1:])
            assert done.exit_code == 0, f"{shlex.join(words)}: {done.output} {done.exception}"
            made = [Path(value) for option, value in itertools.pairwise(words) if option in WRITES]
            assert not [path for path in made if not path.exists()]
            ran += 1
    assert ran


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.ipynb")), ids=lambda path: path.stem)
def test_a_notebook_runs_and_is_stored_with_its_outputs(path: Path, tmp_path: Path) -> None:
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient", reason="needs the extra 'docs'")
    pytest.importorskip("ipykernel")
    notebook = nbformat.read(path, as_version=4)
    stored = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in stored] == list(range(1, len(stored) + 1))
    assert any("image/jpeg" in output.get("data", {}) for cell in stored for output in cell.outputs)
    assert path.stat().st_size < 1_000_000
    nbclient.NotebookClient(notebook, timeout=600, resources={"metadata": {"path": tmp_path}}).execute()
