"""ThunderKittens' long convolution by a Fourier transform of 4096 points, as matrices of 64 x 64."""

import tkjit
from tkjit import CExpr, In, Member, Out, Tensor


@tkjit.kernel(
    "<thunderkittens>/kernels/fftconv/fftconv_pc.cu",
    entry="prototype::lcsf::kernel<fft_4096_template>",
    struct="fft_4096_template::layout::globals",
    fields="o x kf_real kf_imag f_real f_imag finv_real finv_imag tw_real tw_imag twinv_real twinv_imag",
    grid=132,
    block=CExpr("prototype::detail::NUM_THREADS_v<fft_4096_template>"),
    shared_memory=CExpr("MAX_SHARED_MEMORY - 1024"),
)
def tk_fftconv_4096(
    x: In[Tensor, "bfloat16", "B", "H", 64, 64],
    kf_real: In[Tensor, "bfloat16", "H", 64, 64, Member("kf.real")],
    kf_imag: In[Tensor, "bfloat16", "H", 64, 64, Member("kf.imag")],
    f_real: In[Tensor, "bfloat16", 64, 64, Member("f.real")],
    f_imag: In[Tensor, "bfloat16", 64, 64, Member("f.imag")],
    finv_real: In[Tensor, "bfloat16", 64, 64, Member("finv.real")],
    finv_imag: In[Tensor, "bfloat16", 64, 64, Member("finv.imag")],
    tw_real: In[Tensor, "bfloat16", 64, 64, Member("tw.real")],
    tw_imag: In[Tensor, "bfloat16", 64, 64, Member("tw.imag")],
    twinv_real: In[Tensor, "bfloat16", 64, 64, Member("twinv_t.real")],
    twinv_imag: In[Tensor, "bfloat16", 64, 64, Member("twinv_t.imag")],
    o: Out[Tensor, "bfloat16", "B", "H", 64, 64],
) -> Tensor:
    """The convolution of each head of x with its filter, whose transform is kf."""
