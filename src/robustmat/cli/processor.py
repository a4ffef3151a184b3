"""How verbs use the processor and its memory."""

import ctypes
import sys

# Of glibc's malloc.h
TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3
LARGEST = (2**31 - 1, 2**25)  # bytes: the most that mallopt takes, and the most that older releases do


def set_threads(threads: int | None) -> None:
    """Of torch and OpenCV; as many as there are cores, unless given."""
    if threads is not None:
        import cv2
        import torch

        torch.set_num_threads(threads)
        cv2.setNumThreads(threads)


def keep_memory() -> None:
    """Keep freed memory for the next step of a training.

    glibc hands every large block back to the system as soon as it is freed, and a training asks for the same blocks
    again a moment later. At the paper's sizes a third of the processor's time went there.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None  # musl has none
    if mallopt is not None and any(mallopt(MMAP_THRESHOLD, size) for size in LARGEST):
        mallopt(TRIM_THRESHOLD, LARGEST[0])
