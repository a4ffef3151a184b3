"""The tables that `robustmat reproduce` makes: which rows, under which conditions."""

from dataclasses import dataclass, field, replace
from typing import Any

from robustmat.checkpoints.store import WEIGHTS, checkpoint_name, find_checkpoint, fingerprint_of, read_header
from robustmat.config import merged, nearest
from robustmat.errors import ConfigError
from robustmat.methods import find_method, method_names, rivals, split_name
from robustmat.models.presets import LEARNED
from robustmat.perturb import parse

PAIR = "pair"
RIVALS = rivals()
CONTEXT = "-context"  # a method that is shown what `street` is shown: the crop and its surroundings
WIDER = {"model": {"patch": {"context": 3.0}}}
ONE_STEP = {"solver": {"name": "rk4", "steps": 1}}
NO_STEP = {"steps": 0, "views": 1}  # nothing is learned: one view of each frame is enough to start from
UNTRAINED = {"warm_start": True, **NO_STEP}
PAPERS = {"variant": "ode", "model": LEARNED}
# The paper's sizes by the recipe of the small rows; dopri5 would take several times as long as one step of rk4.
PAPER_SIZE = {
    "preset": "paper",
    "model": {"vertex": ONE_STEP, "graph": ONE_STEP},
    "learns_from_towns": True,
    "frame_pairs_per_step": 1,
    "views": 4,
}
# Trainings that are more than a method's name: their configuration, changes to it, and the checkpoint they start from.
NAMED: dict[str, dict[str, Any]] = {
    "robustmat": {"config": "street", "changes": PAPERS},
    # What training starts from: principal components and a distance, no step taken.
    "robustmat-untrained": {"config": "street", "changes": {**PAPERS, **UNTRAINED}},
    "robustmat-gcn": {"config": "street", "changes": {"model": LEARNED, "variant": "gcn"}},
    "robustmat-plain": {"config": "street", "changes": merged(PAPERS, {"model": {"vertex": {"field": "plain"}}})},
    # An hour of a core, whatever the budget: in half a minute it would take four steps.
    "robustmat-paper": {"config": "street", "changes": {**PAPER_SIZE, "steps": 300, "validate_every": 300}},
    "robustmat-paper-untrained": {"config": "street", "changes": {**PAPER_SIZE, **UNTRAINED}},
    "robustmat-handcrafted": {"config": "street"},  # beside hand-crafted descriptors, as `street` has them
    "street": {"config": "street-real", "start": "street"},  # the shipped checkpoint, fine-tuned
    "street-shipped": {"config": "street-real", "start": "street", "changes": NO_STEP},  # trained elsewhere
}
NOISE = ("clean", "paper:19", "paper:16", "paper:13")
DENOISED = "+denoising"  # the same row, shown denoised frames
SEPARATE = {**LEARNED, "joint": None}  # ablations are about the paper's own score: pairs, by what is learned


@dataclass(frozen=True)
class Training:
    """Something to be trained once per side and seed; rows that differ only in what goes on top share it.

    `config` names a training configuration; `changes` are laid over it; `start` names a checkpoint to begin with.
    """

    key: str
    config: str
    changes: dict[str, Any] = field(default_factory=dict)
    start: str | None = None

    @property
    def needed(self) -> bool:
        """A method that needs no training (SIFT) only has its threshold fitted on the side's validation data."""
        return find_method(self.config).trainable is not None if self.config in method_names() else True


@dataclass(frozen=True)
class Row:
    """A line of a table: a training, and the kind of evidence that its scores know."""

    label: str
    training: Training
    evidence: str = PAIR
    denoised: bool = False

    @property
    def key(self) -> str:
        """Rows of one key are predicted together, into one file."""
        return self.training.key + DENOISED * self.denoised


@dataclass(frozen=True)
class Table:
    """`each_test` keeps the test sets apart, one after the other, instead of judging them together."""

    title: str
    rows: tuple[Row, ...]
    conditions: tuple[str, ...] = ("paper:16",)
    each_test: bool = False
    each_side: bool = False  # every data set in turn is the training side, all others are tests
    references: bool = True


