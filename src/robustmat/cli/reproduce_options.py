"""Which options of `robustmat reproduce` mean something for which table; all others are refused."""

import typer

from robustmat.errors import InputError

# What pages that are no tables of trained rows listen to; other options would be without effect there.
_ALWAYS = ("table", "out", "threads")
_TAKES = {
    "stability": (*_ALWAYS, "data", "test", "checkpoint", "name"),
    "runtime": (*_ALWAYS, "methods", "name"),
    "pruning": (*_ALWAYS, "data", "val", "test", "checkpoint", "config", "steps", "frame_pairs", "name"),
    "leave-one-out": (
        *(*_ALWAYS, "data", "also", "test", "checkpoint", "perturb", "frame_pairs"),
        *("fit", "parts", "retrained"),
    ),
    "diffusion": (*_ALWAYS, "data", "checkpoint", "perturb", "frame_pairs"),
}
_FROM_PREDICTIONS = (*_ALWAYS, "from_predictions", "against", "methods", "perturb", "name")
_NOT_OF_TRAINED = ("checkpoint", "fit", "parts", "retrained", "against")
_WITH = {"first_budget": "first", "retrained": "parts"}  # means nothing without
_TUNED_WITH = {"config": "data", "steps": "data"}  # pruned forms are fine-tuned on data, or not at all


def refuse_idle_options(context: typer.Context, table: str, *, again: bool) -> None:
    """An option that this table does not listen to is a slip that would be noticed hours later, or never."""
    sources = {name: context.get_parameter_source(name) for name in context.params}
    given = [name for name, source in sources.items() if source is not None and source.name == "COMMANDLINE"]
    known = [name for name in context.params if name not in _NOT_OF_TRAINED]
    known = list(_FROM_PREDICTIONS) if again else list(_TAKES.get(table, known))
    needs = _WITH | (_TUNED_WITH if table == "pruning" else {})
    for name in given:
        option = "--" + name.replace("_", "-")
        if name not in known:
            what = "--from-predictions" if again else table
            listed = ", ".join("--" + one.replace("_", "-") for one in known if one != "table")
            raise InputError(f"{option} has no effect on {what}: leave it out; there are {listed}")
        if name in needs and needs[name] not in given:
            raise InputError(f"{option} means nothing without --{needs[name].replace('_', '-')}")
