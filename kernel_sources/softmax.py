"""Softmax along the last dimension, and the cross entropy of its result."""

import tkjit
from tkjit import In, InOut, Out, Tensor

# in `bench`: one usual size first, then short, long, odd and few rows
CALLS = [
    {"...": (16384,), "N": 4096},
    {"...": (65536,), "N": 256},
    {"...": (32768,), "N": 1024},
    {"...": (4096,), "N": 16384},
    {"...": (2048,), "N": 32768},
    {"...": (1024,), "N": 65536},
    {"...": (256,), "N": 262144},
    {"...": (16384,), "N": 4095},
    {"...": (128,), "N": 4096},
]


def torch_softmax(x):
    return x.softmax(-1)


def quack_softmax(x):
    from quack import softmax

    return softmax(x)


def gradient(grad_y, y):
    return y * (grad_y - (grad_y * y).sum(-1, keepdim=True))


@tkjit.kernel(
    "softmax.cu",
    entry="softmax<T>",
    grid="x.batch * x.depth * x.rows",
    block="32 * min(32, max(1, cdiv(N, 512)))",  # 16 elements for each thread, up to 1024 threads
    variants={"T": ("float32", "bfloat16", "float16")},
    backward=gradient,
    sizes=CALLS,
    peers={"torch": torch_softmax, "QuACK": quack_softmax},
)
def softmax(x: In[Tensor, "T", "... N"], y: Out[Tensor, "T", "... N"]) -> Tensor:
    """Computes exp(x - max(x)) / sum(exp(x - max(x))) along the last dimension.

    Parameters
    ----------
    x : (..., N) float32, bfloat16 or float16; computed in float32

    Returns
    -------
    y : (..., N) of x's dtype; each row sums to 1

    Notes
    -----
    The maximum and the sum are found in one pass over the row. Source: Milakov and Gimelshein, "Online normalizer
    calculation for softmax", 2018.
    """
    return x.softmax(-1)


BLOCK = "32 * min(32, max(1, cdiv(V, 512)))"
# in `bench`: the vocabularies of some models
VOCABULARIES = [
    {"...": (8192,), "V": 128256},
    {"...": (16384,), "V": 32000},
    {"...": (8192,), "V": 50257},
    {"...": (128,), "V": 151936},
]
# in `check` and `verify`
ROWS = [{"...": (3, 2), "V": 37}, {"...": (5,), "V": 1000}, {"...": (2,), "V": 20001}]


def torch_cross_entropy(logits, target, ignore_index):
    import torch

    return torch.nn.functional.cross_entropy(logits, target, ignore_index=ignore_index, reduction="none")


def quack_cross_entropy(logits, target, ignore_index):
    from quack import cross_entropy

    return cross_entropy(logits, target, ignore_index=ignore_index, reduction="none")


def with_classes(arguments):
    logits = arguments["logits"]
    known = {"target": arguments["target"] % logits.shape[-1]}
    return known | {"lse": logits.float().logsumexp(-1)} if "lse" in arguments else known


def cross_entropy_gradients(grad_loss, logits, target, lse, grad_lse, ignore_index):
    return cross_entropy_gradient(grad_loss, grad_lse, logits, target, lse, ignore_index)


@tkjit.kernel(
    "cross_entropy.cu",
    entry="cross_entropy<T>",
    grid="logits.batch * logits.depth * logits.rows",
    block=BLOCK,
    variants={"T": ("float32", "bfloat16", "float16")},
    backward=cross_entropy_gradients,
    examples=ROWS,
    sizes=VOCABULARIES,
    peers={"torch": torch_cross_entropy, "QuACK": quack_cross_entropy},
    prepare=with_classes,
)
def cross_entropy(
    logits: In[Tensor, "T", "... V"],
    target: In[Tensor, "int64", "..."],
    ignore_index: int = -100,
    *,
    loss: Out[Tensor, "float32", "..."],
    lse: Out[Tensor, "float32", "..."],
) -> tuple[Tensor, Tensor]:
    """Computes log(sum(exp(logits))) - logits[target] for each row.

    Parameters
    ----------
    logits : (..., V) float32, bfloat16 or float16; computed in float32
    target : (...) int64
        A class, or `ignore_index`. The loss of any other number is NaN.
    ignore_index : int
        The target of rows without a loss.

    Returns
    -------
    loss : (...) float32
        0 for an ignored row.
    lse : (...) float32
        log(sum(exp(logits))) of each row; for a z-loss, and for the gradient.
    """
    import torch

    wide = logits.float()
    rows = wide.reshape(-1, logits.shape[-1]), target.reshape(-1)
    loss = torch.nn.functional.cross_entropy(*rows, reduction="none", ignore_index=ignore_index)
    return loss.view(target.shape), wide.logsumexp(-1)


