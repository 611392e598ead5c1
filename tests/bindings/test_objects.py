"""Objects of bound classes: members, operators, containers and ownership."""

from __future__ import annotations

import gc

import numpy as np
import pytest
from bindings.conftest import HEADERS

import tkjit
from tkjit import ArgumentError

pytestmark = pytest.mark.compiles


def test_fields_methods_and_operators(garden):
    a, b = garden.Point(1.0, 2.0), garden.Point(3.0, 4.0)
    assert (a.x, a.y, a.dot(b)) == (1, 2, 11)
    assert (a + b).y == 6 and (-a).x == -1 and (2.0 * a).y == 4
    assert a(10.0) == 30 and a < b and a != b and a == garden.Point(1.0, 2.0)
    a.x = 7
    a += b
    assert a.x == 10
    with pytest.raises(AttributeError, match="Point::made cannot be set"):
        a.made = 2
    with pytest.raises(ArgumentError, match=r"operator\*"):
        a * b


def test_members_of_bases(garden):
    tree = garden.Tree("oak")
    assert (tree.name, tree.get_name(), tree.next(), tree.number) == ("oak", "oak", 4, 4)
    assert garden.Tree.legs(3) == 12
    for member, error in {
        "secret": "is private",
        "hidden": "is private",
        "hight": "has no hight; did you mean height",
    }.items():
        with pytest.raises(AttributeError, match=error):
            getattr(tree, member)
    with pytest.raises(ArgumentError, match="deleted"):
        tree.deleted()


def test_members_of_a_base_that_depends_on_a_type(garden):
    bed = garden.Bed(int)([1, 2, 3])
    assert bed.size() == len(bed) == 3
    assert list(bed.twice()) == [2, 4, 6]
    assert (bed[0], bed[-1]) == (1, 3)
    bed[1] = 20
    assert np.asarray(bed).tolist() == [1, 20, 3]
    assert not hasattr(bed, "nothing_of_the_kind")
    with pytest.raises(IndexError, match="index 3 of 3 elements"):
        bed[3]
    assert garden.Bed(int).rows() == 4 and garden.Bed(int, 9).rows() == 9


def test_numpy_view_shares_the_containers_memory(garden):
    bed = garden.Bed("double")(np.arange(4.0))
    view = np.asarray(bed)
    view[2] = 9
    assert bed[2] == 9
    del bed
    gc.collect()
    assert view.tolist() == [0, 1, 9, 3]


def test_reference_writes_to_the_element(garden):
    bed = garden.Bed(int)([5, 6])
    first = bed.front()
    first.value = 50
    assert bed[0] == 50 and first + 1 == 51
    assert isinstance(bed, garden.Bed(int)) and not isinstance(bed, garden.Point)


def test_iterators(garden):
    bed = garden.Bed(int)([5, 6, 7])
    assert garden.total(bed.begin(), bed.end()) == 18
    assert garden.total(bed.begin() + 1, bed.end()) == 13
    assert bed.end() - bed.begin() == 3


def test_iterator_keeps_its_container_alive(garden):
    first = garden.Bed(int)([5, 6, 7]).begin()
    gc.collect()
    assert garden.total(first, first + 3) == 18


def test_invalidated_references_raise(garden):
    bed = garden.Bed(int)([5, 6, 7])
    begin, successor, reference = bed.begin(), bed.begin() + 1, bed.front()
    bed.resize(1000)
    for iterator in (begin, successor):
        with pytest.raises(ReferenceError, match="refers into a garden::Bed<int, 4ul> that has changed since"):
            garden.total(iterator, bed.end())
    with pytest.raises(ReferenceError):
        int(reference)
    assert garden.total(bed.begin(), bed.end()) == 18


def test_moved_from_object_raises(garden):
    tree = garden.Tree("oak")
    assert garden.take(tkjit.move(tree)) == "oak"
    with pytest.raises(ReferenceError, match="garden::Tree has been moved from"):
        tree.name  # noqa: B018
    with pytest.raises(ArgumentError, match="cannot bind"):
        garden.take(garden.Tree("elm"))


def test_results_that_cannot_be_moved(garden):
    assert garden.plant(7).depth == 7
    with pytest.raises(ArgumentError, match="no matching function"):
        garden.Rooted()


def test_enumerations(garden):
    assert garden.next(garden.Water.none) == garden.Water.drip
    assert int(garden.Water.spray) == garden.Water.spray.value == 7
    assert {garden.Water.drip: 1}[garden.next(garden.Water.none)] == 1
    assert garden.next(garden.Water.none) != garden.Water.none and garden.Water.drip != 1 != garden.next(
        garden.Water.none
    )
    assert repr(garden.Water.drip) == repr(garden.next(garden.Water.none)) == "garden::Water::drip"
    assert garden.Season.summer == garden.Season(1)
    with pytest.raises(AttributeError, match="Water has no dripp; did you mean drip"):
        garden.Water.dripp  # noqa: B018


