"""Runs the examples in docstrings, module by module."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

import tkjit

ROOT = Path(tkjit.__file__).parent
# found in the text, because importing every module while pytest collects the tests would take seconds
MODULES = sorted(
    "tkjit." + ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for path in ROOT.rglob("*.py")
    if ">>> " in path.read_text()
)
NEEDS_A_COMPILER = {"tkjit.kernel_objects.loading.load"}
COMPILING = {
    "tkjit.bindings",
    "tkjit.kernel_objects.inspect",
    "tkjit.kernel_objects.loading",
    "tkjit.kernel_objects.method",
    "tkjit.kernel_objects.prebuild",
    "tkjit.parallel.club",
}


def test_there_are_examples():
    assert {"tkjit.kernel_objects.decorator", "tkjit.spec.expr", "tkjit.spec.variants"} <= set(MODULES)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.compiles) if name in COMPILING else name for name in MODULES]
)
def test_examples(name):
    output: list[str] = []
    for test in doctest.DocTestFinder(exclude_empty=True).find(importlib.import_module(name)):
        if test.name not in NEEDS_A_COMPILER:
            doctest.DocTestRunner().run(test, out=output.append)
    assert not output, "".join(output)
