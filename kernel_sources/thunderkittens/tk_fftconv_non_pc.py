"""ThunderKittens' long convolution by a Fourier transform of 4096 points, without producers and consumers."""

import tkjit
from tkjit import CExpr, In, Member, Out, Tensor


@tkjit.kernel(
    "<thunderkittens>/kernels/fftconv/fftconv_non_pc.cu",
    entry="fftconv_tk<fftconv_template<4, 8, 1024, 4096, 64>>",
    struct="fftconv_template<4, 8, 1024, 4096, 64>::layout::globals",
    fields="x_real x_imag o_real_g kf_real kf_imag f_real f_imag "
    "finv_real finv_imag tw_real tw_imag twinv_real twinv_imag",
    grid="batch // 4, 128",
    block=CExpr("NUM_THREADS"),
    shared_memory=1000,
    constraints="batch % 4 == 0",
)
def tk_fftconv_non_pc(
    x_real: In[Tensor, "bfloat16", "batch", 1024, 64, 64, Member("u_g.real")],
    x_imag: In[Tensor, "bfloat16", "batch", 1024, 64, 64, Member("u_g.imag")],
    kf_real: In[Tensor, "bfloat16", 1024, 64, 64, Member("kf_g.real")],
    kf_imag: In[Tensor, "bfloat16", 1024, 64, 64, Member("kf_g.imag")],
    f_real: In[Tensor, "bfloat16", 64, 64, Member("f_g.real")],
    f_imag: In[Tensor, "bfloat16", 64, 64, Member("f_g.imag")],
    finv_real: In[Tensor, "bfloat16", 64, 64, Member("finv_g.real")],
    finv_imag: In[Tensor, "bfloat16", 64, 64, Member("finv_g.imag")],
    tw_real: In[Tensor, "bfloat16", 64, 64, Member("tw_real_g.real")],
    tw_imag: In[Tensor, "bfloat16", 64, 64, Member("tw_real_g.imag")],
    twinv_real: In[Tensor, "bfloat16", 64, 64, Member("twinv_g.real")],
    twinv_imag: In[Tensor, "bfloat16", 64, 64, Member("twinv_g.imag")],
    o_real_g: Out[Tensor, "bfloat16", "batch", 1024, 64, 64],
) -> Tensor:
    """The real part of the circular convolution of 1024 heads, 4096 long, each with its filter.

    ``matrices`` of tk_fftconv_4096 makes all that stands behind x; kf without the 132 filters that it adds.
    """
    import torch

    pairs = (f_real, f_imag), (finv_real, finv_imag), (tw_real, tw_imag), (twinv_real, twinv_imag)
    f, finv, tw, twinv = (torch.complex(real.float(), imag.float()) for real, imag in pairs)
    x = torch.complex(x_real.float(), x_imag.float())
    y = ((f @ x * tw) @ f * torch.complex(kf_real.float(), kf_imag.float())) @ finv * twinv
    return (finv @ y).real.to(x_real.dtype)
