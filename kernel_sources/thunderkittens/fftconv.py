"""ThunderKittens' long convolutions through Fourier transforms."""

import tkjit
from tkjit import CExpr, In, Member, Out, Tensor

PRODUCERS = {
    "source": "<thunderkittens>/kernels/fftconv/fftconv_pc.cu",
    "fields": "o x kf_real kf_imag f_real f_imag finv_real finv_imag tw_real tw_imag twinv_real twinv_imag",
    "grid": 132,
    "shared_memory": CExpr("MAX_SHARED_MEMORY - 1024"),
}


def matrices(filters):
    """Return the arguments after x for filters of shape (H, 1024) or (H, 4096).

    They are the transforms of the filters, and the matrices of the Fourier transform itself.
    """
    import torch

    points = filters.shape[-1]
    side = int(points**0.5)
    n = torch.arange(side)
    f = torch.exp(-2j * torch.pi * n[:, None] * n / side)
    tw = torch.exp(-2j * torch.pi * n[:, None] * n / points)
    kf = torch.fft.fft(filters.float()).reshape(-1, side, side).mT
    if side == 32:  # four sequences in matrices of 64 x 64
        f, tw, kf = torch.block_diag(f, f), tw.tile(2, 2), kf.tile(1, 2, 2)
    kf = torch.cat((kf, kf.new_zeros(132, 64, 64)))
    operands = {"kf": kf, "f": f, "finv": f.conj(), "tw": tw / points, "twinv": tw.conj()}
    parts = {f"{name}_{part}": getattr(value, part) for name, value in operands.items() for part in ("real", "imag")}
    return {name: part.to(filters.device, torch.bfloat16).contiguous() for name, part in parts.items()}


def of_1024(arguments):
    """Return the arguments after x for random filters, one for each head of x."""
    return transforms(arguments, 1024)


def of_4096(arguments):
    return transforms(arguments, 4096)


def transforms(arguments, points):
    import torch

    heads = arguments["x"].shape[1] if "x" in arguments else 1024
    operands = matrices(torch.randn(heads, points))
    unpadded = {} if "x" in arguments else {name: operands[name][:heads] for name in ("kf_real", "kf_imag")}
    return {**operands, **unpadded}


# 1024 points: four sequences in matrices of 64 x 64
@tkjit.kernel(
    entry="prototype::lcsf::kernel<fft_1024_template>",
    struct="fft_1024_template::layout::globals",
    block=CExpr("prototype::detail::NUM_THREADS_v<fft_1024_template>"),
    # the source reads up to 132 filters past the last one; with more than 132 heads it would use a wrong filter, and a
    # partially filled matrix would mix in old data from shared memory
    constraints=["P >= H + 132", "H <= 132", "B % 4 == 0"],
    examples=[{"B": 8, "H": 5, "P": 137}, {"B": 4, "H": 1, "P": 133}],
    prepare=of_1024,
    tolerance=0.02,
    **PRODUCERS,
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
    """Computes the circular convolution of each head of x, of length 1024, with the head's filter.

    ``matrices``, above, makes all arguments after x. For 1024 points the transform's matrices are 32 x 32, but the
    arguments are 64 x 64: ``matrices`` places f and finv twice on the diagonal, and repeats the other matrices.
    """
    import torch

    pairs = (f_real, f_imag), (finv_real, finv_imag), (tw_real, tw_imag), (twinv_real, twinv_imag)
    f, finv, tw, twinv = (torch.complex(real.float(), imag.float())[:32, :32] for real, imag in pairs)
    kf = torch.complex(kf_real.float(), kf_imag.float())[: x.shape[1], :32, :32]
    y = ((f @ x.to(f.dtype) * tw) @ f * kf) @ finv * twinv
    return (finv @ y).real.to(x.dtype)


# 4096 points, as matrices of 64 x 64
@tkjit.kernel(
    entry="prototype::lcsf::kernel<fft_4096_template>",
    struct="fft_4096_template::layout::globals",
    block=CExpr("prototype::detail::NUM_THREADS_v<fft_4096_template>"),
    # the source reads up to 132 filters past the last one, but does not use them
    constraints="P >= H + 132",
    examples=[{"B": 3, "H": 5, "P": 137}, {"B": 1, "H": 1, "P": 133}],
    prepare=of_4096,
    tolerance=0.02,
    **PRODUCERS,
)
def tk_fftconv_4096(
    x: In[Tensor, "bfloat16", "B", "H", 64, 64],
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
    o: Out[Tensor, "bfloat16", "B", "H", 64, 64],
) -> Tensor:
    """Computes the circular convolution of each head of x, of length 4096, with the head's filter.

    ``matrices``, above, makes all arguments after x: the filters' transforms as transposed matrices (kf), followed by
    132 unused ones; the 64 x 64 matrix of the Fourier transform (f) and its inverse (finv); and the factors between the
    two steps of each transform (tw, twinv).
    """
    import torch

    pairs = (f_real, f_imag), (finv_real, finv_imag), (tw_real, tw_imag), (twinv_real, twinv_imag)
    f, finv, tw, twinv = (torch.complex(real.float(), imag.float()) for real, imag in pairs)
    kf = torch.complex(kf_real.float(), kf_imag.float())[: x.shape[1]]
    y = ((f @ x.to(f.dtype) * tw) @ f * kf) @ finv * twinv
    return (finv @ y).real.to(x.dtype)


# 4096 points, without producers and consumers
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
    examples={"batch": 4},
    prepare=of_4096,
    tolerance=0.02,
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
    """Computes the real part of the circular convolution of 1024 heads, of length 4096, each with its filter.

    ``matrices``, above, makes all arguments after x; pass kf without the 132 filters that ``matrices`` adds.
    """
    import torch

    pairs = (f_real, f_imag), (finv_real, finv_imag), (tw_real, tw_imag), (twinv_real, twinv_imag)
    f, finv, tw, twinv = (torch.complex(real.float(), imag.float()) for real, imag in pairs)
    x = torch.complex(x_real.float(), x_imag.float())
    y = ((f @ x * tw) @ f * torch.complex(kf_real.float(), kf_imag.float())) @ finv * twinv
    return (finv @ y).real.to(x_real.dtype)
