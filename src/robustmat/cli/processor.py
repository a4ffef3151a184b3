"""How verbs use the processor."""


def set_threads(threads: int | None) -> None:
    """Of torch and OpenCV; as many as there are cores, unless given."""
    if threads is not None:
        import cv2
        import torch

        torch.set_num_threads(threads)
        cv2.setNumThreads(threads)
