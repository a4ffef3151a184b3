"""Groups in which one verb need not be named: `detect a.jpg` means `detect images a.jpg`."""

from copy import copy
from typing import Any, ClassVar

from typer.core import TyperGroup


class DefaultVerb(TyperGroup):
    """Whatever is not the name of a verb is what the default verb is given; so are options before it."""

    default: ClassVar[str]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] != "--help" and args[0] not in self.list_commands(ctx):
            args = [self.default, *args]
        return super().parse_args(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """With the options of the default verb: nobody who leaves its name out would look for its own help."""
        shown = copy(self)
        shown.params = [*self.params]
        for option in self.commands[self.default].params:
            if option.param_type_name == "option":
                own = copy(option)
                own.rich_help_panel = f"Options of {self.default}, which need not be named"  # type: ignore[attr-defined]
                shown.params.append(own)
        super(DefaultVerb, shown).format_help(ctx, formatter)