def test_objects_are_destroyed(garden):
    before = garden.living
    trees = [garden.Tree("oak") for _ in range(3)]
    assert garden.living == before + 3
    del trees
    assert garden.living == before


def test_object_of_another_library_is_rejected(garden):
    other = tkjit.bind("garden.hpp", namespaces="garden", include_dirs=[HEADERS], defines={"OTHER": 1})
    with pytest.raises(ArgumentError, match="of another bound library"):
        garden.height_of(tkjit.ptr(other.Tree("oak")))


def test_adapters():
    own = tkjit.bind("garden.hpp", namespaces="garden", include_dirs=[HEADERS])
    own.adapt("garden::Bed", to_python=np.asarray, from_python={range: lambda given: own.Bed(int)(list(given))})
    bed = own.Bed(int)([1, 2])
    assert not isinstance(bed, np.ndarray)  # constructors still return objects
    twice = bed.twice()
    assert type(twice) is np.ndarray and twice.tolist() == [2, 4]
    assert own.twice_of(range(4)).tolist() == [0, 2, 4, 6]
    own.adapt(own.Point, to_python=lambda point: (point.x, point.y))
    point = own.Point(1.0, 2.0)
    assert point + point == (2, 4)
    with pytest.raises(ArgumentError, match="an object of this type already exists"):
        own.adapt("garden::Bed", to_python=list)


def test_members_that_only_an_instance_of_a_template_has(monkeypatch):
    source = """
    namespace layers {
    template <class T> struct Below { int deep() const { return 1; } private: int hidden; };
    template <class T> struct Above : Below<T> { T high; };
    }
    """
    layers = tkjit.bind(source=source, namespaces="layers")
    above = layers.Above(int)()
    assert {"deep", "high"} <= set(dir(above)) and not {"hidden", "Below"} & set(dir(above))
    with pytest.raises(AttributeError, match="has no deap; did you mean deep"):
        above.deap  # noqa: B018
    monkeypatch.setenv("TKJIT_JIT", "0")
    again = tkjit.bind(source=source + "// another", namespaces="layers")
    with pytest.raises(tkjit.CacheError):
        again.Above  # noqa: B018


LATER = """
#include <vector>
namespace later {
template <class F> struct Applied { F function; int operator()(int of) const { return function(of); } };
template <class F> Applied<F> apply(F function) { return {function}; }
template <class T> T square(T of) { return of * of; }
template <class T> T cube(T of) { return of * of * of; }
inline std::vector<int> some(int count) { return std::vector<int>(count, 1); }
inline int sum(std::vector<int>::const_iterator from, std::vector<int>::const_iterator to) {
    int all = 0;
    while (from != to) all += *from++;
    return all;
}
}
struct Point { int x = 1; };
namespace geo {
struct Point { double latitude = 2; };
struct Node { int outer() const { return 1; } };
struct List { struct Node { int inner = 3; }; Node first; };
inline namespace v2 { struct Leaf { int colour = 4; }; }
}
"""


@pytest.fixture(scope="module")
def later():
    return tkjit.bind(source=LATER, namespaces=["later", "std"])


def test_closures_of_two_functions_have_different_types(later):
    square, cube = later.apply(later.square), later.apply(later.cube)
    assert (square(3), cube(3)) == (9, 27)
    again = tkjit.bind(source=LATER, namespaces=["later", "std"])
    assert again.apply(again.cube)(2) == 8


def test_batch_is_flushed_before_arguments_are_checked(later):
    values = later.some(2)
    assert later.sum(values.begin(), values.end()) == 2
    with tkjit.batch():
        begin, end = values.begin(), values.end()
        begin, end = begin + 0, end + 0
        values.resize(100000)
        with pytest.raises(ReferenceError):
            later.sum(begin, end)


def test_arrays_with_a_dtype_or_copy(later):
    values = later.some(2)
    assert np.asarray(values, dtype=float).dtype == float
    assert np.array(values, copy=True).base is None
    with pytest.raises(ValueError, match="copy"):
        np.asarray(values, dtype=float, copy=False)
    assert not hasattr(values, "_repr_html_")


@pytest.mark.slow
def test_classes_with_the_same_name():
    places = tkjit.bind(source=LATER, namespaces=["geo", ""])
    assert places.Point().latitude == 2
    assert places.List().first.inner == 3
    assert places.Leaf().colour == 4 and places.Node().outer() == 1
    with pytest.raises(AttributeError):
        places.List().first.outer  # noqa: B018
