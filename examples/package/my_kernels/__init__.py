"""CUDA kernels, compiled at their first call."""

from my_kernels.elementwise import silu_mul, squared_relu

__all__ = ["silu_mul", "squared_relu"]
