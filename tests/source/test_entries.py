"""What is said of an entry that the source does not have, or has otherwise."""

import pytest

from tkjit.source.entries import kernel_functions, why_not_the_entry

SOURCE = """
// __global__ void commented(int);
template <typename T, int N = 4>
__global__ void __launch_bounds__(256, 2) relu(const __grid_constant__ Globals g) {}
namespace n { extern "C" __global__ void add(const float* __restrict__ x, Pair<int, int> y, int n) { if (n) {} } }
__device__ float helper(float x) { return x; }
__global__ void declared(int);
__global__ void scale(float* x) {}
template <class T> __global__ void scale(T* x, int n) {}
"""
UNDECLARED = "error: \u2018rellu\u2019 was not declared in this scope"
ALL = (
    "relu<typename T, int N = 4>(const Globals g), n::add(const float* x, Pair<int, int> y, int n), scale(float* x), "
    "scale<class T>(T* x, int n)"
)


def why(entry: str, *, args: bool = False, passed: str = "x", log: str = "") -> str:
    return why_not_the_entry(SOURCE, entry, takes_arguments=args, passed=passed.split(), log=log)


def test_the_kernels_of_a_source():
    assert ", ".join(map(str, kernel_functions(SOURCE))) == ALL


@pytest.mark.parametrize("log", [UNDECLARED, 'error: identifier "rellu" is undefined'])
def test_another_name(log):
    expected = f"the source has no __global__ function rellu; it has {ALL}; did you mean relu?"
    assert why("rellu<T>", log=log) == expected


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ("relu", 'relu is a template, <typename T, int N = 4>: entry="relu<T>"'),
        ("n::add<T>", 'n::add is no template: entry="n::add"'),
        (
            "add",
            "n::add(const float* x, Pair<int, int> y, int n) takes plain arguments, and no struct of them: args=True",
        ),
    ],
)
def test_another_kind(entry, expected):
    assert why(entry) == expected


def test_another_number_of_parameters():
    log = "static assertion failed: the parameters of add; the spec of k says otherwise"
    expected = "n::add(const float* x, Pair<int, int> y, int n) has 3 parameters, and the spec describes 2: x, y"
    assert why("add", args=True, passed="x y", log=log) == expected


@pytest.mark.parametrize(
    ("entry", "args", "log"),
    [
        ("relu<T>", False, "error: expected ;"),  # another error
        ("of_a_header<T>", False, "error: expected ;"),  # it may be there
        ("scale", True, UNDECLARED),  # one of two
        ("add", True, "error: expected ;"),  # the parameters are not what is wrong
    ],
)
def test_what_is_not_known_to_be_wrong(entry, args, log):
    assert why(entry, args=args, log=log) == ""
