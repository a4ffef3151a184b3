"""The shape of the package: imports point one way, the public names are these, importing does nothing."""

import ast
import subprocess
import sys
from pathlib import Path

import robustmat

SOURCE = Path(robustmat.__file__).parent

# Each row may import the rows below it; folders of one row do not know each other.
ROWS = [
    {"cli"},
    {"web"},
    {"pipeline"},
    {"tables", "bench"},
    {"mapping", "odometry", "robustness", "export"},
    {"training"},
    {"fitting"},
    {"evaluation"},
    {"denoising"},
    {"checkpoints"},
    {"methods"},
    {"matching"},
    {"detection"},
    {"simulation"},
    {"models", "dataset", "report"},
    {"features"},
    {"landmarks"},
    {"perturb"},
    {"sources"},
    {"geometry"},
    {"config", "drawing", "onnx_session", "onnx_trace"},
    {"types", "progress"},
    {"folders"},
    {"files"},
    {"errors"},
]
RANK = {name: rank for rank, row in enumerate(ROWS) for name in row}
# Drawing is fetched by `MatchResult.draw` when it is called, so that results can be drawn without knowing how.
LATE = {("types", "drawing")}


def imported(tree: ast.AST) -> set[str]:
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {it.name for it in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module} | {f"{node.module}.{it.name}" for it in node.names}
    return {it.split(".")[1] for it in names if it.startswith("robustmat.")}


def test_imports_point_one_way() -> None:
    wrong = []
    for path in sorted(SOURCE.rglob("*.py")):
        home = path.relative_to(SOURCE).parts[0].removesuffix(".py")
        if home in ("__init__", "__main__"):
            continue
        for target in imported(ast.parse(path.read_text())) & RANK.keys():
            allowed = target == home or RANK[target] > RANK[home] or (home, target) in LATE
            if not allowed:
                wrong.append(f"{path.relative_to(SOURCE)} imports {target}")
        assert home in RANK, f"{home} has no place in the order"
    assert not wrong, wrong


def test_public_names_are_pinned() -> None:
    assert robustmat.__all__ == [
        "Camera",
        "EmbeddedFrame",
        "Frame",
        "Landmark",
        "LandmarkDataset",
        "LandmarkMap",
        "Match",
        "MatchResult",
        "Matcher",
        "ModelConfig",
        "RobustMat",
        "RobustMatError",
        "evaluate",
        "load",
        "load_embedded",
        "match_frames",
        "match_sequence",
        "open_dataset",
        "open_map",
        "perturb_image",
        "read_frame",
        "read_sequence",
    ]
    for name in robustmat.__all__:
        assert getattr(robustmat, name).__name__ == name


def loaded_by(code: str) -> set[str]:
    script = f"import sys; {code}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return {name.split(".")[0] for name in done.stdout.split()}


HEAVY = {"torch", "cv2", "sklearn", "scipy", "skimage", "lightning", "torchode", "numpy"}


def test_importing_the_package_brings_no_heavy_library() -> None:
    assert not loaded_by("import robustmat") & HEAVY


def test_help_brings_no_heavy_library() -> None:
    assert not loaded_by("import robustmat.cli") & HEAVY


def test_only_the_command_line_prints() -> None:
    talkers = [
        str(path.relative_to(SOURCE))
        for path in sorted(SOURCE.rglob("*.py"))
        if path.relative_to(SOURCE).parts[0] not in ("cli", "web")
        and any(
            isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
            for node in ast.walk(ast.parse(path.read_text()))
        )
    ]
    assert not talkers
