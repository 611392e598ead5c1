"""Solves the heat equation on a plate: the top edge is hot, the other edges are cold."""

import matplotlib.pyplot as plt
import torch
import tkjit
from tkjit import In, InOut, Tensor

SOURCE = """
__global__ void step(Globals g) {
    const int col = blockIdx.x * blockDim.x + threadIdx.x + 1, row = blockIdx.y * blockDim.y + threadIdx.y + 1;
    if (row + 1 >= g.old.rows() || col + 1 >= g.old.cols()) return;  // the edges keep their temperature
    const float around = g.old(row - 1, col) + g.old(row + 1, col) + g.old(row, col - 1) + g.old(row, col + 1);
    g.next(row, col) = g.old(row, col) + g.rate * (around - 4 * g.old(row, col));
}
"""


@tkjit.kernel(SOURCE, entry="step", grid="cdiv(W, 32), cdiv(H, 8)", block=(32, 8))
def step(old: In[Tensor, "float32", "H", "W"], next: InOut[Tensor, "float32", "H", "W"], rate: float = 0.25) -> Tensor:
    """Computes the inner temperatures after a step; rate is diffusivity times duration over the squared distance."""
    around = old[:-2, 1:-1] + old[2:, 1:-1] + old[1:-1, :-2] + old[1:-1, 2:]
    next[1:-1, 1:-1] = old[1:-1, 1:-1] + rate * (around - 4 * old[1:-1, 1:-1])
    return next


if __name__ == "__main__":
    plate = torch.zeros(96, 128)
    plate[0] = 100.0
    other = plate.clone()
    # each prepared launch checks its tensors once; the two take turns
    there, back = step.prepare(plate, other), step.prepare(other, plate)
    figure, axes = plt.subplots(1, 3, figsize=(10, 2.8), layout="constrained")
    done = 0
    for axis, until in zip(axes, (40, 400, 4000)):
        while done < until:
            there()
            back()
            done += 2
        drawn = axis.imshow(plate, cmap="inferno", vmin=0, vmax=100)
        axis.set(title=f"{done} steps", xticks=[], yticks=[])
    figure.colorbar(drawn, ax=axes, label="temperature")
    figure.savefig("heat.png")
