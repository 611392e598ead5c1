import tkjit
from tkjit import In, InOut, Tensor


# written after patterns.cu had led to fixes of the checker, and labelled before the first run
@tkjit.kernel("more.cu", entry="more", grid=2, block=64, shared_memory=1024)
def more(
    x: In[Tensor, "float32", 64],
    index: In[Tensor, "int32", 64],
    y: InOut[Tensor, "float32", 40, 64],
    n: InOut[Tensor, "int32", 40, 64],
) -> None: ...
