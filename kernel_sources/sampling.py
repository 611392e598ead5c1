"""Sampling from logits."""

import tkjit
from tkjit import Generator, In, Out, Tensor


@tkjit.kernel(
    "sampling.cu",
    entry="sampling<T>",
    grid="logits.batch * logits.depth * logits.rows",
    block="32 * min(16, max(1, cdiv(V, 256)))",
    variants={"T": ("float32", "bfloat16", "float16")},
    constraints=["V >= 1", "V <= 16777216"],
    examples=[{"...": (2, 3), "V": 37}, {"...": (2,), "V": 5000, "top_k": 50, "top_p": 0.9}],
    sizes=[
        {"...": (128,), "V": 128256},
        {"...": (128,), "V": 128256, "top_k": 50},
        {"...": (128,), "V": 128256, "top_p": 0.9},
        {"...": (1,), "V": 128256, "top_p": 0.9},
    ],
)
def sampling(
    logits: In[Tensor, "T", "... V"],
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    *,
    rng: Generator,
    index: Out[Tensor, "int64", "..."],
) -> Tensor:
    """Samples an index from each row, with the probabilities softmax(logits / temperature).

    Parameters
    ----------
    logits : (..., V) float32, bfloat16 or float16
        NaN has the probability 0.
    temperature : float
        0 or below: the largest element, and the first one of several.
    top_k : int
        If above 0, keeps only the `top_k` largest elements. Of equal ones, those with lower indices are kept.
    top_p : float
        Keeps the fewest largest elements whose probabilities, after `top_k`, add up to at least `top_p`. 1 or above
        keeps all, and 0 or below keeps one.
    rng : torch.Generator, optional
        One random number for each row. By default, the generator of the device.

    Returns
    -------
    index : (...) int64
        -1 for a row that has only NaN and negative infinity.

    Notes
    -----
    Probabilities below 2^-40 of the largest one count as 0. Source of `top_p`: Holtzman et al., "The Curious Case of
    Neural Text Degeneration", 2020.
    """
