"""Arguments that are neither tensors nor numbers: lists, lists of tensors, strings, dtypes, devices, containers."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import torch

import tkjit
from tkjit import In, InOut, MaxLength, Out, Scalar, Tensor

pytestmark = pytest.mark.compiles


F32 = "float32"

# ---- values in a kernel's struct


@tkjit.kernel(
    """
    __global__ void gather(Globals g) {
        int i = 0;
        for (const int index : g.indices) g.y[i++] = g.x[index];
        for (const double weight : g.weights) g.y[0] += weight;
        if (g.more) for (const auto one : g.more.value) g.y[1] += one;
    }
    """,
    entry="gather",
    grid=1,
    block=1,
)
def gather(
    x: In[Tensor, F32, "N"],
    indices: Scalar[list[int], "int", MaxLength(4)],
    weights: list[float] = (0.25, 0.5),
    more: list[int] | None = None,
    *,
    y: Out[Tensor, F32, 4] = None,
) -> Tensor: ...


def test_lists_of_numbers_in_a_struct():
    x, y = torch.arange(10.0), torch.zeros(4)
    loaded = tkjit.load(gather)
    assert loaded(x, [7, 3], y=y).tolist() == [7.75, 3, 0, 0]
    assert loaded(x, (1, 2, 3), [], y=y).tolist() == [1, 2, 3, 0]
    assert loaded(x, torch.Size([4]), [np.float32(1), 2], [10, 20], y=y).tolist() == [7, 32, 3, 0]
    assert gather.schema == (
        "tkjit::gather(Tensor x, SymInt[] indices, float[] weights=[0.25, 0.5], SymInt[]? more=None) -> Tensor"
    )
    torch._C.parse_schema(gather.schema)


@pytest.mark.parametrize(
    ("indices", "message"),
    [
        ([1] * 5, "indices is [1, 1, 1, 1, 1] (list); expected at most 4 items"),
        ([1, 2.0], "indices is [1, 2.0] (list); expected list[int]"),
        ([1, 2**31], "indices is [1, 2147483648] (list); expected list[int]"),
        ([True], "indices is [True] (list); expected list[int]"),
        (True, "indices is True (bool); expected list[int]"),
        ({1}, "indices is {1} (set); expected list[int]"),
        (None, "indices is None (NoneType); expected list[int]"),
    ],
)
def test_invalid_lists_are_rejected(indices, message):
    with pytest.raises(tkjit.ArgumentError) as raised:
        tkjit.load(gather)(torch.arange(10.0), indices, y=torch.zeros(4))
    assert str(raised.value) == f"gather: {message}"


@tkjit.kernel(
    """
    template <class T> __global__ void add_all(Globals g) {
        const int i = threadIdx.x;
        for (const auto& x : g.xs) g.y[i] += g.factor * float(x[i]);
        for (int k = 0; k < g.counters.size(); ++k) if (i == 0) g.counters[k][0] += k + 1;
    }
    """,
    entry="add_all<T>",
    grid=1,
    block="N",
    variants={"T": ("float32", "bfloat16")},
)
def add_all(
    xs: In[list[Tensor], "T", "N", MaxLength(3)],
    counters: InOut[list[Tensor], "int32", 1],
    factor: float = 1.0,
    *,
    y: InOut[Tensor, "T", "N"],
) -> None: ...


def counters(count: int) -> list[torch.Tensor]:
    return [torch.zeros(1, dtype=torch.int32) for _ in range(count)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_lists_of_tensors(dtype):
    xs, y, counts = (
        [torch.full((5,), value, dtype=dtype) for value in (1, 2, 4)],
        torch.zeros(5, dtype=dtype),
        counters(2),
    )
    versions = [one._version for one in counts]
    assert tkjit.load(add_all)(xs, counts, 2.0, y=y) is None
    assert y.tolist() == [14.0] * 5
    assert [int(one) for one in counts] == [1, 2]
    assert [one._version for one in counts] == [version + 1 for version in versions]


@pytest.mark.parametrize(
    ("xs", "kind", "message"),
    [
        ([], tkjit.ArgumentError, "xs is [] (list); expected 1 to 3 tensors"),
        ([torch.zeros(5)] * 4, tkjit.ArgumentError, "expected 1 to 3 tensors"),
        (torch.zeros(5), tkjit.ArgumentError, r"xs is (5,) float32 on cpu; expected a list of tensors"),
        ([torch.zeros(5), 1.0], tkjit.ArgumentError, "xs[1] is 1.0 (float); expected a torch.Tensor"),
        ([torch.zeros(5), torch.zeros(4)], tkjit.ShapeError, "xs[1] is (4,) float32 on cpu; expected (N=5,)"),
        ([torch.zeros(5), torch.zeros(1, 5)], tkjit.ShapeError, "xs[1] is (1, 5) float32 on cpu; expected (N=5,)"),
        (
            [torch.zeros(5), torch.zeros(5).bfloat16()],
            tkjit.ArgumentError,
            "xs[1] is (5,) bfloat16 on cpu; expected (N=5,) of xs[0]'s",
        ),
        ([torch.zeros(5), torch.zeros(10)[::2]], tkjit.ArgumentError, "xs[1] is (5,) float32 on cpu with strides (2,)"),
    ],
)
def test_invalid_lists_of_tensors_are_rejected(xs, kind, message):
    with pytest.raises(kind) as raised:
        tkjit.load(add_all)(xs, counters(1), y=torch.zeros(5))
    assert str(raised.value).startswith(f"add_all: {message}") or message in str(raised.value)


def test_computed_dim_is_checked_for_every_tensor():
    @tkjit.kernel("__global__ void f(Globals g) { g.y[0] = g.xs[1][0]; }", entry="f", grid=1, block=1)
    def doubled(x: In[Tensor, F32, "N"], xs: In[list[Tensor], F32, "2 * N"], y: Out[Tensor, F32, "N"]) -> Tensor: ...

    assert doubled(torch.zeros(2), [torch.zeros(4), torch.ones(4)])[0] == 1
    with pytest.raises(tkjit.ShapeError, match=r"xs\[1\] is \(3,\) float32 on cpu; expected \(2 \* N=4,\) float32"):
        doubled(torch.zeros(2), [torch.zeros(4), torch.ones(3)])


def test_an_output_that_shares_memory_with_a_list():
    @tkjit.kernel("__global__ void f(Globals g) { g.y[0] = g.xs[0][0]; }", entry="f", grid=1, block=1)
    def first_of(xs: In[list[Tensor], F32, "N"], y: Out[Tensor, F32, "N"]) -> Tensor: ...

    x = torch.ones(3)
    assert first_of([x])[0] == 1
    with pytest.raises(tkjit.ArgumentError, match=r"the output y shares memory with xs\[1\]"):
        first_of([torch.ones(3), x], out=x)


def test_lists_through_the_operator():
    xs, y, counts = [torch.ones(5), torch.ones(5)], torch.zeros(5), counters(2)
    loaded = tkjit.load(add_all)
    compiled = functools.partial(torch.compile, fullgraph=True, backend="aot_eager")
    assert loaded.schema == ("tkjit::add_all(Tensor[] xs, Tensor(a!)[] counters, float factor, Tensor(b!) y) -> ()")
    torch.compile(lambda xs, counts, y: loaded(xs, counts, 3.0, y=y), fullgraph=True, backend="aot_eager")(
        xs, counts, y
    )
    assert y.tolist() == [6.0] * 5 and [int(one) for one in counts] == [1, 2]
    x = torch.arange(10.0)
    function = compiled(lambda x, y: gather(x, [2, 4], y=y) * 1)
    assert function(x, torch.zeros(4)).tolist() == [2.75, 4, 0, 0]
    torch.library.opcheck(loaded.operator.default, ([torch.ones(5)], counters(1), 1.0, torch.zeros(5)))


# ---- arguments of a host function

HOST = """
#include <cstring>

