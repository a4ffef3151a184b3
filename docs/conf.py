"""The documents as a site: `make docs` writes build/site/index.html. Nothing is fetched from elsewhere."""

import re
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "_extensions"), str(HERE.parent / "src")]

import robustmat  # noqa: E402

project = "robustmat"
author = "The robustmat developers"
release = version = robustmat.__version__

# The sources are the pages as they are, read from the root of the repository, so that their links work in both places.
root_doc = "docs/index"
include_patterns = [
    "docs/*.md",
    "docs/*.rst",
    "docs/recipes/*.md",
    "docs/reference/*.rst",
    "results/*.md",
    "results/*/*.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
]
exclude_patterns = [".venv", "build", "src", "tests", "node_modules"]
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "cli_reference"]
default_role = "code"  # docstrings mark code with single backticks
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]
suppress_warnings = ["myst.header"]  # tables of results begin at the second level

napoleon_use_ivar = True
autodoc_typehints = "signature"
python_maximum_signature_line_length = 88
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "undoc-members": False, "exclude-members": "model_config, model_post_init"}
# pydantic's own members would bury ours
autodoc_inherit_docstrings = False

html_theme = "furo"
html_title = f"robustmat {release}"
html_favicon = "../src/robustmat/web/static/icon.svg"
html_theme_options = {"source_repository": "", "footer_icons": []}
html_copy_source = False
html_show_sourcelink = False


EXPANDED = re.compile(r"[~\w.]*_Buffer \| .*?_NestedSequence\[complex \| bytes \| str\]")


def name_array_like(*event: Any) -> tuple[str | None, str | None]:
    """Numpy's ArrayLike by its name, instead of the four lines that it stands for."""
    signature, returned = event[-2:]
    return EXPANDED.sub("ArrayLike", signature) if signature else signature, returned


def setup(app: Any) -> None:
    app.connect("autodoc-process-signature", name_array_like)
