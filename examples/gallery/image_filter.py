"""Finds the edges of an image with Sobel's filter, one thread per pixel."""

import matplotlib.pyplot as plt
import torch
import tkjit
from tkjit import In, Out, Tensor

SOURCE = """
__device__ float at(Globals& g, int row, int col) {  // the border repeats the outermost pixels
    row = min(max(row, 0), int(g.image.rows()) - 1);
    col = min(max(col, 0), int(g.image.cols()) - 1);
    return g.image(row, col);
}

__global__ void sobel(Globals g) {
    const int col = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= g.image.rows() || col >= g.image.cols()) return;
    float across = 0, down = 0;
    for (int i = -1; i <= 1; ++i) {
        const float weight = i == 0 ? 2 : 1;
        across += weight * (at(g, row + i, col + 1) - at(g, row + i, col - 1));
        down += weight * (at(g, row + 1, col + i) - at(g, row - 1, col + i));
    }
    g.edges(row, col) = sqrtf(across * across + down * down);
}
"""


@tkjit.kernel(SOURCE, entry="sobel", grid="cdiv(W, 32), cdiv(H, 8)", block=(32, 8))
def sobel(image: In[Tensor, "float32", "H", "W"], edges: Out[Tensor, "float32", "H", "W"]) -> Tensor:
    """Computes the length of the gradient at each pixel."""
    padded = torch.nn.functional.pad(image[None, None], (1, 1, 1, 1), mode="replicate")
    across = torch.tensor([[-1.0, 0.0, 1.0], [-2.0, 0.0, 2.0], [-1.0, 0.0, 1.0]], device=image.device)
    both = torch.nn.functional.conv2d(padded, torch.stack([across, across.T])[:, None])
    return both.square().sum(1)[0].sqrt()


if __name__ == "__main__":
    x, y = torch.meshgrid(torch.linspace(-1, 1, 400), torch.linspace(-1, 1, 400), indexing="xy")
    rings = torch.sin(14 * (x * x + y * y).sqrt()) > 0
    image = torch.where((x.abs() < 0.5) & (y.abs() < 0.5), 1.0 - 0.6 * rings.float(), 0.4 * rings.float())
    figure, axes = plt.subplots(1, 2, figsize=(8, 4), layout="constrained")
    for axis, picture in zip(axes, (image, sobel(image))):
        axis.imshow(picture, cmap="gray")
        axis.set_axis_off()
    figure.savefig("image_filter.png")
