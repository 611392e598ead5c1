"""Arrays of other frameworks through DLPack, storage offsets, and memory shared by two processes."""

from __future__ import annotations

import gc
import multiprocessing
import sys
import weakref

import numpy as np
import pytest
import torch
from support.hooks import Producer
from support.operators import profiled

import tkjit
from tkjit import ArgumentError, In, Out, Tensor

pytestmark = pytest.mark.compiles
PACKAGES = {"cupy": "cupy-cuda13x"}  # modules whose package has another name


@tkjit.kernel(
    "template <class T> __global__ void low(Globals g) { g.y[threadIdx.x] = T(float(g.x[threadIdx.x])); }",
    entry="low<T>",
    grid=1,
    block="N",
    variants={"T": ("float32", "bfloat16")},
    autocast="lower",
)
def low(x: In[Tensor, "T", "N"], y: Out[Tensor, "T", "N"]) -> Tensor: ...


@tkjit.kernel(
    "__global__ void lower(Globals g) { g.y[threadIdx.x] = __float2bfloat16(g.x[threadIdx.x]); }",
    entry="lower",
    grid=1,
    block="N",
)
def lower(x: In[Tensor, "float32", "N"], y: Out[Tensor, "bfloat16", "N"]) -> Tensor: ...


def test_result_without_a_dtype_in_the_framework():
    words = r"a result is \(4,\) bfloat16 on cpu, which numpy.ndarray cannot hold; pass tensors to get a tensor"
    x = np.ones(4, np.float32)
    with pytest.raises(ArgumentError, match=words) as caught:
        lower(x)
    assert caught.value.__cause__ is not None
    with torch.autocast("cpu"), pytest.raises(ArgumentError, match=words):
        low(x)


def test_numpy_arrays_are_not_copied():
    axpy, gemm = tkjit.load("axpy"), tkjit.load("gemm")
    x, y = np.arange(5, dtype=np.float32), np.ones(5, np.float32)
    assert axpy(x, y, alpha=2.0) is y
    assert y.tolist() == [1, 3, 5, 7, 9]
    a, b = np.random.randn(8, 4).astype(np.float32), np.random.randn(4, 6).astype(np.float32)
    c = gemm(a, b)
    assert type(c) is np.ndarray and c.flags.writeable
    np.testing.assert_allclose(c, a @ b, rtol=1e-5, atol=1e-5)
    out = np.empty((8, 6), np.float32)
    assert gemm(a, b, out=out) is out
    np.testing.assert_allclose(out, a @ b, rtol=1e-5, atol=1e-5)


def test_result_has_the_framework_of_the_first_argument():
    axpy, gemm = tkjit.load("axpy"), tkjit.load("gemm")
    y = torch.zeros(3)
    assert axpy(np.ones(3, np.float32), y) is y and y.tolist() == [1, 1, 1]
    a = np.eye(2, dtype=np.float32)
    assert type(gemm(torch.eye(2), a)) is torch.Tensor
    assert type(gemm(a, torch.eye(2))) is np.ndarray


def test_views_of_numpy_arrays():
    axpy = tkjit.load("axpy")
    x, y = np.arange(10, dtype=np.float32), np.zeros((4, 3), np.float32)
    axpy(x[5:8], y[2])
    assert y[2].tolist() == [5, 6, 7] and y.sum() == 18


def read_only() -> np.ndarray:
    array = np.zeros(3, np.float32)
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (np.zeros(3), np.zeros(3), r"axpy: x is (3,) float64 on cpu; expected (N,) float32, bfloat16 or float16"),
        (np.zeros(3, np.float32), np.zeros(4, np.float32), r"axpy: y is (4,) float32 on cpu; expected (N=3,)"),
        (
            np.zeros(6, np.float32)[::2],
            np.zeros(3, np.float32),
            "x is (3,) float32 on cpu, which is not contiguous",
        ),
        (
            np.zeros(3, np.float32),
            read_only(),
            "y is a read-only array, and the kernel writes to it; pass a copy",
        ),
        (np.zeros(3, "S1"), np.zeros(3, np.float32), "axpy: x is (3,) |S1 on cpu; expected a torch.Tensor"),
        (np.zeros((1,) * 5, np.float32), np.zeros(3, np.float32), "of 5 dimensions; expected at most 4"),
    ],
)
def test_invalid_arrays_are_rejected(x, y, message):
    loaded = tkjit.load("axpy")
    loaded(np.zeros(3, np.float32), np.zeros(3, np.float32))
    with pytest.raises(tkjit.TkjitError) as raised:
        loaded(x, y)
    assert message in str(raised.value)


def test_a_read_only_array_can_be_read():
    y = np.ones(3, np.float32)
    tkjit.load("axpy")(read_only(), y)
    assert y.tolist() == [1, 1, 1]


def test_arrays_under_a_mode_stay_arrays():
    gemm, axpy = tkjit.load("gemm"), tkjit.load("axpy")
    a, y = np.eye(3, dtype=np.float32), np.zeros(3, np.float32)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
        c = gemm(a, a)
        assert axpy(a[0], y) is y
    assert type(c) is np.ndarray and c.tolist() == a.tolist() and y.tolist() == [1, 0, 0]


