"""The largest element and its index, in global memory protected by a lock."""

import tkjit
from tkjit import In, InOut, Tensor


@tkjit.kernel("spin_lock.cu", entry="spin_lock", grid="min(cdiv(N, 32), 6)", block=32)
def spin_lock(
    x: In[Tensor, "float32", "N"],
    lock: InOut[Tensor, "int32", "1"],
    largest: InOut[Tensor, "float32", "1"],
    index: InOut[Tensor, "int32", "1"],
) -> tuple[Tensor, Tensor, Tensor]:
    """Updates largest and index with the elements of x; equal elements get the lower index.

    Parameters
    ----------
    x : (N,) float32
    lock : (1,) int32, zero before and after the call
    largest : (1,) float32, updated in place
    index : (1,) int32, updated in place
    """
    found = x.argmax()
    if x[found] > largest[0]:
        largest.fill_(x[found])
        index.fill_(int(found))
    return lock, largest, index
