"""The paper's own figures, to stand beside ours: precision, recall, F1 and its AUC, by table, condition and row.

Its data are other drives than anybody has here, so they are for orientation; RobustMat there is at full size, on a GPU.
"""

import re

Figures = tuple[float, float, float, float]  # precision, recall, F1, AUC (paper)

METRICS = ("precision", "recall", "f1", "auc_paper")
COLUMNS = ("siamesenet", "matchnet", "hardnet", "sosnet", "exp-tloss", "hynet", "solar", "delg", "cvnet")
ROWS = (*COLUMNS, "robustmat-gcn", "robustmat")


def _columns(rows: tuple[str, ...], *metrics: tuple[float, ...]) -> dict[str, Figures]:
    """From the paper's layout, one line a metric, to ours, one entry a method."""
    precision, recall, f1, area = metrics
    return {row: (precision[k], recall[k], f1[k], area[k]) for k, row in enumerate(rows)}


KITTI = _columns(
    ROWS,
    (0.8242, 0.9288, 0.8937, 0.9250, 0.9266, 0.9266, 0.9256, 0.9251, 0.9287, 0.9327, 0.9308),
    (0.7728, 0.8490, 0.8528, 0.8549, 0.8752, 0.8757, 0.8629, 0.7840, 0.7365, 0.8811, 0.8970),
    (0.7974, 0.8870, 0.8727, 0.8885, 0.9001, 0.9004, 0.8931, 0.8487, 0.8215, 0.9061, 0.9136),
    (0.8040, 0.8269, 0.7744, 0.8234, 0.8336, 0.8339, 0.8275, 0.7968, 0.7835, 0.8453, 0.8485),
)
KITTI_DENOISED = _columns(
    tuple(f"{row}+denoising" for row in ROWS),
    (0.8350, 0.9136, 0.8968, 0.9108, 0.9319, 0.9266, 0.9257, 0.9334, 0.9305, 0.9317, 0.9353),
    (0.7760, 0.8624, 0.8811, 0.8720, 0.8763, 0.8763, 0.8640, 0.8224, 0.8496, 0.8949, 0.8949),
    (0.8042, 0.8872, 0.8887, 0.8909, 0.9031, 0.9006, 0.8937, 0.8744, 0.8881, 0.9129, 0.9147),
    (0.8112, 0.8088, 0.7885, 0.8080, 0.8421, 0.8341, 0.8280, 0.8232, 0.8296, 0.8491, 0.8547),
)
ELSEWHERE: dict[str, Figures] = {  # RobustMat trained on Oxford, tested on noisy KITTI
    "street-shipped": (0.9408, 0.8560, 0.8963, 0.8472),
    "street-shipped+denoising": (0.9327, 0.8869, 0.9091, 0.8475),
}
KEYPOINTS: dict[str, Figures] = {
    "d2-net": (0.9318, 0.7723, 0.8444, 0.8013),
    "superglue": (0.8509, 0.8496, 0.8502, 0.7016),
    "loftr": (0.9243, 0.8405, 0.8804, 0.8171),
    "d2-net+denoising": (0.9241, 0.8181, 0.8678, 0.8083),
    "superglue+denoising": (0.8824, 0.8603, 0.8712, 0.7581),
    "loftr+denoising": (0.9167, 0.8629, 0.8890, 0.8139),
    **ELSEWHERE,
}
KEYPOINTS_NEIGHBORHOOD: dict[str, Figures] = {
    "d2-net+neighbors": (0.9254, 0.8011, 0.8587, 0.8037),
    "superglue+neighbors": (0.8711, 0.8437, 0.8571, 0.7347),
    "loftr+neighbors": (0.9179, 0.8528, 0.8841, 0.8120),
    "d2-net+neighbors+denoising": (0.9229, 0.8757, 0.8987, 0.8283),
    "superglue+neighbors+denoising": (0.8976, 0.8411, 0.8684, 0.7765),
    "loftr+neighbors+denoising": (0.9255, 0.8619, 0.8925, 0.8269),
    **ELSEWHERE,
}
OXFORD_LOW = _columns(
    ROWS,
    (0.8405, 0.9228, 0.9284, 0.9215, 0.9074, 0.9398, 0.9226, 0.9341, 0.9400, 0.9458, 0.9418),
    (0.6224, 0.8597, 0.8827, 0.8768, 0.8883, 0.8957, 0.8909, 0.8616, 0.8557, 0.8795, 0.9021),
    (0.7144, 0.8901, 0.9049, 0.8986, 0.8977, 0.9172, 0.9063, 0.8963, 0.8959, 0.9114, 0.9215),
    (0.7520, 0.8218, 0.8393, 0.8264, 0.8081, 0.8619, 0.8335, 0.8396, 0.8459, 0.8641, 0.8675),
)
OXFORD_HIGH = _columns(
    ROWS,
    (0.8763, 0.9410, 0.9129, 0.9167, 0.8999, 0.9306, 0.9153, 0.9100, 0.9121, 0.9333, 0.9430),
    (0.5776, 0.7733, 0.7125, 0.8221, 0.8160, 0.7696, 0.8072, 0.6872, 0.6117, 0.8400, 0.8256),
    (0.6954, 0.8489, 0.8003, 0.8668, 0.8558, 0.8422, 0.8578, 0.7830, 0.7322, 0.8842, 0.8804),
    (0.7480, 0.8139, 0.7543, 0.7991, 0.7720, 0.7988, 0.7916, 0.7416, 0.7175, 0.8300, 0.8380),
)
SNOWY = _columns(
    ROWS,
    (0.8654, 0.9004, 0.9136, 0.9273, 0.9118, 0.9406, 0.9256, 0.9347, 0.9223, 0.9395, 0.9358),
    (0.7728, 0.8677, 0.7893, 0.7488, 0.8827, 0.8027, 0.8635, 0.7642, 0.8869, 0.8283, 0.8939),
    (0.8163, 0.8838, 0.8469, 0.8285, 0.8970, 0.8662, 0.8935, 0.8409, 0.9042, 0.8804, 0.9143),
    (0.8264, 0.7899, 0.7827, 0.7864, 0.8133, 0.8253, 0.8277, 0.8021, 0.8315, 0.8341, 0.8549),
)
RAINY = _columns(
    ROWS,
    (0.8091, 0.9197, 0.9084, 0.9269, 0.9290, 0.9288, 0.9294, 0.9205, 0.9179, 0.9375, 0.9380),
    (0.8816, 0.8853, 0.8987, 0.8795, 0.9067, 0.7648, 0.9131, 0.9264, 0.9237, 0.9205, 0.9275),
    (0.8438, 0.9022, 0.9035, 0.9026, 0.9177, 0.8388, 0.9212, 0.9234, 0.9208, 0.9289, 0.9327),
    (0.8368, 0.8267, 0.8133, 0.8357, 0.8493, 0.7944, 0.8525, 0.8432, 0.8379, 0.8683, 0.8717),
)
CLOUDY = _columns(
    ROWS,
    (0.9369, 0.9560, 0.9562, 0.9424, 0.9509, 0.9427, 0.9579, 0.9350, 0.9549, 0.9485, 0.9581),
    (0.7135, 0.8107, 0.8160, 0.8299, 0.8261, 0.8341, 0.8507, 0.8437, 0.8464, 0.8832, 0.8528),
    (0.8101, 0.8773, 0.8805, 0.8825, 0.8841, 0.8851, 0.9011, 0.8870, 0.8974, 0.9147, 0.9023),
    (0.8328, 0.8493, 0.8520, 0.8389, 0.8491, 0.8411, 0.8693, 0.8339, 0.8632, 0.8696, 0.8704),
)
# By a perturbation's name, or by a word in a test's name.
WEATHER = dict.fromkeys(("snow", "snowy", "winter"), SNOWY) | dict.fromkeys(("rain", "rainy"), RAINY)
WEATHER |= dict.fromkeys(("clouds", "cloudy", "overcast"), CLOUDY)
NEIGHBORHOOD = _columns(
    ("hardnet+neighbors", "hynet+neighbors", "solar+neighbors", "delg+neighbors", "cvnet+neighbors", "robustmat"),
    (0.9321, 0.9010, 0.9209, 0.9263, 0.9183, 0.9486),
    (0.7877, 0.8613, 0.7923, 0.7379, 0.7736, 0.8811),
    (0.8538, 0.8807, 0.8517, 0.8214, 0.8397, 0.9136),
    (0.8079, 0.7887, 0.7941, 0.7809, 0.7836, 0.8689),
)
MODULES_NOISY: dict[str, Figures] = {
    "ode-pde": (0.9418, 0.8853, 0.9127, 0.8606),
    "resnet-gat": (0.9084, 0.8467, 0.8765, 0.7953),
}
MODULES_CLEAN: dict[str, Figures] = {
    "ode-pde": (0.9488, 0.9147, 0.9314, 0.8833),
    "resnet-gat": (0.9146, 0.9133, 0.9139, 0.8286),
}
PARTS: dict[str, Figures] = {
    "ode-only": (0.9609, 0.8200, 0.8849, 0.8600),
    "pde-only": (0.7745, 0.9800, 0.8652, 0.5620),
    "ode-pde": (0.9418, 0.8853, 0.9127, 0.8606),
}
TIME: dict[str, Figures] = {
    "tf2-tg1": (0.9273, 0.9026, 0.9149, 0.8453),
    "tf3-tg1": (0.9411, 0.8960, 0.9180, 0.8640),
    "tf4-tg1": (0.9176, 0.9360, 0.9267, 0.8420),
    "tf5-tg1": (0.9488, 0.8906, 0.9188, 0.8733),
    "tf2-tg2": (0.9358, 0.8947, 0.9148, 0.8553),
    "tf3-tg3": (0.9353, 0.9253, 0.9303, 0.8667),
    "tf4-tg4": (0.9401, 0.9213, 0.9306, 0.8727),
    "tf5-tg5": (0.9513, 0.8867, 0.9179, 0.8753),
}
REGULARIZER: dict[str, Figures] = {
    "no-reg": (0.9486, 0.8811, 0.9136, 0.8689),
    "ode-reg": (0.9426, 0.8888, 0.9149, 0.8632),
    "ode-pde-reg": (0.9500, 0.8827, 0.9151, 0.8717),
}

