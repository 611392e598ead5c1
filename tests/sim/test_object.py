"""The simulator's object file, and cooperative launches."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

import tkjit
from tkjit import In, Out, Tensor
from tkjit.testing import check

pytestmark = pytest.mark.compiles


F32 = "float32"


@pytest.mark.slow  # also builds the runtime
def test_the_object_is_compiled_once(cache: Path, fresh, compiler):
    code = "import torch, tkjit\ntkjit.load({!r})(torch.ones(4, 4){})\n"
    fresh.run(code.format("softmax", ""))
    # three modules: the runtime, the simulator, the glue
    assert compiler.compiled == ["launcher", "module", "module", "module"]
    fresh.run(code.format("gemm", ", torch.ones(4, 4)"))
    assert compiler.compiled == ["launcher", "launcher", "module", "module", "module", "module"]
    assert len(list(cache.glob("v1/*/simulator/*/*/simulator.o"))) == 1


def test_a_launcher_depends_on_all_of_the_simulator(filled: Path):
    (launcher,) = filled.glob("v1/*/cpu-*/axpy-*/*/dependencies.json")
    (simulator,) = filled.glob("v1/*/simulator/*/*/dependencies.json")
    ours = {file for file in json.loads(simulator.read_text())["files"] if file.startswith("<tkjit>/")}
    assert "<tkjit>/sim/runtime/scheduler.h" in ours
    assert ours <= set(json.loads(launcher.read_text())["files"])


def test_a_launcher_is_compiled_without_the_headers_of_strings_and_streams(filled: Path):
    """The headers would take a third of the compile time, and each of their files a microsecond of a warm call."""
    (entry,) = filled.glob("v1/*/cpu-*/axpy-*/*/dependencies.json")
    files = json.loads(entry.read_text())["files"]
    heavy = {"basic_string.h", "iostream", "sstream", "locale_classes.h", "stl_algo.h", "unordered_map.h", "regex.h"}
    assert not heavy & {Path(file).name for file in files}


@pytest.mark.slow
def test_a_bundle_needs_no_simulator(cache_with_runtime: Path, fresh, tmp_path, python):
    bundle = tmp_path / "bundle"
    python(
        "import sys\nfrom tkjit.cli import main\nsys.exit(main(sys.argv[1:]))",
        *["bundle", "axpy", "--device", "cpu", "--types", "float32", "-o", str(bundle)],
    )
    assert not list(bundle.rglob("simulator.o"))
    code = "import torch, tkjit\nprint(tkjit.load('axpy')(torch.ones(3), torch.ones(3), 2.0).tolist())"
    printed = fresh.run(code, TKJIT_CACHE_READONLY=str(bundle), TKJIT_CACHE=str(tmp_path / "empty"), TKJIT_JIT="0")
    assert printed == "[3.0, 3.0, 3.0]\n"


# ---- memory that is kept between launches, and failures


def block_of_64(source: str, **options):
    @tkjit.kernel(source, **{"entry": "f", "grid": 1, "block": 64, **options})
    def f(x: In[Tensor, F32, "N"], y: Out[Tensor, F32, "N"]) -> Tensor: ...

    return f


@pytest.mark.parametrize("other", ["", "else "], ids=["one too many", "both branches"])
def test_lanes_of_one_warp_at_different_barriers_are_an_error(other):
    source = """__global__ void f(Globals g) {
    if (CONDITION) __syncthreads();
    OTHER __syncthreads();
    g.y[threadIdx.x] = 1;
}""".replace("OTHER", other)
    message = r"divergent barrier: lanes of one warp reach __syncthreads from here and from inline.cu:[23]"
    with pytest.raises(tkjit.LaunchError, match=message):
        block_of_64(source.replace("CONDITION", "threadIdx.x % 2"))(torch.zeros(64))
    # different warps may be at different barriers
    if other:
        assert block_of_64(source.replace("CONDITION", "threadIdx.x < 32"))(torch.zeros(64)).sum() == 64


def test_a_bulk_copy_that_outlives_its_block_is_an_error():
    source = """#include <tkjit/bulk_copy.cuh>
