"""Draws a scene of spheres by ray marching: each ray steps forward by the distance to the nearest surface."""

import matplotlib.pyplot as plt
import torch
import tkjit
from tkjit import In, Out, Tensor

SOURCE = """
struct Vec {
    float x, y, z;
};
__device__ Vec operator+(Vec a, Vec b) { return {a.x + b.x, a.y + b.y, a.z + b.z}; }
__device__ Vec operator*(float s, Vec a) { return {s * a.x, s * a.y, s * a.z}; }
__device__ float dot(Vec a, Vec b) { return a.x * b.x + a.y * b.y + a.z * b.z; }
__device__ Vec normalized(Vec a) { return rsqrtf(dot(a, a)) * a; }

__device__ float distance(const Globals& g, Vec p) {
    float nearest = p.y + 1;  // the ground
    for (int i = 0; i < g.spheres.rows(); ++i) {  // x, y, z, radius
        const Vec centre = {g.spheres(i, 0), g.spheres(i, 1), g.spheres(i, 2)};
        const Vec away = p + -1.0f * centre;
        nearest = fminf(nearest, sqrtf(dot(away, away)) - g.spheres(i, 3));
    }
    return nearest;
}
__device__ float march(const Globals& g, Vec from, Vec towards) {
    float length = 0.02f;
    for (int i = 0; i < 128 && length < 30; ++i) {
        const float step = distance(g, from + length * towards);
        if (step < 0.001f) return length;
        length += step;
    }
    return 30;
}
__global__ void draw(Globals g) {
    const int col = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    const int rows = g.image.rows(), cols = g.image.cols();
    if (row >= rows || col >= cols) return;
    const Vec eye = {0, 0.6f, -4}, light = normalized({-0.6f, 0.8f, -0.5f});
    const Vec ray = normalized({(col - cols / 2.0f) / rows, (rows / 2.0f - row) / rows - 0.1f, 1});
    const float length = march(g, eye, ray), e = 0.001f;
    if (length >= 30) {
        g.image(row, col) = 0.9f - 0.5f * fmaxf(0, ray.y);
        return;
    }
    const Vec p = eye + length * ray;
    const float here = distance(g, p);
    const Vec slope = {distance(g, p + Vec{e, 0, 0}) - here, distance(g, p + Vec{0, e, 0}) - here,
                       distance(g, p + Vec{0, 0, e}) - here};
    const Vec normal = normalized(slope);
    const bool in_shadow = march(g, p + 0.01f * normal, light) < 30;
    g.image(row, col) = 0.15f + (in_shadow ? 0 : 0.8f * fmaxf(0, dot(normal, light)));
}
"""


@tkjit.kernel(SOURCE, entry="draw", grid="cdiv(W, 32), cdiv(H, 8)", block=(32, 8))
def draw(spheres: In[Tensor, "float32", "N", 4], H: int, W: int, image: Out[Tensor, "float32", "H", "W"]) -> Tensor:
    """Draws spheres (x, y, z, radius) on a plane, in shades of grey."""


if __name__ == "__main__":
    spheres = torch.tensor([[0, 0, 0, 1], [1.5, -0.5, -0.8, 0.5], [-1.4, -0.6, -0.6, 0.4], [-0.5, -0.8, -1.3, 0.2]])
    plt.imsave("ray_marching.png", draw(spheres, 300, 480), cmap="bone", vmin=0, vmax=1)
