"""How verbs that train use the processor and its memory."""

import ctypes
import sys

# Of glibc's malloc.h
TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3
MOST = 2**31 - 1  # bytes; what mallopt takes


def use_processor(threads: int | None = None) -> None:
    """Take so many threads, where a number is given, and keep freed memory for the next step.

    glibc hands every large block back to the system as soon as it is freed, and a training asks for the same blocks
    again a moment later. At the paper's sizes a third of the processor's time went there.
    """
    import torch

    if threads:
        torch.set_num_threads(threads)
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:  # musl has none
        mallopt(MMAP_THRESHOLD, MOST)
        mallopt(TRIM_THRESHOLD, MOST)
