"""Multiplies a sparse matrix with a vector, a warp per row, and ranks pages with it (PageRank)."""

import matplotlib.pyplot as plt
import torch
import tkjit
from tkjit import In, Out, Tensor

SOURCE = """
__global__ void multiply(Globals g) {
    const int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (row >= g.y.cols()) return;  // whole warps
    float sum = 0;
    for (int i = g.starts[row] + lane; i < g.starts[row + 1]; i += 32) sum += g.values[i] * g.x[g.columns[i]];
    for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_down_sync(0xffffffff, sum, distance);
    if (lane == 0) g.y[row] = sum;
}
"""


@tkjit.kernel(SOURCE, entry="multiply", grid="cdiv(S - 1, 8)", block=256)
def multiply(
    starts: In[Tensor, "int32", "S"],
    columns: In[Tensor, "int32", "E"],
    values: In[Tensor, "float32", "E"],
    x: In[Tensor, "float32", "N"],
    y: Out[Tensor, "float32", "S - 1"],
) -> Tensor:
    """Computes A @ x for a matrix in compressed rows; row i has the elements starts[i] to starts[i + 1]."""


if __name__ == "__main__":
    torch.manual_seed(0)
    pages, links = 2000, 20000
    # later pages link to earlier ones more often, so a few pages get most of the links
    origin = torch.randint(pages, (links,))
    target = (torch.rand(links) ** 3 * pages).long()
    weights = 1.0 / torch.bincount(origin, minlength=pages)[origin]
    matrix = torch.sparse_coo_tensor(torch.stack([target, origin]), weights, (pages, pages)).coalesce().to_sparse_csr()
    csr = matrix.crow_indices().int(), matrix.col_indices().int(), matrix.values()
    rank = torch.full((pages,), 1 / pages)
    assert torch.allclose(multiply(*csr, rank), matrix @ rank, atol=1e-6)
    changes = []
    while not changes or changes[-1] > 1e-6:
        flow = multiply(*csr, rank)
        after = 0.85 * flow + (1 - 0.85 * flow.sum()) / pages
        changes.append(float((after - rank).abs().sum()))
        rank = after
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3), layout="constrained")
    left.semilogy(changes)
    left.set(xlabel="step", ylabel="change of the ranks")
    right.loglog(torch.arange(1, pages + 1), rank.sort(descending=True).values)
    right.set(xlabel="place", ylabel="rank")
    figure.savefig("sparse.png")