PAPER: dict[str, dict[str, dict[str, Figures]]] = {
    "main": {"paper:16": KITTI},
    "noise-levels": {"paper:19": OXFORD_LOW, "paper:13": OXFORD_HIGH},
    "neighborhood": {"paper:16": NEIGHBORHOOD},
    "ablation-modules": {"paper:16": MODULES_NOISY, "clean": MODULES_CLEAN},
    "ablation-parts": {"paper:16": PARTS},
    "ablation-time": {"paper:16": TIME},
    "ablation-regularizer": {"paper:16": REGULARIZER},
    "denoising": {"paper:16": KITTI | KITTI_DENOISED},
    "keypoints": {"paper:16": KEYPOINTS},
    "keypoints-neighborhood": {"paper:16": KEYPOINTS_NEIGHBORHOOD},
    "cross-dataset": {"paper:16": {"robustmat": (0.9408, 0.8560, 0.8963, 0.8472)}},
}
PAPER_DATA = {  # what its figures were measured on
    "main": "noisy KITTI",
    "weather": "Boreas",
    "noise-levels": "noisy Oxford",
    "neighborhood": "noisy Oxford",
    "ablation-modules": "Oxford",
    "ablation-parts": "noisy Oxford",
    "ablation-time": "noisy Oxford",
    "ablation-regularizer": "noisy Oxford",
    "denoising": "noisy KITTI",
    "keypoints": "noisy KITTI, RobustMat trained on Oxford",
    "keypoints-neighborhood": "noisy KITTI, RobustMat trained on Oxford",
    "cross-dataset": "trained on Oxford, tested on noisy KITTI",
}


def paper_figures(table: str, condition: str, row: str, test: str = "") -> dict[str, float]:
    """What the paper prints for this cell; empty where it prints nothing."""
    figures = PAPER.get(table, {}).get(condition, {})
    if table == "weather":
        tested = test.lower().rpartition("->")[2]
        words = re.split(r"[\W_\d]+", tested) if condition == "clean" else [condition.partition(":")[0]]
        figures = next((WEATHER[word] for word in words if word in WEATHER), {})
    found = figures.get(row)
    return dict(zip(METRICS, found, strict=True)) if found else {}
