"""Histograms."""

import tkjit
from tkjit import In, Out, Tensor, Zero


def torch_histc(x, bins, low, high):
    return x.histc(bins, low, high)


@tkjit.kernel(
    "histogram.cu",
    entry="histogram<T>",
    grid="min(cdiv(x.numel, 4096), 528)",  # at most four blocks for each multiprocessor of an H100
    block=256,
    shared_memory="4 * bins * COPIES",
    # small histograms have several copies in a block, so that fewer threads add to one count at the same time
    dims={"COPIES": "max(1, min(8, 6144 // max(1, bins)))"},
    computed={"copies": "COPIES"},
    variants={"T": ("float32", "bfloat16", "float16")},
    constraints=["bins >= 1", "bins <= 12288"],
    examples=[{"...": (2, 3), "N": 37, "bins": 5}, {"...": (), "N": 20001, "bins": 10000}],
    sizes=[
        {"...": (), "N": 67108864, "bins": 256},
        {"...": (), "N": 67108864, "bins": 4096},
        {"...": (), "N": 1048576, "bins": 256},
    ],
    peers={"torch": torch_histc},
)
def histogram(
    x: In[Tensor, "T", "... N"],
    bins: int = 100,
    low: float = 0.0,
    high: float = 1.0,
    *,
    counts: Out[Tensor, "int32", "bins", Zero],
) -> Tensor:
    """Counts the elements of x in each of `bins` bins, which divide [low, high] evenly.

    Parameters
    ----------
    x : (..., N) float32, bfloat16 or float16
    bins : int
        At most 12288, because the counts of a block are in shared memory.
    low, high : float
        Elements outside are not counted, and neither is NaN. `high` itself belongs to the last bin.

    Returns
    -------
    counts : (bins,) int32
        0 everywhere unless low < high.

    Notes
    -----
    The bin of an element x is (x - low) * (bins / (high - low)), in float32 and rounded down.
    """
    import torch

    x = x.float()
    low, high, count = (torch.tensor(number, dtype=torch.float32, device=x.device) for number in (low, high, bins))
    known = x[(x >= low) & (x <= high) & (low < high)]
    found = ((known - low) * (count / (high - low))).nan_to_num(0).clamp(0, bins - 1).int()
    return torch.bincount(found, minlength=bins).int()
