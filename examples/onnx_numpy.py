"""Run an export with onnxruntime and numpy alone: python examples/onnx_numpy.py FOLDER

FOLDER is what `robustmat export onnx --out FOLDER` wrote; its sample.npz holds the inputs of one frame pair.
"""

import json
import sys
from pathlib import Path

import numpy as np
import onnxruntime

folder = Path(sys.argv[1])
sample = dict(np.load(folder / "sample.npz"))
runs = {it.stem: onnxruntime.InferenceSession(str(it)) for it in folder.glob("*.onnx")}
for side in "ab":
    (sample[f"vertex_{side}"],) = runs["vertex"].run(None, {"patches": sample[f"patches_{side}"]})
scorer = runs["score_placement"]
score = scorer.run(None, {given.name: sample[given.name] for given in scorer.get_inputs()})[0]
score = np.where(sample["category_a"][:, None] == sample["category_b"], score, -np.inf)
threshold = json.loads((folder / "export.json").read_text())["decisions"]["placement"]["match_threshold"]
for i, j in enumerate(score.argmax(axis=1)):
    if score[:, j].argmax() == i and score[i, j] >= threshold:
        print(f"{sample['category_a'][i]} {i} is {j}, score {score[i, j]:.4f}")