def test_arrays_in_every_position_under_a_mode():
    @tkjit.kernel("__global__ void f(Globals g) { g.y[0] = g.xs[1][0]; }", entry="f", grid=1, block=1)
    def second_of(xs: In[list[Tensor], "float32", "N"], y: Out[Tensor, "float32", "N"]) -> Tensor: ...

    gemm, axpy = tkjit.load("gemm"), tkjit.load("axpy")
    array, tensor = np.eye(2, dtype=np.float32), torch.eye(2)
    for call in (lambda function, *args: function(*args), profiled):
        assert type(call(second_of, [array[0], array[1]])) is np.ndarray
        assert type(call(gemm, tensor, array)) is torch.Tensor
        assert type(call(gemm, array, tensor)) is np.ndarray
        assert type(call(axpy, tensor[0], tensor[1], np.ones(()))) is torch.Tensor
        frozen = read_only()
        with pytest.raises(tkjit.ArgumentError, match="y is a read-only array"):
            call(axpy, np.ones(3, np.float32), frozen)
        assert frozen.sum() == 0


@pytest.mark.parametrize("versions", [True, False])
def test_any_dlpack_producer_is_accepted(versions):
    y = np.ones(4, np.float32)
    tkjit.load("axpy")(Producer(np.arange(4, dtype=np.float32), versions=versions), Producer(y, versions=versions))
    assert y.tolist() == [1, 2, 3, 4]
    assert type(tkjit.load("softmax")(Producer(y, versions=versions))) is np.ndarray


def test_error_names_a_producer_that_fails():
    class Failing(Producer):
        def __dlpack__(self, **keywords):
            raise BufferError("not today")

    with pytest.raises(tkjit.ArgumentError, match=r"x is \(4,\) float32; expected a torch.Tensor"):
        tkjit.load("axpy")(Failing(np.zeros(4, np.float32)), np.zeros(4, np.float32))


def test_producer_may_return_its_device_as_a_list():
    class Listing(Producer):
        def __dlpack_device__(self):
            return [*super().__dlpack_device__()]

    y = np.zeros(4, np.float32)
    tkjit.load("axpy")(Listing(np.ones(4, np.float32)), y)
    assert y.tolist() == [1, 1, 1, 1]


def test_error_message_does_without_a_failing_device():
    class Lost(Producer):
        @property
        def device(self):
            raise RuntimeError("the device is lost")

    with pytest.raises(tkjit.ArgumentError, match=r"x is \(4,\) float64; expected") as raised:
        tkjit.load("axpy")(Lost(np.zeros(4)), np.zeros(4, np.float32))
    assert raised.value.__cause__ is None


def test_array_is_released_after_the_call():
    x, y = np.zeros(4, np.float32), np.zeros(4, np.float32)
    loaded = tkjit.load("axpy")
    before = sys.getrefcount(x)
    for _ in range(100):
        loaded(x, y)
        with pytest.raises(tkjit.ShapeError):
            loaded(x, y[:3])
    assert sys.getrefcount(x) == before


@pytest.mark.parametrize("framework", ["jax", "cupy"])
def test_other_frameworks(framework):
    pytest.importorskip(framework, reason=f"pip install {PACKAGES.get(framework, framework)} to run this")
    if framework == "cupy":
        import cupy

        if not torch.cuda.is_available():
            pytest.skip("CuPy's arrays are on a GPU, and this machine has none")
        a = cupy.random.rand(8, 8, dtype=cupy.float32)
        c = tkjit.load("gemm")(a, a)
        assert type(c) is cupy.ndarray
        assert cupy.allclose(c, a @ a, rtol=1e-4, atol=1e-4)
        return
    import jax

    a = jax.random.normal(jax.random.key(0), (8, 8))
    c = tkjit.load("gemm")(a, a)
    assert isinstance(c, jax.Array)
    np.testing.assert_allclose(np.asarray(c), np.asarray(a @ a), rtol=1e-4, atol=1e-4)
    with pytest.raises(tkjit.ArgumentError, match="y is a read-only array"):
        tkjit.load("axpy")(a[0], a[1])


# ---- storage offsets, shared memory


def test_storage_offsets():
    axpy = tkjit.load("axpy")
    x, y = torch.arange(10.0), torch.zeros(10)
    axpy(x[4:7], y[1:4])
    assert y.tolist() == [0, 4, 5, 6, 0, 0, 0, 0, 0, 0]
    block = torch.zeros(4, 5)
    axpy(x[:5], block[2])
    assert block.sum() == 10 and block[2].tolist() == [0, 1, 2, 3, 4]


def add_one(shared: torch.Tensor) -> None:
    tkjit.load("axpy")(torch.ones(4), shared)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:os.fork")  # JAX warns about it once it is imported
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_shared_memory_is_seen_by_two_processes(method, monkeypatch):
    shared = torch.zeros(4).share_memory_()
    add_one(shared)
    process = multiprocessing.get_context(method).Process(target=add_one, args=(shared,))
    process.start()
    process.join(60)
    assert process.exitcode == 0
    assert shared.tolist() == [2, 2, 2, 2]
    add_one(shared[:4])
    assert shared.tolist() == [3, 3, 3, 3]


class KernelDataset(torch.utils.data.Dataset):
    """Calls a kernel in the worker."""

    def __init__(self) -> None:
        self.kernel = tkjit.load("softmax")

    def __len__(self) -> int:
        return 8

    def __getitem__(self, i: int) -> torch.Tensor:
        return self.kernel(torch.full((4,), float(i)))


@pytest.mark.slow  # starts several processes
@pytest.mark.filterwarnings("ignore:os.fork")  # JAX warns about it once it is imported
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_data_loader_workers_call_kernels(method):
    loader = torch.utils.data.DataLoader(KernelDataset(), batch_size=4, num_workers=2, multiprocessing_context=method)
    assert torch.equal(torch.cat(list(loader)), torch.full((8, 4), 0.25))


def test_tensor_is_released_after_the_call():
    x = torch.ones(4)
    seen = weakref.ref(x)
    result = tkjit.load("softmax")(x)
    del x
    gc.collect()
    assert seen() is None and result.tolist() == [0.25] * 4
