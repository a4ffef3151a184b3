"""What can go wrong, by who can mend it.

`RobustMatError` and its children are the user's to mend (command-line exit code 2); anything else that is
raised is a defect of this package (exit code 1). A message says what is wrong, what was found, where, and
what to do.

A message may quote a file that somebody else wrote, so it is made fit for a terminal here, once for all of them:
`visible` leaves no control characters in it, and `brief` quotes a value in a few words.
"""

import reprlib
from typing import Any

LONGEST_MESSAGE = 2000  # characters
LONGEST_QUOTE = 80

_brief = reprlib.Repr()
_brief.maxstring = _brief.maxother = LONGEST_QUOTE
_brief.maxlevel = 3


def brief(value: Any) -> str:
    """A value in a few words, however large or deeply nested it is."""
    try:
        text = _brief.repr(value)
    except (ValueError, RecursionError):  # a whole number of thousands of digits, lists in lists in lists
        text = f"a {type(value).__name__}"
    return text if len(text) <= LONGEST_QUOTE else text[: LONGEST_QUOTE - 3] + "..."


def visible(text: str, longest: int = LONGEST_MESSAGE) -> str:
    """One line without control characters; of a long text the beginning and the end, where the advice stands."""
    if len(text) > longest:
        left_out = len(text) - longest
        text = f"{text[: longest - longest // 4]} ... ({left_out} characters left out) ... {text[-(longest // 4) :]}"
    return "".join(
        letter if letter.isprintable() else " " if letter == "\n" else letter.encode("unicode_escape").decode()
        for letter in text
    )


class RobustMatError(Exception):
    """Something the user can mend: the message says what and how."""

    def __str__(self) -> str:
        return visible(super().__str__())


class InputError(RobustMatError):
    """An image, a box file, a mask or an argument that cannot be used."""


class OutputError(InputError):
    """A file or folder that cannot be written: a full disk, a read-only folder, a name that cannot be."""


class ConfigError(RobustMatError):
    """A configuration key or value that does not exist or cannot work."""


class DataError(RobustMatError):
    """A drive or a data set on disk that is missing, broken or of the wrong kind."""


class WeightsError(RobustMatError):
    """A checkpoint that is missing, broken or does not fit its configuration."""


class SolverError(RobustMatError):
    """A differential equation that could not be solved within its evaluation budget."""


class TermsWarning(UserWarning):
    """Weights that not everyone may use for everything."""


class InputWarning(UserWarning):
    """Input that can be used, but that is probably not what the user meant."""
