"""Pruned models are ordinary checkpoints: states keep their width, what stays is what was there, exports agree."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from models_for_tests import small, untrained
from robustmat.checkpoints.store import Provenance, load_checkpoint, save_checkpoint
from robustmat.cli import app
from robustmat.dataset.store import write_dataset
from robustmat.errors import ConfigError, DataError
from robustmat.export.prune import prune_checkpoint, prune_network
from robustmat.export.write import export_onnx
from robustmat.models.robustmat import RobustMat
from robustmat.perturb import CLEAN
from robustmat.tables.pruning import SOLVERS, measure_pruning, write_pruning
from small_world import drive, make_boards

pytest.importorskip("torch_pruning")
SIZES = {"stem_channels": 16, "channels": 32, "embedding_dim": 16, "pooling_grid": 2}


def network(field: str = "contractive", seed: int = 0) -> RobustMat:
    torch.manual_seed(seed)
    return RobustMat(small(vertex={**SIZES, "field": field}, similarity_hidden=[24, 16])).eval()


def embedded(model: RobustMat, patches: torch.Tensor) -> torch.Tensor:
    with torch.inference_mode():
        return model.vertex.embed(patches)


def some_patches() -> torch.Tensor:
    return torch.randn(3, 6, 16, 16, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("field", ["contractive", "plain"])
def test_pruning_narrows_inner_layers_and_leaves_states_alone(field: str) -> None:
    before = network(field)
    after = prune_network(before, 0.5)
    assert after.config.vertex.inner_channels == (8, 16, 16)
    assert after.config.similarity_hidden == (12, 8)
    sizes = (after.config.vertex.stem_channels, after.config.vertex.channels, after.config.vertex.embedding_dim)
    assert sizes == (16, 32, 16)
    patches = some_patches()
    assert after.vertex.downsample(patches).shape == before.vertex.downsample(patches).shape
    assert embedded(after, patches).shape == embedded(before, patches).shape


def test_a_model_without_an_ode_is_pruned_too() -> None:
    before = RobustMat(small("full", vertex=SIZES, similarity_hidden=[24, 16])).eval()
    after = prune_network(before, 0.5)
    assert after.config.vertex.inner_channels == (8, 16, before.config.vertex.inner[2])
    patches = some_patches()
    assert embedded(after, patches).shape == embedded(before, patches).shape
    with pytest.raises(ConfigError, match="residual"):
        prune_network(RobustMat(small("resnet-gat")), 0.5)


@pytest.mark.parametrize("field", ["contractive", "plain"])
def test_channels_that_do_nothing_go_first_and_nothing_changes(field: str) -> None:
    """An oracle without torch-pruning: half of every inner layer is silenced by hand, then pruned away."""
    before = network(field)
    _, first, second = before.vertex.downsample
    inner = before.vertex.field.block if field == "plain" else before.vertex.field
    with torch.no_grad():
        before.vertex.field.time_shift.normal_(std=0.1)
        for block, norm in ((first, first.norm2), (second, second.norm2), (inner, getattr(inner, "norm1", None))):
            half = block.conv1.out_channels // 2
            block.conv1.weight[half:] *= 1e-3  # the least important
            block.conv2.weight[:, half:] = 0  # and heard by nobody
            if norm is not None:
                norm.weight[half:] *= 1e-3
        for layer, following in ((before.vertex_similarity[0], before.vertex_similarity[2]),):
            layer.weight[12:] *= 1e-3
            following.weight[:, 12:] = 0
    after = prune_network(before, 0.5)
    torch.testing.assert_close(embedded(after, some_patches()), embedded(before, some_patches()), atol=1e-5, rtol=1e-4)


def test_a_whole_share_changes_nothing() -> None:
    before = network()
    after = prune_network(before, 1.0)
    torch.testing.assert_close(embedded(after, some_patches()), embedded(before, some_patches()))


@pytest.mark.parametrize("share", [0.0, 1.5])
def test_shares_that_mean_nothing_are_refused(share: float) -> None:
    with pytest.raises(ConfigError, match="between 0 and 1"):
        prune_network(network(), share)


def test_a_pruned_model_exports_with_parity_to_itself(tmp_path: Path) -> None:
    config = small(vertex={**SIZES, "field": "contractive"})
    pruned = prune_checkpoint(untrained(config), 0.5)
    frames = drive(make_boards(12, 0), frames=3).frames
    exported = export_onnx(pruned, tmp_path / "onnx", frames)
    assert exported.passed, exported.parity.problems()


def test_the_command_writes_a_checkpoint_that_matches(tmp_path: Path) -> None:
    config = small(vertex={**SIZES, "field": "contractive"})
    save_checkpoint(tmp_path / "whole", untrained(config))
    result = CliRunner().invoke(app, ["prune", str(tmp_path / "whole"), "--to", "0.5", "--out", str(tmp_path / "half")])
    assert result.exit_code == 0, result.output
    assert "parameters" in result.output
    header = json.loads((tmp_path / "half" / "model.json").read_text())
    assert header["model"]["vertex"]["inner_channels"] == [8, 16, 16]
    assert "Pruned to 0.5" in header["provenance"]["notes"]
    assert load_checkpoint(tmp_path / "half").network.config.vertex.inner_channels == (8, 16, 16)


def test_the_table_judges_every_form_on_the_same_pairs(tmp_path: Path) -> None:
    config = small(vertex={**SIZES, "field": "contractive"})
    data = drive(make_boards(12, 0), frames=6)  # too few frames for eight bits
    rows = measure_pruning(untrained(config), [data], CLEAN, shares=(0.5,), frame_pairs=4)
    by_name = {row.name: row for row in rows}
    assert set(by_name) == {"whole", "pruned to 0.5", *SOLVERS}
    assert by_name["pruned to 0.5"].parameters < by_name["whole"].parameters  # type: ignore[operator]
    assert by_name["euler, 1 step"].multiply_adds < by_name["whole"].multiply_adds  # type: ignore[operator]
    page = write_pruning(
        tmp_path / "pruning.md", "street", rows, "Six frames.", "robustmat reproduce pruning"
    ).read_text()
    assert all(f"| {name} |" in page for name in by_name)


def test_a_checkpoint_is_not_judged_where_it_was_trained(tmp_path: Path) -> None:
    made = drive(make_boards(8, 0), name="seen", world="seen", frames=5)
    write_dataset(tmp_path / "seen", "seen", "seen", [(frame, None) for frame in made.frames], source={})
    whole = untrained(small(vertex={**SIZES, "field": "contractive"}))
    save_checkpoint(tmp_path / "whole", replace(whole, provenance=Provenance(drives=("seen",))))
    asked = ["--test", str(tmp_path / "seen"), "--checkpoint", str(tmp_path / "whole"), "--out", str(tmp_path / "out")]
    with pytest.raises(DataError, match="was trained on seen: test it on other data"):
        CliRunner().invoke(app, ["reproduce", "pruning", *asked], catch_exceptions=False)


TUNING = """
method = "robustmat"
preset = "street"
views = 1
frame_pairs_per_step = 1
perturbations = ["clean"]
validation_perturbation = "clean"
"""


def test_the_page_fine_tunes_by_the_recipe_that_is_asked_for(tmp_path: Path) -> None:
    """The pruned forms' runs hold the recipe of --config and the network of the checkpoint."""
    whole = untrained(small(vertex={**SIZES, "field": "contractive"}))
    save_checkpoint(tmp_path / "whole", whole)
    for number, name in enumerate(("data", "val", "test")):
        made = drive(make_boards(8, number), name=name, world=name, frames=5)
        write_dataset(tmp_path / name, name, name, [(frame, None) for frame in made.frames], source={})
    (tmp_path / "tuning.toml").write_text(TUNING)
    folders = [word for name in ("data", "val", "test") for word in (f"--{name}", str(tmp_path / name))]
    said = ["--checkpoint", str(tmp_path / "whole"), "--config", str(tmp_path / "tuning.toml"), "--steps", "1"]
    out = tmp_path / "out"
    asked = ["reproduce", "pruning", *folders, *said, "--frame-pairs", "3", "--name", "smaller", "--out", str(out)]
    result = CliRunner().invoke(app, asked)
    assert result.exit_code == 0, result.output
    page = (out / "tables" / "smaller.md").read_text()
    (run,) = (out / "runs").glob("whole-*-pruned-0.5")
    weights = (run / "best" / "model.safetensors").read_bytes()
    result = CliRunner().invoke(app, asked)  # what is there already is kept
    assert result.exit_code == 0, result.output
    assert (run / "best" / "model.safetensors").read_bytes() == weights
    assert "| eight bits (ONNX) |" in page
    assert "fine-tuned for 1 step on data" in page
    assert "| pruned to 0.25, fine-tuned |" in page
    record = json.loads((run / "run.json").read_text())["config"]
    assert (record["views"], record["frame_pairs_per_step"], record["steps"]) == (1, 1, 1)
    assert record["model"]["vertex"]["inner_channels"] == [8, 16, 16]
    assert record["model"]["patch"]["size"] == whole.network.config.patch.size
