"""Oxford RobotCar's camera models and extrinsics, as its development kit reads them.

`models/NAME.txt`: focal lengths and principal point, then G_camera_image, four rows; `models/NAME_distortion_lut.bin`:
float64, first the column and then the row in the raw image of every pixel of the rectified one. `extrinsics/NAME.txt`:
x, y, z, roll, pitch, yaw. The kit takes a camera's extrinsics as T_camera_vehicle, those of every other sensor as
T_vehicle_sensor. Vehicle axes are x ahead, y right, z down.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from robustmat.errors import DataError, InputError
from robustmat.geometry.transforms import invert, is_rigid, rigid, rotation_from_roll_pitch_yaw
from robustmat.geometry.undistortion import Table
from robustmat.sources.tables import read_numbers
from robustmat.types import Array, Camera


@dataclass(frozen=True)
class Lens:
    """One lens of the car: its images' folder, its model's and extrinsics' names, the pattern on its sensor."""

    folder: str
    model: str
    extrinsics: str
    bayer: str  # the first two rows of the mosaic


LENSES = {
    lens.folder: lens
    for lens in (
        Lens("stereo/centre", "stereo_narrow_left", "stereo", "gbrg"),
        Lens("stereo/left", "stereo_wide_left", "stereo", "gbrg"),
        Lens("stereo/right", "stereo_wide_right", "stereo", "gbrg"),
        Lens("mono_left", "mono_left", "mono_left", "rggb"),
        Lens("mono_right", "mono_right", "mono_right", "rggb"),
        Lens("mono_rear", "mono_rear", "mono_rear", "rggb"),
    )
}


def find_lens(camera: str) -> Lens:
    if camera not in LENSES:
        raise InputError(f"Oxford RobotCar has no camera '{camera}': choose one of {', '.join(LENSES)}")
    return LENSES[camera]


def read_model(models: Path, lens: Lens, width: int, height: int) -> tuple[Camera, Array]:
    """Intrinsics of the rectified image, and T_camera_image: camera axes are x ahead, image axes z ahead."""
    path = models / f"{lens.model}.txt"
    values = read_numbers(path, (20,), "Oxford camera model (fx fy cx cy, then four rows of G_camera_image)")
    fx, fy, cx, cy = values[:4]
    T_camera_image = values[4:].reshape(4, 4)
    if min(fx, fy) <= 0 or not is_rigid(T_camera_image):
        raise DataError(f"Oxford camera model has no focal length or no rigid G_camera_image: {path}")
    return Camera(np.array([[fx, 0, cx], [0, fy, cy], [0, 0, 1.0]]), width, height), T_camera_image


def read_distortion(models: Path, lens: Lens, width: int, height: int) -> Table:
    """[H, W, 2]: where in the raw image each pixel of the rectified image is."""
    path = models / f"{lens.model}_distortion_lut.bin"
    try:
        size = path.stat().st_size
        if size != 16 * width * height:
            raise DataError(
                f"undistortion table does not fit: {path} has {size} bytes, but images of {width}x{height} pixels "
                f"need {16 * width * height} (two float64 a pixel)"
            )
        values = np.fromfile(path, dtype="<f8").reshape(2, height, width)
    except OSError:
        raise DataError(f"undistortion table not found: {path}; it comes with the camera models") from None
    return np.ascontiguousarray(values.transpose(1, 2, 0), dtype=np.float32)


def read_extrinsics(extrinsics: Path, name: str) -> Array:
    """[4, 4] of one `x y z roll pitch yaw` file."""
    values = read_numbers(extrinsics / f"{name}.txt", (6,), f"Oxford extrinsics of '{name}' (x y z roll pitch yaw)")
    return xyzrpy(values)


def xyzrpy(values: Array) -> Array:
    """[4, 4] of x, y, z in metres and roll, pitch, yaw in radians: yaw after pitch after roll."""
    return rigid(rotation_from_roll_pitch_yaw(*values[3:6]), values[:3])


def image_from_vehicle(T_camera_vehicle: Array, T_camera_image: Array) -> Array:
    """T_image_vehicle: where the pinhole looks from, with the axes that pixels have."""
    return invert(T_camera_image) @ T_camera_vehicle
