"""Settings for all tests."""

import os

import pytest

# Two workers on two cores: one thread each is faster than four threads fighting.
os.environ.setdefault("OMP_NUM_THREADS", "1")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """mutmut (`make mutants`) asks for a name that pytest 9 no longer has."""
    for item in items:
        if not hasattr(item, "_nodeid"):
            item._nodeid = item.nodeid
