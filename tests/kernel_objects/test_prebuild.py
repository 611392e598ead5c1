"""``warm_up`` and ``warming`` build in advance what calls need, and a call waits only for its own builds."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest
import torch
from support.caches import entries

import tkjit
from tkjit.cache.entry import read_manifest

pytestmark = pytest.mark.compiles
AXPY = 'import time, torch, tkjit\nk = tkjit.load("axpy"); x = torch.ones(3); h = x.half(); '


def built(root) -> set[str]:
    """The builds in a cache, without their targets."""
    return {str(read_manifest(one).get("what", one.parents[1].name)).partition(" for ")[0] for one in entries(root)}


# ---- warm_up


def test_examples_select_the_variants(cache_with_runtime, fresh):
    code = (
        AXPY + "b = k.warm_up((x, x), dict(x=h, y=h)); b.wait(); print(b.done, len(b.names)); print(k(x, x, 2.0).sum())"
    )
    assert fresh.run(code) == "True 4\ntensor(9.)\n"
    assert {"axpy (T=float32)", "axpy (T=float16)"} <= built(cache_with_runtime)


OVERLOADS = """
import torch, tkjit
from tkjit import InOut, Tensor
options = dict(entry="f", args=True, grid=1, block=1)
source = "__global__ void f({type}* x) {{ x[0] = {value}; }}"

@tkjit.kernel(source.format(type="float", value=1), **options)
def fill(x: InOut[Tensor, "float32", "N"]) -> Tensor: ...

@fill.overload(source.format(type="double", value=2), **options)
def fill(x: InOut[Tensor, "float64", "N"]) -> Tensor: ...

@fill.overload(source.format(type="double", value=3), **options)
def fill(x: InOut[Tensor, "float64", "M", "N"]) -> Tensor: ...

for shape, value in ((3,), 2), ((2, 3), 3):
    x = torch.zeros(shape, dtype=torch.float64)
    fill.warm_up((x,)).wait()
    assert fill(x).flatten()[0] == value
"""


def test_an_example_selects_the_overload(cache_with_runtime, fresh, compiler):
    assert fresh.run(OVERLOADS) == ""
    assert compiler.compiled == ["launcher", "launcher", "module"]  # none for float32


@pytest.mark.slow  # one compilation per variant
def test_every_variant_is_built_without_examples(cache_with_runtime, fresh):
    code = AXPY + "b = k.warm_up(); b.wait(); print(len(b.names))"
    variants = len(tkjit.load("axpy").variants)
    assert fresh.run(code) == f"{variants + 2}\n"  # plus the runtime and the glue
    assert len(built(cache_with_runtime) - {"runtime", "glue"}) >= variants


def test_call_waits_only_for_its_own_build(cache_with_runtime, fresh, compiler):
    code = AXPY + "b = k.warm_up((h, h), (x, x)); print(k(x, x, 2.0).sum()); b.wait()"
    assert fresh.run(code) == "tensor(9.)\n"
    assert compiler.compiled == ["launcher", "launcher", "module"]  # nothing is compiled twice


def test_program_exits_without_waiting_for_builds(cache_with_runtime):
    # start an interpreter, because ``fresh`` ends its processes without joining their threads
    code = AXPY + "k.warm_up(); time.sleep(0.3); print(time.monotonic())"
    program = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True, timeout=60)
    assert time.monotonic() - float(program.stdout) < 5


def test_build_error_is_raised_by_wait_and_by_the_call(cache_with_runtime, fresh, tmp_path):
    code = """
import tkjit, torch
@tkjit.kernel("__global__ void f(Globals g) { nonsense; }", entry="f", grid=1, block="N")
def broken(x: tkjit.InOut[tkjit.Tensor, "float32", "N"]) -> None: pass
builds = tkjit.load(broken).warm_up(torch.empty(1))
for wait in (builds.wait, lambda: broken(torch.empty(1))):
    try:
        wait()
    except tkjit.CompileError as error:
        print("nonsense" in error.summary)
"""
    assert fresh.run(code) == "True\nTrue\n"


@pytest.mark.parametrize(
    ("example", "message"),
    [
        (3, "an example is int; expected a tuple of a call's arguments"),
        ((), "these arguments do not determine the variant to build"),
        ((torch.ones(1, dtype=torch.int64), torch.ones(1)), "these arguments do not determine the variant"),
    ],
)
def test_invalid_example(session_cache, example, message):
    with pytest.raises(tkjit.ArgumentError, match=message):
        tkjit.load("axpy").warm_up(example)


def test_forked_child_builds_for_itself(cache_with_runtime, fresh):
    code = (
        AXPY
        + """
