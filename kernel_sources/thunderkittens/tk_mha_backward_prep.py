"""ThunderKittens' attention for H100, what its backward pass needs first."""

import tkjit
from tkjit import CExpr, In, Out, Tensor


@tkjit.kernel(
    "<thunderkittens>/kernels/attention/mha_h100/mha_h100.cu",
    entry="bwd_attend_prep_ker<D>",
    struct="bwd_prep_globals<D>",
    grid="N // 256, H, B",
    block=128,
    shared_memory=CExpr("4 * (2 * sizeof(st_bf<64, D>) + sizeof(col_vec<st_fl<64, D>>)) + 4096"),
    variants={"D": (64, 128)},
    constraints="N % 256 == 0",
)
def tk_mha_backward_prep(
    og: In[Tensor, "bfloat16", "B", "H", "N", "D"],
    o: In[Tensor, "bfloat16", "B", "H", "N", "D"],
    d: Out[Tensor, "float32", "B", "H", 1, "N"],
) -> Tensor:
    """The products of the result o and its gradient og, summed over each row."""
    return (og.float() * o.float()).sum(-1)[:, :, None]