inline void describe(
    tkjit::gl<int64_t> result, std::string name, const std::vector<int64_t>& sizes,
    const std::map<std::string, double>& weights, const std::set<int64_t>& chosen,
    std::tuple<int64_t, std::string, bool> triple, TkjitDtype dtype, TkjitDevice device,
    const std::vector<tkjit::gl<float>>& tensors, const std::optional<std::vector<std::vector<double>>>& nested) {
    int64_t i = 0;
    result[i++] = name.size();
    for (auto size : sizes) result[i++] = size;
    for (const auto& [key, weight] : weights) result[i++] = int64_t(key.size() * 100 + weight);
    for (auto one : chosen) result[i++] = one;
    result[i++] = std::get<0>(triple) + std::get<1>(triple).size() + std::get<2>(triple);
    result[i++] = dtype;
    result[i++] = device.type * 10 + device.index;
    for (const auto& tensor : tensors) result[i++] = int64_t(tensor[0]) + tensor.cols();
    if (nested) for (const auto& row : *nested) for (double value : row) result[i++] = int64_t(value);
}
"""


@tkjit.kernel(HOST, entry="describe", host=True, args=True)
def describe(
    result: InOut[Tensor, "int64", "M"],
    name: str,
    sizes: list[int],
    weights: dict[str, float],
    chosen: set[int],
    triple: tuple[int, str, bool],
    dtype: torch.dtype = torch.float16,
    device: torch.device = "cuda:3",
    *,
    tensors: In[list[Tensor], F32, "N"],
    nested: list[list[float]] | None = None,
) -> Tensor: ...


def described(**changes):
    arguments = {
        "result": torch.zeros(20, dtype=torch.int64),
        "name": "größe",
        "sizes": [5, 6],
        "weights": {"a": 1.0, "bb": 2},
        "chosen": {9, 8},
        "triple": (1, "xyz", True),
        "tensors": [torch.full((2,), 40.0), torch.full((2,), 50.0)],
        **changes,
    }
    return tkjit.load(describe)(**arguments).tolist()


def test_containers_of_a_host_function():
    half, same = 9, [7, 5, 6, 101, 202, 8, 9, 5]
    assert described()[:12] == [*same, half, 13, 42, 52]
    assert described(dtype=torch.bfloat16, device=torch.device("cpu"))[8:10] == [10, -1]
    assert described(dtype="int8", device="cuda")[8:10] == [2, 9]
    assert described(nested=[[1.0], [], [2.0, 3.0]])[12:15] == [1, 2, 3]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": b"bytes"}, "name is b'bytes' (bytes); expected str"),
        ({"weights": {1: 1.0}}, "weights is {1: 1.0} (dict); expected dict[str, float]"),
        ({"weights": [("a", 1.0)]}, "weights is [('a', 1.0)] (list); expected dict[str, float]"),
        ({"chosen": [1]}, "chosen is [1] (list); expected set[int]"),
        ({"triple": (1, "a")}, "triple is (1, 'a') (tuple); expected tuple[int, str, bool]"),
        ({"dtype": torch.complex32}, "dtype is torch.complex32 (torch.dtype); expected torch.dtype"),
        ({"dtype": float}, "dtype is <class 'float'> (type); expected torch.dtype"),
        ({"device": "meta"}, "device is 'meta' (str); expected torch.device"),
        ({"device": "cuda:x"}, "device is 'cuda:x' (str); expected torch.device"),
        ({"nested": [1.0]}, "nested is [1.0] (list); expected list[list[float]]"),
    ],
)
def test_invalid_containers_are_rejected(changes, message):
    with pytest.raises(tkjit.ArgumentError) as raised:
        described(**changes)
    assert str(raised.value) == f"describe: {message}"


def test_kernel_with_types_unknown_to_pytorch_has_no_operator():
    for ask in (lambda: describe.operator, lambda: describe.schema):
        with pytest.raises(tkjit.SpecError, match=r"PyTorch has no type for weights: dict\[str, float\]"):
            ask()


def test_function_with_another_container_type():
    @tkjit.kernel("inline void f(tkjit::gl<float> x, std::set<int64_t> s) {}", entry="f", host=True, args=True)
    def other(x: In[Tensor, F32, "N"], s: list[int]) -> None: ...

    with pytest.raises(tkjit.CompileError, match="the parameters of f; the spec of other says otherwise"):
        other(torch.zeros(1), [1])


def test_a_rendered_struct_of_a_host_function():
    @tkjit.kernel(
        "inline void f(Globals g) { g.x[0] = g.names.size() + g.names[1].size() + (g.note ? g.note->size() : 100); }",
        entry="f",
        host=True,
    )
    def named(x: InOut[Tensor, F32, "N"], names: list[str], note: str | None = None) -> Tensor: ...

    assert named(torch.zeros(1), ["a", "bcd"]).item() == 105
    assert named(torch.zeros(1), ["a", "bcd"], note="xy").item() == 7


def test_invalid_types_in_a_spec_are_rejected():
    with pytest.raises(tkjit.SpecError, match="name: a kernel takes numbers and lists of numbers; str is for a host"):

        @tkjit.kernel("__global__ void f(Globals g) {}", entry="f", grid=1, block=1)
        def of_a_string(x: In[Tensor, F32, "N"], name: str) -> None: ...

    with pytest.raises(tkjit.SpecError, match=r"weights: \{'a': 1.0\} cannot be the default of dict"):

        @tkjit.kernel("inline void f(Globals g) {}", entry="f", host=True)
        def of_a_dict(x: In[Tensor, F32, "N"], weights: dict[str, float] = {"a": 1.0}) -> None: ...  # noqa: B006

    with pytest.raises(tkjit.SpecError, match=r"the items of list\[int\] cannot be float; known are int, int32_t"):

        @tkjit.kernel("__global__ void f(Globals g) {}", entry="f", grid=1, block=1)
        def of_floats(x: In[Tensor, F32, "N"], sizes: Scalar[list[int], "float"]) -> None: ...


def test_a_list_that_another_thread_changes_is_read_once():
    """The tensors of a call live until its end, even if the list is cleared."""

    @tkjit.kernel(
        "#include <unistd.h>\ninline void f(Globals g) { usleep(200000); for (auto x : g.xs) g.y[0] += x[0]; }",
        entry="f",
        host=True,
    )
    def slow(xs: In[list[Tensor], F32, "N"], y: InOut[Tensor, F32, 1]) -> Tensor: ...

    import threading
    import time

    slow([torch.ones(1)], torch.zeros(1))
    xs = [torch.full((1000,), 3.0) for _ in range(5)]
    y = torch.zeros(1)
    thread = threading.Thread(target=slow, args=(xs, y))
    thread.start()
    time.sleep(0.05)
    xs.clear()
    _ = [torch.full((1000,), 99.0) for _ in range(20)]
    thread.join()
    assert y.item() == 15
