"""``Kernel.prepare``: the arguments, results and errors of prepared launches."""

import gc
import threading
import weakref

import numpy as np
import pytest
import torch
from support.define import floats

import tkjit
from tkjit import ArgumentError, Fill, In, InOut, LaunchError, Out, Scratch, ShapeError, Tensor

pytestmark = pytest.mark.compiles

SOURCE = """
__global__ void step(Globals g) {
    const int i = threadIdx.x;
    g.total[i] = g.x[i] * g.alpha + (g.offset ? g.offset.value : 0) + (g.twice ? g.x[i] : 0.f);
    g.y[i] += g.total[i];
    g.seen[i] = g.seen[i] + 1;
}
"""


@tkjit.kernel(SOURCE, entry="step", grid=1, block="N", constraints="N <= most")
def step(
    x: In[Tensor, "float32", "N"],
    total: Scratch[Tensor, "float32", "N"],
    y: InOut[Tensor, "float32", "N"],
    alpha: float = 1.0,
    offset: int | None = None,
    most: int = 100,
    twice: bool = False,
    *,
    seen: Out[Tensor, "int32", "N", Fill(6)],
) -> Tensor: ...


def test_prepared_launch_can_be_repeated():
    x, y = floats(1, 2), floats(0, 0)
    prepared = step.prepare(x, y, alpha=3.0)
    assert y.tolist() == [0, 0], "nothing is launched yet"
    seen = prepared()
    assert y.tolist() == [3, 6] and seen.tolist() == [7, 7]
    x.add_(1)
    assert prepared() is seen is prepared.result
    assert y.tolist() == [9, 15] and seen.tolist() == [7, 7]
    assert (y._version, seen._version) == (2, 2)


def test_new_numbers_hold_for_one_launch():
    x, y = floats(1), floats(0)
    prepared = step.prepare(x, y, offset=1)
    totals = []
    for numbers in ({}, {"alpha": 10.0}, {"offset": 5}, {"offset": None}, {"twice": True}, {}):
        y.zero_()
        prepared(**numbers)
        totals.append(y.item())
    assert totals == [2, 11, 6, 1, 3, 2]


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ({"most": 3}, "step: a prepared launch takes no most; it takes alpha, offset, twice: arguments that decide"),
        ({"x": torch.ones(2)}, "step: a prepared launch takes no x"),
        ({"gamma": 3}, "step: a prepared launch takes no gamma"),
        ({"alpha": "a"}, r"step: alpha is 'a' \(str\); expected a float"),
        ({"offset": 1 << 40}, "step: offset is 1099511627776"),
        ({"twice": 1}, r"step: twice is 1 \(int\); expected a bool"),
    ],
)
def test_invalid_new_numbers_are_rejected(numbers, message):
    y = floats(0)
    prepared = step.prepare(floats(1), y)
    with pytest.raises(ArgumentError, match=message):
        prepared(**numbers)
    assert y.item() == 0
    with pytest.raises(ArgumentError, match="a prepared launch takes no positional arguments"):
        prepared(floats(1))


@pytest.mark.parametrize("change", ["resized", "freed", "moved"])
def test_changed_tensors_are_rejected(change):
    x, y = floats(1, 2), floats(0, 0)
    prepared = step.prepare(x, y)
    if change == "resized":
        x.resize_(1000)
    elif change == "freed":
        x.untyped_storage().resize_(0)
    else:
        x.data = torch.ones(2)
    with pytest.raises(
        ArgumentError, match="step: x was given another shape or other memory since the launch was prepared"
    ):
        prepared()
    assert y.tolist() == [0, 0]


def test_prepare_rejects_what_a_call_rejects():
    with pytest.raises(ShapeError, match="the constraint N <= most does not hold"):
        step.prepare(torch.ones(4), torch.ones(4), most=3)
    with pytest.raises(ArgumentError, match="requires a gradient"):
        step.prepare(torch.ones(2, requires_grad=True), torch.ones(2))
    with pytest.raises(ArgumentError, match="x is 3"):
        step.prepare(3, torch.ones(2))


