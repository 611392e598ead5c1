"""Lets stars attract one another: each block copies positions to shared memory, and all of its threads use them."""

import matplotlib.pyplot as plt
import torch
import tkjit
from tkjit import In, Out, Tensor

SOURCE = """
constexpr int width = 128;

__global__ void attract(Globals g) {
    __shared__ float4 tile[width];
    const int n = g.bodies.rows(), i = blockIdx.x * width + threadIdx.x;
    const float4* bodies = reinterpret_cast<const float4*>(g.bodies.raw_ptr);  // x, y, z, mass
    const float4 own = i < n ? bodies[i] : float4{};
    float3 sum = {};
    for (int first = 0; first < n; first += width) {
        tile[threadIdx.x] = first + threadIdx.x < n ? bodies[first + threadIdx.x] : float4{};
        __syncthreads();
        for (int j = 0; j < width; ++j) {
            const float x = tile[j].x - own.x, y = tile[j].y - own.y, z = tile[j].z - own.z;
            const float squared = x * x + y * y + z * z + 1e-3f;  // softened, so that no pull is infinite
            const float pull = tile[j].w * rsqrtf(squared) / squared;
            sum.x += pull * x, sum.y += pull * y, sum.z += pull * z;
        }
        __syncthreads();
    }
    if (i < n) g.pulls(i, 0) = sum.x, g.pulls(i, 1) = sum.y, g.pulls(i, 2) = sum.z;
}
"""


@tkjit.kernel(SOURCE, entry="attract", grid="cdiv(N, 128)", block=128)
def attract(bodies: In[Tensor, "float32", "N", 4], pulls: Out[Tensor, "float32", "N", 3]) -> Tensor:
    """Computes the acceleration of each body from the positions and masses of all."""
    between = bodies[None, :, :3] - bodies[:, None, :3]
    squared = between.square().sum(-1, keepdim=True) + 1e-3
    return (bodies[None, :, 3:] * between * squared**-1.5).sum(1)


if __name__ == "__main__":
    torch.manual_seed(0)
    angle, radius = 6.2832 * torch.rand(256), 0.2 + 0.8 * torch.rand(256).sqrt()
    place = torch.stack([radius * angle.cos(), radius * angle.sin(), 0.02 * torch.randn(256)], 1)
    speed = torch.stack([-angle.sin(), angle.cos(), torch.zeros(256)], 1) * radius[:, None] ** -0.5
    mass = torch.full((256, 1), 1e-4)
    place[0], speed[0], mass[0] = 0.0, 0.0, 1.0  # a heavy one in the middle
    figure, axis = plt.subplots(figsize=(5, 5), layout="constrained", facecolor="black")
    for age in range(100):  # leapfrog steps
        speed += 0.01 * attract(torch.cat([place, mass], 1))
        place += 0.01 * speed
        axis.scatter(*place[:, :2].T, s=2, c="white", alpha=0.01 + 0.6 * (age / 100) ** 4, lw=0)
    axis.set(xlim=(-1.3, 1.3), ylim=(-1.3, 1.3))
    axis.set_axis_off()
    figure.savefig("nbody.png")
