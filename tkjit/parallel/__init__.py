"""Support for several devices: clubs, peer access, and parallel tensors."""

from tkjit.parallel.club import Club, enable_peer_access
from tkjit.parallel.tensor import ParallelTensor

__all__ = ["Club", "ParallelTensor", "enable_peer_access"]
