"""What can go wrong, by who can mend it.

`RobustMatError` and its children are the user's to mend (command-line exit code 2); anything else that is
raised is a defect of this package (exit code 1). A message says what is wrong, what was found, where, and
what to do.
"""


class RobustMatError(Exception):
    """Something the user can mend: the message says what and how."""


class InputError(RobustMatError):
    """An image, a box file, a mask or an argument that cannot be used."""


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
