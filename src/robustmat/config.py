"""The base of every configuration: frozen, typed, validated, with errors that name the key.

Configurations live beside what they configure; `read_toml` and `parse` turn files and plain dicts into them.
"""

import difflib
from pathlib import Path
from typing import Annotated, Any, Self, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from robustmat.errors import ConfigError, brief
from robustmat.files import parse_toml, read_text

# A configuration may come from anyone's file and is read before the weights it belongs to, so no size in it may be such
# that memory or patience end.
Size = Annotated[int, Field(gt=0, le=16384)]  # channels, numbers of an embedding
Duration = Annotated[float, Field(ge=0, le=100)]  # of a flow, in its own units of time
MOST = 1e15  # no other number of a configuration is beyond


class Config(BaseModel):
    """A frozen configuration that refuses keys it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=False, allow_inf_nan=False)

    @model_validator(mode="after")
    def _bounded(self) -> Self:
        for name in type(self).model_fields:
            value = getattr(self, name)
            if isinstance(value, int | float) and abs(value) > MOST:
                raise ValueError(f"{name} is beyond {MOST:g}")
        return self


ConfigType = TypeVar("ConfigType", bound=Config)
MOST_ERRORS = 8  # that one message tells


def parse(kind: type[ConfigType], values: dict[str, Any], where: str) -> ConfigType:
    """Validate plain `values` as `kind`; `where` (a file, usually) is named in every error."""
    try:
        return kind.model_validate(values)
    except ValidationError as problem:
        errors = problem.errors()
        lines = [_explain(kind, error) for error in errors[:MOST_ERRORS]]
        more = f"; and {len(errors) - MOST_ERRORS} more" if len(errors) > MOST_ERRORS else ""
        raise ConfigError(f"{where}: {'; '.join(lines)}{more}") from None


def read_toml(path: Path | str, what: str = "configuration") -> dict[str, Any]:
    return parse_toml(read_text(path, what, ConfigError), f"{what} is not valid TOML: {path}", ConfigError)


def merged(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """`base` with `changes` laid over it, table by table."""
    result = dict(base)
    for key, value in changes.items():
        below = result.get(key)
        result[key] = merged(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return result


def nearest(word: str, known: list[str]) -> str:
    """A hint for a misspelt name: the nearest known one, else all of them."""
    close = difflib.get_close_matches(word, known, n=1)
    return f"did you mean '{close[0]}'?" if close else f"known are {', '.join(known)}"


def _explain(kind: type[Config], error: Any) -> str:
    path = [str(part)[:80] for part in error["loc"]]
    name = ".".join(path)
    if error["type"] == "extra_forbidden":
        known = sorted(_section(kind, path[:-1]).model_fields)
        return f"unknown key '{name}' ({nearest(path[-1], known)})"
    message = str(error["msg"]).removeprefix("Value error, ")
    if not name or error["type"] == "missing" or isinstance(error["input"], dict):
        return f"'{name}': {message}" if name else message  # the input would be the whole section
    return f"'{name}' = {brief(error['input'])}: {message}"


def _section(kind: type[Config], path: list[str]) -> type[Config]:
    """The configuration class that the keys of `path` lead to."""
    for part in path:
        field = kind.model_fields.get(part)
        options = [] if field is None else [field.annotation, *get_args(field.annotation)]
        inner = [option for option in options if isinstance(option, type) and issubclass(option, Config)]
        if not inner:
            break
        kind = inner[0]
    return kind
