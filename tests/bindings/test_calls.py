"""Calls of bound functions: arguments, results and errors."""

from __future__ import annotations

import numpy as np
import pytest

import tkjit
from tkjit import ArgumentError
from tkjit.bindings.compile_errors import _candidates

pytestmark = pytest.mark.compiles


def test_types_of_arguments_select_the_overload(garden):
    assert garden.add(1, 2) == 3
    assert garden.add(1.5, 2.0) == 3.5
    assert garden.add("a", "b") == "ab"
    assert isinstance(garden.add(1, 2), int)


def test_defaults_and_keywords(garden):
    assert garden.add(1) == 11
    assert garden.add(first=1, second=2) == garden.add(1, second=2) == 3
    with pytest.raises(ArgumentError, match=r"takes third after 1 argument\n  declared: int garden::add\(int first"):
        garden.add(1, third=2)


def test_numbers_keep_their_types(garden):
    assert garden.twice(3) == 6
    assert garden.twice(True) is True
    assert garden.twice(np.float32(1.1)) == float(np.float32(1.1) + np.float32(1.1))
    assert garden.twice(np.int64(2**40)) == 2**41
    assert garden.twice(np.uint8(200)) == 144
    assert garden.twice(1 + 2j) == 2 + 4j
    with pytest.raises(OverflowError, match=r"4294967296 does not fit into a C\+\+ int; pass numpy.int64"):
        garden.twice(2**32)


def test_explicit_template_arguments(garden):
    assert garden.zero(template_args=[float]) == 0.0
    assert isinstance(garden.zero(template_args=int), int)
    with pytest.raises(ArgumentError, match=r"couldn't deduce template parameter 'T'"):
        garden.zero()


def test_parameter_packs(garden):
    assert [garden.count(), garden.count(1), garden.count(1, 2.0, "three")] == [0, 1, 3]


def test_strings_and_pointers(garden):
    assert garden.length(tkjit.char_ptr("roses")) == 5
    assert garden.length(None) == 0
    assert garden.word() == "rose"
    tree = garden.Tree("oak")
    assert garden.height_of(tkjit.ptr(tree)) == 2.5
    assert garden.height_of(None) == 0
    assert garden.nothing() is None


def test_number_can_be_passed_by_reference(garden):
    number = garden.cpp("int")(4)
    garden.increment(number)
    assert number == 5 and number.value == 5 and number + 1 == 6 and [7, 8][number - 4] == 8
    number.value = 8
    number += 2
    assert int(number) == 10
    with pytest.raises(ArgumentError, match=r"garden::increment\(int\): C\+\+ rejects it: cannot bind"):
        garden.increment(4)


def test_arrays_are_passed_as_pointers(garden):
    values = np.zeros(5)
    garden.fill(values, 4, 2.5)
    assert values.tolist() == [2.5, 2.5, 2.5, 2.5, 0]
    values.flags.writeable = False
    with pytest.raises(ArgumentError, match="const double"):
        garden.fill(values, 4, 2.5)
    with pytest.raises(ValueError, match="not contiguous"):
        garden.fill(np.zeros(10)[::2], 4, 2.5)


def test_cpp_exceptions_become_python_exceptions(garden):
    for kind, (error, text) in enumerate(
        [
            (IndexError, "std::out_of_range: no such bed"),
            (ValueError, "no such plant"),
            (MemoryError, "bad_alloc"),
            (tkjit.CppError, "std::runtime_error: rain"),
            (tkjit.CppError, "not std::exception"),
        ]
    ):
        with pytest.raises(error, match=text):
            garden.fail(kind)


def test_python_can_own_a_returned_pointer(garden):
    assert garden.grow(tkjit.char_ptr("elm")).name == "elm"  # owned by C++, so it is never deleted
    before = garden.living
    tree = garden.grow(tkjit.char_ptr("ash"), take_ownership=True)
    assert (tree.name, garden.living) == ("ash", before + 1)
    del tree
    assert garden.living == before


def test_rejected_call_lists_the_candidates(garden):
    with pytest.raises(ArgumentError) as caught:
        garden.add("a", 1)
    text = str(caught.value)
    assert text.startswith("garden::add(std::string, int): C++ rejects it: no matching function")
    assert "candidate: 'int garden::add(int, int)'" in text
    with pytest.raises(ArgumentError, match="argument 2 has the type object, which cannot be passed to C"):
        garden.add(1, object())


def test_unknown_name_gets_a_suggestion(garden):
    with pytest.raises(AttributeError, match=r"no ad in .*garden.*; did you mean add"):
        garden.ad  # noqa: B018
    assert {"add", "Tree", "Bed", "shed", "Water"} <= set(dir(garden))
    assert garden.shed.tools() == 12
    assert garden.shed.Rake().teeth() == 14


def test_candidates_of_a_compiler_that_nests_its_notes():
    """g++ 16 lists the candidates below the error, with bullets or stars."""
    log = (
        "a.cpp:2:50: error: no matching function for call to 'zero()'\n"
        "  • there is 1 candidate\n"
        "    • candidate 1: 'template<class T> T garden::zero()'\n"
        "      a.cpp:1:60:\n"
        "      • template argument deduction/substitution failed:\n"
        "        •   couldn't deduce template parameter 'T'\n"
    )
    expected = [("'template<class T> T garden::zero()'", "couldn't deduce template parameter 'T'")]
    assert _candidates(log) == _candidates(log.replace("•", "*")) == expected
    assert _candidates("a.cpp:2:50: error: no\n") == []
    quoted = (
        "a.h:7:6: note: candidate: 'void grow(Tree*, int)'\n    7 | void grow(Tree* tree, int n);\n      |      ^~~~\n"
    )
    assert _candidates(quoted) == [("'void grow(Tree*, int)'", "")]
