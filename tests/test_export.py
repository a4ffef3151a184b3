"""An export decides like torch: on trained weights, with any number of landmarks, and without torch installed."""

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from typer.testing import CliRunner

from models_for_tests import small, untrained
from robustmat.checkpoints.load import from_checkpoint, load, network_matcher
from robustmat.checkpoints.store import Checkpoint, load_checkpoint, shipped_checkpoints
from robustmat.cli import app
from robustmat.errors import ConfigError, InputError, RobustMatError, WeightsError
from robustmat.export import write
from robustmat.export.frames import frame_pairs
from robustmat.export.parity import compare_matchers
from robustmat.export.write import Exported, export_onnx
from robustmat.matching.combined import CombinedMatcher
from robustmat.matching.onnx import OnnxMatcher
from robustmat.models.network import DescriptorNetwork, PatchNetworkConfig
from robustmat.models.presets import preset
from robustmat.types import Frame, MatchResult
from small_world import drive, make_boards

ROOT = Path(__file__).parent.parent
EVIDENCE = ("pair", "frames", "placement")


def street(count: int = 4) -> list[Frame]:
    """Every second frame of a short drive along textured boards, seven to nine landmarks each."""
    frames = drive(make_boards(14, seed=3), frames=2 * count, strangers=True).frames[::2]
    return [replace(it, name=f"frame {number}") for number, it in enumerate(frames)]


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Exported:
    """The shipped checkpoint: trained weights, since untrained ones hide differences in ties."""
    others = street(6)[4:]  # to set the ranges of the eight bits on
    folder = tmp_path_factory.mktemp("export") / "street"
    return export_onnx(load_checkpoint("street"), folder, street(), calibration=others)


def test_trained_weights_score_and_decide_as_in_torch(exported: Exported) -> None:
    checkpoint = load_checkpoint("street")
    pairs = frame_pairs(street())
    frames = {frame.name: frame for pair in pairs for frame in pair}
    assert {len(it.landmarks) for it in frames.values()} > {0, 1, 2}
    ours = {name: network_matcher(checkpoint, "placement").embed(it) for name, it in frames.items()}
    theirs = {name: OnnxMatcher(exported.folder).embed(it) for name, it in frames.items()}
    for evidence in EVIDENCE:
        torch_matcher = network_matcher(checkpoint, evidence)
        onnx_matcher = OnnxMatcher(exported.folder, evidence=evidence)
        matches = 0
        for a, b in pairs:
            first = torch_matcher.match(ours[a.name], ours[b.name])
            second = onnx_matcher.match(theirs[a.name], theirs[b.name])
            assert second.score.shape == (len(a.landmarks), len(b.landmarks))
            np.testing.assert_allclose(second.score, first.score, atol=1e-4)
            threshold = torch_matcher.decision.threshold
            assert onnx_matcher.decision.threshold == threshold
            assert ((first.score >= threshold) == (second.score >= threshold)).all()
            assert [(it.a, it.b) for it in first.matches] == [(it.a, it.b) for it in second.matches]
            matches += len(first.matches)
        assert matches > 10
        assert exported.parity.evidence[evidence].matches == matches
    assert exported.passed


def test_embeddings_of_torch_and_onnx_can_be_swapped(exported: Exported) -> None:
    torch_matcher = network_matcher(load_checkpoint("street"), "placement")
    onnx_matcher = OnnxMatcher(exported.folder)
    a, b = street()[0], street()[2]
    mixed = onnx_matcher.match(torch_matcher.embed(a), onnx_matcher.embed(b))
    np.testing.assert_allclose(mixed.score, torch_matcher.match(a, b).score, atol=1e-4)
    other = from_checkpoint(untrained())
    with pytest.raises(InputError, match="another model"):
        onnx_matcher.match(other.embed(a), b)


def test_every_number_of_landmarks_runs_in_the_files_themselves(exported: Exported) -> None:
    for path in exported.folder.glob("*.onnx"):
        shapes = [[axis.dim_param or axis.dim_value for axis in it.type.tensor_type.shape.dim] for it in inputs(path)]
        assert all(shape[0] in ("N", "A", "B") for shape in shapes), path.name
        assert not any(isinstance(axis, str) for shape in shapes for axis in shape[1:]), path.name


def inputs(path: Path) -> list[onnx.ValueInfoProto]:
    return list(onnx.load(path).graph.input)


