"""The paper's runtime table: seconds to match a frame pair, every method at equal landmarks, taking turns.

Times do not depend on what weights were learned, so that methods that have to be trained run with random ones.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from robustmat.bench.inference import with_landmarks
from robustmat.bench.inference_contest import BenchReport, Contestant, Row, Section, Tell, hold, machine
from robustmat.bench.inference_plot import duration
from robustmat.checkpoints.load import load
from robustmat.config import merged, nearest
from robustmat.errors import ConfigError
from robustmat.export.frames import street_frames
from robustmat.files import write_text
from robustmat.matching.decision import UNDECIDED
from robustmat.matching.matcher import Matcher
from robustmat.matching.network import NetworkMatcher
from robustmat.methods import find_method, method_names
from robustmat.models.presets import LEARNED, preset
from robustmat.models.robustmat import RobustMat
from robustmat.training.config import load_training_config

OURS = "robustmat"
# RobustMat in the sizes and variants of the paper's table, by random weights.
VARIANTS: dict[str, tuple[str, str]] = {
    OURS: ("street", "ode"),
    "robustmat-gcn": ("street", "gcn"),
    "robustmat-paper": ("paper", "full"),
    "robustmat-paper-gcn": ("paper", "gcn"),
}
SHIPPED = "street"  # with all evidence that the checkpoint knows
PAPER_SECONDS = {  # on an RTX A5000, each pair of frames
    "solar": 0.0565,
    "delg": 0.0634,
    "cvnet": 0.0801,
    "robustmat-paper-gcn": 0.1253,
    "robustmat-paper": 0.1842,
}
PIXEL_FREE = ("box-geometry",)  # fitted on boxes, nothing to time here


@dataclass(frozen=True)
class RuntimeSettings:
    """Who takes part, and how often."""

    methods: tuple[str, ...] = ()  # all, unless given
    landmarks: int = 12
    rounds: int = 10
    scale: float = 1.0  # of the frames; 1 is 1242 x 375
    clock: str = "wall"
    seed: int = 0


def all_methods() -> tuple[str, ...]:
    """Everybody who can be timed, ours first."""
    others = [name for name in method_names() if name not in (OURS, *PIXEL_FREE)]
    return (*VARIANTS, SHIPPED, *others)


def bench_runtime(settings: RuntimeSettings, tell: Tell = lambda _: None) -> BenchReport:
    """Time all methods on two frames of a simulated street, warm, in turns."""
    names = tuple(dict.fromkeys((OURS, *(settings.methods or all_methods()))))
    for name in names:
        if name not in all_methods():
            raise ConfigError(f"unknown method '{name}' of the benchmark ({nearest(name, list(all_methods()))})")
    tell("rendering two frames")
    a, b = (with_landmarks(one, settings.landmarks) for one in street_frames(1, scale=settings.scale)[:2])
    contestants, left_out = [], []
    for name in names:
        try:
            matcher = make_matcher(name, settings.seed)
        except ConfigError as missing:  # packages or weights that only the user can bring
            if name in settings.methods:
                raise
            tell(f"left out: {missing}")
            left_out.append(name)
            continue
        contestants.append(Contestant(name, lambda one=matcher: one.match(a, b)))  # type: ignore[misc]
    contest = hold(contestants, settings.rounds, tell, clock=settings.clock)
    rows = tuple(replace(row, note=ratio_note(contest.ratio(row.name, OURS).median, row)) for row in contest.rows())
    title = f"{len(a.landmarks)} x {len(b.landmarks)} landmarks, frames in memory to matches"
    shown = {key: getattr(settings, key) for key in settings.__dataclass_fields__}
    shown |= {"methods": [one.name for one in contestants], "left_out": left_out}
    return BenchReport("runtime", shown, (Section(title, rows),))


def ratio_note(ratio: float, row: Row) -> str:
    return "" if row.name == OURS else f"{ratio:.3g} x {OURS}"


def make_matcher(name: str, seed: int) -> Matcher:
    """A matcher whose weights are random where they would have to be learned."""
    if name == SHIPPED:
        return load(SHIPPED, runtime="torch")
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        if name in VARIANTS:
            size, variant = VARIANTS[name]
            fixed = {"solver": {"name": "rk4", "steps": 1}}
            changes = merged(LEARNED, {"vertex": fixed, "graph": fixed, "joint": None})
            network = RobustMat(preset(size, variant, changes))
            return NetworkMatcher(name, network.eval(), UNDECIDED)
        method = find_method(name)
        if method.trainable is None:
            return load(name)
        return NetworkMatcher(name, method.make_network(load_training_config(name).model).eval(), UNDECIDED)


def write_runtime(path: Path | str, report: BenchReport, command: str) -> Path:
    """The table as a page, fastest first, with the paper's seconds beside ours."""
    path = Path(path)
    section, facts = report.sections[0], machine()
    ours = next(row for row in section.rows if row.name == OURS)
    lines = [
        ["method", "median", "10 % to 90 %", f"over {OURS}", "the paper's, on a GPU"],
        ["---", *["---:"] * 4],
        *(_cells(row, ours) for row in sorted(section.rows, key=lambda row: row.seconds.median)),
    ]
    clock = "processor time of all threads" if report.settings["clock"] == "processor" else "wall clock"
    missing = report.settings["left_out"]
    parts = [
        "# runtime: seconds to match a frame pair",
        "\n".join("| " + " | ".join(line) + " |" for line in lines),
        f"{section.title}; {report.settings['rounds']} rounds in turns after a warm-up, {clock}, torch threads: "
        f"{facts['torch_threads']}, {facts['processor']}. Each patch is embedded once. `{OURS}` is the small network "
        f"of the tables and `robustmat-paper` has the paper's sizes, both solved by one step of RK4; `{SHIPPED}` also "
        "looks at box positions and at keypoints of the whole frames. Weights are random where they would have to be "
        "learned, which does not change the time."
        + (f" Left out, since packages or weights are missing: {', '.join(missing)}." if missing else ""),
        "## Command",
        f"```sh\n{command}\n```",
    ]
    write_text(path, "\n\n".join(parts) + "\n")
    return path


def _cells(row: Row, ours: Row) -> Sequence[str]:
    spread = f"{duration(row.seconds.low)} to {duration(row.seconds.high)}"
    ratio = f"{row.seconds.median / ours.seconds.median:.2f}"
    theirs = f"{PAPER_SECONDS[row.name]:.4f} s" if row.name in PAPER_SECONDS else ""
    return [row.name, duration(row.seconds.median), spread, ratio, theirs]
