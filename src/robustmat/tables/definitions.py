"""The tables that `robustmat reproduce` makes: which rows, under which conditions."""

from dataclasses import dataclass, field, replace
from typing import Any

from robustmat.config import merged, nearest
from robustmat.errors import ConfigError
from robustmat.fitting.methods import ROBUSTMAT, split_method
from robustmat.perturb import parse
from robustmat.tables.paper import RIVALS

PAIR = "pair"
FINE_TUNED = "street"  # the shipped checkpoint of that name, trained on
CONTEXT = "-context"  # a rival that is shown what RobustMat's `street` is shown: the crop and its surroundings
LEARNED = {"vertex": {"orientations": 0, "colours": False}}  # without what is known before anything is learned
ROBUSTMATS: dict[str, dict[str, Any]] = {
    ROBUSTMAT: {"changes": LEARNED},
    f"{ROBUSTMAT}-gcn": {"changes": LEARNED, "variant": "gcn"},
    f"{ROBUSTMAT}-no-context": {"changes": {**LEARNED, "patch": {"context": None}}},  # the crop alone, as the rivals
    f"{ROBUSTMAT}-unlearned": {},  # beside what is known without learning, as `street` has it
}
NOISE = ("clean", "paper:19", "paper:16", "paper:13")
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


@dataclass(frozen=True)
class Row:
    """A line of a table: a training, and the step or evidence on top of it."""

    label: str
    training: Training
    step: str | None = None

    @property
    def method(self) -> str:
        """What `robustmat evaluate --method` calls it."""
        name = self.training.config if self.training.config in RIVALS else ROBUSTMAT
        return f"{name}+{self.step}" if self.step else name


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
    """A row by its name: `hardnet`, `hardnet+neighbors`, `hardnet-context`, `robustmat` (the paper's score),
    `robustmat-gcn+frames`, `robustmat-no-context`, `street` (fine-tuned), `street+placement`."""
    head, plus, step = name.partition("+")
    if head == FINE_TUNED:
        split_method(f"{ROBUSTMAT}{plus}{step}")
        return Row(name, Training(head, "street-real", start=FINE_TUNED), step or PAIR)
    if head in ROBUSTMATS:
        split_method(f"{ROBUSTMAT}{plus}{step}")
        return Row(name, Training(head, config, ROBUSTMATS[head]), step or PAIR)
    with_context = head.endswith(CONTEXT)
    method, _ = split_method(head.removesuffix(CONTEXT) + plus + step)
    changes = {"model": {"patch": {"context": 3.0}}} if with_context else {}
    return Row(name, Training(head, method, changes), step or None)


def _ablation(label: str, **changes: Any) -> Row:
    model = merged(SEPARATE, changes.pop("changes", {}))
    return Row(label, Training(f"ablation-{label}", "street", {**changes, "changes": model}), PAIR)


def _times(vertex: float, graph: float) -> Row:
    changes = {"vertex": {"end_time": vertex}, "graph": {"end_time": graph}}
    return _ablation(f"tf{vertex:g}-tg{graph:g}", changes=changes)


PLAIN = _ablation("ode-pde")
ALL_METHODS = (*RIVALS, f"{ROBUSTMAT}-gcn", ROBUSTMAT)
TOGETHER = (
    *(f"{it}+competition" for it in RIVALS),
    *(f"{it}+frames" for it in (ROBUSTMAT, FINE_TUNED)),
    *(f"{it}+placement" for it in (*RIVALS, ROBUSTMAT, FINE_TUNED)),
)

TABLES: dict[str, Table] = {
    "main": Table(
        "Patch matchers, single pairs and whole frames",
        tuple(make_row(it) for it in (*ALL_METHODS, FINE_TUNED, *TOGETHER)),
        NOISE,
    ),
    "weather": Table(
        "Trained on clear looks, tested on others", tuple(map(make_row, ALL_METHODS)), ("clean",), each_test=True
    ),
    "noise-levels": Table("Low and high noise", tuple(map(make_row, ALL_METHODS)), ("paper:19", "paper:13")),
    "neighborhood": Table(
        "Rivals with the neighbourhood's scores averaged in",
        tuple(make_row(it) for it in (*(f"{it}+neighbors" for it in RIVALS), ROBUSTMAT)),
    ),
    "ablation-modules": Table(
        "ODE and PDE against ResNet and GAT",
        (PLAIN, _ablation("resnet-gat", variant="resnet-gat")),
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
            _ablation("ode-reg", vertex_regularizer=0.1),
            _ablation("ode-pde-reg", vertex_regularizer=0.1, graph_regularizer=0.1),
        ),
    ),
    "ablation-choices": Table(
        "Graph, field and solver",
        (
            PLAIN,
            _ablation("gcn", variant="gcn"),
            _ablation("k1", changes={"graph": {"num_neighbors": 1}}),
            _ablation("k5", changes={"graph": {"num_neighbors": 5}}),
            _ablation("without-center", changes={"graph": {"include_center": False, "pooling": "mean"}}),
            _ablation("plain-field", changes={"vertex": {"field": "plain"}}),
            _ablation("euler-4", changes={"vertex": {"solver": {"name": "euler", "steps": 4}}}),
            _ablation("rk4-2", changes={"vertex": {"solver": {"name": "rk4", "steps": 2}}}),
        ),
        ("paper:16", "clean"),
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
    return tuple(_with_config(known[it], config) if it in known else make_row(it, config) for it in methods)


def choose_table(name: str, conditions: list[str] | None = None) -> Table:
    """A table by its name, under its own conditions or others."""
    table = find_table(name)
    if not conditions:
        return table
    return replace(table, conditions=tuple(str(parse(it)) for it in conditions))


def find_table(name: str) -> Table:
    if name not in TABLES:
        raise ConfigError(f"unknown table '{name}' ({nearest(name, list(TABLES))})")
    return TABLES[name]


def _with_config(row: Row, config: str) -> Row:
    """RobustMat's rows start from the given training configuration, the rivals' and the fine-tuned from their own."""
    if row.training.config in RIVALS or row.training.start:
        return row
    return replace(row, training=replace(row.training, config=config))
