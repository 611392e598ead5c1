"""The part of the simulator that is compiled once and linked with every launcher; and cooperative launches."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

import tkjit
from tkjit import In, Out, Tensor
from tkjit.testing import check

F32 = "float32"


def test_it_is_compiled_once(cache: Path, fresh, compiler):
    code = "import torch, tkjit\ntkjit.load({!r})(torch.ones(4, 4){})\n"
    fresh.run(code.format("softmax", ""))
    # the runtime, the simulator, the glue; and the launcher
    assert compiler.compiled == ["launcher", "module", "module", "module"]
    fresh.run(code.format("gemm", ", torch.ones(4, 4)"))
    assert compiler.compiled == ["launcher", "launcher", "module", "module", "module", "module"]
    assert len(list(cache.glob("v1/*/simulator/*/*/simulator.o"))) == 1


def test_a_launcher_depends_on_all_of_the_simulator(filled: Path):
    (entry,) = filled.glob("v1/*/cpu-*/axpy-*/*/dependencies.json")
    files = json.loads(entry.read_text())["files"]
    for part in ("simulator.cpp", "runtime/scheduler.h", "detail/barrier.h"):
        assert f"<tkjit>/sim/{part}" in files


def test_a_bundle_needs_no_simulator(seeded: Path, fresh, tmp_path, python):
    bundle = tmp_path / "bundle"
    python(
        "import sys\nfrom tkjit.cli import main\nsys.exit(main(sys.argv[1:]))",
        *["bundle", "axpy", "--device", "cpu", "--types", "float32", "-o", str(bundle)],
    )
    assert not list(bundle.rglob("simulator.o"))
    code = "import torch, tkjit\nprint(tkjit.load('axpy')(torch.ones(3), torch.ones(3), 2.0).tolist())"
    printed = fresh.run(code, TKJIT_CACHE_READONLY=str(bundle), TKJIT_CACHE=str(tmp_path / "empty"), TKJIT_JIT="0")
    assert printed == "[3.0, 3.0, 3.0]\n"


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


def test_blocks_that_do_not_all_fit():
    with pytest.raises(tkjit.LaunchError, match="a cooperative launch of 513 blocks does not fit"):
        neighbours()(torch.zeros(513))


def test_a_grid_that_syncs_without_being_cooperative():
    message = "a sync of the grid needs a cooperative launch: say cooperative=True in the spec"
    with pytest.raises(tkjit.LaunchError, match=message):
        neighbours(cooperative=False)(torch.zeros(3))


def test_a_block_that_leaves_before_the_grids_sync():
    source = NEIGHBOURS.replace("    SYNC", f"    if (blockIdx.x == 1) return;\n    {SYNC}", 1).replace("SYNC", SYNC)
    with pytest.raises(tkjit.LaunchError, match="deadlock: a sync of the grid waits for blocks that have exited"):
        neighbours(source)(torch.zeros(3))


def test_a_host_function_is_not_cooperative():
    with pytest.raises(tkjit.SpecError, match="a host function launches by itself: cooperative does not apply"):

        @tkjit.kernel("void f(Globals g) {}", entry="f", host=True, cooperative=True)
        def f(x: In[Tensor, F32, "N"]) -> None: ...


def test_the_checker_knows_what_a_grids_sync_orders():
    assert check(neighbours()).findings == []
    missing = NEIGHBOURS.replace("SYNC", "", 1).replace("SYNC", SYNC)
    with pytest.raises(AssertionError, match="race: nothing orders two accesses to y"):
        check(neighbours(missing), modes=["race"])