def test_int8_comes_with_its_price(exported: Exported) -> None:
    report = json.loads((exported.folder / "parity.json").read_text())["int8"]
    for evidence in EVIDENCE:
        row = report["evidence"][evidence]
        assert row["f1_drop"] == pytest.approx(row["f1_reference"] - row["f1_candidate"])
        assert row["largest_difference"] > 1e-4  # eight bits are not floats, and the report does not hide it
    card = (exported.folder / "README.md").read_text().split("## In eight bits")[1]
    assert exported.int8 is not None
    for it in exported.int8.evidence.values():
        assert f"| {it.decisions_changed} of {it.candidates} | " in card
        assert f"{it.f1_reference:.3f} -> {it.f1_candidate:.3f} ({it.f1_candidate - it.f1_reference:+.3f})" in card  # type: ignore[operator]
    sizes = {it: (exported.folder / f"{it}.onnx").stat().st_size for it in ("vertex", "vertex.int8")}
    assert sizes["vertex.int8"] < sizes["vertex"] / 3
    floats, bytes_ = OnnxMatcher(exported.folder), OnnxMatcher(exported.folder, int8=True)
    exact, rough = (one.embed(street()[0]).arrays["vertex"] for one in (floats, bytes_))
    cosine = (exact * rough).sum(1) / np.linalg.norm(exact, axis=1) / np.linalg.norm(rough, axis=1)
    assert cosine.min() > 0.9


def test_an_export_without_parity_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = write.trace

    def careless(part: write.Exportable, path: Path) -> None:
        honest(part, path)
        if part.name == "vertex":  # one weight of the last layer goes astray
            model = onnx.load(path)
            weight = max(model.graph.initializer, key=lambda it: it.dims[0] * (len(it.dims) == 2))
            changed = numpy_helper.to_array(weight).copy()
            changed[0] += 1
            weight.CopyFrom(numpy_helper.from_array(changed, weight.name))
            onnx.save(model, path)

    monkeypatch.setattr(write, "trace", careless)
    found = export_onnx(untrained(small(joint=None)), tmp_path / "out", street(2))
    assert not found.passed
    assert any("a score differs by" in it for it in found.parity.problems())
    assert not (tmp_path / "out").exists()
    assert not list(tmp_path.iterdir())