import os
begun = k.warm_up((h, h))
pid = os.fork()
if not pid:
    try:
        begun.wait()
    except tkjit.CacheError as error:
        assert "forked" in str(error)
    k.warm_up((x, x)).wait()
    os._exit(0 if k(x, x, 2.0).sum() == 9 else 1)
begun.wait()
print(os.waitpid(pid, 0)[1])
"""
    )
    assert fresh.run(code) == "0\n"


# ---- warming

STEP = """
import torch, tkjit
softmax, gemm = tkjit.load("softmax"), tkjit.load("gemm")
weight = torch.randn(64, 64).bfloat16()
def step(x):
    scores = gemm(x, weight)
    assert scores.shape == (32, 64) and scores.dtype == torch.bfloat16, scores
    return softmax(scores.float())
"""


@pytest.mark.slow
def test_step_on_fake_tensors(cache_with_runtime, fresh, compiler):
    code = (
        STEP
        + """
with tkjit.warming() as warm:
    out = step(torch.randn(32, 64).bfloat16())
print(type(out).__name__, tuple(out.shape), len(warm.names), warm.builds.done)
"""
    )
    assert fresh.run(code) == "FakeTensor (32, 64) 4 True\n"
    before = compiler.compiled
    code = STEP + "print(step(torch.randn(32, 64).bfloat16()).sum().round())"
    assert fresh.run(code) == "tensor(32.)\n"
    assert compiler.compiled == before


@pytest.mark.slow
def test_calls_of_other_threads_run_normally(cache_with_runtime, fresh):
    code = (
        AXPY
        + """
import threading
results = []
def call():
    results.append(float(k(x, torch.ones(3), 2.0).sum()))
with tkjit.warming() as warm:
    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
print(results, warm.names)
"""
    )
    assert fresh.run(code) == "[9.0] []\n"


def test_warming_for_another_architecture(cache_with_runtime, fresh):
    code = STEP + "with tkjit.warming(arch='90a', wait=False) as warm: step(torch.randn(32, 64).bfloat16())\n"
    code += "print(sorted(name.rpartition(' ')[2] for name in warm.names if 'glue' not in name))"
    assert fresh.run(code) == "['sm_90a', 'sm_90a']\n"


def test_nothing_is_built_if_the_block_fails(cache_with_runtime, fresh, compiler):
    code = (
        STEP
        + """
try:
    with tkjit.warming() as warm:
        step(torch.randn(32, 64).bfloat16())
        gemm(torch.randn(3, 5), torch.randn(4, 5))
except tkjit.ShapeError as error:
    print(warm.builds, "gemm: " in str(error))
"""
    )
    assert fresh.run(code) == "None True\n"
    assert compiler.compiled == []


BACKWARD = """
import torch, tkjit
from tkjit import In, Out, Tensor

COPY = "__global__ void f(Globals g) { int i = threadIdx.x; g.y[i] = 3 * g.x[i]; }"
@tkjit.kernel(COPY, entry="f", grid=1, block="N")
def slope(x: In[Tensor, "float32", "N"], *, y: Out[Tensor, "float32", "N"]) -> Tensor: pass

def backward(grad_y):
    return tkjit.load(slope)(grad_y)

@tkjit.kernel(COPY, entry="f", grid=1, block="N", backward=backward)
def triple(x: In[Tensor, "float32", "N"], *, y: Out[Tensor, "float32", "N"]) -> Tensor: pass

layer = torch.nn.Linear(4, 4)
def step():
    loss = tkjit.load(triple)(layer(torch.ones(4))).sum()
    loss.backward()
"""


@pytest.mark.slow
def test_step_with_its_backward(cache_with_runtime, operators, fresh, compiler):
    operators(cache_with_runtime)
    code = (
        BACKWARD
        + """
with tkjit.warming() as warm:
    step()
print([name.split()[0] for name in warm.names], type(layer.weight.grad).__name__)
layer.zero_grad()
step()
print(layer.bias.grad.tolist())
"""
    )
    lines = fresh.run(code).splitlines()
    assert "triple" in lines[0] and "slope" in lines[0] and lines[1] == "[3.0, 3.0, 3.0, 3.0]"
    assert compiler.compiled == ["launcher"] * 2 + ["module"] * 2
