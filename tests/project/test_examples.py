"""Runs the examples in docstrings."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import tkjit

MODULES = [m.name for m in pkgutil.walk_packages(tkjit.__path__, "tkjit.") if not m.name.endswith("__main__")]
NEEDS_A_COMPILER = {"tkjit.kernel.kernel.load"}
COMPILING = {
    "tkjit.bindings.batch",
    "tkjit.kernel.prebuild.warming",
    "tkjit.kernel.inspect.make_globals",
    "tkjit.kernel.kernel.Kernel.prepare",
    "tkjit.kernel.kernel.Kernel.warm_up",
    "tkjit.kernel.method.method",
    "tkjit.parallel.club.Club",
}
EXAMPLES = {
    test.name: test
    for name in MODULES
    for test in doctest.DocTestFinder(exclude_empty=True).find(importlib.import_module(name))
    if test.examples and test.name not in NEEDS_A_COMPILER
}


def test_there_are_examples():
    assert {"tkjit.kernel.decorator.kernel", "tkjit.spec.expr.Expr", "tkjit.spec.variants.Variant"} <= set(EXAMPLES)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.compiles) if name in COMPILING else name for name in EXAMPLES]
)
def test_example(name):
    output: list[str] = []
    assert doctest.DocTestRunner().run(EXAMPLES[name], out=output.append).failed == 0, "".join(output)
