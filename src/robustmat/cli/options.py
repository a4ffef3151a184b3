"""Numbers that no option can mean: nan, infinity, and whole numbers that fit into nothing.

Ranges let nan pass, since it is neither below nor above anything. So every number of every command is looked at here,
and no verb has to remember.
"""

import math
from collections.abc import Callable, Iterable
from typing import Any

import typer

LARGEST = 2**63 - 1


def refuse_odd_numbers(command: Any) -> Any:
    """The same command, and those below it, which take no number that is none."""
    for parameter in command.params:
        parameter.callback = _checked(parameter.callback)
    for below in getattr(command, "commands", {}).values():
        refuse_odd_numbers(below)
    return command


def _checked(callback: Callable[..., Any] | None) -> Callable[..., Any]:
    def check(context: Any, parameter: Any, value: Any) -> Any:
        for number in _numbers(value):
            if isinstance(number, float) and not math.isfinite(number):
                raise typer.BadParameter(f"{number} is no number to work with.", ctx=context, param=parameter)
            if isinstance(number, int) and abs(number) > LARGEST:
                raise typer.BadParameter("the number is too large.", ctx=context, param=parameter)
        return callback(context, parameter, value) if callback else value

    return check


def _numbers(value: Any) -> Iterable[Any]:
    return value if isinstance(value, list | tuple) else (value,)
