"""The directive `cli-reference`: every verb of the command line, from the program itself."""

import re
from collections.abc import Iterator
from typing import Any

from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.statemachine import StringList
from sphinx.application import Sphinx


def verbs(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Each command that does something, with the words that call it."""
    if not hasattr(command, "list_commands"):
        yield path, command
        return
    context = command.make_context(path, [], resilient_parsing=True)
    for name in command.list_commands(context):  # not `commands`: some verbs are made when they are asked for
        yield from verbs(command.get_command(context, name), f"{path} {name}")


def describe(path: str, command: Any) -> Iterator[str]:
    """One verb as reStructuredText."""
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    options = [one for one in command.params if one.param_type_name == "option" and "--help" not in one.opts]
    yield path
    yield "-" * len(path)
    yield ""
    yield from _paragraphs(command.help or "")
    yield ".. code-block:: text"
    yield ""
    yield "    " + " ".join([path, *(_argument(one) for one in arguments), "[OPTIONS]"])
    yield ""
    for one in [*arguments, *options]:
        names = ", ".join(f"``{name}``" for name in (*one.opts, *one.secondary_opts)) if one in options else ""
        yield names or f"``{_argument(one)}``"
        yield f"    {_tidy(getattr(one, 'help', None) or '')}{_default(one)}"
        yield ""


def _argument(one: Any) -> str:
    name = (one.metavar or one.name).upper()
    return name if one.required else f"[{name}]"


def _default(one: Any) -> str:
    value = one.default
    if one.required:
        return " Required." if one.param_type_name == "option" else ""
    if value in (None, False, "", [], ()) or callable(value) or not getattr(one, "show_default", True):
        return ""
    return f" Default: ``{value}``."


def _tidy(text: str) -> str:
    """Markdown's code marks as reStructuredText's."""
    plain = " ".join(text.split()).replace("*", r"\*")
    return re.sub(r"`([^`]+)`(?=(\w?))", lambda found: f"``{found[1]}``" + ("\\ " if found[2] else ""), plain) or "\\ "


def _paragraphs(text: str) -> Iterator[str]:
    for block in text.strip().split("\n\n"):
        lines = [line for line in block.splitlines() if line.strip("\b\f")]
        if lines and all(line.startswith("    ") for line in lines):
            yield ".. code-block:: bash"
            yield ""
            yield from lines
        else:
            yield _tidy(block)
        yield ""


class CliReference(Directive):
    def run(self) -> list[nodes.Node]:
        from typer.main import get_command

        from robustmat.cli import app

        lines = [line for path, command in verbs(get_command(app), "robustmat") for line in describe(path, command)]
        home = nodes.section()
        home.document = self.state.document
        self.state.nested_parse(StringList(lines, "robustmat --help"), 0, home, match_titles=True)
        return home.children


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("cli-reference", CliReference)
    return {"parallel_read_safe": True}
