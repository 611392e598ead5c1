import tkjit
from tkjit import In, InOut, Tensor


# every pattern has its own array, so that one pattern's errors do not hide another's
@tkjit.kernel("patterns.cu", entry="patterns", grid=2, block=64)
def patterns(
    x: In[Tensor, "float32", 64],
    index: In[Tensor, "int32", 64],
    y: InOut[Tensor, "float32", 40, 64],
    n: InOut[Tensor, "int32", 40, 64],
) -> None: ...
