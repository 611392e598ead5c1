"""Calls that are compiled together in a batch."""

from __future__ import annotations

import threading
from itertools import count

import numpy as np
import pytest
from bindings.conftest import HEADERS

import tkjit
from tkjit import ArgumentError, TkjitError
from tkjit.bindings.deferred import value_of
from tkjit.bindings.library import Library, engine_of
from tkjit.config import Settings

pytestmark = pytest.mark.compiles

numbers = count()


@pytest.fixture
def own_garden():
    """A new binding of garden.hpp, for which nothing has been compiled or loaded yet."""
    return tkjit.bind("garden.hpp", namespaces="garden", include_dirs=[HEADERS], defines={"OWN": next(numbers)})


@pytest.mark.slow
def test_batch_is_compiled_as_one_unit(own_garden, units):
    with tkjit.batch():
        bed = own_garden.Bed(int)([1, 2, 3])
        total = own_garden.total(bed.begin(), bed.end())
        twice = bed.twice()
        doubled = own_garden.total(twice.begin() + 1, twice.end())
        text = own_garden.add(own_garden.add("a", "b"), "c")
        fraction = own_garden.add(own_garden.add(0.5, 1.0), 1.0)
        point = own_garden.Point(1.0, 2.0)
        length = point.x
        height = own_garden.height_of(tkjit.ptr(own_garden.Tree("oak")))
        assert units == []
    assert len(units) == 1
    assert (total, doubled, text, fraction, length, height) == (6, 10, "abc", 2.5, 1.0, 2.5)
    assert (int(total), len(bed), bed[1], list(bed), np.asarray(bed).tolist()) == (6, 3, 2, [1, 2, 3], [1, 2, 3])
    assert own_garden.total(bed.begin(), bed.end()) == total + 0 == 6


def test_repeated_call_is_compiled_once(own_garden, units):
    with tkjit.batch():
        beds = [own_garden.Bed(int)([1, number]) for number in range(5)]
        totals = [own_garden.total(bed.begin(), bed.end()) for bed in beds]
    assert totals == [1, 2, 3, 4, 5]
    # compiled once each: a bed from an array, its two ends, their total, and the calls that NumPy's view needs
    assert len(units) == 1 and units[0] < 10


def test_arithmetic_on_results_waits(own_garden, units):
    with tkjit.batch():
        bed = own_garden.Bed(float)([4.0, 5.0, 6.0])
        total = own_garden.total(bed.begin(), bed.end())
        half, share, rest = -total / 2, bed.front() / total, 1 - bed.front() * 2
        assert units == []
    assert len(units) == 1
    assert (half, share, rest) == (-7.5, 4 / 15, -7)
    with tkjit.batch():
        whole = own_garden.add(3, 4)
        assert whole / 2 == 3.5 and 7 / whole == 1 and "1" + own_garden.add("2", "3") == "123"


def test_elements_of_results_wait(own_garden, units):
    with tkjit.batch():
        bed = own_garden.Bed(int)([4, 5, 6])
        last, first = bed[-1], bed[bed.end() - bed.end()]
        assert units == []
    assert len(units) == 1
    assert (first, last) == (4, 6)
    with pytest.raises(IndexError, match="index 3 of 3 elements"), tkjit.batch():
        bed.twice()[3]


def test_needed_value_is_available_at_once(own_garden, units):
    with tkjit.batch():
        total = own_garden.add(20, 1)
        if total > 20:
            total = own_garden.add(total, 100)
        assert len(units) == 1
    assert total == 121


@pytest.mark.slow
def test_compiled_calls_keep_their_order(own_garden):
    bed = own_garden.Bed(int)([1, 2, 3])
    bed.resize(4)
    with tkjit.batch():
        own_garden.shed.tools()
        bed.resize(5)
        size = bed.size()
    with tkjit.batch():
        first = bed.size()
        own_garden.total(bed.begin(), bed.end())
        bed.resize(6)
    assert (size, first, bed.size()) == (5, 5, 6)


@pytest.mark.slow
def test_each_call_has_its_own_entry(own_garden, units):
    with tkjit.batch():
        bed = own_garden.Bed("double")([1.0, 2.0])
        own_garden.total(bed.begin(), bed.end())
    units.clear()
    again = Library(engine_of(own_garden).headers, Settings.from_environment())
    bed = again.Bed("double")([1.0, 2.0])
    assert again.total(bed.begin(), bed.end()) == 3
    assert units == []


def test_errors_in_a_batch(own_garden):
    with pytest.raises(ArgumentError, match=r"garden::add\(std::string, int\): C\+\+ rejects it"), tkjit.batch():
        before = own_garden.increment(own_garden.cpp("int")(1))
        wrong = own_garden.add("a", 1)
        after = own_garden.twice(2)
    assert value_of(before) is None
    for result in (wrong, after):
        with pytest.raises(TkjitError, match="has not been called"):
            int(result)
    with pytest.raises(IndexError, match="no such bed"), tkjit.batch():
        own_garden.fail(0)
    with pytest.raises(ZeroDivisionError), tkjit.batch():
        left = own_garden.twice(1.5)
        raise ZeroDivisionError
    with pytest.raises(TkjitError, match="left by an exception"):
        float(left)


@pytest.mark.slow
def test_batches_of_two_threads_are_independent(own_garden):
    bed = own_garden.Bed(int)([1, 2, 3])
    bed.resize(4)
    sizes = []

    def resize_in_a_batch():
        with tkjit.batch():
            own_garden.twice(np.int16(3))
            bed.resize(5)

    with tkjit.batch():
        own_garden.shed.tools()  # deferred until a result is needed
        thread = threading.Thread(target=resize_in_a_batch)
        thread.start()
        thread.join()
        sizes.append(bed.size())
        own_garden.twice(np.int8(3))
        bed.resize(6)
        sizes.append(bed.size())
    assert sizes == [5, 6]


def test_null_pointers_and_adapted_results_in_a_batch(own_garden):
    with pytest.raises(ArgumentError, match=r"height_of_one\(std::nullptr_t\)"), tkjit.batch():
        own_garden.height_of_one(own_garden.nothing())
    with tkjit.batch():
        nothing = own_garden.nothing()
        height = own_garden.height_of(tkjit.ptr(own_garden.Tree("oak")))
        none = own_garden.height_of(nothing)
    assert (height, none) == (2.5, 0)
    own_garden.adapt("garden::Bed", to_python=np.asarray, from_python={np.ndarray: own_garden.Bed("double")})
    with tkjit.batch():
        twice = own_garden.twice_of(own_garden.Bed("double")([1.0, 2.0]))
        again = own_garden.twice_of(twice)
    assert value_of(again).tolist() == [4, 8]
