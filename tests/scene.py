"""A small street that the tests draw themselves, written in the true KITTI layouts.

Everything is rays against flat panels: the camera and the LiDAR look at the same geometry, nearer panels
hide farther ones, and the truth (which pixels belong to which object) falls out of the rays. World coordinates
are x east (along the street), y north (left), z up, with the first GPS/IMU position as origin.
"""

from dataclasses import dataclass, field
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

WIDTH, HEIGHT, FOCAL = 480, 160, 260.0
GROUND = -0.93  # metres; the GPS/IMU unit rides at the origin
LATITUDE, LONGITUDE, ALTITUDE = 49.0, 8.4, 110.0
EARTH_RADIUS = 6378137.0
LABELS = {"pole": 5, "traffic_light": 6, "traffic_sign": 7, "window": 19}
ROAD, SIDEWALK, BUILDING, VEGETATION, SKY, CAR, UNLABELLED = 0, 1, 2, 8, 10, 13, 255
DATE, DRIVE, SEQUENCE = "2011_09_26", "0001", "00"


def _rotation(about_x: float, about_y: float, about_z: float) -> Array:
    angles = (about_x, about_y, about_z)
    (cx, sx), (cy, sy), (cz, sz) = ((np.cos(it), np.sin(it)) for it in angles)
    x = np.array([[1, 0, 0], [0, cx, -sx], [0, sx, cx]])
    y = np.array([[cy, 0, sy], [0, 1, 0], [-sy, 0, cy]])
    z = np.array([[cz, -sz, 0], [sz, cz, 0], [0, 0, 1]])
    return z @ y @ x


def _rigid(rotation: Array, translation: tuple[float, float, float]) -> Array:
    T = np.eye(4)
    T[:3, :3], T[:3, 3] = rotation, translation
    return T


# The rig: like KITTI's, slightly askew everywhere, so that a forgotten rotation or a swapped one shows.
T_VELO_IMU = _rigid(_rotation(0.012, -0.002, 0.001), (-0.81, 0.32, -0.80))
T_CAM_VELO = _rigid(
    _rotation(0.004, -0.003, 0.006) @ np.array([[0.0, -1, 0], [0, 0, -1], [1, 0, 0]]),
    (-0.004, -0.076, -0.272),
)
R_RECT = _rotation(0.004, -0.007, 0.010)
K = np.array([[FOCAL, 0, 241.0], [0, FOCAL, 78.0], [0, 0, 1]])
CAMERA_OFFSET = {0: (0.0, 0.0, 0.0), 2: (0.06, -0.0003, 0.0027)}  # T_camN_cam0
T_CAM0_IMU = _rigid(R_RECT, (0, 0, 0)) @ T_CAM_VELO @ T_VELO_IMU


@dataclass(frozen=True)
class Panel:
    """A flat rectangle: corner + u * right + v * up with u, v in [0, 1], painted with a texture."""

    corner: Array
    right: Array
    up: Array
    texture: NDArray[np.uint8]  # [h, w, 3], row 0 at the top
    label: int
    identity: int | None = None


@dataclass(frozen=True)
class SeenObject:
    """One landmark of one frame as the rays saw it."""

    box: tuple[float, float, float, float]
    category: str
    identity: int
    position: tuple[float, float, float]  # of the object's middle, in scene coordinates
    pixels: int


@dataclass(frozen=True)
class SceneTruth:
    """What was written: per frame the landmarks, poses, and the rays' own images and points."""

    root: Path
    camera: int
    names: list[str]
    landmarks: list[list[SeenObject]]
    T_scene_camera: list[Array]
    T_camera_lidar: Array
    K: Array
    images: list[NDArray[np.uint8]] = field(repr=False)
    semantics: list[NDArray[np.uint8]] = field(repr=False)
    points_lidar: list[NDArray[np.float32]] = field(repr=False)