__global__ void f(Globals g) {
    __shared__ __align__(16) float tile[64];
    __shared__ uint64_t full;
    if (threadIdx.x == 0) {
        tkjit::mbarrier_init(&full, 1);
        tkjit::mbarrier_arrive_expect_bytes(&full, 256);
        tkjit::bulk_copy_to_shared(tile, g.x.raw_ptr, 256, &full);
    }
}"""
    with pytest.raises(
        tkjit.LaunchError, match=r"a bulk copy of 256 bytes is under way when its block ends.*inline.cu:8"
    ):
        block_of_64(source)(torch.zeros(64))


def test_a_wait_that_never_ends_is_an_error_with_its_line():
    source = "__global__ void f(Globals g) {\n    while (atomicAdd(&g.y[0], 0.f) != 7.f) {}\n}"
    with pytest.raises(tkjit.LaunchError, match=r"deadlock in block .*\n  64 of 64 threads.* \(inline.cu:2\)"):
        block_of_64(source)(torch.zeros(64))


def test_a_thread_can_have_half_a_mebibyte_of_local_memory():
    source = """__global__ void f(Globals g) {
    volatile float own[128 * 1024 - 256];
    for (int i = 0; i < 128 * 1024 - 256; ++i) own[i] = threadIdx.x;
    __syncthreads();
    g.y[threadIdx.x] = own[threadIdx.x] + own[128 * 1024 - 257];
}"""
    assert torch.equal(block_of_64(source)(torch.zeros(64)), 2 * torch.arange(64.0))


@pytest.mark.slow
def test_many_threads_that_launch_share_the_memory_kept_between_launches(fresh, warmed):
    code = """
import threading, torch, tkjit
softmax = tkjit.load("softmax")
x = torch.randn(8, 256)

def mapped():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmSize")) // 1024

def launch():
    for _ in range(100): softmax(x)

def round_of_16():
    threads = [threading.Thread(target=launch) for _ in range(16)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    return mapped()

first = max(round_of_16() for _ in range(3))
print(max(round_of_16() for _ in range(6)) - first)
"""
    growth_mib = int(fresh.run(code))
    a_block_mib = 256  # its threads' stacks
    assert growth_mib < 16 * a_block_mib


@pytest.mark.slow  # compiles several launchers
def test_launchers_reuse_the_stacks_of_other_launchers(fresh, warmed):
    code = """
import os, torch, tkjit
os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])  # each launch then runs on one OS thread, block by block
x = torch.randn(64, 64)

def mappings_after(kernel, *tensors):
    kernel(*tensors)
    return sum(1 for _ in open("/proc/self/maps"))

print(-mappings_after(tkjit.load("gemm"), x, x) + mappings_after(tkjit.load("softmax"), x))
"""
    more = int(fresh.run(code))
    assert more < 100  # a block of 256 threads has 512, because each has a stack and a guard


# ---- cooperative launches

NEIGHBOURS = """#include <cooperative_groups.h>
__global__ void neighbours(Globals g) {
    if (threadIdx.x == 0) g.y[blockIdx.x] = g.x[blockIdx.x];
    SYNC
    const float next = g.y[(blockIdx.x + 1) % gridDim.x];
    SYNC
    if (threadIdx.x == 0) g.y[blockIdx.x] = next;
}"""
SYNC = "cooperative_groups::this_grid().sync();"


def neighbours(source: str = NEIGHBOURS.replace("SYNC", SYNC), **options):
    @tkjit.kernel(source, **{"entry": "neighbours", "grid": "N", "block": 64, "cooperative": True, **options})
    def neighbours(x: In[Tensor, F32, "N"], y: Out[Tensor, F32, "N"]) -> Tensor:
        return x.roll(-1)

    return neighbours


@pytest.mark.parametrize("blocks", [1, 2, 7, 100])
def test_blocks_wait_for_each_other(blocks):
    x = torch.randn(blocks)
    for _ in range(3):
        assert torch.equal(neighbours()(x), x.roll(-1))


def test_a_cooperative_launch_with_too_many_blocks_is_an_error():
    with pytest.raises(tkjit.LaunchError, match="a cooperative launch of 513 blocks does not fit"):
        neighbours()(torch.zeros(513))


def test_a_sync_of_the_grid_needs_a_cooperative_launch():
    message = "a sync of the grid needs a cooperative launch: set cooperative=True in the spec"
    with pytest.raises(tkjit.LaunchError, match=message):
        neighbours(cooperative=False)(torch.zeros(3))


def test_a_block_that_exits_before_the_grids_sync_is_a_deadlock():
    source = NEIGHBOURS.replace("    SYNC", f"    if (blockIdx.x == 1) return;\n    {SYNC}", 1).replace("SYNC", SYNC)
    with pytest.raises(tkjit.LaunchError, match="deadlock: a sync of the grid waits for blocks that have exited"):
        neighbours(source)(torch.zeros(3))


def test_a_host_function_is_not_cooperative():
    with pytest.raises(tkjit.SpecError, match="a host function does its own launches: cooperative does not apply"):

        @tkjit.kernel("void f(Globals g) {}", entry="f", host=True, cooperative=True)
        def f(x: In[Tensor, F32, "N"]) -> None: ...


@pytest.mark.slow
def test_the_checker_knows_that_a_sync_of_the_grid_orders_accesses():
    assert check(neighbours(), dims={"N": 37}).findings == []
    missing = NEIGHBOURS.replace("SYNC", "", 1).replace("SYNC", SYNC)
    with pytest.raises(AssertionError, match="race: nothing orders two accesses to y"):
        check(neighbours(missing), modes=["race"], dims={"N": 37})
