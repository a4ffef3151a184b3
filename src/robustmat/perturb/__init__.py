"""Named, seeded weather and noise: the whole frame is perturbed before anything is cropped from it.

A perturbation is written `name:level`: `paper:16` and `awgn:13` give the PSNR against the clean frame in
decibels, the others a severity from 1 to 5 (`snow:3`), and `clean` changes nothing. The same seed and frame
name give the same bytes, on any machine and in any order.
"""

from robustmat.perturb.named import (
    CLEAN,
    PERTURBATIONS,
    Kind,
    Perturbation,
    parse,
    perturb_frame,
    perturb_image,
)
from robustmat.perturb.noise import psnr

__all__ = [
    "CLEAN",
    "PERTURBATIONS",
    "Kind",
    "Perturbation",
    "parse",
    "perturb_frame",
    "perturb_image",
    "psnr",
]
