"""Promises of the simulated street, kept on a small town at half size."""

import json
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
import typer
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from skimage.measure import label
from typer.testing import CliRunner

from robustmat.cli.simulate import simulate
from robustmat.errors import ConfigError
from robustmat.geometry.transforms import invert, transform
from robustmat.simulation import (
    LANES,
    LOOKS,
    StreetDrive,
    Town,
    build_town,
    drive_town,
    kitti_camera,
    render,
    write_kitti_odometry,
    write_kitti_raw,
)
from robustmat.simulation.bank import TextureBank
from robustmat.simulation.designs import DESIGNS, draw_sign
from robustmat.simulation.labels import CATEGORY_OF_LABEL, SKY, VEGETATION, WINDOW
from robustmat.simulation.lidar import scan
from robustmat.simulation.raster import _coverage
from robustmat.simulation.rig import T_CAMERA_LIDAR
from robustmat.simulation.scene import Texture
from robustmat.simulation.vehicles import Vehicle, vehicle_parts
from robustmat.simulation.write_files import points_of, pose_of
from robustmat.simulation.write_kitti import ORIGIN, T_ODOMETRY_TOWN
from robustmat.sources import open_kitti_odometry, open_kitti_raw
from robustmat.types import Array, Camera, Frame

SEED, SIZE = 3, 80.0
CAMERA = kitti_camera(0.5)


@pytest.fixture(scope="module")
def town() -> Town:
    return build_town(SEED, SIZE)


@pytest.fixture(scope="module")
def drive(town: Town) -> StreetDrive:
    return drive_town(town, 6, spacing=2.0, start=20.0, camera=CAMERA)


def test_same_seed_gives_the_same_bytes_in_any_order_of_frames(drive: StreetDrive) -> None:
    again = drive_town(build_town(SEED, SIZE), 6, spacing=2.0, start=20.0, camera=CAMERA)
    for i in (4, 0):  # not in the order of driving: what was drawn before must not matter
        np.testing.assert_array_equal(again.frames[i].image, drive.frames[i].image)
        np.testing.assert_array_equal(again.view(i).identities, drive.view(i).identities)
        np.testing.assert_array_equal(points_of(again.frames[i]), points_of(drive.frames[i]))
        assert again.truth(i) == drive.truth(i)