KINDS = {
    "two residual blocks": small("resnet-gat", joint=None),
    "without graph": small("ode-only", joint=None),
    "without similarity": small("pde-only", joint=None),
    "plain vertex field": small(joint=None, vertex={"field": "plain"}),
    "contractive graph field": small(joint=None, graph={"field": "contractive"}),
    "graph convolution, maximum": small("gcn", joint=None, graph={"pooling": "max"}),
    "without center": small(joint=None, graph={"include_center": False, "pooling": "mean"}),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_model_exports(kind: str, tmp_path: Path) -> None:
    found = export_onnx(untrained(KINDS[kind]), tmp_path / "out", street(2))
    assert found.passed, found.parity.problems()
    assert list(found.parity.evidence) == ["pair"]
    assert OnnxMatcher(tmp_path / "out").evidence == "pair"


def test_adaptive_steps_are_refused_or_replaced_and_measured(tmp_path: Path) -> None:
    adaptive = untrained(small(joint=None, vertex={"solver": {"name": "dopri5"}}, graph={"solver": {"name": "dopri5"}}))
    with pytest.raises(ConfigError, match=r"vertex\.solver, graph\.solver of this checkpoint .*--fixed-steps"):
        export_onnx(adaptive, tmp_path / "out", street(2))
    found = export_onnx(adaptive, tmp_path / "out", street(2), fixed_steps=4)
    assert found.passed
    assert found.solver is not None
    assert 0 < found.solver.evidence["pair"].largest_difference < 0.05
    assert "rk4 with 4 steps" in (tmp_path / "out" / "README.md").read_text()


def test_a_paper_sized_checkpoint_names_all_its_adaptive_solvers() -> None:
    with pytest.raises(ConfigError, match="adaptive"):
        write.check_exportable(untrained(preset("paper")), Path("out"))


WITHOUT_TORCH = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("torch", "torchode", "lightning"):
            raise ModuleNotFoundError(f"No module named '{name}'", name=name)
sys.meta_path.insert(0, Refuse())
"""


def without_torch(code: str, *arguments: object) -> str:
    command = [sys.executable, "-c", WITHOUT_TORCH + code, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_example_matches_like_torch_with_neither_torch_nor_robustmat(exported: Exported) -> None:
    script = (ROOT / "examples" / "onnx_numpy.py").read_text()
    blocked = script.replace("import json", 'sys.modules["robustmat"] = None\nimport json', 1)
    shown = without_torch(blocked, exported.folder).splitlines()
    frames = street()
    expected = network_matcher(load_checkpoint("street"), "placement").match(frames[0], frames[-1])
    check_lines(shown, expected)


def check_lines(shown: list[str], expected: MatchResult) -> None:
    """What the example printed, held to torch's matches; the last digit of a score may be rounded the other way."""
    category = [it.category for it in expected.landmarks_a]
    said = [line.rsplit(" ", 1) for line in shown]
    assert [text for text, _ in said] == [f"{category[it.a]} {it.a} is {it.b}, score" for it in expected.matches]
    assert [float(score) for _, score in said] == pytest.approx([it.score for it in expected.matches], abs=2e-4)
    assert shown


def test_matching_on_the_command_line_needs_no_torch_once_exported(exported: Exported, tmp_path: Path) -> None:
    write_files(tmp_path)
    arguments = ["match", *files(tmp_path), "--checkpoint", exported.folder, "--json", tmp_path / "out.json"]
    without_torch("from robustmat.cli import main; sys.argv[0] = 'robustmat'; main()", *arguments, "--runtime", "onnx")
    run(*files(tmp_path), "--json", tmp_path / "torch.json")
    ours, theirs = (json.loads((tmp_path / it).read_text()) for it in ("torch.json", "out.json"))
    assert [(it["a"], it["b"]) for it in ours["matches"]] == [(it["a"], it["b"]) for it in theirs["matches"]]
    assert ours["matches"]
    for a, b in zip(ours["matches"], theirs["matches"], strict=True):
        assert b["score"] == pytest.approx(a["score"], abs=1e-4)


def write_files(folder: Path) -> None:
    for name, frame in zip("ab", street()[:2], strict=True):
        cv2.imwrite(str(folder / f"{name}.png"), frame.image[:, :, ::-1])
        marks = [{"box": it.box, "category": it.category} for it in frame.landmarks]
        (folder / f"{name}.json").write_text(json.dumps({"landmarks": marks}))


def files(folder: Path) -> list[object]:
    return [folder / "a.png", folder / "b.png", "--boxes-a", folder / "a.json", "--boxes-b", folder / "b.json"]


def run(*arguments: object) -> None:
    done = CliRunner().invoke(app, ["match", *map(str, arguments)])
    assert done.exit_code == 0, done.output


def bare(folder: Path) -> Path:
    """The shipped checkpoint without its exported files."""
    return Path(
        shutil.copytree(shipped_checkpoints()["street"], folder / "bare", ignore=shutil.ignore_patterns("onnx"))
    )


def with_files(exported: Exported, folder: Path, **changes: object) -> Path:
    """A checkpoint that brings the exported files, their manifest changed."""
    made = Path(shutil.copytree(bare(folder / "with"), folder / "whole"))
    shutil.copytree(exported.folder, made / "onnx")
    manifest = made / "onnx" / "export.json"
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | changes))
    return made


@pytest.mark.parametrize("runtime", ["onnx", "onnx-int8"])
def test_a_checkpoint_with_exported_files_matches_alike_on_either_runtime(
    runtime: str, exported: Exported, tmp_path: Path
) -> None:
    folder = with_files(exported, tmp_path)
    a, b = street()[0], street()[2]
    for evidence in EVIDENCE:
        ours, theirs = (load(folder, runtime=it, evidence=evidence) for it in ("torch", runtime))
        assert (theirs.evidence, theirs.fingerprint) == (evidence, ours.fingerprint)
        assert isinstance(getattr(theirs, "inner", theirs), OnnxMatcher)
        expected, found = ours.match(a, b), theirs.match(a, b)
        if runtime == "onnx":
            np.testing.assert_allclose(found.score, expected.score, atol=1e-4)
            assert [(it.a, it.b) for it in found.matches] == [(it.a, it.b) for it in expected.matches]
        mixed = theirs.match(ours.embed(a), theirs.embed(b))  # and stored frames may be of either
        np.testing.assert_allclose(mixed.score, expected.score, atol=1e-4 if runtime == "onnx" else 0.3)
    with pytest.raises(ConfigError, match="did you mean 'placement'"):
        load(folder, runtime=runtime, evidence="placements")
    with pytest.raises(ConfigError, match="run on the cpu, not on device 'cuda'"):
        load(folder, runtime=runtime, device="cuda")


