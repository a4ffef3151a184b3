"""`robustmat reproduce leave-one-out` and `diffusion`: how the evidence of whole frames is weighed, and how well."""

import sys
from pathlib import Path

from robustmat.cli.console import make_console, progress_bars


def write_leave_one_out(
    data: tuple[list[Path], list[Path], list[Path]],
    out: Path,
    name: str,
    perturb: str | None,
    frame_pairs: int,
    fit: Path | None,
    parts: bool,
    retrained: list[Path],
) -> None:
    from robustmat.checkpoints.load import network_matcher
    from robustmat.checkpoints.store import load_checkpoint
    from robustmat.dataset.store import open_dataset
    from robustmat.fitting.evidence import evidence_matcher
    from robustmat.perturb import parse
    from robustmat.tables.leave_one_out import CONDITIONS, Experiment, fit_checkpoint, leave_one_out, measure_tests
    from robustmat.tables.leave_one_out_page import write_report
    from robustmat.tables.parts import DissectedMatcher, dissect, write_parts
    from robustmat.tables.plan import refuse_trained_on

    console, errors = make_console(), make_console(stderr=True)
    conditions = [str(parse(one)) for one in perturb.split(",")] if perturb else CONDITIONS
    drives, also, tests = ([open_dataset(path) for path in paths] for paths in data)
    checkpoint = load_checkpoint(name)
    refuse_trained_on([*drives, *tests], name, checkpoint.provenance.drives)
    inner = network_matcher(checkpoint, checkpoint.network.evidence[-1])
    others = {folder.name: network_matcher(load_checkpoint(folder), "placement") for folder in retrained}
    matcher = DissectedMatcher(inner, others) if parts else evidence_matcher(inner)
    experiment = Experiment(
        matcher, drives, also, tests, conditions, frame_pairs, cache=out / "cases", progress=progress_bars(errors)
    )
    command = " ".join(["robustmat", *sys.argv[1:]])
    made = [write_report(out / "tables", leave_one_out(experiment), measure_tests(experiment), command)]
    if parts:
        made.append(write_parts(out / "tables", dissect(experiment), conditions, command))
    if fit is not None:
        made.append(fit_checkpoint(checkpoint, experiment, fit))
    for path in made:
        console.print(f"wrote {path}", soft_wrap=True)


def write_diffusion(data: list[Path], out: Path, name: str, perturb: str | None, frame_pairs: int) -> None:
    from robustmat.checkpoints.load import network_matcher
    from robustmat.checkpoints.store import load_checkpoint
    from robustmat.dataset.store import open_dataset
    from robustmat.files import write_json
    from robustmat.fitting.diffusion import FITTED, associate, diffusion_loss, fit_diffusion
    from robustmat.fitting.evidence import by_world, evidence_matcher
    from robustmat.matching.diffusion import DiffusionConfig

    console, progress = make_console(), progress_bars(make_console(stderr=True))
    opened = [open_dataset(path) for path in data]
    checkpoint = load_checkpoint(name)
    matcher = evidence_matcher(network_matcher(checkpoint, checkpoint.network.evidence[-1]))
    graphs = [
        graph
        for condition in (perturb or "clean,paper:16").split(",")
        for group in by_world(opened).values()
        for graph in associate(matcher, group, condition, frame_pairs=frame_pairs, progress=progress)
    ]
    shipped = DiffusionConfig()
    fitted = fit_diffusion(graphs, shipped)
    numbers = {
        kind: {key: getattr(config, key) for key in FITTED} | {"loss": diffusion_loss(graphs, config)}
        for kind, config in (("shipped", shipped), ("fitted", fitted))
    }
    path = out / "tables" / "diffusion.json"
    write_json(path, {"command": " ".join(["robustmat", *sys.argv[1:]]), "frame_pairs": len(graphs), **numbers})
    for kind, found in numbers.items():
        console.print(kind, {key: round(value, 4) for key, value in found.items()})
    console.print(f"wrote {path}", soft_wrap=True)
