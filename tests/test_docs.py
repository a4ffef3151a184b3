"""The documents keep their word: links lead somewhere, named files exist, and the code in them runs."""

import re
import sys
from importlib import util
from pathlib import Path
from types import ModuleType

import cv2
import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from robustmat import methods, sources
from robustmat.cli.prepare import app as prepare
from robustmat.dataset.store import open_dataset
from robustmat.tables.definitions import TABLES
from robustmat.training.config import load_training_config

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "robustmat"
PAGES = [path for folder in (".", "docs", "docs/recipes", "results") for path in sorted((ROOT / folder).glob("*.md"))]
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")


def links(page: Path) -> list[tuple[Path, str]]:
    """Where a page leads to inside the repository: the file, and the heading in it."""
    found = []
    for target in LINK.findall(page.read_text()):
        if not re.match(r"[a-z]+:", target):
            path, _, heading = target.partition("#")
            found.append(((page.parent / path).resolve() if path else page, heading))
    return found


def anchors(page: Path) -> set[str]:
    """The headings of a page as links name them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target, heading in links(page):
        assert target.exists(), f"{page.name} links to {target}"
        if heading and target.suffix == ".md":
            assert heading in anchors(target), f"{page.name} links to {target.name}#{heading}"


def test_every_page_can_be_reached() -> None:
    reached = {target for page in PAGES for target, _ in links(page) if target != page.resolve()}
    for folder in ("docs", "docs/recipes", "results"):
        assert not [page.name for page in sorted((ROOT / folder).glob("*.md")) if page.resolve() not in reached]


@pytest.mark.parametrize("page", sorted((ROOT / "docs").glob("*.md")), ids=lambda path: path.name)
def test_files_that_documents_name_exist(page: Path) -> None:
    for name in re.findall(r"`((?:[\w-]+/)+[\w-]+\.(?:py|toml|md))`", page.read_text()):
        homes = (ROOT, SOURCE, ROOT / "docs")
        assert any((home / name).is_file() for home in homes), f"{page.name} names {name}"


def test_the_architecture_shows_every_package() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text()
    drawing = text.split("```")[1]
    packages = [path.parent.name for path in SOURCE.glob("*/__init__.py")]
    assert not [name for name in packages if f"| `{name}/` |" not in text]
    assert not [name for name in packages if not re.search(rf"^(\w+ +)*?{name}\b", drawing, re.MULTILINE)]


def test_every_table_is_explained() -> None:
    text = (ROOT / "docs" / "reproduce.md").read_text()
    assert not [name for name in TABLES if f"`{name}`" not in text]


PRIVATE = ("twin", "partnerless", "said to have no partner", "matched rightly", "nothing learned", "by no steps at all")


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_pages_speak_plainly(page: Path) -> None:
    text = page.read_text().lower()
    assert not [word for word in PRIVATE if word in text]


# The examples of docs/extending.md, each run as the page says.

EXAMPLES = dict(re.findall(r"```python\n# (\S+)\n(.*?)```", (ROOT / "docs" / "extending.md").read_text(), re.DOTALL))


def module(path: str, name: str, folder: Path) -> ModuleType:
    """The example as the module that it would be."""
    file = folder / Path(path).name
    file.write_text(EXAMPLES[path])
    spec = util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    made = util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def test_the_method_of_the_guide_takes_one_file_and_passes_its_test(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "mean_color.py"
    file.write_text(EXAMPLES["src/robustmat/methods/mean_color.py"])
    monkeypatch.setattr(methods, "__path__", [*methods.__path__, str(tmp_path)])
    monkeypatch.delitem(sys.modules, "robustmat.methods.mean_color", raising=False)
    assert "mean-color" in methods.method_names()
    test = module("tests/test_mean_color.py", "guide_test", tmp_path)
    test.test_landmarks_of_one_color_match()
    sys.modules.pop("robustmat.methods.mean_color", None)


def test_the_source_of_the_guide_takes_one_file_and_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = module("src/robustmat/sources/snapshots.py", "guide_snapshots", tmp_path)
    monkeypatch.setitem(sources.SOURCES, "snapshots", made.open_snapshots)
    folder = tmp_path / "shots"
    folder.mkdir()
    for name in "ab":
        cv2.imwrite(str(folder / f"{name}.jpg"), np.full((60, 80, 3), 128, np.uint8))
        (folder / f"{name}.json").write_text('{"landmarks": [{"box": [5, 5, 30, 40], "category": "window"}]}')
    command = ["snapshots", str(folder), "--limit", "1", "--out", str(tmp_path / "data")]
    assert CliRunner().invoke(prepare, command, catch_exceptions=False).exit_code == 0
    assert len(open_dataset(tmp_path / "data").frames) == 1

    verb = module("src/robustmat/cli/count.py", "guide_count", tmp_path)
    app = typer.Typer()
    app.command()(verb.count)
    assert CliRunner().invoke(app, [str(tmp_path / "data")]).output == "1 landmarks\n"


def test_the_training_configuration_of_the_guide_is_accepted(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "extending.md").read_text()
    found = re.search(r"```toml\n(.*?)```", text, re.DOTALL)
    assert found is not None
    (tmp_path / "mine.toml").write_text(found[1])
    config = load_training_config(tmp_path / "mine.toml")
    assert (config.method, config.steps) == ("robustmat", 2000)
