"""The documents as a site: built without a warning, whole, and from nowhere else."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command

import robustmat
from robustmat.cli import app
from robustmat.sources import SOURCES

ROOT = Path(__file__).parents[1]


def test_the_reference_has_every_public_name() -> None:
    text = (ROOT / "docs" / "reference" / "api.rst").read_text()
    listed = re.findall(r"^\.\. auto\w+:: robustmat\.(\w+)$", text, re.MULTILINE)
    assert sorted(listed) == sorted(robustmat.__all__)


def test_every_page_stands_in_the_sites_contents() -> None:
    listed = re.findall(r"^   ([\w/-]+)$", (ROOT / "docs" / "index.rst").read_text(), re.MULTILINE)
    pages = {path.relative_to(ROOT / "docs").with_suffix("").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert pages - set(listed) <= {"README"}


@pytest.mark.slow
def test_the_site_is_built_without_a_warning_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    for package in ("sphinx", "furo", "myst_parser"):
        pytest.importorskip(package, reason="needs the extra 'docs'")
    options = ["-q", "-W", "--keep-going", "-b", "html", "-c", "docs"]
    command = [sys.executable, "-m", "sphinx", *options, ".", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr  # -W: a broken link or an orphan page is an error
    pages = {path.relative_to(tmp_path).as_posix(): path.read_text() for path in tmp_path.rglob("*.html")}
    verbs = pages["docs/reference/cli.html"]
    for verb in (*get_command(app).commands, *(f"prepare {source}" for source in SOURCES)):
        assert f"robustmat {verb}" in verbs
    assert "_NestedSequence" not in pages["docs/reference/api.html"]
    for name in robustmat.__all__:
        assert f'id="robustmat.{name}"' in pages["docs/reference/api.html"]
    for name, text in pages.items():
        assert not re.findall(r'<(?:script|img|link)[^>]+(?:src|href)="https?:', text), name
