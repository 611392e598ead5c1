"""Zooms into the Mandelbrot set, with smooth colours, in double precision."""

import matplotlib.pyplot as plt
import torch
import tkjit
from tkjit import In, Out, Tensor

SOURCE = """
__global__ void mandelbrot(Globals g) {
    const int col = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= g.steps.rows() || col >= g.steps.cols()) return;
    const double c_re = g.x[col], c_im = g.y[row];
    double re = 0, im = 0;
    int step = 0;
    for (; step < g.most && re * re + im * im < 256.0; ++step) {
        const double square = re * re - im * im;
        im = 2 * re * im + c_im;
        re = square + c_re;
    }
    // the logarithm makes the count continuous from pixel to pixel
    g.steps(row, col) = step == g.most ? NAN : float(step + 3 - log2(log2(re * re + im * im)));
}
"""


@tkjit.kernel(SOURCE, entry="mandelbrot", grid="cdiv(W, 32), cdiv(H, 8)", block=(32, 8))
def mandelbrot(
    x: In[Tensor, "float64", "W"], y: In[Tensor, "float64", "H"], most: int, steps: Out[Tensor, "float32", "H", "W"]
) -> Tensor:
    """Counts the steps until z * z + c, which starts at 0, leaves a large circle; NaN inside of the set."""


if __name__ == "__main__":
    figure, axes = plt.subplots(1, 4, figsize=(12, 3), layout="constrained")
    for axis, width in zip(axes, (3.0, 0.1, 0.004, 0.00002)):
        span = torch.linspace(-width / 2, width / 2, 240, dtype=torch.float64)
        steps = mandelbrot(-0.743643887 + span, 0.131825904 + span, most=int(300 / width**0.15))
        axis.imshow(steps, cmap="twilight_shifted")
        axis.set(title=f"width {width:g}", xticks=[], yticks=[])
    figure.savefig("mandelbrot.png")
