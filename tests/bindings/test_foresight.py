"""What the calling function names is compiled with the first call that it makes."""

from __future__ import annotations

from itertools import count

import pytest

import tkjit
from tkjit.bindings.expressions import Expression, Given
from tkjit.bindings.foresight import methods_named

numbers = count()
SOURCE = """
namespace tanks {
struct Tank {
    int level = 0;
    void fill(int by) { level += by; }
    void open(bool wide, int hours) { level -= hours + wide; }
    void drain() { level = 0; }
    int overflow(const Tank& into) const { return level + into.level; }
};
}
"""


@pytest.fixture
def tank():
    tanks = tkjit.bind(source=f"{SOURCE}// {next(numbers)}", namespaces="tanks")
    return tanks.Tank()


@pytest.mark.compiles
def test_methods_that_the_caller_names(tank, units):
    seen = {"tank": tank, "units": units}
    program = """
tank.fill(3)
seen = [len(units)]
tank.fill(4)
seen.append(tank.level)
tank.drain()
seen += [tank.level, len(units)]
tank.open(True, 2)  # has more arguments than can be guessed
seen.append(len(units))
"""
    units.clear()
    exec(program, seen)  # of which there is no source: its lines cannot be read
    assert seen["seen"] == [1, 7, 0, 1, 2]


@pytest.mark.compiles
def test_methods_that_a_batch_comes_before(units):
    tanks = tkjit.bind(source=f"{SOURCE}// {next(numbers)}", namespaces="tanks")
    with tkjit.batch():
        tank = tanks.Tank()
        tank.fill(3)
    assert len(units) == 1
    tank.drain()
    assert len(units) == 1 and tank.level == 0


def test_arguments_that_can_be_guessed():
    def overloads(*kinds, **facts):
        return {"parameters": [["", kind, ""] for kind in kinds], **facts}

    members = {
        "plain": {"kind": "method", "overloads": [overloads()]},
        "number": {"kind": "method", "overloads": [overloads("const double")]},
        "two": {"kind": "method", "overloads": [overloads("int", "int")]},
        "other": {"kind": "method", "overloads": [overloads("Tank &")]},
        "template": {"kind": "method", "overloads": [overloads(template=["T"])]},
        "field": {"kind": "field"},
        "defaults": {"kind": "method", "overloads": [{"parameters": [["", "Tank &", "{}"]]}]},
        "unnamed": {"kind": "method", "overloads": [overloads()]},
    }
    tank = Given("object", "Tank")
    found = methods_named(members.keys() - {"unnamed"}, tank, members)
    assert found == [
        Expression("{0}.defaults({1*})", (tank,), ""),
        Expression("{0}.number({1*})", (tank, Given("", "double")), ""),
        Expression("{0}.plain({1*})", (tank,), ""),
    ]
