"""Results that refer into other objects, and how long they stay valid."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import tkjit

pytestmark = pytest.mark.compiles

SOURCE = """
#include <algorithm>
#include <string>
#include <vector>
namespace lives {
struct Node {
    int number;
    Node* following;
    Node* next() { return following; }
};
struct List {
    Node* first = nullptr;
    explicit List(int count) { while (count > 0) first = new Node{--count, first}; }
    List(const List&) = delete;
    ~List() { for (Node* next; first; first = next) { next = first->following; delete first; } }
    void clear() { while (Node* const node = first) { first = node->following; delete node; } }
    Node* begin_node() { return first; }
};
struct Text {
    std::vector<char> characters;
    Text(int count) : characters(count, 'a') {}
    Text part(int count) const { return Text(count); }
    int size() const { return int(characters.size()); }
    void clear() { characters.clear(); }
};
struct Handle;
Handle* open(int number);
int number_of(const Handle* handle);
void close(Handle* handle);
struct Last final { int own = 1; template <class T> T give(T given) { return given; } };
struct Masked { int value() const { return 5; } int call = 6; Masked args(int) const { return *this; } };
inline Masked masked() { return {}; }
inline int adapt() { return 7; }
}
"""
LIBRARY = """
namespace lives {
struct Handle { int number; };
Handle* open(int number) { return new Handle{number}; }
int number_of(const Handle* handle) { return handle->number; }
void close(Handle* handle) { delete handle; }
}
"""


@pytest.fixture(scope="module")
def lives():
    return tkjit.bind(source=SOURCE, namespaces=["lives", "std"])


@pytest.mark.slow
def test_result_of_two_containers_follows_neither_alone(lives):
    first, second = (lives.vector(int)(np.arange(4, dtype=np.int32) + offset) for offset in (0, 10))
    end = lives.copy(first.begin(), first.end(), second.begin())
    first.clear()
    assert (end - second.begin()) == 4
    del first, second
    gc.collect()
    assert (end - 1)[0] == 3


def test_result_of_iterators_follows_their_container(lives):
    values = lives.vector(int)([3, 1, 2])
    least = lives.min_element(values.begin(), values.end())
    values.clear()
    with pytest.raises(ReferenceError, match="has changed since"):
        least - values.begin()


def test_result_that_owns_its_contents_outlives_a_change(lives):
    text = lives.Text(9)
    part = text.part(4)
    text.clear()
    assert part.size() == 4 and text.size() == 0


def test_walk_along_a_long_list(lives):
    linked = lives.List(20_000)
    node, numbers = linked.begin_node(), 0
    while node is not None:
        numbers += node.number
        node = node.next()
    assert numbers == 20_000 * 19_999 // 2
    kept = {}
    node = linked.begin_node()
    for position in range(2_000):
        kept[position] = node
        node = node.next()
    linked.clear()
    with pytest.raises(ReferenceError):
        node.number  # noqa: B018
    del node, linked
    # drops the references in order; each node keeps the previous one alive, so the last one frees the whole chain
    kept.clear()
    gc.collect()


def test_class_that_is_only_declared(tmp_path):
    import subprocess

    (tmp_path / "lives.cpp").write_text(LIBRARY)
    library = tmp_path / "liblives.so"
    subprocess.run(["g++", "-shared", "-fPIC", str(tmp_path / "lives.cpp"), "-o", str(library)], check=True)
    lives = tkjit.bind(source=SOURCE, namespaces="lives", libraries=[library])
    handle = lives.open(8)
    assert "lives::Handle" in repr(handle)
    assert lives.number_of(tkjit.ptr(handle)) == 8
    lives.close(tkjit.ptr(handle))


def test_members_of_types_that_cannot_be_a_base(lives):
    last = lives.Last()
    assert not hasattr(last, "nothing") and last.own == 1
    assert last.give(3) == 3
    assert not hasattr(lives.vector("int*")(1).data(), "nothing")


def test_cpp_names_take_precedence_over_python_names(lives):
    with tkjit.batch():
        masked = lives.masked()
        value, call, again = masked.value(), masked.call, masked.args(1).value()
    assert (value, call, again) == (5, 6, 5)
    assert lives["adapt"]() == 7
