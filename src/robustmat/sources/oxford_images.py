"""Oxford RobotCar's images: mosaics of one colour a pixel, through a lens that bends.

Rectified images and label maps are those after demosaicing and undistortion.
"""

from collections.abc import Callable
from functools import lru_cache, partial
from pathlib import Path
from typing import cast

import cv2
import numpy as np
from numpy.typing import NDArray

from robustmat.geometry.undistortion import Table, undistort
from robustmat.sources.drive import check_size
from robustmat.sources.images import read_mosaic
from robustmat.sources.oxford_calibration import Lens, read_distortion
from robustmat.types import Camera, Image

BAYER_CODES = {"gbrg": cv2.COLOR_BayerGBRG2RGB, "rggb": cv2.COLOR_BayerRGGB2RGB}  # by the mosaic's first two rows


def demosaic(mosaic: NDArray[np.uint8], pattern: str) -> Image:
    """[H, W, 3] from a mosaic [H, W] by linear interpolation of each colour."""
    return cast(Image, cv2.demosaicing(mosaic, BAYER_CODES[pattern]))


def mosaic_loader(path: Path, camera: Camera, lens: Lens, models: Path) -> Callable[[], Image]:
    """Demosaic and rectify when asked. The table, 20 MB and the same for the whole drive, is read at the first."""
    return partial(_rectify, path, camera, lens, models)


def _rectify(path: Path, camera: Camera, lens: Lens, models: Path) -> Image:
    mosaic = read_mosaic(path)
    check_size(path, mosaic.shape, (camera.width, camera.height), "the drive's first image")
    return undistort(demosaic(mosaic, lens.bayer), _table(models, lens, camera.width, camera.height))


@lru_cache(maxsize=2)
def _table(models: Path, lens: Lens, width: int, height: int) -> Table:
    return read_distortion(models, lens, width, height)
