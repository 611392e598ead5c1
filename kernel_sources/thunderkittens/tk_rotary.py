"""ThunderKittens' rotary position embedding."""

import tkjit
from tkjit import CExpr, In, Out, Tensor


def tables(arguments):
    """Return the cosines and sines of each row's angles."""
    import torch

    rows, half = arguments["cos"].shape
    angles = torch.outer(torch.arange(rows), 10000.0 ** -(torch.arange(half) / half))
    return {"cos": angles.cos().bfloat16(), "sin": angles.sin().bfloat16()}


@tkjit.kernel(
    "<thunderkittens>/kernels/rotary/rotary.cu",
    entry="prototype::lcsf::kernel<rotary_template<D>>",
    struct="rotary_template<D>::layout::globals",
    fields="o x sin cos batches",
    computed={"batches": 4},
    grid="cdiv(N, 128), cdiv(B, 4)",
    block=CExpr("prototype::detail::NUM_THREADS_v<rotary_template<D>>"),
    shared_memory=CExpr("MAX_SHARED_MEMORY - 2048"),
    variants={"D": (64, 128)},
    # the source checks only for multiples of 16, but reads 128 rows of the tables at a time
    constraints="N % 128 == 0",
    prepare=tables,
    tolerance=0.01,
    examples=[{"B": 5, "H": 3, "N": 256}, {"B": 1, "H": 1, "N": 128}],
)
def tk_rotary(
    x: In[Tensor, "bfloat16", "B", "H", "N", "D"],
    cos: In[Tensor, "bfloat16", "N", "D // 2"],
    sin: In[Tensor, "bfloat16", "N", "D // 2"],
    o: Out[Tensor, "bfloat16", "B", "H", "N", "D"],
) -> Tensor:
    """Rotates the halves of each row of x: ``o1 = x1 * cos - x2 * sin``, ``o2 = x2 * cos + x1 * sin``.

    Row n of the tables has the cosines and sines of ``n * 10000 ** (-2 * i / D)``, for i below D / 2.
    """
    import torch

    x1, x2 = x.float().chunk(2, -1)
    return torch.cat((x1 * cos.float() - x2 * sin.float(), x2 * cos.float() + x1 * sin.float()), -1).to(x.dtype)
