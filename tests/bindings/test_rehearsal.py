"""The lines behind a call are read, and their calls compiled with it; each is made when it is its turn."""

from __future__ import annotations

from itertools import count

import numpy as np
import pytest

import tkjit
from tkjit import ArgumentError
from tkjit.bindings import rehearsal

pytestmark = pytest.mark.compiles

numbers = count()
SOURCE = """
#include <string>
#include <vector>
namespace diary {
inline std::string written;
inline int write(const char* letter) { written += letter; return int(written.size()); }
struct Page {
    int number;
    explicit Page(int of) : number(of) { write("P"); }
    Page* next() { write("n"); return &(*new Page(number + 1)); }
    const Page& same() const { write("s"); return *this; }
    int twice() { write("t"); return 2 * number; }
    int twice() const { write("c"); return -2 * number; }
};
inline Page operator+(const Page& one, int by) { write("+"); return Page(one.number + by); }
inline int number_of(const Page* page) { write("p"); return page->number; }
inline double half(double of) { write("h"); return of / 2; }
inline double sum(const double* of, int count) { return count ? *of + sum(of + 1, count - 1) : 0; }
template <class T> T doubled(T of) { write("d"); return of + of; }
inline const std::string& read() { return written; }
}
"""


@pytest.fixture
def diary():
    name = f"diary{next(numbers)}"  # what is written is there once in a process
    bound = tkjit.bind(source=SOURCE.replace("namespace diary", f"namespace {name}"), namespaces=name)
    bound.read()
    return bound


def test_calls_of_a_function_are_one_unit(diary, units):
    def use():
        page = diary.Page(3)
        first = page.twice()
        follower = page + first
        for step in range(2):
            follower.number = follower.twice() + step
        share = diary.half(follower.number * 1.5) + diary.doubled(2.0)
        return first, follower.number, share, diary.number_of(tkjit.ptr(follower)), diary.read()

    units.clear()
    assert use() == (6, 37, 31.75, 37, "Pt+Ptthdp")
    assert len(units) <= 2  # a field is set by an expression of its own
    units.clear()
    assert use()[:2] == (6, 37) and units == []


def test_what_refers_to_constants_and_by_pointers(diary, units):
    def use():
        page = diary.Page(1)
        same, following = page.same(), page.next(take_ownership=True)
        return page.twice(), same.twice(), following.twice(), diary.number_of(tkjit.ptr(same))

    assert use() == (2, -2, 4, 1)
    assert use() == (2, -2, 4, 1)
    assert diary.Page(5).twice() == 10 and diary.Page(5).same().twice() == -10


def test_what_is_not_known_is_not_compiled(diary, units):
    def use(more):
        one = diary.half(1.0)
        if more:
            return diary.doubled(one)
        values = [diary.half(float(value)) for value in np.zeros(2)]
        try:
            two = diary.doubled("text")
        except ArgumentError:
            two = ""
        three = two + "!" if one else diary.half("wrong")
        with pytest.raises(ArgumentError):
            diary.half("wrong")
        return one, values, two, three

    units.clear()
    assert use(False) == (0.5, [0, 0], "texttext", "texttext!")
    assert units[0] == 1
    assert use(True) == 1.0


def test_a_later_mistake_is_of_its_own_line(diary, units):
    def use():
        diary.half(1.0)
        diary.doubled(1)
        diary.half(diary.Page(1))

    with pytest.raises(ArgumentError, match="half"):
        use()
    assert diary.read() == "hdP"  # what came before it has been called, once
    with pytest.raises(ArgumentError, match="half"):
        use()


def test_arrays_and_several_values(diary, units):
    values = np.arange(4.0)

    def use():
        low, high = diary.half(1.0), diary.half(3.0)
        total = 0.0
        total += diary.sum(values, len(values))
        return low, high, total, diary.sum(values, 2), np.float64(diary.doubled(high))

    units.clear()
    assert use() == (0.5, 1.5, 6.0, 1.0, 3.0)
    # where the length of an array is not known, its sum has a unit of its own
    assert len(units) <= 2


def test_what_adapters_make_is_not_guessed(diary, units):
    diary.adapt(diary.Page, to_python=lambda page: page.number, from_python={})

    def use():
        page = diary.doubled(1)
        return page, (diary.Page(2) + page)

    assert use() == (2, 4)


def test_a_program_without_source(diary):
    names = {"diary": diary}
    exec("found = diary.half(5.0) + diary.doubled(1)", names)
    assert names["found"] == 4.5


def test_a_problem_of_reading_on_is_none_of_the_caller(diary, monkeypatch):
    def fail(frame):
        raise RecursionError

    monkeypatch.setattr(rehearsal, "_body_of", fail)
    assert diary.half(5.0) == 2.5


def test_loops_over_what_is_written_down(diary, units):
    def use():
        found = {}
        for name, function in {"half": diary.half, "doubled": diary.doubled}.items():
            found[name] = function(3.0)
            found[name + "twice"] = diary.doubled(found[name])
        for step, page in enumerate([diary.Page(1), diary.Page(2)]):
            found[step] = page.twice()
        return found

    units.clear()
    assert use() == {"half": 1.5, "doubled": 6.0, "halftwice": 3.0, "doubledtwice": 12.0, 0: 2, 1: 4}
    assert len(units) == 1  # what `enumerate` gives is not known, but what pages are probably asked is


def test_nothing_of_the_callers_own_is_called(diary):
    called = []

    class Loud(float):
        __add__ = __radd__ = __mul__ = __neg__ = __float__ = lambda *of: called.append("number") or 1.0

    class Many(list):
        __iter__ = __getitem__ = __len__ = lambda *of: called.append("list") or 1

    class Open:
        __getattr__ = __call__ = lambda *of: called.append("object")

    loud, many, opened, numbers = Loud(1.0), Many([1.0]), Open(), range(10**12)

    def use():
        diary.half(1.0)
        assert opened is None  # what follows is only read
        for one in many:
            diary.doubled(one)
        for step in numbers:
            diary.doubled(step)
        diary.doubled(loud + 1.0), diary.doubled(-loud), diary.doubled(many[0]), diary.doubled(*many)
        diary.doubled(opened.attribute), diary.doubled(opened()), diary.doubled(float(loud))
        diary.written = 3

    with pytest.raises(AssertionError):
        use()
    assert called == [] and diary.read().endswith("h")