def test_frames_are_rendered_only_when_asked_for(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    """A drive of any length is built at once and holds no pixels."""

    def refuse(*_: object) -> None:
        raise AssertionError("rendered unasked")

    monkeypatch.setattr("robustmat.simulation.drive.render", refuse)
    monkeypatch.setattr("robustmat.simulation.drive.scan", refuse)
    frames = drive_town(town, 2000).frames
    assert len(frames) == 2000
    with pytest.raises(AssertionError, match="unasked"):
        _ = frames[1234].image


def test_other_seeds_give_other_towns_and_other_days(town: Town, drive: StreetDrive) -> None:
    other = build_town(SEED + 1, SIZE)
    assert len(other.landmarks) != len(town.landmarks) or other.landmarks != town.landmarks
    another_day = drive_town(town, 1, spacing=2.0, start=20.0, camera=CAMERA, drive_seed=1)
    assert (another_day.frames[0].image != drive.frames[0].image).any()
    assert another_day.town.landmarks is town.landmarks


def test_looks_share_identities_and_geometry(town: Town, drive: StreetDrive) -> None:
    pose = pose_of(drive.frames[0])
    noon = render(town, pose, "noon", CAMERA)
    for look in ("dusk", "winter"):
        other = render(town, pose, look, CAMERA)
        # Bare trees let one see what leaves hide; everything else stays where it is.
        same = (noon.semantics != VEGETATION) & (other.semantics != VEGETATION)
        np.testing.assert_array_equal(noon.identities[same], other.identities[same])
        np.testing.assert_array_equal(noon.depth[same], other.depth[same])
        assert np.abs(noon.image.astype(int) - other.image).mean() > 10


def test_every_look_and_lane_can_be_driven(town: Town) -> None:
    narrow = Camera(np.array([[400.0, 0, 80], [0, 400, 40], [0, 0, 1]]), 160, 80)
    for look in sorted(set(LOOKS) - {"noon", "dusk", "winter"}):  # those are seen in other tests
        assert drive_town(town, 1, look=look, camera=narrow).frames[0].image.std() > 12
    places = {lane: pose_of(drive_town(town, 1, lane=lane).frames[0])[:3, 3] for lane in LANES}
    assert np.linalg.norm(places["left"] - places["right"]) > 2.5
    ways = {lane: pose_of(drive_town(town, 2, lane=lane).frames[0])[:2, 2] for lane in LANES}
    assert ways["right"] @ ways["left"] > 0.95
    assert ways["right"] @ ways["oncoming"] < -0.95


def agreement(points: NDArray[np.float32], depth: NDArray[np.float32], T_camera_lidar: Array, camera: Camera) -> float:
    """Share of LiDAR points that land on a pixel of their own depth (0.2 m or 2 %); plain pinhole arithmetic."""
    x, y, z = transform(T_camera_lidar, points[:, :3].astype(float)).T
    matrix = camera.matrix
    column = np.round(matrix[0, 0] * x / z + matrix[0, 2]).astype(int)
    row = np.round(matrix[1, 1] * y / z + matrix[1, 2]).astype(int)
    inside = (z > 1) & (column >= 0) & (row >= 0) & (column < camera.width) & (row < camera.height)
    error = np.abs(depth[row[inside], column[inside]] - z[inside])
    assert inside.sum() > 10_000
    return float(((error < 0.2) | (error < 0.02 * z[inside])).mean())


def test_lidar_and_pixels_agree_about_what_is_where(town: Town, drive: StreetDrive) -> None:
    axes = np.array([[0.0, -1, 0, 0], [0, 0, -1, 0], [1, 0, 0, 0], [0, 0, 0, 1]])  # a LiDAR inside the camera
    camera = kitti_camera()
    together, apart = [], []
    for i in (0, 5):
        pose = pose_of(drive.frames[i])
        depth = render(town, pose, "noon", camera).depth
        together.append(agreement(scan(town, pose, "noon", camera, T_camera_lidar=axes), depth, axes, camera))
        apart.append(agreement(scan(town, pose, "noon", camera), depth, T_CAMERA_LIDAR, camera))
    assert min(together) > 0.97
    # From its own place on the roof the LiDAR also sees a little of what poles hide from the camera.
    assert min(apart) > 0.94


def test_a_vehicle_hides_what_is_behind_it_from_camera_and_lidar(town: Town, drive: StreetDrive) -> None:
    pose = pose_of(drive.frames[0])
    ahead = pose @ np.array([0.0, 0.0, 9.0, 1.0])
    heading = float(np.arctan2(pose[1, 2], pose[0, 2]))
    van = vehicle_parts(Vehicle("van", 2, float(ahead[0]), float(ahead[1]), heading))
    empty, full = render(town, pose, "noon", CAMERA), render(town, pose, "noon", CAMERA, van)
    changed = full.depth < empty.depth - 0.5
    assert changed.sum() > 5_000
    assert np.median(full.depth[changed]) == pytest.approx(6.5, abs=0.5)  # its tail is 2.5 m nearer than its middle
    assert (full.depth <= empty.depth + 1e-3).all()
    before, after = (scan(town, pose, "noon", CAMERA, parts) for parts in ((), van))
    straight = [np.abs(np.arctan2(p[:, 1], p[:, 0])) < 0.04 for p in (before, after)]
    reach = [np.hypot(p[s, 0], p[s, 1])[p[s, 2] > -1.0].min() for p, s in zip((before, after), straight, strict=True)]
    assert reach[1] < 7.5 < reach[0]


def test_truth_boxes_are_tight_and_hold_their_landmark(drive: StreetDrive) -> None:
    count = 0
    for i, frame in enumerate(drive.frames):
        view = drive.view(i)
        for seen in drive.truth(i):
            x0, y0, x1, y1 = (int(v) for v in seen.box)
            mine = view.identities == seen.identity
            rows, columns = np.nonzero(mine)
            assert (columns.min(), rows.min(), columns.max() + 1, rows.max() + 1) == (x0, y0, x1, y1)
            assert {CATEGORY_OF_LABEL[int(v)] for v in np.unique(view.semantics[mine])} == {seen.category}
            if seen.visible > 0.9 and seen.pixels > 80:
                count += 1
                x, y, z = transform(invert(pose_of(frame)), np.array([seen.position]))[0]
                column = CAMERA.matrix[0, 0] * x / z + CAMERA.matrix[0, 2]
                row = CAMERA.matrix[1, 1] * y / z + CAMERA.matrix[1, 2]
                assert x0 - 4 < column < x1 + 4
                assert y0 - 4 < row < y1 + 4
    assert count > 20


def test_frames_hold_a_plausible_number_of_landmarks(town: Town) -> None:
    counts = []
    for start in (0.0, 140.0, 280.0):
        seen = drive_town(town, 1, start=start, camera=CAMERA).truth(0)
        counts.append(sum(it.box[3] - it.box[1] >= 7 and it.pixels >= 15 for it in seen))  # 14 px at full size
    assert 4 <= np.median(counts) <= 35
    assert min(counts) >= 1


def test_windows_are_separated_by_wall(drive: StreetDrive) -> None:
    regions = 0
    for i in range(len(drive.frames)):
        view = drive.view(i)
        components = label(view.semantics == WINDOW, connectivity=2)
        for number in range(1, int(components.max()) + 1):
            names = view.identities[components == number]
            if names.size >= 40:
                regions += 1
                assert len(np.unique(names)) == 1
    assert regions > 5


def test_copies_abound(town: Town) -> None:
    """The same designs stand on several corners, as in a real street."""
    kinds: dict[str, list[str]] = {}
    for landmark in town.landmarks.values():
        kinds.setdefault(landmark.category, []).append(landmark.kind)
    assert set(kinds) >= {"traffic_sign", "pole", "window"}
    for names in kinds.values():
        assert max(names.count(name) for name in names) >= 3


def test_sign_designs_can_be_told_apart() -> None:
    assert len(DESIGNS) >= 20
    faces = [draw_sign(name, 0) for name in DESIGNS]
    for a, b in combinations(faces, 2):
        if a.rgb.shape == b.rgb.shape:
            assert np.abs(a.rgb.astype(int) - b.rgb).mean() > 2


def test_going_round_again_shows_the_same_landmarks(town: Town) -> None:
    start = 12.0
    first = drive_town(town, 1, start=start, camera=CAMERA)
    second = drive_town(town, 1, start=start + town.route.length, camera=CAMERA)
    np.testing.assert_allclose(pose_of(first.frames[0]), pose_of(second.frames[0]), atol=1e-6)
    assert {seen.identity for seen in first.truth(0)} == {seen.identity for seen in second.truth(0)}


def test_sky_is_infinitely_far_and_the_rest_is_not(drive: StreetDrive) -> None:
    view = drive.view(0)
    assert np.isinf(view.depth[view.semantics == SKY]).all()
    assert np.isfinite(view.depth[CAMERA.height * 2 // 3 :]).all()
    assert (view.depth > 0).all()


def check_read_back(drive: StreetDrive, frames: tuple[Frame, ...], T_read_town: Array) -> None:
    assert len(frames) == len(drive.frames)
    for frame, original in zip(frames, drive.frames, strict=True):
        np.testing.assert_allclose(pose_of(frame), T_read_town @ pose_of(original), atol=2e-5)
        assert frame.camera is not None
        np.testing.assert_allclose(frame.camera.matrix, CAMERA.matrix, atol=1e-9)
        assert frame.T_camera_lidar is not None
        assert original.T_camera_lidar is not None
        np.testing.assert_allclose(frame.T_camera_lidar, original.T_camera_lidar, atol=1e-9)
        assert frame.time is not None
        assert frame.time - (frames[0].time or 0.0) == pytest.approx(original.time)
    np.testing.assert_array_equal(frames[1].image, drive.frames[1].image)
    np.testing.assert_array_equal(points_of(frames[1]), points_of(drive.frames[1]))
    assert frames[1].load_semantics is not None
    np.testing.assert_array_equal(frames[1].semantics, drive.frames[1].semantics)


def test_both_kitti_layouts_read_back_as_driven(drive: StreetDrive, tmp_path: Path) -> None:
    folder = write_kitti_raw(drive, tmp_path, "2011_09_26", "0007")
    raw = open_kitti_raw(tmp_path, "2011_09_26", "0007", origin=ORIGIN)
    check_read_back(drive, raw.frames, np.eye(4))
    truth = json.loads((folder / "identities.json").read_text())
    assert [frame["name"] for frame in truth["frames"]] == [frame.name for frame in raw.frames]
    assert truth["frames"][2]["landmarks"] == [seen.to_json() for seen in drive.truth(2)]

    write_kitti_odometry(drive, tmp_path, "00")
    odometry = open_kitti_odometry(tmp_path, "00")
    check_read_back(drive, odometry.frames, T_ODOMETRY_TOWN)


def test_unknown_names_and_impossible_drives_are_refused_with_the_choices(town: Town) -> None:
    with pytest.raises(ConfigError, match="noon"):
        drive_town(town, 1, look="noom")
    with pytest.raises(ConfigError, match="oncoming"):
        drive_town(town, 1, lane="centre")
    with pytest.raises(ConfigError, match="at least one frame"):
        drive_town(town, 0)


def test_simulate_writes_what_it_says(tmp_path: Path) -> None:
    app = typer.Typer()
    app.command()(simulate)
    arguments = [str(tmp_path), "--frames", "1", "--scale", "0.2", "--layout", "kitti-odometry", "--look", "overcast"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert "prepare kitti-odometry" in result.output
    assert (tmp_path / "sequences/00/identities.json").exists()
    assert len(open_kitti_odometry(tmp_path, "00").frames) == 1


@settings(max_examples=25, deadline=None)
@given(x=st.floats(2, 9), y=st.floats(2, 9), wide=st.floats(0.3, 9), tall=st.floats(0.3, 9), skew=st.floats(-0.6, 0.6))
def test_coverage_is_the_share_of_the_pixel(x: float, y: float, wide: float, tall: float, skew: float) -> None:
    """Against counting sub-pixels; edges are soft by construction, so single pixels may differ a little."""
    outline = np.array([[x, y], [x + wide, y + skew], [x + wide, y + tall + skew], [x, y + tall]])
    cover = _coverage(outline, (22, 22))
    fine = (np.arange(22 * 16) + 0.5) / 16 - 0.5
    column, row = np.meshgrid(fine, fine)
    share = (column - x) / wide
    inside = (share >= 0) & (share <= 1) & (row >= y + skew * share) & (row <= y + tall + skew * share)
    exact = inside.reshape(22, 16, 22, 16).mean(axis=(1, 3))
    assert np.abs(cover - exact).max() < 0.3
    assert cover.sum() == pytest.approx(wide * tall, rel=0.1, abs=0.1)


def test_the_texture_bank_forgets_what_it_cannot_hold() -> None:
    drawn: list[int] = []

    def draw(material: tuple[str | int | float, ...]) -> Texture:
        drawn.append(int(material[0]))
        return Texture(np.full((10, 10, 3), int(material[0]), np.uint8))

    bank = TextureBank(draw, capacity=1000)  # three textures of 300 bytes
    for number in (1, 2, 3, 1, 4, 1):
        assert bank.get((number,)).rgb[0, 0, 0] == number
    assert drawn == [1, 2, 3, 4]  # 2, not used for longest, made room for 4
    bank.get((2,))
    assert drawn == [1, 2, 3, 4, 2]
    assert bank.get((1,), 1, 0).rgb.shape == (10, 5, 3)
