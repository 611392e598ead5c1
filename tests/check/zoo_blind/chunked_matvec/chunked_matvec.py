"""Matrix-vector product: each thread sums four rows in registers, and chunks of the vector are in shared memory."""

import tkjit
from tkjit import In, Out, Tensor


@tkjit.kernel("chunked_matvec.cu", entry="chunked_matvec", grid="cdiv(M, 256)", block=64)
def chunked_matvec(
    a: In[Tensor, "float32", "M", "K"], x: In[Tensor, "float32", "K"], y: Out[Tensor, "float32", "M"]
) -> Tensor:
    """Computes a @ x."""
    return a @ x
