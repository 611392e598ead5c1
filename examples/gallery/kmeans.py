"""Groups points with k-means: the kernel finds the nearest centre and adds up the points of each group."""

import matplotlib.pyplot as plt
import torch
import tkjit
from tkjit import In, Out, Tensor, Zero

SOURCE = """
__global__ void assign(Globals g) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x, dims = g.points.cols();
    if (i >= g.points.rows()) return;
    int nearest = 0;
    float least = INFINITY;
    for (int k = 0; k < g.centres.rows(); ++k) {
        float squared = 0;
        for (int d = 0; d < dims; ++d) {
            const float difference = g.points(i, d) - g.centres(k, d);
            squared += difference * difference;
        }
        if (squared < least) least = squared, nearest = k;
    }
    g.groups[i] = nearest;
    atomicAdd(&g.sizes[nearest], 1);
    for (int d = 0; d < dims; ++d) atomicAdd(&g.sums(nearest, d), g.points(i, d));
}
"""


@tkjit.kernel(SOURCE, entry="assign", grid="cdiv(N, 256)", block=256)
def assign(
    points: In[Tensor, "float32", "N", "D"],
    centres: In[Tensor, "float32", "K", "D"],
    groups: Out[Tensor, "int32", "N"],
    sums: Out[Tensor, "float32", "K", "D", Zero],
    sizes: Out[Tensor, "int32", "K", Zero],
) -> tuple[Tensor, Tensor, Tensor]:
    """Returns the group of each point, and the sum and the number of the points in each group."""
    groups = torch.cdist(points, centres).argmin(1)
    one_hot = torch.nn.functional.one_hot(groups, len(centres))
    return groups.int(), one_hot.float().T @ points, one_hot.sum(0).int()


if __name__ == "__main__":
    torch.manual_seed(1)
    middles = 4 * torch.rand(6, 2)
    points = (middles[torch.randint(6, (4000,))] + 0.25 * torch.randn(4000, 2)).contiguous()
    centres = points[:1]
    while len(centres) < 6:  # start with points that are far from one another
        centres = torch.cat([centres, points[torch.cdist(points, centres).amin(1).argmax()][None]])
    for _ in range(20):
        groups, sums, sizes = assign(points, centres)
        centres = torch.where(sizes[:, None] > 0, sums / sizes.clamp(min=1)[:, None], centres)
    plt.figure(figsize=(5, 4), layout="constrained")
    plt.scatter(*points.T, c=groups, s=3, cmap="tab10")
    plt.scatter(*centres.T, c="black", marker="x")
    plt.savefig("kmeans.png")
