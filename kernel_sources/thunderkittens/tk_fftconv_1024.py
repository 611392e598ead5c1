"""ThunderKittens' long convolution by a Fourier transform of 1024 points: four sequences in matrices of 64 x 64."""

import tkjit
from tkjit import CExpr, In, Member, Out, Tensor


def matrices(filters):
    """What the kernel takes besides x, of filters (H, 1024): their transforms and the transform's own matrices."""
    import torch

    n = torch.arange(32)
    f = torch.exp(-2j * torch.pi * n[:, None] * n / 32)
    f = torch.block_diag(f, f)
    tw = torch.exp(-2j * torch.pi * n[:, None] * n / 1024).tile(2, 2)
    kf = torch.fft.fft(filters.float()).reshape(-1, 32, 32).mT.tile(1, 2, 2)
    kf = torch.cat((kf, kf.new_zeros(132, 64, 64)))
    made = {"kf": kf, "f": f, "finv": f.conj(), "tw": tw / 1024, "twinv": tw.conj()}
    parts = {f"{name}_{part}": getattr(value, part) for name, value in made.items() for part in ("real", "imag")}
    return {name: part.to(filters.device, torch.bfloat16).contiguous() for name, part in parts.items()}


@tkjit.kernel(
    "<thunderkittens>/kernels/fftconv/fftconv_pc.cu",
    entry="prototype::lcsf::kernel<fft_1024_template>",
    struct="fft_1024_template::layout::globals",
    fields="o x kf_real kf_imag f_real f_imag finv_real finv_imag tw_real tw_imag twinv_real twinv_imag",
    grid=132,
    block=CExpr("prototype::detail::NUM_THREADS_v<fft_1024_template>"),
    shared_memory=CExpr("MAX_SHARED_MEMORY - 1024"),
    # the source reads up to 132 filters behind the last; with more than 132 heads it would use a wrong one, and a
    # matrix that is not full would mix what the shared memory held before
    constraints=["P >= H + 132", "H <= 132", "B % 4 == 0"],
)
def tk_fftconv_1024(
    x: In[Tensor, "bfloat16", "B", "H", 32, 32],
    kf_real: In[Tensor, "bfloat16", "P", 64, 64, Member("kf.real")],
    kf_imag: In[Tensor, "bfloat16", "P", 64, 64, Member("kf.imag")],
    f_real: In[Tensor, "bfloat16", 64, 64, Member("f.real")],
    f_imag: In[Tensor, "bfloat16", 64, 64, Member("f.imag")],
    finv_real: In[Tensor, "bfloat16", 64, 64, Member("finv.real")],
    finv_imag: In[Tensor, "bfloat16", 64, 64, Member("finv.imag")],
    tw_real: In[Tensor, "bfloat16", 64, 64, Member("tw.real")],
    tw_imag: In[Tensor, "bfloat16", 64, 64, Member("tw.imag")],
    twinv_real: In[Tensor, "bfloat16", 64, 64, Member("twinv_t.real")],
    twinv_imag: In[Tensor, "bfloat16", 64, 64, Member("twinv_t.imag")],
    o: Out[Tensor, "bfloat16", "B", "H", 32, 32],
) -> Tensor:
    """The circular convolution of each head of x, 1024 long, with the head's filter.

    ``matrices``, above, makes all that stands behind x: what a transform of 1024 points needs in matrices of 32 x 32,
    each of them repeated to 64 x 64, or (f and finv) twice on the diagonal.
    """
    import torch

    pairs = (f_real, f_imag), (finv_real, finv_imag), (tw_real, tw_imag), (twinv_real, twinv_imag)
    f, finv, tw, twinv = (torch.complex(real.float(), imag.float())[:32, :32] for real, imag in pairs)
    kf = torch.complex(kf_real.float(), kf_imag.float())[: x.shape[1], :32, :32]
    y = ((f @ x.to(f.dtype) * tw) @ f * kf) @ finv * twinv
    return (finv @ y).real.to(x.dtype)