def test_prepared_launch_holds_its_tensors_until_it_is_deleted():
    y = floats(0, 0)
    prepared = step.prepare(floats(1, 2), y)
    gc.collect()
    prepared()
    assert y.tolist() == [1, 2]
    gone = weakref.ref(prepared.result)
    (shown,) = tkjit.make_globals(prepared)
    assert shown["alpha"] == 1.0 and shown["y"].data_ptr == y.data_ptr() and shown["total"].dtype == "float32"
    assert len(prepared.launches) == 1 and prepared.kernel.name == "step"
    del prepared, shown
    gc.collect()
    assert gone() is None


def test_numpy_arrays():
    x, y = np.ones(3, np.float32), np.zeros(3, np.float32)
    prepared = step.prepare(x, y)
    seen = prepared()
    x += 1
    prepared()
    assert y.tolist() == [3, 3, 3] and isinstance(seen, np.ndarray) and seen.tolist() == [7, 7, 7]


def test_empty_outputs_need_no_launch():
    prepared = step.prepare(torch.empty(0), torch.empty(0))
    assert prepared().shape == (0,) and prepared.launches == ()


def test_many_threads_launch_one_call():
    x = torch.ones(1, dtype=torch.int32)
    prepared = out.prepare(x)
    failed = []

    def run():
        for _ in range(200):
            try:
                prepared(bad=False)
            except tkjit.TkjitError as error:
                failed.append(error)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed and x.item() == 0 and x._version == 800


@tkjit.kernel(
    "__global__ void out(Globals g) { *(int*)(g.bad ? nullptr : g.x.raw_ptr) = 0; }", entry="out", grid=1, block=1
)
def out(x: InOut[Tensor, "int32", "N"], bad: bool = False) -> None: ...


def test_a_launch_that_fails():
    prepared = out.prepare(torch.ones(1, dtype=torch.int32))
    assert prepared() is None
    with pytest.raises(LaunchError, match="out: "):
        prepared(bad=True)
    assert prepared() is None


GATHER = """
__global__ void gather(Globals g) {
    for (int i = 0; i < g.num_devices; ++i) g.y(i, threadIdx.x) = g.alpha * g.x[i][threadIdx.x];
}
"""


@tkjit.kernel(GATHER, entry="gather", grid=1, block="N")
def gather(
    x: In[tkjit.ParallelTensor, "float32", "N"], alpha: float = 1.0, *, y: Out[Tensor, "float32", "num_devices", "N"]
) -> Tensor: ...


def test_several_devices():
    x = [floats(1, 2), floats(3, 4)]
    prepared = gather.prepare(x)
    ys = prepared()
    assert [y.tolist() for y in ys] == [[[1, 2], [3, 4]]] * 2
    x[1].zero_()
    prepared(alpha=2.0)
    assert [y.tolist() for y in ys] == [[[2, 4], [0, 0]]] * 2
    assert len(tkjit.make_globals(prepared)) == 2
    x[1].resize_(100)
    with pytest.raises(ArgumentError, match="was given another shape or other memory"):
        prepared()


def test_arrays_that_cannot_be_watched_are_rejected():
    y = floats(0, 0)
    for x in (floats(1, 2).__dlpack__(), memoryview(bytearray(8)).cast("f")):
        with pytest.raises(ArgumentError, match=r"prepare: x is .*; expected a tensor, or an array on the cpu"):
            step.prepare(x, y)


def test_a_cycle_is_collected():
    class Layer:
        pass

    layer = Layer()
    y = floats(0)
    y.layer = layer
    layer.step = step.prepare(floats(1), y)
    gone = weakref.ref(layer)
    del layer, y
    gc.collect()
    assert gone() is None


def test_make_globals_rejects_other_objects():
    for wrong in (3, object()):
        with pytest.raises(tkjit.SpecError, match="is not a kernel; expected a name"):
            tkjit.make_globals(wrong)


@tkjit.kernel("__global__ void f(Globals g) { g.y[0] = g.n.value_or(-1); }", entry="f", grid=1, block=1)
def defaulted(x: In[Tensor, "float32", "N"], n: int | None = 5, *, y: Out[Tensor, "float32", 1]): ...


def test_none_for_a_parameter_with_a_default():
    x = floats(1)
    assert defaulted(x, None).item() == 5
    with pytest.raises(ArgumentError, match="n is None"):
        defaulted.prepare(x)(n=None)
