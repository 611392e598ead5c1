"""Several devices: clubs, peer access, parallel tensors, and what a launch would pass."""

from tkjit.parallel.club import Club, enable_peer_access
from tkjit.parallel.globals import GlobalLayout, Globals, ParallelGlobalLayout, make_globals
from tkjit.parallel.tensor import ParallelTensor

__all__ = [
    "Club",
    "GlobalLayout",
    "Globals",
    "ParallelGlobalLayout",
    "ParallelTensor",
    "enable_peer_access",
    "make_globals",
]
