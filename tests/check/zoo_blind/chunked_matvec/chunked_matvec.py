"""Matrix times vector; a thread sums four rows in registers, and the vector passes through shared memory."""

import tkjit
from tkjit import In, Out, Tensor


@tkjit.kernel("chunked_matvec.cu", entry="chunked_matvec", grid="cdiv(M, 256)", block=64)
def chunked_matvec(
    a: In[Tensor, "float32", "M", "K"], x: In[Tensor, "float32", "K"], y: Out[Tensor, "float32", "M"]
) -> Tensor:
    """y <- a @ x"""
    return a @ x
