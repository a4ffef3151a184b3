"""One town through every layout: frame by frame the same poses, points and pixels."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import typer
from numpy.typing import NDArray
from scipy.spatial import cKDTree
from typer.testing import CliRunner

from layouts_for_tests import LAYOUTS, short_drive, small_town
from robustmat.cli.simulate import simulate
from robustmat.simulation import LAYOUTS as WRITERS
from robustmat.simulation import StreetDrive
from robustmat.simulation.write_oxford_sensors import distortion_table, fired
from robustmat.sources import SOURCES, Drive
from robustmat.types import Array, Frame


@pytest.fixture(scope="module", params=LAYOUTS)
def layout(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory):
    chosen = LAYOUTS[request.param]
    folder = chosen.write(short_drive(), tmp_path_factory.mktemp("layout"))
    return chosen, folder, chosen.open(folder)


def pose_of(frame: Frame) -> Array:
    assert frame.T_world_camera is not None
    return frame.T_world_camera


def points_of(frame: Frame) -> NDArray[np.float32]:
    points = frame.points_lidar
    assert points is not None
    return points


def to_town(chosen, read: Drive, driven: StreetDrive) -> Array:
    """T_town_world; a world that floats is laid on its first pose."""
    if chosen.T_world_town is not None:
        return np.linalg.inv(chosen.T_world_town)
    return pose_of(driven.frames[0]) @ np.linalg.inv(pose_of(read.frames[0]))


def pixels_of(frame: Frame) -> tuple[Array, Array]:
    """Pixels [N, 2] and depths [N] of the points ahead, by homogeneous coordinates."""
    points = points_of(frame).astype(float)
    assert frame.T_camera_lidar is not None
    assert frame.camera is not None
    seen = frame.T_camera_lidar @ np.vstack([points[:, :3].T, np.ones(len(points))])
    seen = seen[:3, seen[2] > 1]
    flat = frame.camera.matrix @ seen
    return (flat[:2] / flat[2]).T, seen[2]


def test_poses_are_those_driven(layout):
    chosen, _, read = layout
    driven = short_drive()
    T_town_world = to_town(chosen, read, driven)
    assert len(read.frames) == len(driven.frames)
    for a, b in zip(read.frames, driven.frames, strict=True):
        np.testing.assert_allclose(T_town_world @ pose_of(a), pose_of(b), atol=1e-6)
        assert a.time - read.frames[0].time == pytest.approx(b.time, abs=1e-6)


def test_points_and_where_they_fall_are_those_scanned(layout):
    chosen, _, read = layout
    for i, (a, b) in enumerate(zip(read.frames, short_drive().frames, strict=True)):
        assert a.camera is not None
        np.testing.assert_allclose(a.camera.matrix, b.camera.matrix, rtol=1e-9)
        np.testing.assert_allclose(a.T_camera_lidar @ chosen.T_lidar_ours, b.T_camera_lidar, atol=1e-8)
        if chosen.exact_points:
            ours = points_of(a) @ np.linalg.inv(
                np.block([[chosen.T_lidar_ours[:3, :3], np.zeros((3, 1))], [0, 0, 0, 1]])
            )
            np.testing.assert_array_equal(ours.astype(np.float32), points_of(b))
            np.testing.assert_allclose(pixels_of(a)[0], pixels_of(b)[0], atol=1e-3)
        else:  # 32 beams instead of 64: the rays of that sensor, to 2 mm and 0.01 degrees
            cast = fired(short_drive(), i)[:, :3] + np.float32([0, 0, 0.090805])
            ours = points_of(a)[:, :3] * [1, -1, -1]
            assert len(ours) > 0.98 * len(cast)
            assert cKDTree(cast).query(ours)[0].max() < 0.02


def test_points_lie_on_what_the_camera_sees(layout):
    """Whatever the layout's transforms are: depths of projected points are depths of the rendered pixels."""
    _, _, read = layout
    for i, frame in enumerate(read.frames):
        pixels, depth = pixels_of(frame)
        whole = np.floor(pixels + 0.5).astype(int)
        height, width = frame.image.shape[:2]
        inside = (whole >= 0).all(1) & (whole < (width, height)).all(1)
        seen = short_drive().view(i).depth[whole[inside, 1], whole[inside, 0]]
        assert (np.abs(seen - depth[inside]) < 0.3 + 0.03 * seen).mean() > 0.85


