"""A cluster of several blocks is rejected, because the simulator runs each block by itself."""

import pytest
import torch
from support.define import define

from tkjit import ToolchainError

pytestmark = pytest.mark.compiles
BODY = "{ g.y[threadIdx.x] = 2 * g.x[threadIdx.x]; }"
TEMPLATE = f"template <int N> __global__ void __cluster_dims__(N) f(Globals g) {BODY}"


def doubled(source: str, entry: str = "f") -> list[float]:
    signature = '(x: In[Tensor, "float32", "N"], y: Out[Tensor, "float32", "N"]) -> Tensor'
    return define(source, signature, entry=entry, grid=2, block="N")(torch.ones(3)).tolist()


@pytest.mark.parametrize(
    "declared", ["void __cluster_dims__(1, 1, 1) f(Globals g)", "__cluster_dims__(1) void f(Globals g)"]
)
def test_a_cluster_of_one_block_runs(declared):
    assert doubled(f"__global__ {declared} {BODY}") == [2, 2, 2]


def test_a_cluster_whose_size_is_a_template_argument():
    assert doubled(TEMPLATE, "f<1>") == [2, 2, 2]
    with pytest.raises(
        ToolchainError, match=r"inline\.cu:1 needs clusters of blocks, which the simulator does not have"
    ):
        doubled(TEMPLATE, "f<2>")


@pytest.mark.parametrize("size", ["2", "2, 1, 1", "1, 1, 4"])
def test_a_cluster_of_several_blocks_is_rejected_with_its_line(size):
    source = f"\n__global__ void __cluster_dims__({size}) f(Globals g) {BODY}"
    with pytest.raises(
        ToolchainError, match=r"inline\.cu:2 needs clusters of blocks, which the simulator does not have"
    ):
        doubled(source)