@pytest.mark.parametrize("name", shipped_checkpoints())
def test_the_exported_files_of_shipped_checkpoints_are_of_their_weights(name: str) -> None:
    ours, theirs = (load(name, runtime=runtime) for runtime in ("torch", "onnx"))
    assert ours.fingerprint == theirs.fingerprint
    a, b = street()[0], street()[2]
    expected, found = ours.match(a, b), theirs.match(a, b)
    np.testing.assert_allclose(found.score, expected.score, atol=1e-4)
    assert found.matches
    assert [(it.a, it.b) for it in found.matches] == [(it.a, it.b) for it in expected.matches]
    assert theirs.decision == ours.decision


def test_without_torch_the_exported_files_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("robustmat.checkpoints.load.find_spec", lambda name: None)
    matcher = load("street")
    assert isinstance(matcher, CombinedMatcher)
    assert isinstance(matcher.inner, OnnxMatcher)
    with pytest.raises(ConfigError, match="torch is not installed: pip install"):
        load("street", runtime="torch")


def test_only_our_own_networks_are_exported(tmp_path: Path) -> None:
    rival = Checkpoint("mine", "hardnet", DescriptorNetwork(PatchNetworkConfig()), {})
    with pytest.raises(ConfigError, match="'mine' holds hardnet: only robustmat can be exported"):
        export_onnx(rival, tmp_path / "out", street(2))


def test_a_runtime_and_a_checkpoint_that_do_not_fit_are_refused(exported: Exported, tmp_path: Path) -> None:
    write_files(tmp_path)
    for more, message in (
        (["--runtime", "onx"], "did you mean 'onnx'"),
        (["--checkpoint", exported.folder, "--runtime", "torch"], "is an ONNX export: leave --runtime out"),
        (["--checkpoint", bare(tmp_path), "--runtime", "onnx"], "brings no exported files: run `robustmat export onnx"),
        (["--checkpoint", with_files(exported, tmp_path, int8={}), "--runtime", "onnx-int8"], "no int8 files"),
    ):
        with pytest.raises(RobustMatError, match=message):
            CliRunner().invoke(app, ["match", *map(str, [*files(tmp_path), *more])], catch_exceptions=False)


@pytest.mark.parametrize("parity", [True, False])
def test_the_verb_writes_with_parity_and_ends_with_one_without(
    parity: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("robustmat.export.frames.street_frames", lambda *_, **__: street(2))
    monkeypatch.setattr("robustmat.checkpoints.store.load_checkpoint", lambda _: untrained(small(joint=None)))
    if not parity:
        monkeypatch.setattr(write, "compare_matchers", lambda *given: compare_matchers(*given, tolerance=-1.0))
    done = CliRunner().invoke(app, ["export", "onnx", "--out", str(tmp_path / "out")], catch_exceptions=False)
    assert done.exit_code == (0 if parity else 1), done.output
    assert (tmp_path / "out" / "export.json").is_file() == parity
    assert ("no parity: evidence pair" in done.output) != parity


def test_what_is_wrong_with_an_export_is_said(exported: Exported, tmp_path: Path) -> None:
    def copy(**changes: object) -> Path:
        folder = tmp_path / "copy"
        folder.mkdir(exist_ok=True)
        values = json.loads((exported.folder / "export.json").read_text()) | changes
        (folder / "export.json").write_text(json.dumps(values))
        return folder

    cases: list[tuple[Path, type[RobustMatError], str]] = [
        (tmp_path / "nowhere", WeightsError, "not found"),
        (copy(format="other"), WeightsError, "not an ONNX export"),
    ]
    for folder, kind, message in cases:
        with pytest.raises(kind, match=message):
            OnnxMatcher(folder)
    with pytest.raises(WeightsError, match="has version 99"):
        OnnxMatcher(copy(version=99))
    with pytest.raises(WeightsError, match=r"ONNX file not found: .*vertex\.onnx"):
        OnnxMatcher(copy())
    (copy() / "vertex.onnx").write_bytes(b"not an onnx file")
    with pytest.raises(WeightsError, match="is broken or belongs to another export"):
        OnnxMatcher(copy())
    with pytest.raises(WeightsError, match="holds no int8"):
        OnnxMatcher(copy(int8={}), int8=True)
    with pytest.raises(ConfigError, match="did you mean 'placement'"):
        OnnxMatcher(exported.folder, evidence="placements")


def test_a_folder_with_other_things_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="holds other files"):
        export_onnx(untrained(), tmp_path, street(2))
    assert [it.name for it in tmp_path.iterdir()] == ["notes.txt"]
