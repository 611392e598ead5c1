"""ThunderKittens' attention for H100 in its load-compute-finish template."""

import tkjit
from tkjit import CExpr, In, Out, Tensor


@tkjit.kernel(
    "<thunderkittens>/kernels/attention/mha_h100_lcf/mha_h100_lcf.cu",
    entry="prototype::lcf::kernel<attn_fwd_template<D>>",
    struct="attn_fwd_template<D>::layout::globals",
    fields="O Q K V",
    grid=132,
    block=CExpr("prototype::detail::NUM_THREADS_v<attn_fwd_template<D>>"),
    shared_memory=CExpr("kittens::MAX_SHARED_MEMORY - 2000"),
    variants={"D": (64, 128)},
    # tiles of keys have 192 rows where D is 64, and 128 where it is 128
    constraints="N % (256 - D) == 0",
)
def tk_mha_lcf(
    Q: In[Tensor, "bfloat16", "B", "H", "N", "D"],
    K: In[Tensor, "bfloat16", "B", "H", "N", "D"],
    V: In[Tensor, "bfloat16", "B", "H", "N", "D"],
    O: Out[Tensor, "bfloat16", "B", "H", "N", "D"],  # noqa: E741
) -> Tensor:
    """Softmax(Q @ K.T / sqrt(D)) @ V, of every head."""
    return ((Q.float() @ K.float().mT * Q.shape[-1] ** -0.5).softmax(-1) @ V.float()).to(Q.dtype)
