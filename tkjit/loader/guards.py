"""Raises an error if compilation is forbidden or a CUDA graph is being captured. Warns inside a process group."""

from __future__ import annotations

import sys
import warnings
from typing import Any

from tkjit.config import Settings
from tkjit.errors import CacheError, TkjitWarning
from tkjit.loader.plan import Plan


def check_may_compile(plan: Plan, settings: Settings) -> None:
    """Raise an error if compiling a plan is not allowed now.

    Raises
    ------
    CacheError
        If it is not allowed. The text contains the command that builds the plan ahead of time.
    """
    if not settings.jit:
        remote = [settings.remote.shown] if settings.remote.url else []
        searched = ", ".join(map(str, (*settings.cache_layers, settings.cache_root, *remote)))
        raise CacheError(
            f"{plan.what} is not in the cache ({searched}), and TKJIT_JIT=0 forbids compiling it; build it ahead of "
            f"time: {plan.warmup}   (python -m tkjit why shows what has changed)"
        )
    if is_capturing():
        raise CacheError(
            f"{plan.what} is not in the cache, and nothing can be compiled while a CUDA graph is captured; build it "
            f"ahead of time: {plan.warmup}, or call it once before the capture"
        )
    if _in_process_group():
        warnings.warn(
            f"{plan.what} is compiled while a process group is running: one rank of each node compiles, and the others "
            f"wait; build it ahead of time: {plan.warmup}",
            TkjitWarning,
            stacklevel=2,
        )


def is_capturing() -> bool:
    cuda: Any = sys.modules.get("torch.cuda")  # without torch there is no capture
    # if the process does not use a GPU yet, asking about a capture would initialise one
    return bool(cuda and cuda.is_initialized() and cuda.is_current_stream_capturing())


def _in_process_group() -> bool:
    distributed: Any = sys.modules.get("torch.distributed")
    return distributed is not None and bool(distributed.is_available() and distributed.is_initialized())