@dataclass(frozen=True)
class _Object:
    category: str
    position: Array
    size: tuple[float, float]  # metres: width, height
    texture: NDArray[np.uint8]
    facing: str  # "camera" for round poles, "street" for boards across the street, "side" for facades


def _noise(rng: np.random.Generator, height: int, width: int, low: float, high: float) -> Array:
    """Smooth noise [height, width] between two values."""
    coarse = rng.uniform(low, high, (max(2, height // 8), max(2, width // 8))).astype(np.float32)
    fine = rng.uniform(low, high, (height, width)).astype(np.float32)
    return np.asarray(0.7 * cv2.resize(coarse, (width, height), interpolation=cv2.INTER_CUBIC) + 0.3 * fine)


def _painted(base: tuple[float, float, float], shade: Array) -> NDArray[np.uint8]:
    return np.clip(np.array(base) * shade[:, :, None], 0, 255).astype(np.uint8)


def _bright(rng: np.random.Generator) -> tuple[int, int, int]:
    hsv = np.array([[[rng.integers(0, 180), rng.integers(150, 256), rng.integers(140, 256)]]], np.uint8)
    red, green, blue = cv2.cvtColor(hsv, cv2.COLOR_HSV2RGB)[0, 0].tolist()
    return (red, green, blue)


def _sign_texture(rng: np.random.Generator) -> NDArray[np.uint8]:
    """A board of one of several shapes with a symbol of its own."""
    board = np.full((64, 64, 3), _bright(rng), np.uint8)
    cv2.rectangle(board, (0, 0), (63, 63), (245, 245, 245), 5)
    ink = _bright(rng) if rng.random() < 0.5 else (250, 250, 250)
    kind = rng.integers(0, 5)
    if kind == 0:
        cv2.circle(board, (32, 32), int(rng.integers(12, 22)), ink, int(rng.integers(3, 9)))
    elif kind == 1:
        cv2.fillPoly(board, [np.array([[32, 10], [54, 52], [10, 52]])], ink)
    elif kind == 2:
        cv2.arrowedLine(board, (12, 50), (50, 14), ink, 6, tipLength=0.4)
    elif kind == 3:
        cv2.putText(board, chr(int(rng.integers(65, 91))), (14, 50), cv2.FONT_HERSHEY_SIMPLEX, 1.7, ink, 6)
    else:
        cv2.line(board, (12, 14), (52, 50), ink, 8)
        cv2.line(board, (52, 14), (12, 50), ink, int(rng.integers(3, 9)))
    return board


def _pole_texture(rng: np.random.Generator) -> NDArray[np.uint8]:
    """Bands of paint up a grey or wooden post, darker at its sides as a round thing is."""
    post = np.full((128, 8, 3), rng.choice([[120, 120, 125], [105, 80, 60], [70, 90, 80]]), np.uint8)
    for _ in range(rng.integers(1, 5)):
        top = int(rng.integers(0, 110))
        post[top : top + int(rng.integers(6, 24))] = _bright(rng)
    shade = np.array([0.55, 0.8, 1.0, 1.1, 1.1, 0.95, 0.75, 0.5])
    return np.clip(post * shade[None, :, None], 0, 255).astype(np.uint8)


def _light_texture(rng: np.random.Generator) -> NDArray[np.uint8]:
    head = np.full((72, 30, 3), (28, 30, 28), np.uint8)
    lit = int(rng.integers(0, 3))
    for row, color in enumerate([(255, 40, 30), (255, 190, 30), (40, 255, 120)]):
        shown = color if row == lit else tuple(channel // 5 for channel in color)
        cv2.circle(head, (15, 13 + 23 * row), 9, shown, -1)
    return head


def _window_texture(rng: np.random.Generator) -> NDArray[np.uint8]:
    """Panes with curtains, a lamp or a plant behind them, in a painted frame."""
    window = np.full((64, 48, 3), rng.integers(30, 90, 3), np.uint8)
    cloth = _bright(rng)
    side = int(rng.integers(4, 22))
    window[:, :side] = cloth
    if rng.random() < 0.6:
        window[:, 48 - int(rng.integers(4, 18)) :] = cloth
    if rng.random() < 0.7:
        cv2.circle(window, (int(rng.integers(14, 36)), int(rng.integers(30, 56))), 8, _bright(rng), -1)
    if rng.random() < 0.5:
        window[: int(rng.integers(8, 26))] = _bright(rng)
    frame = tuple(rng.choice([[240, 240, 235], [90, 50, 30], [40, 70, 50]]).tolist())
    cv2.rectangle(window, (0, 0), (47, 63), frame, 5)
    if rng.random() < 0.7:
        cv2.line(window, (24, 0), (24, 63), frame, 3)
    if rng.random() < 0.7:
        cv2.line(window, (0, 24), (47, 24), frame, 3)
    return window


def _plan(rng: np.random.Generator) -> list[_Object]:
    """Landmarks along the first 45 metres: every category, none nearer than two metres to another."""
    objects = []
    along = 9.0
    sides = rng.permutation([1, -1, 1, -1, 1, -1, 1, -1])
    kinds = rng.permutation(["traffic_sign", "pole", "traffic_sign", "pole", "pole", "traffic_sign", "traffic_light"])
    for kind, side in zip([*kinds, "traffic_sign"], sides, strict=True):
        across = float(side * rng.uniform(3.6, 4.6))
        if kind == "pole":
            tall = float(rng.uniform(3.2, 4.6))
            middle = np.array([along, across, GROUND + tall / 2])
            objects.append(_Object("pole", middle, (0.32, tall), _pole_texture(rng), "camera"))
        elif kind == "traffic_light":
            middle = np.array([along, across, GROUND + 2.9])
            objects.append(_Object(str(kind), middle, (0.55, 1.3), _light_texture(rng), "street"))
        else:
            middle = np.array([along, across, GROUND + float(rng.uniform(2.0, 2.7))])
            objects.append(_Object(str(kind), middle, (0.95, 0.95), _sign_texture(rng), "street"))
        along += float(rng.uniform(2.6, 4.2))
    along = 10.0
    while along < 36:
        middle = np.array([along, 7.5, GROUND + float(rng.uniform(1.9, 2.6))])
        objects.append(_Object("window", middle, (1.5, 1.9), _window_texture(rng), "side"))
        along += float(rng.uniform(3.4, 5.0))
    return objects


def _panels(objects: list[_Object], backdrop: list[Panel], eye: Array) -> list[Panel]:
    """The scene as seen from `eye`: round poles turn their flat stand-in towards it."""
    panels = list(backdrop)
    for identity, it in enumerate(objects):
        if it.facing == "camera":
            sight = it.position[:2] - eye[:2]
            sight = sight / np.linalg.norm(sight)
            right = np.array([sight[1], -sight[0], 0.0])
        else:
            right = np.array([0.0, -1.0, 0.0]) if it.facing == "street" else np.array([1.0, 0.0, 0.0])
        right, up = right * it.size[0], np.array([0.0, 0.0, it.size[1]])
        corner = it.position - right / 2 - up / 2
        if it.category in (
            "traffic_sign",
            "traffic_light",
        ):  # the thin post that carries it is nobody's landmark
            foot = np.array([it.position[0] + 0.05, it.position[1] + 0.03, GROUND])
            post = np.full((4, 2, 3), 90, np.uint8)
            tall = np.array([0.0, 0.0, it.position[2] - GROUND])
            panels.append(Panel(foot, np.array([0.0, -0.06, 0.0]), tall, post, UNLABELLED))
        panels.append(Panel(corner, right, up, it.texture, LABELS[it.category], identity))
    return panels


def _backdrop(rng: np.random.Generator) -> list[Panel]:
    """Road, sidewalks, a row of houses on the left and a hedge on the right."""
    long, start = 90.0, -6.0
    road = _painted((96, 96, 100), _noise(rng, 900, 80, 0.75, 1.2))
    for at in range(0, 900, 60):
        road[at : at + 30, 39:41] = (225, 225, 220)
    walk = _painted((150, 142, 132), _noise(rng, 900, 60, 0.8, 1.15))
    walk[::20] = (110, 105, 98)
    ground, ahead = np.array([start, 0, GROUND]), np.array([long, 0, 0])

    def strip(left: float, right: float, texture: NDArray[np.uint8], label: int) -> Panel:
        return Panel(ground + np.array([0, left, 0]), np.array([0, right - left, 0.0]), ahead, texture, label)

    panels = [strip(3.2, -3.2, road, ROAD), strip(12, 3.2, walk, SIDEWALK), strip(-3.2, -12, walk, SIDEWALK)]
    at = start
    while at < start + long:
        wide, tall = float(rng.uniform(7, 12)), float(rng.uniform(5, 8))
        wall = _painted(tuple(rng.uniform(95, 205, 3)), _noise(rng, 160, 240, 0.75, 1.15))
        wall[::8] = (wall[::8] * 0.85).astype(np.uint8)
        corner = np.array([at, 7.6, GROUND])
        panels.append(Panel(corner, np.array([wide, 0, 0]), np.array([0, 0, tall]), wall, BUILDING))
        at += wide
    hedge = _painted((70, 110, 50), _noise(rng, 64, 900, 0.4, 1.5))
    panels.append(
        Panel(np.array([start, -9.0, GROUND]), np.array([long, 0, 0]), np.array([0, 0, 2.6]), hedge, VEGETATION)
    )
    return panels


def _car(frame: int) -> Panel:
    """A car that drives ahead and pulls away: its LiDAR points must not stay in the map."""
    back = np.full((40, 48, 3), (150, 25, 25), np.uint8)
    back[4:16, 6:42] = (40, 45, 60)
    back[22:28, 2:10] = back[22:28, 38:46] = (255, 90, 60)
    back[34:] = 20
    corner = np.array([11.0 + 1.35 * frame, -0.4, GROUND + 0.1])
    return Panel(corner, np.array([0, -1.7, 0.0]), np.array([0, 0, 1.4]), back, CAR)


def _cast(
    panels: list[Panel], eye: Array, rays: Array, windows: list[NDArray[np.intp]] | None = None
) -> tuple[NDArray[np.intp], Array, Array]:
    """Nearest panel (or -1), its distance along the ray, and (u, v) on it, for rays [N, 3] from one eye.

    `windows` may name, for each panel, the only rays that can hit it.
    """
    hit = np.full(len(rays), -1, dtype=np.intp)
    distance = np.full(len(rays), np.inf)
    place = np.zeros((len(rays), 2))
    everything = np.arange(len(rays))
    for number, panel in enumerate(panels):
        window = everything if windows is None else windows[number]
        # In the panel's own axes (right, up, out of it) a ray's numbers are three products each.
        axes = np.column_stack(
            [
                panel.right / (panel.right @ panel.right),
                panel.up / (panel.up @ panel.up),
                np.cross(panel.right, panel.up),
            ]
        )
        start = (eye - panel.corner) @ axes
        slope = rays[window] @ axes
        with np.errstate(divide="ignore", invalid="ignore"):
            along = -start[2] / slope[:, 2]
            u, v = start[0] + along * slope[:, 0], start[1] + along * slope[:, 1]
        on = (along > 0.3) & (along < distance[window]) & (u >= 0) & (u < 1) & (v >= 0) & (v < 1)
        chosen = window[on]
        hit[chosen], distance[chosen] = number, along[on]
        place[chosen, 0], place[chosen, 1] = u[on], v[on]
    return hit, distance, place


def _window(panel: Panel, K: Array, T_scene_camera: Array) -> NDArray[np.intp]:
    """The pixels (as flat indices) around a panel's outline: all of them if it reaches behind the camera."""
    steps = ((0, 0), (1, 0), (0, 1), (1, 1))
    corners = np.array([panel.corner + u * panel.right + v * panel.up for u, v in steps])
    seen = (corners - T_scene_camera[:3, 3]) @ T_scene_camera[:3, :3]
    left, top, right, bottom = 0, 0, WIDTH, HEIGHT
    if (seen[:, 2] > 0.3).all():
        pixels = (seen @ K.T)[:, :2] / seen[:, 2:]
        (left, top), (right, bottom) = np.floor(pixels.min(0)) - 1, np.ceil(pixels.max(0)) + 2
    columns = np.arange(max(int(left), 0), min(int(right), WIDTH))
    rows = np.arange(max(int(top), 0), min(int(bottom), HEIGHT))
    return (rows[:, None] * WIDTH + columns).ravel()


def _photograph(panels: list[Panel], K: Array, T_scene_camera: Array) -> tuple[NDArray[np.uint8], NDArray[np.intp]]:
    """Image [H, W, 3] from 2 x 2 rays a pixel, and which panel each pixel's middle shows [H, W]."""
    eye, R = T_scene_camera[:3, 3], T_scene_camera[:3, :3]
    windows = [_window(panel, K, T_scene_camera) for panel in panels]

    def look(shift_x: float, shift_y: float) -> tuple[Array, NDArray[np.intp], Array]:
        x, y = np.meshgrid(np.arange(WIDTH) + shift_x, np.arange(HEIGHT) + shift_y)
        rays = np.stack([(x - K[0, 2]) / K[0, 0], (y - K[1, 2]) / K[1, 1], np.ones_like(x)], axis=-1)
        rays = rays.reshape(-1, 3) @ R.T
        hit, _, place = _cast(panels, eye, rays, windows)
        return rays, hit, place

    def shoot(shift_x: float, shift_y: float) -> Array:
        rays, hit, place = look(shift_x, shift_y)
        height = rays[:, 2] / np.linalg.norm(rays, axis=1)
        color = np.array([200.0, 215, 235]) - np.clip(height, 0, 1)[:, None] * (110, 80, 30)
        for number, window in enumerate(windows):
            texture = panels[number].texture
            mine = window[hit[window] == number]
            column = (place[mine, 0] * texture.shape[1]).astype(int)
            row = ((1 - place[mine, 1]) * texture.shape[0]).astype(int).clip(0, texture.shape[0] - 1)
            color[mine] = texture[row, column]
        return color.reshape(HEIGHT, WIDTH, 3)

    shots = [shoot(x, y) for x in (-0.25, 0.25) for y in (-0.25, 0.25)]
    image = np.mean(shots, axis=0).round().astype(np.uint8)
    return image, look(0.0, 0.0)[1].reshape(HEIGHT, WIDTH)


def _scan(panels: list[Panel], T_scene_lidar: Array, rng: np.random.Generator) -> NDArray[np.float32]:
    """[N, 4] points of one turn of a LiDAR that also looks up to the windows; ranges carry 1 cm of noise."""
    azimuth, elevation = np.meshgrid(np.radians(np.arange(-48, 48, 0.35)), np.radians(np.arange(-16, 17, 0.75)))
    level = np.cos(elevation)
    rays = np.stack([level * np.cos(azimuth), level * np.sin(azimuth), np.sin(elevation)], axis=-1).reshape(-1, 3)
    hit, distance, _ = _cast(panels, T_scene_lidar[:3, 3], rays @ T_scene_lidar[:3, :3].T)
    seen = (hit >= 0) & (distance < 60)
    reach = distance[seen] + rng.normal(0, 0.01, int(seen.sum()))
    points = rays[seen] * reach[:, None]
    return np.column_stack([points, rng.uniform(0, 1, len(points))]).astype(np.float32)


def render(seed: int, frames: int, camera: int, root: Path) -> SceneTruth:
    """Everything the cameras and the LiDAR of a drive see, as arrays."""
    rng = np.random.default_rng(seed)
    objects, backdrop = _plan(rng), _backdrop(rng)
    T_cam_cam0 = _rigid(np.eye(3), CAMERA_OFFSET[camera])
    T_camera_lidar = T_cam_cam0 @ _rigid(R_RECT, (0, 0, 0)) @ T_CAM_VELO
    T_camera_imu = T_cam_cam0 @ T_CAM0_IMU
    truth = SceneTruth(root, camera, [], [], [], T_camera_lidar, K, [], [], [])
    for number in range(frames):
        T_scene_camera = imu_pose(number) @ np.linalg.inv(T_camera_imu)
        T_scene_lidar = T_scene_camera @ T_camera_lidar
        panels = _panels(objects, [*backdrop, _car(number)], T_scene_camera[:3, 3])
        image, shown = _photograph(panels, K, T_scene_camera)
        labels = np.array([*(panel.label for panel in panels), SKY], dtype=np.uint8)
        lidar_panels = _panels(objects, [*backdrop, _car(number)], T_scene_lidar[:3, 3])
        truth.names.append(f"{number:010d}")
        truth.T_scene_camera.append(T_scene_camera)
        truth.images.append(image)
        truth.semantics.append(labels[shown])  # -1, nothing hit, picks the sky at the end
        truth.points_lidar.append(_scan(lidar_panels, T_scene_lidar, rng))
        truth.landmarks.append(_seen(objects, panels, shown))
    return truth


def imu_pose(number: int) -> Array:
    """T_scene_imu of a frame: a metre a frame, swaying a little in every direction."""
    yaw, pitch, roll = 0.02 * np.sin(number / 3), 0.004 * np.cos(number / 2), 0.006 * np.sin(number / 4)
    position = (1.0 * number, 0.25 * np.sin(number / 5), 0.01 * np.sin(number))
    return _rigid(_rotation(roll, pitch, yaw), position)


def _seen(objects: list[_Object], panels: list[Panel], shown: NDArray[np.intp]) -> list[SeenObject]:
    seen = []
    for number, panel in enumerate(panels):
        rows, columns = np.nonzero(shown == number)
        if panel.identity is None or not len(rows):
            continue
        box = (float(columns.min()), float(rows.min()), float(columns.max() + 1), float(rows.max() + 1))
        it = objects[panel.identity]
        x, y, z = it.position.tolist()
        seen.append(SeenObject(box, it.category, panel.identity, (x, y, z), len(rows)))
    return seen


def _numbers(values: Array | tuple[float, ...]) -> str:
    return " ".join(f"{value:.12e}" for value in np.asarray(values).ravel())


def _projection(camera: int) -> Array:
    return K @ np.column_stack([np.eye(3), CAMERA_OFFSET[camera]])


def _write_frames(truth: SceneTruth, image_folder: Path, label_folder: Path, scan_folder: Path, digits: int) -> None:
    for folder in (image_folder, label_folder, scan_folder):
        folder.mkdir(parents=True, exist_ok=True)
    for number, image in enumerate(truth.images):
        stem = f"{number:0{digits}d}"
        cv2.imwrite(str(image_folder / f"{stem}.png"), image[:, :, ::-1])
        cv2.imwrite(str(label_folder / f"{stem}.png"), truth.semantics[number])
        truth.points_lidar[number].tofile(scan_folder / f"{stem}.bin")


def write_kitti_raw(root: Path | str, seed: int = 0, frames: int = 12) -> SceneTruth:
    """ROOT/2011_09_26/2011_09_26_drive_0001_sync with camera 2, labels, LiDAR, GPS/IMU and calibration."""
    root = Path(root)
    truth = render(seed, frames, 2, root)
    date = root / DATE
    drive = date / f"{DATE}_drive_{DRIVE}_sync"
    velodyne = drive / "velodyne_points"
    _write_frames(truth, drive / "image_02/data", drive / "semantics_02/data", velodyne / "data", digits=10)
    stamps = "".join(f"2011-09-26 13:02:{20 + 0.1 * number:012.9f}\n" for number in range(frames))
    (drive / "oxts/data").mkdir(parents=True, exist_ok=True)
    for folder in (drive / "image_02", drive / "oxts", velodyne):
        (folder / "timestamps.txt").write_text(stamps)
    for number in range(frames):
        (drive / f"oxts/data/{number:010d}.txt").write_text(_oxts(imu_pose(number)))
    (date / "calib_cam_to_cam.txt").write_text(
        "calib_time: 09-Jan-2012 13:57:47\ncorner_dist: 9.950000e-02\n"
        f"R_rect_00: {_numbers(R_RECT)}\n"
        f"S_rect_02: {_numbers((WIDTH, HEIGHT))}\nR_rect_02: {_numbers(np.eye(3))}\n"
        f"P_rect_00: {_numbers(_projection(0))}\nP_rect_02: {_numbers(_projection(2))}\n"
    )
    for name, T in (("calib_imu_to_velo.txt", T_VELO_IMU), ("calib_velo_to_cam.txt", T_CAM_VELO)):
        text = f"calib_time: 25-May-2012 16:47:16\nR: {_numbers(T[:3, :3])}\nT: {_numbers(T[:3, 3])}\n"
        (date / name).write_text(text)
    return truth


def _oxts(T_scene_imu: Array) -> str:
    """The 30 fields of a GPS/IMU reading; metres become degrees by the development kit's Mercator formula."""
    scale = np.cos(np.radians(LATITUDE))
    first_north = np.log(np.tan(np.pi / 4 + np.radians(LATITUDE) / 2))
    east, north, up = T_scene_imu[:3, 3]
    longitude = LONGITUDE + np.degrees(east / (scale * EARTH_RADIUS))
    latitude = np.degrees(2 * np.arctan(np.exp(first_north + north / (scale * EARTH_RADIUS))) - np.pi / 2)
    R = T_scene_imu[:3, :3]
    roll, pitch, yaw = np.arctan2(R[2, 1], R[2, 2]), -np.arcsin(R[2, 0]), np.arctan2(R[1, 0], R[0, 0])
    pose = [f"{value:.15g}" for value in (latitude, longitude, ALTITUDE + up, roll, pitch, yaw)]
    return " ".join([*pose, *["0.0"] * 19, "4", "8", "4", "4", "0"]) + "\n"


def write_kitti_odometry(root: Path | str, seed: int = 0, frames: int = 12, camera: int = 2) -> SceneTruth:
    """ROOT/sequences/00 and ROOT/poses/00.txt: the same street, poses relative to the first camera 0."""
    root = Path(root)
    truth = render(seed, frames, camera, root)
    sequence = root / "sequences" / SEQUENCE
    folders = (sequence / f"image_{camera}", sequence / f"semantics_{camera}", sequence / "velodyne")
    _write_frames(truth, *folders, digits=6)
    T_cam0_lidar = _rigid(R_RECT, (0, 0, 0)) @ T_CAM_VELO
    calibration = {f"P{number}": _projection(2 if number == 2 else 0) for number in range(4)}
    lines = [f"{key}: {_numbers(P)}" for key, P in calibration.items()] + [f"Tr: {_numbers(T_cam0_lidar[:3])}"]
    (sequence / "calib.txt").write_text("\n".join(lines) + "\n")
    (sequence / "times.txt").write_text("".join(f"{0.1 * number:e}\n" for number in range(frames)))
    T_imu_cam0 = np.linalg.inv(T_CAM0_IMU)
    T_world_scene = np.linalg.inv(imu_pose(0) @ T_imu_cam0)
    poses = [T_world_scene @ imu_pose(number) @ T_imu_cam0 for number in range(frames)]
    (root / "poses").mkdir(parents=True, exist_ok=True)
    text = "".join(f"{_numbers(T[:3])}\n" for T in poses)
    (root / "poses" / f"{SEQUENCE}.txt").write_text(text)
    return truth
