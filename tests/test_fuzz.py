"""A few hundred cases of the fuzzer (`make fuzz` runs 100,000), and any JSON where box files and headers are read."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fuzz_for_tests import Fuzzer
from fuzz_targets_for_tests import TARGETS
from robustmat.checkpoints.store import CheckpointHeader
from robustmat.config import parse
from robustmat.dataset.records import FrameRecord, Header, record_to_frame
from robustmat.errors import RobustMatError
from robustmat.mapping.settings import MapHeader
from robustmat.matching.manifest import Manifest
from robustmat.methods import find_method
from robustmat.models.robustmat import ModelConfig
from robustmat.sources.boxes import parse_boxes, to_landmarks
from robustmat.training.config import load_training_config

CHEAP = {"max_examples": 40, "deadline": None, "suppress_health_check": list(HealthCheck)}
COSTLY = ("oxford", "oxford, raw scans", "checkpoint")

NUMBERS = st.integers(-(10**30), 10**30) | st.floats() | st.sampled_from([0, -1, 1e308, 10**400, True])
VALUES = st.none() | NUMBERS | st.text(max_size=8)


def nested(keys: list[str]) -> st.SearchStrategy[Any]:
    """JSON of any shape that often has the right keys."""
    names = st.sampled_from(keys) | st.text(max_size=4)
    return st.recursive(
        VALUES, lambda inner: st.lists(inner, max_size=5) | st.dictionaries(names, inner, max_size=5), max_leaves=12
    )


def only_ours(call: Any, *given: Any) -> None:
    """Fine, or an error that the user can mend."""
    try:
        call(*given)
    except RobustMatError as problem:
        assert str(problem).isprintable()  # noqa: PT017


@pytest.fixture(scope="module")
def fuzzer(tmp_path_factory: pytest.TempPathFactory) -> Fuzzer:
    return Fuzzer(TARGETS, tmp_path_factory.mktemp("fuzz"), seed=12)


@pytest.mark.parametrize("name", TARGETS)
def test_whatever_bytes_a_file_holds_reading_it_ends_well_or_in_an_error_of_ours(fuzzer: Fuzzer, name: str) -> None:
    for number in range(5 if name in COSTLY else 15):
        fuzzer.case(name, number)
    assert not fuzzer.report.findings, fuzzer.report.findings[0]


BOX_KEYS = [
    "landmarks",
    "box",
    "category",
    "images",
    "annotations",
    "categories",
    "id",
    "file_name",
    "bbox",
    "image_id",
]


@settings(**CHEAP)
@given(nested(BOX_KEYS))
def test_any_json_as_a_box_file(content: Any) -> None:
    only_ours(parse_boxes, content, Path("a.json"), "a.png", (60, 40))
    if isinstance(content, list):
        only_ours(to_landmarks, content)


COCO = {
    "images": "id file_name width height",
    "annotations": "image_id category_id bbox score",
    "categories": "id name",
}


@settings(**CHEAP)
@given(
    st.fixed_dictionaries(
        {
            table: st.lists(st.fixed_dictionaries({}, optional=dict.fromkeys(keys.split(), nested(["a"]))), max_size=3)
            for table, keys in COCO.items()
        }
    )
)
def test_anything_in_the_tables_of_a_coco_file(content: Any) -> None:
    only_ours(parse_boxes, content, Path("a.json"), "a.png", (60, 40))


@pytest.mark.parametrize(
    "kind", [CheckpointHeader, Manifest, MapHeader, ModelConfig, find_method("certified").learning.config]
)
@settings(**CHEAP)
@given(data=st.data())
def test_any_json_as_a_header_or_configuration(kind: Any, data: st.DataObject) -> None:
    fields = list(kind.model_fields)
    content = data.draw(st.dictionaries(st.sampled_from(fields), nested([*fields, "solver", "steps"]), max_size=8))
    only_ours(parse, kind, content, "file")


@settings(**CHEAP)
@given(content=st.dictionaries(st.sampled_from([*FrameRecord.model_fields, "box"]), nested(["box"]), max_size=7))
def test_any_json_as_a_line_of_a_data_set(content: dict[str, Any]) -> None:
    from pydantic import ValidationError

    for kind in (FrameRecord, Header):
        try:
            record = kind.model_validate(content)
        except ValidationError:
            continue
        if isinstance(record, FrameRecord):
            only_ours(record_to_frame, record, Path("/nowhere"), "line 1")


@settings(**CHEAP)
@given(
    content=st.dictionaries(
        st.sampled_from(["method", "preset", "steps", "model", "objective", "seed", "variant"]),
        nested(["vertex"]),
        max_size=5,
    )
)
def test_any_changes_to_a_training_configuration(content: dict[str, Any]) -> None:
    only_ours(load_training_config, "street", content)
