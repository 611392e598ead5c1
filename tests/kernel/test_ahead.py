"""``warm_up`` and ``warming``: what calls need is built before them, and a call waits only for its own build."""

from __future__ import annotations

import os
import time

import pytest
import torch
from support.caches import entries
from support.waiting import wait_until

import tkjit
from tkjit.cache.entry import read_manifest

pytestmark = pytest.mark.compiles
AXPY = 'import time, torch, tkjit\nk = tkjit.load("axpy"); x = torch.ones(3); h = x.half(); '


def built(root) -> set[str]:
    """What a cache has of kernels, without the target's name."""
    return {str(read_manifest(one).get("what", one.parents[1].name)).partition(" for ")[0] for one in entries(root)}


# ---- warm_up


def test_examples_of_two_variants(cache_with_runtime, fresh):
    code = (
        AXPY + "b = k.warm_up((x, x), dict(x=h, y=h)); b.wait(); print(b.done, len(b.names)); print(k(x, x, 2.0).sum())"
    )
    assert fresh.run(code) == "True 4\ntensor(9.)\n"
    assert {"axpy (T=float32)", "axpy (T=float16)"} <= built(cache_with_runtime)


@pytest.mark.slow  # a compilation for each
def test_without_examples_every_variant(cache_with_runtime, fresh):
    code = AXPY + "b = k.warm_up(); b.wait(); print(len(b.names))"
    variants = len(tkjit.load("axpy").variants)
    assert fresh.run(code) == f"{variants + 2}\n"  # with the runtime and the glue
    assert len(built(cache_with_runtime) - {"runtime", "glue"}) >= variants


def test_a_call_waits_for_its_own_build_alone(cache_with_runtime, fresh, compiler):
    code = AXPY + "b = k.warm_up((h, h), (x, x)); print(k(x, x, 2.0).sum()); b.wait()"
    assert fresh.run(code) == "tensor(9.)\n"
    assert compiler.compiled == ["launcher", "launcher", "module"]  # none twice


def test_a_program_that_ends_waits_for_no_build(cache_with_runtime, fresh):
    code = AXPY + "k.warm_up(); time.sleep(0.3)"
    begun = time.monotonic()
    assert fresh.run(code) == ""
    assert time.monotonic() - begun < 6
    # not rglob, which ends with an error at a directory that goes meanwhile
    wait_until(lambda: not any(".staging-" in path for path, _, _ in os.walk(cache_with_runtime)), 20)


def test_an_error_comes_to_who_waits(cache_with_runtime, fresh, tmp_path):
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
        ((), "these arguments do not show which variant to build"),
        ((torch.ones(1, dtype=torch.int64), torch.ones(1)), "these arguments do not show which variant"),
    ],
)
def test_an_example_that_is_none(session_cache, example, message):
    with pytest.raises(tkjit.ArgumentError, match=message):
        tkjit.load("axpy").warm_up(example)


def test_a_forked_child_builds_for_itself(cache_with_runtime, fresh):
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


def test_a_step_on_fake_tensors(cache_with_runtime, fresh, compiler):
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


def test_another_threads_calls_are_its_own(cache_with_runtime, fresh):
    code = (
        AXPY
        + """
import threading
said = []
def call():
    said.append(float(k(x, torch.ones(3), 2.0).sum()))
with tkjit.warming() as warm:
    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
print(said, warm.names)
"""
    )
    assert fresh.run(code) == "[9.0] []\n"


def test_for_another_architecture(cache_with_runtime, fresh):
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


def test_a_step_with_its_backward(cache_with_runtime, operators, fresh, compiler):
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
    said = fresh.run(code).splitlines()
    assert "triple" in said[0] and "slope" in said[0] and said[1] == "[3.0, 3.0, 3.0, 3.0]"
    assert compiler.compiled == ["launcher"] * 2 + ["module"] * 2
