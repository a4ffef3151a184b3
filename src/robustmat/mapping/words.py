"""What a whole frame looks like: its keypoints, sorted by visual words, as one vector (VLAD).

Each keypoint goes to the word that its descriptor is nearest to; a word's part of the vector is the direction in which
its keypoints differ from it, all words counting alike, so that many keypoints of one hedge do not drown the others. The
words are the means of clusters of RootSIFT descriptors of simulated towns (`examples/map_words.py`). The long vector is
folded into `VECTOR` numbers by adding them up with random signs, which keeps cosines on average.
"""

from collections.abc import Mapping
from functools import lru_cache
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load

from robustmat.features.keypoints import unit_descriptors

VECTOR = 2048
FILE = "words.safetensors"


def frame_vector(arrays: Mapping[str, NDArray[Any]]) -> NDArray[np.float32]:
    """What all keypoints look like together, as a unit vector [VECTOR]; nothing but zeros without keypoints."""
    looks = unit_descriptors(dict(arrays))
    if not len(looks):
        return np.zeros(VECTOR, np.float32)
    words, slots, signs = _words()
    word = (looks @ words.T - 0.5 * (words**2).sum(axis=1)).argmax(axis=1)
    apart = np.zeros_like(words)
    np.add.at(apart, word, looks - words[word])
    apart /= np.maximum(np.linalg.norm(apart, axis=1, keepdims=True), 1e-6)
    vector = np.bincount(slots, weights=signs * apart.ravel(), minlength=VECTOR)
    return np.asarray(vector / max(float(np.linalg.norm(vector)), 1e-9), np.float32)


def learn_words(looks: NDArray[np.float32], count: int = 128, seed: int = 0) -> NDArray[np.float16]:
    """The means [count, D] of clusters of unit descriptors [N, D]."""
    from sklearn.cluster import MiniBatchKMeans

    found = MiniBatchKMeans(count, random_state=seed, n_init=1, batch_size=4096, max_iter=60).fit(looks)
    return np.asarray(found.cluster_centers_, np.float16)


@lru_cache(maxsize=1)
def _words() -> tuple[NDArray[np.float32], NDArray[np.intp], NDArray[np.float64]]:
    """The shipped words [W, D], and where each number of the long vector goes, with its sign [W * D]."""
    words = load((resources.files("robustmat.mapping") / FILE).read_bytes())["words"].astype(np.float32)
    rng = np.random.default_rng(20260)
    return words, rng.integers(0, VECTOR, words.size), rng.choice([-1.0, 1.0], words.size)