@tkjit.kernel(
    "cross_entropy_gradient.cu",
    entry="cross_entropy_gradient<T>",
    grid="logits.batch * logits.depth * logits.rows",
    block=BLOCK,
    variants={"T": ("float32", "bfloat16", "float16")},
    examples=ROWS,
    sizes=VOCABULARIES,
    prepare=with_classes,
)
def cross_entropy_gradient(
    grad_loss: In[Tensor, "float32", "..."],
    grad_lse: In[Tensor, "float32", "..."],
    logits: In[Tensor, "T", "... V"],
    target: In[Tensor, "int64", "..."],
    lse: In[Tensor, "float32", "..."],
    ignore_index: int = -100,
    *,
    grad: Out[Tensor, "T", "... V"],
) -> Tensor:
    """Computes the gradient of `cross_entropy` with respect to the logits.

    Parameters
    ----------
    grad_loss, grad_lse : (...) float32
        The gradients of the two results.
    logits, target, lse, ignore_index
        As for `cross_entropy`, and its result.

    Returns
    -------
    grad : (..., V) of the logits' dtype
    """
    import torch

    has_loss = target != ignore_index
    of_class = torch.nn.functional.one_hot(target.where(has_loss, 0), logits.shape[-1])
    of_loss = (grad_loss * has_loss)[..., None]
    share = (logits.float() - lse[..., None]).exp()
    return (share * (of_loss + grad_lse[..., None]) - of_class * of_loss).to(logits.dtype)


def torch_fused_cross_entropy(logits, target, scale, ignore_index):
    import torch

    x = logits.detach().requires_grad_()
    with torch.enable_grad():
        loss = torch_cross_entropy(x, target, ignore_index)
        (grad,) = torch.autograd.grad(loss, x, torch.full_like(loss, scale))
    return loss, grad


@tkjit.kernel(
    "fused_cross_entropy.cu",
    entry="fused_cross_entropy<T>",
    grid="logits.batch * logits.depth * logits.rows",
    block=BLOCK,
    variants={"T": ("float32", "bfloat16", "float16")},
    examples=ROWS,
    sizes=VOCABULARIES,
    peers={"torch": torch_fused_cross_entropy},
    prepare=with_classes,
)
def fused_cross_entropy(
    logits: InOut[Tensor, "T", "... V"],
    target: In[Tensor, "int64", "..."],
    scale: float = 1.0,
    ignore_index: int = -100,
    *,
    loss: Out[Tensor, "float32", "..."],
    lse: Out[Tensor, "float32", "..."],
) -> tuple[Tensor, Tensor]:
    """Computes `cross_entropy`, and replaces the logits by their gradient times `scale`.

    With ``scale=1 / rows``, the gradient is that of the mean loss: ``hidden.backward(logits @ weight)``, for example,
    goes on from there. The logits need no second tensor of their size.

    Parameters
    ----------
    logits : (..., V) float32, bfloat16 or float16; computed in float32
    target : (...) int64
        A class, or `ignore_index`. The loss and the gradients of any other number are NaN.
    scale : float
    ignore_index : int
        The target of rows without a loss, whose gradient is 0.

    Returns
    -------
    loss : (...) float32
        0 for an ignored row.
    lse : (...) float32
        log(sum(exp(logits))) of each row.

    Notes
    -----
    Source: Hsu et al., "Liger Kernel: Efficient Triton Kernels for LLM Training", 2024.
    """
    wide = logits.float()
    rows = wide.reshape(-1, logits.shape[-1]), target.reshape(-1)
    loss, grad = torch_fused_cross_entropy(*rows, scale, ignore_index)
    logits.copy_(grad.view(logits.shape))
    return loss.view(target.shape), wide.logsumexp(-1)
