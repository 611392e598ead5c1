"""Short causal convolutions of each channel, as in state-space models."""

import tkjit
from tkjit import In, Out, Tensor

VARIANTS = {"T": ("float32", "bfloat16", "float16"), "W": (2, 3, 4), "activation": ("identity", "silu")}
EXAMPLES = [{"B": 2, "D": 3, "L": 37, "W": 4}, {"B": 1, "D": 2, "L": 2100, "W": 3}, {"B": 2, "D": 1, "L": 1, "W": 2}]
SIZES = [
    {"B": 8, "D": 4096, "L": 2048, "W": 4},
    {"B": 1, "D": 8192, "L": 8192, "W": 4},
    {"B": 8, "D": 4096, "L": 2047, "W": 4},
]


def torch_conv1d(x, weight, bias, activation):
    import torch

    F = torch.nn.functional
    y = F.conv1d(x, weight[:, None], bias, padding=weight.shape[1] - 1, groups=x.shape[1])[..., : x.shape[2]]
    return F.silu(y) if activation == "silu" else y


def authors_conv1d(x, weight, bias, activation):
    import causal_conv1d_cuda  # a module of the package causal-conv1d
    import torch

    y = torch.empty_like(x)
    causal_conv1d_cuda.causal_conv1d_fwd(x, weight, bias, None, None, y, None, activation == "silu")
    return y


def authors_gradient(grad_y, x, weight, bias, activation):
    import causal_conv1d_cuda
    import torch

    grad_x, grad_weight = torch.empty_like(x), torch.zeros_like(weight, dtype=torch.float32)
    grad_bias = None if bias is None else torch.zeros_like(bias, dtype=torch.float32)
    results = grad_x, grad_weight, grad_bias
    causal_conv1d_cuda.causal_conv1d_bwd(
        x, weight, bias, grad_y, None, None, None, *results, None, activation == "silu"
    )
    return results


def gradients(grad_y, x, weight, bias, activation):
    grad_x, grad_weight, grad_bias = causal_conv1d_gradient(grad_y, x, weight, bias, activation)
    return grad_x, grad_weight.sum(0).to(weight.dtype), None if bias is None else grad_bias.sum(0).to(bias.dtype)


@tkjit.kernel(
    "causal_conv1d.cu",
    entry="causal_conv1d<T, W, activation>",
    grid="B * D * cdiv(L, 2048)",
    block=256,
    variants=VARIANTS,
    backward=gradients,
    examples=EXAMPLES,
    sizes=SIZES,
    peers={"torch": torch_conv1d, "causal-conv1d": authors_conv1d},
)
def causal_conv1d(
    x: In[Tensor, "T", "B", "D", "L"],
    weight: In[Tensor, "T", "D", "W"],
    bias: In[Tensor, "T", "D"] | None = None,
    activation: str = "identity",
    *,
    y: Out[Tensor, "T", "B", "D", "L"],
) -> Tensor:
    """Computes y[t] = f(weight[0] x[t - W + 1] + ... + weight[W - 1] x[t] + bias) for each channel.

    Parameters
    ----------
    x : (B, D, L) float32, bfloat16 or float16; D channels of length L, with zeros before
        their first element
    weight : (D, W) of x's dtype, with W = 2, 3 or 4
    bias : (D,) of x's dtype, optional
    activation : "identity" or "silu"
        The function f. Everything is computed in float32.

    Returns
    -------
    y : (B, D, L) of x's dtype

    Notes
    -----
    The parameters are those of the package causal-conv1d: Dao, "Causal depthwise conv1d in CUDA", 2023.
    """
    wide = (None if one is None else one.float() for one in (x, weight, bias))
    return torch_conv1d(*wide, activation).to(x.dtype)


@tkjit.kernel(
    "causal_conv1d_gradient.cu",
    entry="causal_conv1d_gradient<T, W, activation>",
    grid="B * D",
    block="32 * min(8, max(1, cdiv(L, 256)))",
    variants=VARIANTS,
    examples=EXAMPLES,
    sizes=SIZES,
    peers={"causal-conv1d": authors_gradient},
)
def causal_conv1d_gradient(
    grad_y: In[Tensor, "T", "B", "D", "L"],
    x: In[Tensor, "T", "B", "D", "L"],
    weight: In[Tensor, "T", "D", "W"],
    bias: In[Tensor, "T", "D"] | None = None,
    activation: str = "identity",
    *,
    grad_x: Out[Tensor, "T", "B", "D", "L"],
    grad_weight: Out[Tensor, "float32", "B", "D", "W"],
    grad_bias: Out[Tensor, "float32", "B", "D"],
) -> tuple[Tensor, Tensor, Tensor]:
    """Computes the gradients of ``causal_conv1d``.

    Parameters
    ----------
    grad_y : (B, D, L) of x's dtype
    x, weight, bias, activation
        The arguments of the call.

    Returns
    -------
    grad_x : (B, D, L) of x's dtype
    grad_weight : (B, D, W) float32; its sum over B is the gradient of `weight`
    grad_bias : (B, D) float32; its sum over B is the gradient of `bias`
    """
    import torch

    F = torch.nn.functional
    width = weight.shape[1]
    wide, bias = F.pad(x.float(), (width - 1, 0)), None if bias is None else bias.float()
    sums = F.conv1d(wide, weight.float()[:, None], bias, groups=x.shape[1])
    grad = grad_y.float()
    if activation == "silu":
        grad = torch.ops.aten.silu_backward(grad, sums)
    windows = wide.unfold(-1, width, 1)
    later = F.pad(grad, (0, width - 1)).unfold(-1, width, 1).flip(-1)
    grad_x = torch.einsum("bdlw,dw->bdl", later, weight.float()).to(x.dtype)
    return grad_x, torch.einsum("bdl,bdlw->bdw", grad, windows), grad.sum(-1)