def make_row(name: str, config: str = "street") -> Row:
    """A row by its name: `hardnet`, `hardnet+neighbors`, `robustmat` (the paper's score), `robustmat-gcn+frames`,
    `robustmat-plain` (the paper's field), `street` (fine-tuned), `street+placement`, `street-shipped`; `-context` shows
    a method the surroundings of a crop, too, `+denoising` behind any of them denoised frames. `runs/mine+frames`, with
    a slash, is the folder of a checkpoint."""
    if name.endswith(DENOISED):
        return with_denoising(make_row(name.removesuffix(DENOISED), config))
    head, plus, evidence = name.partition("+")
    if "/" in head:
        return _row_of_checkpoint(head, plus + evidence)
    base = head.removesuffix(CONTEXT)
    method, _ = split_name(("robustmat" if base in NAMED else base) + plus + evidence)
    if head != base and find_method(method).trainable is None:
        raise ConfigError(f"the row {name} cannot be made: {method} looks at the crop alone")
    training = Training(head, **NAMED.get(base, {"config": method}))
    if head != base:
        training = replace(training, changes=merged(training.changes, WIDER))
    return _with_config(Row(name, training, evidence or PAIR), config)


def _row_of_checkpoint(folder: str, step: str) -> Row:
    """One that was trained elsewhere: nothing is learned, thresholds are fitted as those of all rows."""
    found = find_checkpoint(folder)
    name, header = checkpoint_name(found), read_header(found)
    split_name(header.method + step)
    key = f"{name}-{fingerprint_of(header, found / WEIGHTS)[:8]}"  # two of one name are told apart
    training = Training(key, header.method, {"model": header.model, **NO_STEP}, str(found))
    return Row(folder + step, training, step.removeprefix("+") or PAIR)


def with_denoising(row: Row) -> Row:
    """The same row behind a denoiser."""
    return row if row.denoised else replace(row, label=row.label + DENOISED, denoised=True)


def _both(*names: str) -> tuple[Row, ...]:
    """Each row as it is and denoised."""
    return tuple(row for name in names for row in (make_row(name), make_row(name + DENOISED)))


def _with_config(row: Row, config: str) -> Row:
    """Rows that train `street` from nothing start from the given training configuration instead."""
    if row.training.config != "street":
        return row
    return replace(row, training=replace(row.training, config=config))


def _ablation(label: str, **changes: Any) -> Row:
    model = merged(SEPARATE, changes.pop("model", {}))
    return Row(label, Training(f"ablation-{label}", "street", {"variant": "ode", **changes, "model": model}))


def _times(vertex: float, graph: float) -> Row:
    changes = {"vertex": {"end_time": vertex}, "graph": {"end_time": graph}}
    return _ablation(f"tf{vertex:g}-tg{graph:g}", model=changes)


PLAIN = _ablation("ode-pde")
KEYPOINTS = ("sift", "xfeat", "disk-lightglue")  # those whose weights come with a package
IN_BOXES = ("keypoints-in-boxes", "xfeat-in-boxes", "disk-lightglue-in-boxes")  # of whole frames
ALL_METHODS = (*RIVALS, "robustmat-gcn", "robustmat")
OURS = ("robustmat-plain", "robustmat-untrained", "street-shipped")
NEIGHBORS = tuple(f"{name}+neighbors" for name in RIVALS)
TOGETHER = (
    *(f"{name}+competition" for name in RIVALS),
    *(f"{name}+frames" for name in ("robustmat", "street-shipped")),
    *(f"{name}+placement" for name in (*RIVALS, "robustmat", "street-shipped")),
)

