"""Corrections of identities by hand, as the paper's authors made theirs.

    {"exclude": [3, 17],
     "merge": [[4, 9]],
     "split": [{"identity": 12, "frames": ["0000000040", "0000000041"]}]}

Numbers are those of the data set prepared without corrections. They are applied in the order split, merge,
exclude. Observations of a split that lie in `frames` become a new identity, numbered past the last one in
the order of the file; merged identities take the smallest number; excluded landmarks stay, without identity.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from robustmat.errors import InputError
from robustmat.files import read_json


class Split(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    identity: int
    frames: tuple[str, ...]


class Corrections(BaseModel):
    """What the file says."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    exclude: tuple[int, ...] = ()
    merge: tuple[Annotated[tuple[int, ...], Field(min_length=2)], ...] = ()
    split: tuple[Split, ...] = ()


def read_corrections(path: Path | str) -> Corrections:
    content = read_json(path, "corrections file", InputError)
    try:
        return Corrections.model_validate(content)
    except ValidationError as problem:
        first = problem.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise InputError(f"corrections file {path}: '{where}': {first['msg']}") from None


def correct(identities: Sequence[int | None], frame_names: Sequence[str], corrections: Corrections) -> list[int | None]:
    """Corrected identities of observations, given the name of each one's frame."""
    corrected = list(identities)
    known = {identity for identity in identities if identity is not None}

    def check(identity: int) -> int:
        if identity not in known:
            raise InputError(
                f"corrections name identity {identity}, but there are {len(known)} identities, "
                "numbered from 0: prepare without corrections and look at the contact sheets"
            )
        return identity

    for split in corrections.split:
        check(split.identity)
        apart = [
            i for i, identity in enumerate(corrected) if identity == split.identity and frame_names[i] in split.frames
        ]
        if not apart:
            raise InputError(f"corrections split identity {split.identity} in frames where it is not seen")
        new = max(known) + 1
        known.add(new)
        for i in apart:
            corrected[i] = new
    for group in corrections.merge:
        smallest = min(check(identity) for identity in group)
        corrected = [smallest if identity in group else identity for identity in corrected]
    excluded = {check(identity) for identity in corrections.exclude}
    return [None if identity in excluded else identity for identity in corrected]
