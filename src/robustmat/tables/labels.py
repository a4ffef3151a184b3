"""What the names of a table's rows, conditions and tests mean to a reader."""

import re
from collections.abc import Sequence

from robustmat.methods import find_method, method_names
from robustmat.tables.definitions import CONTEXT
from robustmat.tables.plan import EvaluationSplit

# Rows that are more than a method's name: trainings and ablations of `definitions.py`.
LABELS = {
    "robustmat": "RobustMat (small, contractive ODE)",
    "robustmat-gcn": "RobustMat (small, GCN)",
    "robustmat-untrained": "RobustMat (small), untrained",
    "robustmat-plain": "RobustMat (small, the paper's ODE)",
    "robustmat-paper": "RobustMat (the paper's sizes)",
    "robustmat-paper-untrained": "RobustMat (the paper's sizes), untrained",
    "robustmat-handcrafted": "RobustMat + hand-crafted descriptors",
    "street": "street, fine-tuned",
    "street-shipped": "street, as shipped",
    "ode-pde": "ODE + PDE (T_f = T_g = 1)",
    "untrained": "ODE + PDE, untrained",
    "resnet-gat": "ResNet + GAT",
    "resnet-gat-untrained": "ResNet + GAT, untrained",
    "ode-only": "ODE only",
    "pde-only": "PDE only",
    "no-reg": "no regulariser",
    "ode-reg": "regulariser on the ODE",
    "ode-pde-reg": "regulariser on ODE and PDE",
    "gcn": "GCN instead of GAT",
    "k1": "K = 1 neighbour",
    "k5": "K = 5 neighbours",
    "without-center": "the paper's graph (no centre, mean)",
    "plain-field": "plain vertex field",
    "euler-4": "four Euler steps",
    "rk4-2": "two RK4 steps",
}
QUESTIONS = {
    "main": "Which matcher tells street landmarks apart best, from clean frames to heavy noise?",
    "paper-size": "Does RobustMat at the paper's sizes beat the small network?",
    "weather": "What is left when a matcher that was trained at noon is tested in snow, under clouds or in rain?",
    "noise-levels": "How much does each matcher lose under light (19 dB) and heavy (13 dB) noise?",
    "neighborhood": "Do the other matchers gain when the scores of neighbouring landmarks are averaged in?",
    "denoising": "Does taking the noise off first help each matcher?",
    "keypoints": "Do keypoint matchers tell street landmarks apart, on their patches and on whole frames?",
    "keypoints-neighborhood": "Do keypoint matchers gain when the scores of neighbouring landmarks are averaged in?",
    "cross-dataset": "How well does each matcher carry over from the data it was trained on to other data?",
    "ablation-modules": "Do the ODE and the PDE bring more than the residual and attention layers they stand for?",
    "ablation-parts": "What do the ODE and the PDE bring, each alone and together?",
    "ablation-time": "How much does the time over which the ODE and the PDE are integrated matter?",
    "ablation-regularizer": "Do the paper's regularisers of the ODE and the PDE help?",
    "ablation-choices": "How much do the graph, the vertex field and the solver matter?",
}


def row_label(name: str) -> str:
    """`hardnet+competition+denoising` as `HardNet + competition + denoising`; unknown names stay as they are."""
    head, plus, step = name.partition("+")
    times = re.fullmatch(r"tf(\d+)-tg(\d+)", head)
    method = head.removesuffix(CONTEXT)
    if times:
        label = f"T_f = {times[1]}, T_g = {times[2]}"
    else:
        known = find_method(method).label if method in method_names() else method
        label = LABELS.get(method, known) + (", wider crop" if head != method else "")
    return f"{label} + {step.replace('+', ' + ')}" if plus else label


def condition_label(condition: str) -> str:
    """`paper:16` as `16 dB`; others by their own names."""
    return f"{condition.removeprefix('paper:')} dB" if condition.startswith("paper:") else condition


def short_names(tests: Sequence[EvaluationSplit]) -> list[str]:
    """`0013 -> 0002` for each test; the whole names where short ones would not tell two tests apart."""
    short = [f"{_drives([d.name for d in t.side.data])} -> {_drives([d.name for d in t.data])}" for t in tests]
    return short if len(set(short)) == len(short) else [f"{test.side.name} -> {test.name}" for test in tests]


def _drives(names: Sequence[str]) -> str:
    """Up to two drives by name, without the date of KITTI's; more by their number."""
    if len(names) > 2:
        return f"{len(names)} drives"
    return "+".join(re.sub(r"^\d{4}_\d\d_\d\d_drive_", "", name) for name in names)
