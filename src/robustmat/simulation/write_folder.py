"""Writes simulated drives as one's own folder of frames, in the town's coordinates."""

from pathlib import Path

import numpy as np
from scipy.spatial.transform import Rotation

from robustmat.files import write_json, write_text
from robustmat.folders import filling
from robustmat.simulation.drive import StreetDrive
from robustmat.simulation.rig import T_CAMERA_LIDAR
from robustmat.simulation.write_files import (
    Progress,
    camera_of,
    points_of,
    pose_of,
    write_floats,
    write_frames,
    write_labels,
    write_picture,
)
from robustmat.types import Frame


def write_folder(drive: StreetDrive, root: Path | str, boxes: bool = False, progress: Progress | None = None) -> Path:
    """Write a drive as a plain folder and return it: with label maps, or with the landmarks' true `boxes`."""
    folder = Path(root)
    camera = camera_of(drive)
    with filling(folder):
        write_json(
            folder / "camera.json",
            {
                "fx": camera.matrix[0, 0],
                "fy": camera.matrix[1, 1],
                "cx": camera.matrix[0, 2],
                "cy": camera.matrix[1, 2],
                "width": camera.width,
                "height": camera.height,
                "T_camera_lidar": T_CAMERA_LIDAR.tolist(),
            },
        )
        write_text(
            folder / "poses.txt",
            "# time x y z qx qy qz qw\n" + "".join(_tum_line(one_frame) for one_frame in drive.frames),
        )

        def write(i: int, frame: Frame, name: str) -> None:
            write_picture(folder / f"images/{name}.png", frame.image)
            write_floats(folder / f"lidar/{name}.bin", points_of(frame))
            if boxes:
                seen = [{"box": list(one.box), "category": one.category} for one in drive.truth(i)]
                write_json(folder / f"boxes/{name}.json", {"landmarks": seen})
            else:
                write_labels(folder / f"masks/{name}.png", frame)

        write_frames(drive, folder, [f"{i:06d}" for i in range(len(drive.frames))], write, progress)
    return folder


def _tum_line(frame: Frame) -> str:
    pose = pose_of(frame)
    values = np.concatenate([pose[:3, 3], Rotation.from_matrix(pose[:3, :3]).as_quat()])
    return f"{frame.time or 0.0:.6f} " + " ".join(repr(float(value)) for value in values) + "\n"
