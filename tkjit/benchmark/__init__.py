"""Measures kernels beside other implementations of the same operations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

    from tkjit.benchmark.measurement import Measurement
    from tkjit.kernel_objects import Kernel
    from tkjit.loader.tuned import Choice

__all__ = ["bench", "tune"]


def bench(
    kernel: str | Kernel,
    sizes: Sequence[Mapping[str, Any]] | Mapping[str, Any] = (),
    *,
    types: Sequence[str] = (),
    device: str | torch.device | None = None,
    inductor: bool = False,
    rounds: int = 15,
    seed: int = 0,
) -> list[Measurement]:
    """Measure a kernel beside its peers.

    The kernel and its peers run in turns, and the result is the median of each one's rounds. The inputs are random,
    and each call takes another copy of them, so that it finds none in the L2 cache. On a GPU, only the device's time
    counts, because the calls of a round are queued while the device is still busy.

    Parameters
    ----------
    kernel : str or Kernel
    sizes : mapping or sequence of mappings, optional
        The calls to measure. Each sets every dim, and may set numbers and variants:
        ``{"M": 4096, "N": 4096, "K": 4096}``. ``"..."`` is a tuple of leading dims. The default is the spec's
        ``sizes=``.
    types : sequence of str, optional
        Measure only variants of these dtypes.
    device : str or torch.device, optional
        The default is the current GPU, or the CPU if there is none.
    inductor : bool
        Also measure the reference compiled with ``torch.compile``.
    rounds : int
        The number of times that each implementation is timed.
    seed : int
        The seed of the inputs.

    Returns
    -------
    list of Measurement
        One for each call and variant.

    Raises
    ------
    SpecError
        If there are no sizes, no variant for them, or no such GPU.
    TkjitError
        If a call of the kernel fails.

    Examples
    --------
    >>> import tkjit
    >>> for measurement in tkjit.bench("gemm", {"M": 4096, "N": 4096, "K": 4096}, types=["bfloat16"]):  # doctest: +SKIP
    ...     print(measurement, measurement.speed, measurement.ratio("cuBLAS"))
    gemm(T=bfloat16, M=4096, K=4096, N=4096) 641 TFLOP/s 0.86
    """
    from tkjit.benchmark.measure import measurements

    return list(measurements(kernel, sizes, types, device, inductor=inductor, rounds=rounds, seed=seed))


def tune(
    kernel: str | Kernel,
    sizes: Sequence[Mapping[str, Any]] | Mapping[str, Any] = (),
    *,
    types: Sequence[str] = (),
    device: str | torch.device | None = None,
    rounds: int = 9,
    seed: int = 0,
) -> list[Choice]:
    """Choose the fastest configuration of each variant of a kernel on this device, and store the choice in the cache.

    The configurations of the spec's ``tune=`` are measured in turns, as in ``bench``. If several calls choose the same
    variant, the configuration with the smallest geometric mean of their times wins. A configuration whose results
    differ from the default's by more than rounding cannot win. Kernels that are loaded afterwards use the choice, on
    this device and on others with the same target that have no choice of their own.

    Parameters
    ----------
    kernel : str or Kernel
    sizes : mapping or sequence of mappings, optional
        The calls to measure, as in ``bench``. The default is the spec's ``sizes=``.
    types : sequence of str, optional
        Tune only variants of these dtypes.
    device : str or torch.device, optional
        The default is the current GPU, or the CPU if there is none.
    rounds : int
        The number of times that each configuration is timed.
    seed : int
        The seed of the inputs.

    Returns
    -------
    list of Choice
        One for each variant, with the times of all configurations.

    Raises
    ------
    SpecError
        If the kernel has no ``tune=``, there are no sizes, or no configuration works.
    CacheError
        If a choice cannot be stored.
    """
    from tkjit.benchmark.tuning import choices

    return list(choices(kernel, sizes, types, device, rounds=rounds, seed=seed))