def test_images_and_labels_are_those_rendered(layout):
    chosen, _, read = layout
    for a, b in zip(read.frames, short_drive().frames, strict=True):
        np.testing.assert_array_equal(a.semantics, b.semantics)
        if chosen.exact_image:
            np.testing.assert_array_equal(a.image, b.image)
        else:  # through a mosaic and a lens: sharp edges soften, nothing moves
            assert a.image.shape == b.image.shape
            inner = np.s_[4:-4, 4:-4]
            errors = {shift: squared_error(np.roll(a.image, shift, (0, 1))[inner], b.image[inner]) for shift in SHIFTS}
            assert min(errors, key=errors.get) == (0, 0)
            assert 10 * np.log10(255**2 / errors[0, 0]) > 24


SHIFTS = [(0, 0), (0, 1), (0, -1), (1, 0), (-1, 0)]


def squared_error(a: NDArray[np.uint8], b: NDArray[np.uint8]) -> float:
    return float(((a.astype(float) - b) ** 2).mean())


def test_the_truth_stands_beside_the_layout(layout):
    _, folder, read = layout
    truth = json.loads((folder / "identities.json").read_text())
    assert [frame["name"] for frame in truth["frames"]] == [frame.name for frame in read.frames]
    assert truth["frames"][1]["landmarks"] == [seen.to_json() for seen in short_drive().truth(1)]


def test_every_layout_that_is_written_can_be_read():
    assert WRITERS.keys() <= SOURCES.keys()


def test_opening_reads_no_picture_and_no_scan(layout, tmp_path):
    """Every scan and every image but the first, of which the size is needed, may be broken: opening does not care."""
    chosen, folder, read = layout
    written = {"kitti-raw": folder.parents[1], "kitti-odometry": folder.parents[1]}
    root = shutil.copytree(written.get(read.source["layout"], folder), tmp_path / "copy")
    kept = read.frames[0].name
    emptied = 0
    for path in root.rglob("*"):
        if (
            path.suffix in (".bin", ".png")
            and "models" not in path.parts
            and (path.stem != kept or path.suffix == ".bin")
        ):
            path.write_bytes(b"")
            emptied += 1
    assert emptied >= 2 * len(read.frames) - 1
    place = root / folder.relative_to(written[read.source["layout"]]) if read.source["layout"] in written else root
    assert [frame.name for frame in chosen.open(place).frames] == [frame.name for frame in read.frames]


@pytest.mark.parametrize(
    ("arguments", "advice", "there"),
    [
        (["--layout", "oxford", "--raw-scans"], "--origin 5735000.0 619500.0 -110", "*/velodyne_left/*.png"),
        (["--layout", "oxford"], "prepare oxford", "*/velodyne_left/*.bin"),
        (["--layout", "boreas"], "prepare boreas", "*/applanix/camera_poses.csv"),
        (["--layout", "folder"], "prepare folder", "masks/*.png"),
        (["--layout", "folder", "--boxes"], "prepare folder", "boxes/*.json"),
        (["--layout", "kitti-raw"], "--origin 49 8.4 110", "2011_09_26/*/oxts/data/*.txt"),
    ],
)
def test_simulate_writes_each_layout_and_says_how_to_go_on(tmp_path: Path, monkeypatch, arguments, advice, there):
    monkeypatch.setattr("robustmat.simulation.build_town", lambda _: small_town())
    app = typer.Typer()
    app.command()(simulate)
    result = CliRunner().invoke(app, [str(tmp_path), *arguments, "--frames", "1", "--scale", "0.2"])
    assert result.exit_code == 0, result.output
    assert advice in result.output
    assert list(tmp_path.glob(there))
    assert len(list(tmp_path.rglob("identities.json"))) == 1


def test_the_lens_bends_enough_to_need_its_table():
    camera = short_drive().frames[0].camera
    assert camera is not None
    table = distortion_table(camera)
    rows, columns = np.mgrid[: camera.height, : camera.width]
    assert np.hypot(table[0] - columns, table[1] - rows).max() > 8
