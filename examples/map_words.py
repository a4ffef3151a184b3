"""Learn the visual words by which maps find frames that look alike as a whole.

    python examples/map_words.py street-1015-0 ... street-1018-1 --out src/robustmat/mapping/words.safetensors

The shipped ones come from the eight drives of towns 1015 to 1018 (`examples/street_data.py`).
"""

import argparse
from pathlib import Path

import numpy as np
from rich.progress import track
from safetensors.numpy import save_file

from robustmat.dataset.store import open_dataset
from robustmat.features.keypoints import detect_keypoints, unit_descriptors
from robustmat.mapping.words import learn_words

OF_A_FRAME = 400  # keypoints, spread over all of it


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("datasets", nargs="+", type=Path)
    parser.add_argument("--every", type=int, default=4, help="take every Nth frame")
    parser.add_argument("--out", type=Path, required=True)
    asked = parser.parse_args()
    frames = [frame for path in asked.datasets for frame in open_dataset(path).frames[:: asked.every]]
    rng = np.random.default_rng(0)
    looks = []
    for frame in track(frames, "keypoints"):
        found = unit_descriptors(detect_keypoints(frame.image, most=2000))
        looks.append(found[rng.permutation(len(found))[:OF_A_FRAME]])
    save_file({"words": learn_words(np.concatenate(looks))}, asked.out)


if __name__ == "__main__":
    main()
