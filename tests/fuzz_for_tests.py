"""A mutation fuzzer over real small files: whatever bytes they hold, reading them ends well or in an error of ours.

Each target writes valid files once and reads them. A case changes one file, reads, and puts the file back. `make fuzz`
runs 100,000 cases and writes a report; `tests/test_fuzz.py` runs a few hundred.

    python tests/fuzz_for_tests.py --cases 100000 --minutes 60 --report build/fuzz.md
"""

import argparse
import random
import shutil
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from robustmat.errors import RobustMatError
from robustmat.files import write_text

SLOW = 5.0  # seconds of processor time; a case that takes longer is a finding
TOKENS = [
    *(
        b"nan",
        b"NaN",
        b"inf",
        b"-Infinity",
        b"1e308",
        b"-1e308",
        b"1e400",
        b"0",
        b"-1",
        b"1e-320",
        b"9" * 30,
        b"9" * 5000,
    ),
    *(b"null", b"true", b"[]", b"{}", b"[[", b'""', b'"\\u0000"', b'"\\ud800"', b"\x00", b"\xff\xfe", b"\r", b"\n\n"),
    *(b"../../../etc/passwd", b"a" * 70_000, b"[" * 2000, b"{" * 2000, b"\x1b[31m", b"[/bold]", b",", b" ", b":", b"-"),
]


@dataclass(frozen=True)
class Target:
    """Something that is read from files: how to write valid ones, and how to read them."""

    write: Callable[[Path], object]
    read: Callable[[Path], object]


@dataclass
class Report:
    """What happened, by target; `findings` are cases that ended neither well nor in an error of ours."""

    cases: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    slowest: dict[str, float] = field(default_factory=dict)
    findings: list[str] = field(default_factory=list)

    def page(self, seconds: float, seed: int) -> str:
        lines = ["| read | cases | refused | slowest, s |", "|---|---|---|---|"]
        lines += [
            f"| {name} | {self.cases[name]:,} | {self.refused[name]:,} | {self.slowest[name]:.2f} |"
            for name in sorted(self.cases)
        ]
        total = f"{sum(self.cases.values()):,} cases, seed {seed}, {seconds / 60:.0f} minutes: "
        found = f"{len(self.findings)} ended in an error that is not ours, or took more than {SLOW:g} s."
        return "\n".join([total + found, "", *lines, *(f"\n```\n{one}\n```" for one in self.findings[:200])]) + "\n"


def mutate(content: bytes, rng: random.Random) -> bytes:
    """The content with one to three changes: bits, cuts, copies, and tokens that readers stumble over."""
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        kind, place = rng.randrange(8), rng.randrange(len(content) + 1)
        length = rng.choice((1, 1, 2, 4, 16, 300))
        if kind == 0:
            content = content[:place]
        elif kind == 1 and content:
            place = min(place, len(content) - 1)
            content = content[:place] + bytes([content[place] ^ 1 << rng.randrange(8)]) + content[place + 1 :]
        elif kind == 2:
            content = content[:place] + rng.randbytes(length) + content[place + length :]
        elif kind == 3:
            content = content[:place] + content[place + length :]
        elif kind == 4:
            content = content[:place] + content[max(0, place - length) : place] * 3 + content[place:]
        elif kind == 5:
            content = _replace_number(content, rng)
        else:
            content = content[:place] + rng.choice(TOKENS) + content[place + rng.choice((0, length)) :]
    return content


def _replace_number(content: bytes, rng: random.Random) -> bytes:
    """One of the first numbers or words of a text by a token."""
    head = content[:20_000]
    starts = [n for n in range(1, len(head)) if head[n : n + 1].isalnum() and not head[n - 1 : n].isalnum()]
    if not starts:
        return content
    start = end = rng.choice(starts)
    while end < len(content) and content[end : end + 1] not in b' ,:]}\n"\t':
        end += 1
    return content[:start] + rng.choice(TOKENS) + content[end:]


class Fuzzer:
    """Targets whose files are on disk, ready to be changed one at a time."""

    def __init__(self, targets: dict[str, Target], folder: Path, seed: int) -> None:
        self.targets, self.folder, self.seed, self.report = targets, folder, seed, Report()
        self.files: dict[str, list[Path]] = {}
        for name, target in targets.items():
            place = folder / name
            place.mkdir(parents=True, exist_ok=True)
            target.write(place)
            self.files[name] = sorted(path for path in place.rglob("*") if path.is_file())
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                target.read(place)  # before any change it must be readable

    def case(self, name: str, number: int) -> None:
        """One change of one file of a target; the same number is the same change."""
        rng = random.Random(f"{self.seed}-{name}-{number}")
        path = rng.choice(self.files[name])
        original = path.read_bytes()
        what = "removed"
        try:
            if rng.randrange(40) == 0:
                path.unlink()
            else:
                changed = rng.choice(self.files[name]).read_bytes() if rng.randrange(40) == 0 else mutate(original, rng)
                what = f"{len(original)} -> {len(changed)} bytes"
                path.write_bytes(changed)
            self._read(name, f"{name}, case {number}, {path.relative_to(self.folder / name)}: {what}")
        finally:
            path.write_bytes(original)

    def _read(self, name: str, what: str) -> None:
        began = time.process_time()
        self.report.cases[name] += 1
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self.targets[name].read(self.folder / name)
        except RobustMatError as problem:
            self.report.refused[name] += 1
            if len(str(problem)) > 2200 or not str(problem).isprintable():
                self.report.findings.append(f"{what}: a message of {len(str(problem))} characters")
        except (Exception, RecursionError):
            self.report.findings.append(f"{what}\n{traceback.format_exc(limit=-6)}")
        took = time.process_time() - began
        self.report.slowest[name] = max(took, self.report.slowest.get(name, 0.0))
        if took > SLOW:
            self.report.findings.append(f"{what}: {took:.1f} s")


def main() -> int:
    from fuzz_targets_for_tests import TARGETS

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=100_000)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="*", help="names of targets")
    parser.add_argument("--report", type=Path)
    given = parser.parse_args()
    targets = {name: TARGETS[name] for name in given.only or TARGETS}
    folder = Path(tempfile.mkdtemp(prefix="robustmat-fuzz-"))
    try:
        fuzzer, began = Fuzzer(targets, folder, given.seed), time.monotonic()
        for number in range(given.cases):
            if time.monotonic() - began > 60 * given.minutes:
                break
            fuzzer.case(list(targets)[number % len(targets)], number)
        page = fuzzer.report.page(time.monotonic() - began, given.seed)
    finally:
        shutil.rmtree(folder)
    print(page)
    if given.report:
        write_text(given.report, page)
    return 1 if fuzzer.report.findings else 0


if __name__ == "__main__":
    sys.exit(main())
