"""ThunderKittens' quantization for B200: to 8-bit floats with a scale for each 32 of a row (MXFP8)."""

import tkjit
from tkjit import In, Out, Tensor


@tkjit.kernel(
    archs={"100a": "<thunderkittens>/kernels/gemm/mxfp8_b200/mxfp8_b200_gemm.cu"},
    entry="mxfp8_quantize::kernel",
    struct="mxfp8_quantize::globals",
    config="mxfp8_quantize::config",
    constraints=["M % 128 == 0", "K % 128 == 0"],
)
def tk_mxfp8_quantize(
    A_bf16: In[Tensor, "bfloat16", "M", "K"],
    A_fp8: Out[Tensor, "float8_e4m3fn", "M", "K"],
    A_sc: Out[Tensor, "float8_e8m0fnu", "M // 128", "K // 128", 32, 16],
) -> tuple[Tensor, Tensor]:
    """8-bit floats, and the scales that ``tk_gemm_mxfp8`` takes: the largest of 32 numbers by 448, rounded up."""
    import torch

    blocks = A_bf16.float().unflatten(1, (-1, 32))
    exponents = (blocks.abs().amax(2) / 448).clamp(min=1e-12).log2().ceil()
    values = (blocks / exponents.exp2()[:, :, None]).flatten(1).to(torch.float8_e4m3fn)
    scales = (exponents + 127).to(torch.uint8).view(torch.float8_e8m0fnu)
    tiles = scales.view(torch.uint8).unflatten(0, (-1, 4, 32)).unflatten(3, (-1, 4)).permute(0, 3, 2, 1, 4)
    return values, tiles.flatten(3).contiguous().view(torch.float8_e8m0fnu)