TABLES: dict[str, Table] = {
    "main": Table(
        "Patch matchers, single pairs and whole frames",
        tuple(make_row(name) for name in (*ALL_METHODS, *OURS, *NEIGHBORS, *TOGETHER)),
        NOISE,
    ),
    "paper-size": Table(
        "RobustMat at the paper's sizes beside the small one",
        tuple(map(make_row, ("robustmat-paper", "robustmat-paper-untrained", "robustmat", *OURS))),
        ("clean", "paper:16"),
    ),
    "weather": Table(
        "Trained on clear looks, tested on others", tuple(map(make_row, ALL_METHODS)), ("clean",), each_test=True
    ),
    "noise-levels": Table("Low and high noise", tuple(map(make_row, ALL_METHODS)), ("paper:19", "paper:13")),
    "neighborhood": Table(
        "Rivals with the neighbourhood's scores averaged in",
        tuple(make_row(name) for name in (*NEIGHBORS, "robustmat")),
    ),
    "ablation-modules": Table(
        "ODE and PDE against ResNet and GAT",
        # The paper's question is ResNet + GAT against its own, plain ODE; ours contracts.
        (
            PLAIN,
            _ablation("plain-field", model={"vertex": {"field": "plain"}}),
            _ablation("resnet-gat", variant="resnet-gat"),
            _ablation("untrained", **UNTRAINED),
            _ablation("resnet-gat-untrained", variant="resnet-gat", **UNTRAINED),
        ),
        ("paper:16", "clean"),
    ),
    "ablation-parts": Table(
        "ODE alone, PDE alone, both",
        (_ablation("ode-only", variant="ode-only"), _ablation("pde-only", variant="pde-only"), PLAIN),
    ),
    "ablation-time": Table(
        "Terminal times",
        (PLAIN, *(_times(t, 1) for t in (2, 3, 4, 5)), *(_times(t, t) for t in (2, 3, 4, 5))),
    ),
    "ablation-regularizer": Table(
        "Quotient regularisers",
        (
            _ablation("no-reg"),
            _ablation("ode-reg", objective={"vertex_regularizer": 0.1}),
            _ablation("ode-pde-reg", objective={"vertex_regularizer": 0.1, "graph_regularizer": 0.1}),
        ),
    ),
    "ablation-choices": Table(
        "Graph, field and solver",
        (
            PLAIN,
            _ablation("gcn", variant="gcn"),
            _ablation("k1", model={"graph": {"num_neighbors": 1}}),
            _ablation("k5", model={"graph": {"num_neighbors": 5}}),
            _ablation("without-center", model={"graph": {"include_center": False, "pooling": "mean"}}),
            _ablation("plain-field", model={"vertex": {"field": "plain"}}),
            _ablation("euler-4", model={"vertex": {"solver": {"name": "euler", "steps": 4}}}),
            _ablation("rk4-2", model={"vertex": {"solver": {"name": "rk4", "steps": 2}}}),
        ),
        ("paper:16", "clean"),
    ),
    "denoising": Table(
        "Denoising first, then matching", _both(*ALL_METHODS, "street-shipped"), NOISE, references=False
    ),
    "keypoints": Table(
        "Keypoint matchers on patches and on whole frames",
        (*_both(*KEYPOINTS, "street-shipped"), *map(make_row, ("root-sift", *IN_BOXES))),
        ("clean", "paper:16"),
        references=False,
    ),
    "keypoints-neighborhood": Table(
        "Keypoint matchers with the neighbourhood's scores averaged in",
        _both(*(f"{name}+neighbors" for name in KEYPOINTS), "street-shipped"),
        ("clean", "paper:16"),
        references=False,
    ),
    "cross-dataset": Table(
        "Trained on one data set, tested on the others", tuple(map(make_row, ALL_METHODS)), each_side=True
    ),
}


def choose_rows(table: str, methods: list[str] | None, config: str = "street") -> tuple[Row, ...]:
    """The table's rows, or those of them that were asked for; other methods may be asked for by name."""
    known = {row.label: row for row in find_table(table).rows}
    if not methods:
        return tuple(_with_config(row, config) for row in known.values())
    return tuple(_with_config(known[name], config) if name in known else make_row(name, config) for name in methods)


def choose_table(name: str, conditions: list[str] | None = None) -> Table:
    """A table by its name, under its own conditions or others."""
    table = find_table(name)
    if not conditions:
        return table
    return replace(table, conditions=tuple(str(parse(name)) for name in conditions))


def find_table(name: str) -> Table:
    if name not in TABLES:
        raise ConfigError(f"unknown table '{name}' ({nearest(name, list(TABLES))})")
    return TABLES[name]
