"""The examples in docstrings hold."""

import doctest
import importlib
import pkgutil

import pytest

import place

MODULES = [
    module.name
    for module in pkgutil.walk_packages(place.__path__, "place.")
    if not module.name.startswith(("place.runtime.spark", "place.kernels"))
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_hold(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0
