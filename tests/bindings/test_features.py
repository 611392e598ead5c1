"""Features of C++, each under three C++ standards."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from bindings.conftest import HEADERS

import tkjit
from tkjit import ArgumentError, CppError

pytestmark = pytest.mark.compiles

STANDARDS = [pytest.param("c++14", marks=pytest.mark.slow), "c++17", pytest.param("c++20", marks=pytest.mark.slow)]


@pytest.fixture(scope="module", params=STANDARDS)
def features(request):
    source = "namespace features { struct Triple { int operator()(int of) const { return 3 * of; } }; }"
    options = {"std": request.param, "include_dirs": [HEADERS], "source": source}
    return tkjit.bind("features.hpp", namespaces=["features", "std"], **options)


@pytest.mark.slow
def test_aggregates(features):
    pair = features.Pair(1, 2.5)
    assert (pair.first, pair.second) == (1, 2.5)
    assert features.Pair().first == 0
    assert features.Pair(second=4.0).second == features.Pair(first=3, second=4.0).second == 4
    assert features.Pair.__doc__ == "An aggregate."
    assert features.Number().integer == 0


@pytest.mark.slow
def test_specialisations(features):
    names = [features.Kind(of).name() for of in ("double", "int*", int)]
    assert names == ["any", "pointer", "int"]
    assert features.Kind("int*")().level == 1
    assert features.kind_of(features.Kind(int)()) == "int"


def test_elements_with_two_indices(features):
    fixed = features.Fixed("float")()
    fixed[0, 1] = 4.0
    assert fixed[1, 0] == fixed(0, 1) == 4
    assert features.Fixed(int, 5).count == 5


def test_conversions_and_text(features):
    convertible = features.Convertible()
    assert (int(convertible), bool(convertible), str(convertible)) == (42, False, "convertible")
    assert features.twice(int(convertible)) == features.half(convertible) * 4 == 84
    assert str(features.Pair(1, 2.5)) == repr(features.Pair(1, 2.5)) == "<C++ object features::Pair>"


def test_methods_with_ref_qualifiers(features):
    assert features.Qualified().get() == 1
    with pytest.raises(ArgumentError, match="discards qualifiers"):
        features.Qualified().take()
    qualified = features.Qualified()
    assert tkjit.move(qualified).take() == 7
    with pytest.raises(ReferenceError, match="moved from"):
        qualified.value  # noqa: B018


@pytest.mark.slow
def test_multiple_inheritance(features):
    both = features.Both()
    assert (both.common(), both.x, both.y) == (1, 1, 2)
    assert {"common", "x", "y"} <= set(dir(both))


@pytest.mark.slow
def test_abstract_classes(features):
    assert features.shared().number() == features.number_of(features.Derived()) == 5
    with pytest.raises(ArgumentError, match="abstract class type"):
        features.Abstract()


def test_nested_types_and_constants_of_a_class(features):
    assert features.Outer.Inner().depth == features.Outer().make().depth == 4
    assert (features.Outer.pi, features.Outer().mode) == (3.0, features.Outer.Mode.slow)
    assert features.Outer.fast == features.Outer.Mode(0)


def test_variables_and_enumerators(features):
    assert features.limit == 10
    assert features.read | features.Flags.write == features.Flags.write | features.read == 3
    assert features.Flags.read | features.Flags.write == 3
    features.counter().value = 4
    assert features.counter() == 4
    with pytest.raises(ArgumentError, match="read-only variable"):
        features.limit = 3
    with pytest.raises(AttributeError, match=r"sum in .* is not a variable"):
        features.sum = 3
    with pytest.raises(ArgumentError, match="read-only variable"):
        features.Outer.pi = 3.5


def test_aliases_and_standard_containers(features):
    assert features.sum(features.Integers([1, 2, 3])) == features.sum(features.vector(int)([1, 2, 3])) == 6
    assert list(features.words()) == list(features.Words(["a", "bc"])) == ["a", "bc"]
    assert [(pair.first, pair.second) for pair in features.table()] == [(1, "one"), (2, "two")]
    assert features.make().second == 2.5
    assert np.asarray(features.three()).tolist() == [7, 8, 9]
    assert features.get(features.both(), template_args=[1]) == 2.5
    assert [list(row) for row in features.nested()] == [[1, 2], [3]]


def test_template_arguments_of_methods(features):
    assert (
        features.Metres().times(2.0, template_args=[3]) == features.Feet().times(np.float32(2), template_args=[3]) == 6
    )
    assert features.Feet.unit() == features.Metres.unit() == 1
    assert features.Feet.multiple(np.float32(2), template_args=[4]) == 8
    with pytest.raises(ArgumentError, match="no matching"):
        features.Metres().times(2.0)


def test_type_given_as_cpp_text(features):
    number = features.cpp("features::Number")(3)
    assert number.integer == 3
    pair = features.cpp("::Unbound")(1, 2.5)
    assert (pair.count, pair.weight) == (1, 2.5)
    with pytest.raises(ArgumentError, match=r"C\+\+ rejects it"):
        features.cpp("::Unbound")(1, 2.5, 3)


def test_undefined_method_is_reported(features):
    hollow = features.Hollow()
    assert (hollow.depth, hollow.width()) == (2, 3)
    with pytest.raises(
        ArgumentError, match=r"no library defines features::Hollow::height\(\) const; is one missing from libraries="
    ):
        hollow.height()


@pytest.mark.slow
def test_types_that_cpp_cannot_name(features):
    assert list(features.Countdown(3)) == [3, 2, 1]
    assert next(iter(features.Countdown(2))) == 2
    add = features.adder(4)
    assert add(1) == 5
    assert features.twice_applied(add, 1) == 9


def test_functions_as_arguments(features):
    assert features.apply(features.half, 8) == 4
    assert features.apply_to_four(features.twice) == 8
    assert features.apply_to_four(features.Triple()) == 12
    with pytest.raises(ArgumentError, match=r"argument 1 has the type function, which .* write the function in C"):
        features.apply_to_four(lambda x: x)


def test_keyword_after_omitted_defaults(features):
    assert features.describe(third="z") == "1 5 z"
    assert features.describe(3, third="z") == "3 5 z"
    assert features.describe(second=1.0) == "1 2 xy"


def test_defaults_that_use_names_from_the_functions_scope(features):
    assert list(features.Mode) == [features.Mode.slow, features.Mode.fast]
    assert features.run(2, times=5) == 10
    assert features.Multiplied().by(times=6) == 6
    assert features.hidden_default(two=5, one=2) == 10
    with pytest.raises(ArgumentError, match="no overload takes two"):
        features.hidden_default(two=5)


def test_result_may_refer_to_an_argument(features):
    assert features.largest(3, 4) == 4
    assert features.largest(np.float32(3), np.float32(2)) == 3
    text = "a text that is too long to be stored inside std::string, so it is on the heap"
    assert features.same(text) == text


def test_pointer_arithmetic(features):
    pointer = features.pointer()
    assert (pointer[1], (pointer + 2)[0]) == (8, 9)


def test_numbers_and_lists_by_reference(features):
    number, values = features.cpp("double")(1.0), features.Vector(float)()
    features.set(number, values)
    assert (float(number), list(values)) == (5, [6])


def test_objects_can_be_copied_but_not_pickled(features):
    pair = features.Pair(1, 2.5)
    twin = copy.copy(pair)
    twin.first = 2
    assert (pair.first, twin.first, copy.deepcopy(twin).first) == (1, 2, 2)
    with pytest.raises(TypeError, match="cannot pickle"):
        pickle.dumps(pair)


def test_types_of_newer_standards(features):
    if not hasattr(features, "perhaps"):
        assert "view" not in dir(features)
        return
    assert features.perhaps(True).value() == 3 and not features.perhaps(False)
    with pytest.raises(CppError, match="bad_optional_access"):
        features.perhaps(False).value()
    assert features.view("text") == "text"


@pytest.mark.slow
def test_special_functions_of_the_standard_library():
    """The precompiled header omits these functions, unless the headers use them or ``std`` is bound."""
    waves = "#include <cmath>\nnamespace waves { inline double bessel(double x) { return std::cyl_bessel_j(0.0, x); } }"
    used = tkjit.bind(source=waves, namespaces="waves")
    assert used.bessel(0.0) == 1
    bound = tkjit.bind("cmath", namespaces="std")
    assert bound.cyl_bessel_j(0.0, 0.0) == 1


@pytest.mark.slow
def test_returned_number_keeps_its_cpp_type(tmp_path):
    header = tmp_path / "angles.h"
    header.write_text(
        "#include <cstddef>\n#include <vector>\n"
        "namespace angles {\n"
        "template <class T> T radians(T degrees) { return degrees * T(0.25); }\n"
        "template <class T> T sum(const std::vector<T>& of, T first) {\n"
        "    for (T each : of) first += each;\n    return first;\n}\n"
        "inline std::vector<float> three(float x) { return {x, x, x}; }\n"
        "inline short small(int x) { return short(x); }\n"
        "template <class A, class B> constexpr bool same(A, B) { return std::is_same<A, B>::value; }\n"
        "}\n"
    )
    angles = tkjit.bind(header, namespaces="angles")
    angle = angles.radians(np.float32(2))
    assert isinstance(angle, float) and angle == 0.5
    assert angles.sum(angles.three(angle), angle) == 2.0, "a float and a vector of floats"
    number = angles.small(-3)
    assert isinstance(number, int) and (number, repr(number), number + 1) == (-3, "-3", -2)
    assert angles.same(number, np.int16(7)) and not angles.same(number, 7)
    plain = pickle.loads(pickle.dumps([angle, number]))
    assert [type(each) for each in plain] == [float, int]
    assert type(angles.radians(1.0)) is float and type(angles.radians(4)) is int, "C++'s double and int"


def test_str_for_a_function_that_takes_characters(tmp_path):
    header = tmp_path / "characters.h"
    header.write_text(
        "#include <cstring>\n#include <string>\n"
        "namespace characters {\n"
        "struct Reader { int length(const char* text, int more) const { return int(std::strlen(text)) + more; } };\n"
        'struct Both {\n    std::string kind(const char*) const { return "c"; }\n'
        '    std::string kind(std::string) const { return "s"; }\n};\n'
        "template <class T> int size(const T* text) { return int(std::strlen(text)); }\n"
        "}\n"
    )
    characters = tkjit.bind(header, namespaces="characters")
    assert characters.Reader().length("four", 3) == 7
    assert characters.size("four") == 4
    assert characters.Both().kind("text") == "s", "a std::string if there is a choice"
    with pytest.raises(ArgumentError, match="std::string"):
        characters.Reader().length("four", "three")
