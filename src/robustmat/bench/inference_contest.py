"""Timing contestants against each other: in turns, in one process, so that a busy machine slows all of them alike."""

import os
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from robustmat.bench.runs import CLOCKS, Spread

REST = 0.02  # seconds before each run: threads of the one before spin for a while before they sleep

Tell = Callable[[str], None]  # is told what is being done


@dataclass(frozen=True)
class Contestant:
    """Something to time. One run stands for `scale` times its own work, where the whole would take too long."""

    name: str
    run: Callable[[], object]
    scale: float = 1.0
    note: str = ""


@dataclass(frozen=True)
class Row:
    """What a contestant took, scaled to the whole work."""

    name: str
    seconds: Spread
    scale: float = 1.0
    note: str = ""


@dataclass(frozen=True)
class Figure:
    """How a contestant compares with a peer in the same rounds, and what was hoped for."""

    what: str  # a sentence with {} for the value
    value: Spread
    goal: float | None = None

    def said(self, spread: bool = False) -> str:
        """The sentence with the median in it, and the spread where asked for."""
        value = self.value
        text = f"{value.median:.3g} ({value.low:.3g} to {value.high:.3g})" if spread else f"{value.median:.3g}"
        return self.what.format(text)

    @property
    def reached(self) -> bool | None:
        return None if self.goal is None else self.value.median >= self.goal


@dataclass(frozen=True)
class Section:
    """One question: its contestants, what their times say, and other facts found on the way."""

    title: str
    rows: tuple[Row, ...] = ()
    figures: tuple[Figure, ...] = ()
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class BenchReport:
    """All sections of a benchmark, and where it ran."""

    benchmark: str
    settings: dict[str, Any]
    sections: tuple[Section, ...]

    def to_json(self) -> dict[str, Any]:
        sections = [
            {
                **asdict(section),
                "figures": [{**asdict(figure), "reached": figure.reached} for figure in section.figures],
            }
            for section in self.sections
        ]
        return {"benchmark": self.benchmark, "settings": self.settings, "machine": machine(), "sections": sections}


@dataclass(frozen=True)
class Contest:
    """The seconds of every contestant in every round, scaled."""

    contestants: tuple[Contestant, ...]
    seconds: dict[str, tuple[float, ...]]

    def rows(self) -> tuple[Row, ...]:
        return tuple(
            Row(contestant.name, Spread.of(self.seconds[contestant.name]), contestant.scale, contestant.note)
            for contestant in self.contestants
        )

    def ratio(self, slow: str, fast: str) -> Spread:
        """How many times as long `slow` took as `fast`: of each round, so that both met the same load."""
        return Spread.of([a / b for a, b in zip(self.seconds[slow], self.seconds[fast], strict=True)])


def hold(
    contestants: Sequence[Contestant],
    rounds: int,
    tell: Tell = lambda _: None,
    *,
    clock: str = "wall",
    warm_up: bool = True,
) -> Contest:
    """Run all contestants `rounds` times, taking turns; who starts changes from round to round.

    Args:
        clock: `wall`, or `processor`, the time of all threads together, which a busy machine stretches less.
    """
    now = CLOCKS[clock]
    if warm_up:
        for contestant in contestants:
            tell(f"warming up: {contestant.name}")
            contestant.run()
    seconds: dict[str, list[float]] = {contestant.name: [] for contestant in contestants}
    for number in range(rounds):
        tell(f"round {number + 1} of {rounds}")
        turn = number % len(contestants)
        for one in (*contestants[turn:], *contestants[:turn]):
            time.sleep(REST)
            start = now()
            one.run()
            seconds[one.name].append((now() - start) * one.scale)
    return Contest(tuple(contestants), {name: tuple(values) for name, values in seconds.items()})


def machine() -> dict[str, Any]:
    """What the figures depend on, and how busy it was."""
    import torch

    return {
        "system": platform.system(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "torch_threads": torch.get_num_threads(),
        "load": [round(one, 1) for one in os.getloadavg()] if hasattr(os, "getloadavg") else None,
        "python": platform.python_version(),
        "torch": torch.__version__,
    }


def _processor() -> str:
    names = Path("/proc/cpuinfo")
    if names.is_file():
        for line in names.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()
