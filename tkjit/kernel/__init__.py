"""What users hold: kernels, the decorator that makes one, and ``load``."""

from tkjit.kernel.decorator import kernel
from tkjit.kernel.find import find, find_used, kernels
from tkjit.kernel.kernel import Kernel, load

__all__ = ["Kernel", "find", "find_used", "kernel", "kernels", "load"]
