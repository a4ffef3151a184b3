"""`robustmat reproduce`: make a table of the paper, on your data."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from robustmat.cli.checks import need, output_folder, plain_name
from robustmat.cli.console import make_console, progress_bars
from robustmat.cli.denoise import DEFAULT, Denoise
from robustmat.cli.processor import set_threads
from robustmat.cli.reproduce_evidence import write_diffusion, write_leave_one_out
from robustmat.cli.reproduce_options import refuse_idle_options
from robustmat.cli.reproduce_pages import OTHER_PAGES, write_other_page


def reproduce(
    context: typer.Context,
    table: Annotated[
        str,
        typer.Argument(
            help="main, paper-size, weather, noise-levels, neighborhood, denoising, keypoints, keypoints-neighborhood, "
            "cross-dataset, ablation-modules, ablation-parts, "
            "ablation-time, ablation-regularizer, ablation-choices, leave-one-out, diffusion, stability, runtime "
            "or pruning.",
            show_default=False,
        ),
    ],
    data: Annotated[list[Path] | None, typer.Option(help="A data set to train on; repeat for several.")] = None,
    test: Annotated[list[Path] | None, typer.Option(help="A data set to test on; repeat for several.")] = None,
    val: Annotated[
        list[Path] | None, typer.Option(help="Held-out data sets that choose checkpoints and thresholds.")
    ] = None,
    also: Annotated[
        list[Path] | None,
        typer.Option(help="More data to train on, on every side; then the last third of --data is held out too."),
    ] = None,
    first: Annotated[
        list[Path] | None,
        typer.Option(help="Data to train on first, or to initialise on, once for all sides and seeds."),
    ] = None,
    first_budget: Annotated[
        float | None, typer.Option(min=0.01, help="Minutes of one core for that; as many as --budget unless given.")
    ] = None,
    out: Annotated[
        Path, typer.Option(callback=output_folder, help="The workspace: runs, predictions and tables.")
    ] = Path("reproduce"),
    methods: Annotated[
        str | None,
        typer.Option(
            metavar="A,B,...",
            help="Instead of the table's rows: hardnet,hynet+neighbors,robustmat,runs/mine+frames (a checkpoint of "
            "yours, trained elsewhere).",
        ),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, max=1000, help="How many; each trains, draws pairs and noise anew.")] = 3,
    first_seed: Annotated[
        int, typer.Option(min=0, help="The first of them; other seeds can be made elsewhere and joined later.")
    ] = 0,
    budget: Annotated[
        float | None,
        typer.Option(min=0.01, help="Minutes of one core for each training, instead of its configuration's steps."),
    ] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="Steps for each training, instead of minutes.")] = None,
    config: Annotated[
        str,
        typer.Option(
            help="RobustMat's training configuration: a name or a TOML file; for pruning, how it is fine-tuned."
        ),
    ] = "street",
    leave_one_out: Annotated[
        bool, typer.Option("--leave-one-out", help="Test on each of --data after training on the others.")
    ] = False,
    perturb: Annotated[
        str | None, typer.Option(metavar="A,B,...", help="Conditions instead of the table's: clean,paper:16,snow:3.")
    ] = None,
    denoise: Denoise = None,
    frame_pairs: Annotated[int, typer.Option(min=1, help="At most so many for the frame protocol.")] = 300,
    name: Annotated[
        str | None, typer.Option(callback=plain_name, help="Of the table's files, instead of the table's own.")
    ] = None,
    from_predictions: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="Train nothing: make the table from a NAME.npz that lies beside a table; repeat to join tables of "
            "other seeds or other rows.",
        ),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(metavar="ROW", help="With --from-predictions: show every row's lead over this one."),
    ] = None,
    index: Annotated[
        bool, typer.Option("--index", help="Also write NAME.json: each cell's predictions and commands.")
    ] = False,
    bars: Annotated[bool, typer.Option("--bars", help="Also draw NAME.png: a bar for each method.")] = False,
    examples: Annotated[
        bool, typer.Option("--examples", help="Also draw NAME-examples.png: pairs, and what each method says of them.")
    ] = False,
    checkpoint: Annotated[
        str, typer.Option(help="For leave-one-out, stability and pruning: which one is weighed, measured, pruned.")
    ] = "street",
    fit: Annotated[
        Path | None,
        typer.Option(help="For leave-one-out: also write the checkpoint here, its evidence weighed by all the data."),
    ] = None,
    parts: Annotated[
        bool,
        typer.Option("--parts", help="For leave-one-out: also write what each part of the model brings."),
    ] = False,
    retrained: Annotated[
        list[Path] | None,
        typer.Option(help="For --parts: a run whose network was trained without a part; repeat for several."),
    ] = None,
    licence: Annotated[str, typer.Option(help="What the data allows; stored with the weights.")] = "unspecified",
    threads: Annotated[
        int | None, typer.Option(min=1, max=1024, help="CPU threads; 1 makes runs repeat to the byte.")
    ] = None,
) -> None:
    """Train what is missing, predict what is missing, write the table: a page, a CSV, and the predictions in one file.

    Everything stays in the workspace: an interrupted command goes on where it was, other tables share its trainings,
    and a workspace refuses to mix trainings of different lengths.

        robustmat reproduce main --data D0002 --data D0005 --data D0013 --leave-one-out --budget 3
    """
    refuse_idle_options(context, table, again=bool(from_predictions or against))
    trains = not from_predictions and table not in (*OTHER_PAGES, "diffusion", "leave-one-out")
    need("torch", *(("lightning", "tensorboard") if trains else ()), purpose="robustmat reproduce")

    from robustmat.dataset.store import open_dataset
    from robustmat.errors import ConfigError, InputError
    from robustmat.folders import locked

    set_threads(threads)
    asked = methods.split(",") if methods else None
    conditions = perturb.split(",") if perturb else None
    if from_predictions or against:
        for path in _make_again(table, from_predictions or [], out, name, asked, conditions, against):
            make_console().print(f"wrote {path}", soft_wrap=True, highlight=False)
        return
    if table in OTHER_PAGES:
        page = write_other_page(
            table,
            (data or [], val or [], test or []),
            out,
            checkpoint=checkpoint,
            steps=steps,
            config=config,
            frame_pairs=frame_pairs,
            name=name,
            methods=tuple(asked or ()),
        )
        make_console().print(f"wrote {page}", soft_wrap=True)
        return
    if not data:
        raise InputError(f"the table {table} needs data sets to train on: give them with --data")
    if table == "diffusion":
        write_diffusion(data, out, checkpoint, perturb, frame_pairs)
        return
    if table == "leave-one-out":
        with locked(out):
            drawn = perturb, frame_pairs
            write_leave_one_out((data, also or [], test or []), out, checkpoint, *drawn, fit, parts, retrained or [])
        return
    try:
        from robustmat.tables.definitions import choose_rows, choose_table, with_denoising
        from robustmat.tables.make import write_table
        from robustmat.tables.plan import make_first, make_tests
        from robustmat.tables.reproduce import Settings, Workspace
        from robustmat.tables.reproduce import reproduce as run
    except ModuleNotFoundError as missing:
        raise ConfigError(f"this needs '{missing.name}': pip install 'robustmat[train]'") from None

    if (budget or first_budget) and steps:
        raise ConfigError("--budget and --steps both say how long trainings are: give one of them")
    chosen = choose_table(table, conditions)
    rows = choose_rows(table, asked, config)
    if denoise is not None:  # beside every row the denoised one
        rows = tuple({both.label: both for row in rows for both in (row, with_denoising(row))}.values())
    opened = [[open_dataset(path) for path in paths or ()] for paths in (data, val, test)]
    more, before = ([open_dataset(path) for path in paths or ()] for paths in (also, first))
    tests = make_tests(
        *opened,
        first=make_first(before, opened[1], first_budget) if before else None,
        also=more,
        leave_one_out=leave_one_out,
        each_test=chosen.each_test,
        each_side=chosen.each_side,
    )
    console, errors = make_console(), make_console(stderr=True)

    with locked(out):
        workspace = Workspace(
            out,
            Settings(
                tuple(range(first_seed, first_seed + seeds)), budget, steps, frame_pairs, licence, denoise or DEFAULT
            ),
            tell=lambda line: console.print(line, soft_wrap=True, highlight=False),
            progress=progress_bars(errors),
        )
        found = run(chosen, rows, tests, workspace)
        command = " ".join(["robustmat", *sys.argv[1:]])
        extras = [extra for extra, wanted in (("index", index), ("bars", bars), ("examples", examples)) if wanted]
        written = write_table(name or table, chosen, rows, tests, found, workspace, command, kind=table, extras=extras)
    for path in written.paths:
        console.print(f"wrote {path}", soft_wrap=True, highlight=False)


def _make_again(
    table: str,
    predictions: list[Path],
    out: Path,
    name: str | None,
    methods: list[str] | None,
    conditions: list[str] | None,
    against: str | None,
) -> list[Path]:
    from robustmat.errors import InputError
    from robustmat.tables.definitions import choose_table
    from robustmat.tables.make import write_again, write_joined

    if not predictions:
        raise InputError("--against compares rows of a finished table: give its file with --from-predictions")
    if table in (*OTHER_PAGES, "leave-one-out", "diffusion"):
        raise InputError(f"{table} is no table of trained methods: leave --from-predictions away")
    chosen = choose_table(table, conditions)
    folder, wanted = out / "tables", chosen.conditions if conditions else None
    joined = [write_joined(predictions, folder, name, methods, wanted, against)] if len(predictions) > 1 else []
    file, *_ = joined or predictions
    return [*joined, *write_again(file, folder, name, table, methods, wanted, against).paths]
