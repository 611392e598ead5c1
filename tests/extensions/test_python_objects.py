"""Sources work with Python's own objects, with NumPy's arrays and with classes that have a base."""

from __future__ import annotations

import copy
import gc
import pickle
import types
from pathlib import Path

import numpy as np
import pytest

from tkjit import cpp_extension

pytestmark = pytest.mark.compiles

SOURCE = Path(__file__).parents[1] / "support/extensions/python_objects.cpp"


@pytest.fixture(scope="module")
def module():
    return cpp_extension.load("tkjit_test_python_objects", SOURCE, extra_cflags=["-O0"])


def test_numpy_arrays(module):
    assert module.total(np.arange(6.0).reshape(2, 3).T) == 15 and module.total([1, 2]) == 3
    assert module.outer([1, 2], np.array([3, 4])).tolist() == [[3, 4], [6, 8]]
    filled = np.zeros(4, np.int32)
    module.fill(filled)
    assert filled.tolist() == [0, 1, 2, 3]
    assert module.copied().dtype == np.int64 and module.copied().tolist() == [4, 5]
    with pytest.raises(ValueError, match="incorrect number of dimensions: 2; expected 1"):
        module.outer(np.zeros((2, 2)), [1])
    with pytest.raises(TypeError, match=r"expected numpy.ndarray\[f4\], got str"):
        module.total("x")


def test_view_keeps_its_owner_alive(module):
    viewed = module.view()
    gc.collect()
    assert viewed.tolist() == [1, 2, 3] and viewed.base is not None


def test_writing_to_a_read_only_array_fails(module):
    constant = np.zeros(2, np.int32)
    constant.flags.writeable = False
    with pytest.raises(ValueError, match="not writeable"):
        module.fill(constant)


def test_overload_without_conversion_is_preferred(module):
    assert [module.kind(each) for each in (np.zeros(2, np.int32), np.zeros(2), 1.5)] == ["int", "double", "float"]
    assert module.exact(1.5) == 1.5
    with pytest.raises(TypeError, match="expected float, got int"):
        module.exact(1)


def test_python_objects(module):
    made = module.objects({1: "x"}, [1, "b", None], "up")
    assert made == [(1, "x"), 2, "'b'", "None", "UP", 5.0, {"first": 1, "none": None}]
    assert module.bytes(b"ab") == b"ab!" and module.version == "1"
    assert module.complex(1 + 2j) == 2 + 4j
    assert module.call(lambda x, y: x * y, 3) == 6


def test_containers_and_attributes(module):
    owner = types.SimpleNamespace(x=7)
    assert module.containers([1, 2, 1], (3, "b"), owner) == {
        "seen": {1, 2},
        "size": 6,
        "has": (True, False, True),
        "got": (7, 8),
        "repr": "'b'",
        "is": (True, False),
    }
    assert vars(owner) == {"y": 9}
    assert module.bounds(slice(1, None, 2), 6) == (1, 6, 2, 3)
    with pytest.raises(TypeError, match="expected iterable, got int"):
        module.containers(1, (), owner)


def test_functions_are_objects(module):
    assert module.adder(3)(x=4) == 7


def test_module_local_enumeration(module):
    assert module.Mode.second == 1 and module.Mode(0) is module.Mode.first


def test_bound_class_can_be_pickled(module):
    point = module.Point()
    point.x = 5
    assert copy.deepcopy(point).x == pickle.loads(pickle.dumps(point)).x == 5


def test_exception_classes_registered_by_a_source(module):
    assert issubclass(module.OutOfRange, LookupError)
    with pytest.raises(module.OutOfRange, match="too far"):
        module.throw(0)
    with pytest.raises(BufferError, match="another"):
        module.throw(1)
    with pytest.raises(ValueError, match="own"):
        module.throw(2)


def test_args_and_kwargs(module):
    assert module.any(1, 2, 3, k=4) == (1, (2, 3), {"k": 4})
    assert module.any(a=1) == (1, (), {})
    with pytest.raises(TypeError, match="a is missing"):
        module.any(k=1)


def test_python_exceptions_pass_through_cpp(module):
    with pytest.raises(ValueError, match="a value"):
        module.raises(0)
    with pytest.raises(KeyError, match="a key"):
        module.raises(1)
    assert module.raises(2) == "ModuleNotFoundError: No module named 'no_such_module'"
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        module.raises(3)
    with pytest.raises(ZeroDivisionError):
        module.call(lambda x, y: x / (y - 2), 1)


def test_class_with_a_base(module):
    square = module.Square()
    square.name = "mine"
    assert isinstance(square, module.Shape) and square.corners() == module.corners_of(square) == 4
    assert square.name == "mine" and module.corners_of(module.Shape()) == 0
    with pytest.raises(TypeError):
        module.corners_of(module.Point())


def test_lists_of_bound_classes(module):
    squares = [module.Square(), module.Square()]
    squares[1].origin.x = 7
    corners, origins = module.corners_of_all(squares)
    assert corners == 8 and [each.x for each in origins] == [1, 7]
    with pytest.raises(TypeError, match=r"expected list\[Square\], got list"):
        module.corners_of_all([module.Point()])


def test_members_of_bound_classes_are_shared(module):
    square = module.Square()
    origin, copied = square.origin, square.copied()
    square.origin.x = 5
    square.at().x += 1
    assert origin.x == 6 and copied.x == 1
    del square
    gc.collect()
    assert origin.x == 6


def test_none_is_not_a_tensor(module):
    assert not module.constant(None)
    with pytest.raises(TypeError, match="expected Tensor, got NoneType"):
        module.tensor(None)


def test_documentation_begins_with_the_signature(module):
    assert module.exact.__doc__ == "exact(x: float) -> float\n"
    assert module.any.__doc__ == "any(a: int, *args, **kwargs) -> tuple\n"
    first, second = module.kind.__doc__.split("\n")[:2]
    assert (first, second) == ("kind(*args, **kwargs)", "Overloaded function.")
    assert "2. kind(arg0: numpy.ndarray[i4]) -> str" in module.kind.__doc__
