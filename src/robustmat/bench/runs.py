"""How runs are measured: each in a fresh process, so that its peak memory is its own.

A run goes over a number of frames and tells the seconds of each, divided into named parts. Several runs of
different lengths show whether time is linear and memory flat.
"""

import multiprocessing
import os
import platform
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

CLOCKS = {"wall": time.perf_counter, "processor": time.process_time}

Item = TypeVar("Item")
Value = TypeVar("Value")


@dataclass(frozen=True)
class Spread:
    """Median and the 10th and 90th percentile."""

    median: float
    low: float
    high: float

    @staticmethod
    def of(values: Sequence[float]) -> "Spread":
        low, median, high = np.percentile(np.asarray(values, dtype=float), (10, 50, 90))
        return Spread(float(median), float(low), float(high))


@dataclass(frozen=True)
class Run:
    """What one run took."""

    frames: int
    seconds: float  # from the start to the finished result
    processor_seconds: float  # the same in processor time, which a busy machine does not stretch
    peak_megabytes: float
    per_frame: dict[str, Spread]  # seconds a frame, by part


@dataclass(frozen=True)
class Report:
    """Runs of different lengths, and what they say together."""

    benchmark: str
    runs: tuple[Run, ...]
    settings: dict[str, Any]

    @property
    def seconds_a_frame(self) -> float | None:
        """What one more frame costs: the slope over the runs, by the clock that was asked for."""
        return _slope([run.frames for run in self.runs], self.seconds)

    @property
    def seconds(self) -> list[float]:
        """Of each run, by the clock that was asked for."""
        processor = self.settings.get("clock") == "processor"
        return [run.processor_seconds if processor else run.seconds for run in self.runs]

    @property
    def megabytes_a_frame(self) -> float | None:
        """How much more memory one more frame takes, from the two longest runs: 0 is flat."""
        longest = sorted(self.runs, key=lambda run: run.frames)[-2:]
        return _slope([run.frames for run in longest], [run.peak_megabytes for run in longest])

    def to_json(self) -> dict[str, Any]:
        return {
            "benchmark": self.benchmark,
            "settings": self.settings,
            "runs": [asdict(run) for run in self.runs],
            "seconds_a_frame": self.seconds_a_frame,
            "megabytes_a_frame": self.megabytes_a_frame,
            "machine": {
                "system": platform.system(),
                "processor": platform.machine(),
                "cores": os.cpu_count(),
                "python": platform.python_version(),
            },
        }


@dataclass
class Clock:
    """Counts the seconds of each frame in named parts, by the wall's clock or the processor's."""

    by: str = "wall"
    frame: int = 0
    parts: dict[str, dict[int, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._started = (time.perf_counter(), time.process_time())

    def now(self) -> float:
        return CLOCKS[self.by]()

    def run(self, frames: int, rest: str) -> Run:
        """All that was measured since this clock was made; what no part accounts for is called `rest`."""
        seconds, processor = time.perf_counter() - self._started[0], time.process_time() - self._started[1]
        return Run(frames, seconds, processor, peak_megabytes(), self.per_frame(rest))

    def add(self, part: str, seconds: float) -> None:
        of_frame = self.parts.setdefault(part, {})
        of_frame[self.frame] = of_frame.get(self.frame, 0.0) + seconds

    def timed(self, load: Callable[[], Value], part: str) -> Callable[[], Value]:
        """The same function, its seconds counted as `part` of the present frame."""

        def measured() -> Value:
            start = self.now()
            value = load()
            self.add(part, self.now() - start)
            return value

        return measured

    def walk(self, items: Iterable[Item], part: str = "all") -> Iterator[Item]:
        """Hand the items on; the seconds until the next one is asked for belong to its frame.

        A second walk over the same frames adds to what the first one took.
        """
        for number, item in enumerate(items):
            self.frame = number
            start = self.now()
            yield item
            self.add(part, self.now() - start)

    def per_frame(self, rest: str) -> dict[str, Spread]:
        """Seconds a frame, of all and of each part; what no part accounts for is called `rest`."""
        whole = self.parts["all"]
        inner = {name: values for name, values in self.parts.items() if name != "all"}
        rows = {name: [values.get(frame, 0.0) for frame in whole] for name, values in inner.items()}
        rows[rest] = [
            seconds - sum(values.get(frame, 0.0) for values in inner.values()) for frame, seconds in whole.items()
        ]
        return {"all": Spread.of(list(whole.values())), **{name: Spread.of(values) for name, values in rows.items()}}


def in_fresh_process(task: Callable[..., Value], *arguments: Any) -> Value:
    """The task's result, from a process that has done nothing else."""
    with ProcessPoolExecutor(max_workers=1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(task, *arguments).result()


def peak_megabytes() -> float:
    """The most memory that this process has held so far."""
    status = Path("/proc/self/status")
    if status.is_file():  # Linux; what getrusage says there includes the parent's memory
        line = next(one for one in status.read_text().splitlines() if one.startswith("VmHWM"))
        return int(line.split()[1]) / 1024
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1024**2 if sys.platform == "darwin" else peak / 1024


def _slope(x: Sequence[float], y: Sequence[float]) -> float | None:
    if len(set(x)) < 2:
        return None
    return float(np.polyfit(x, y, 1)[0])
