"""Registers a kernel's operator while ``torch.compile`` traces a call.

Ordinary calls do not import this module, because it imports torch.
"""

from __future__ import annotations

import torch
from torch._guards import TracingContext

from tkjit.kernel.tokens import by_token


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def register_if_traced(token: str) -> bool:
    """Register a kernel's operator if ``torch.compile`` traces its call, and return whether it does.

    This function is not traced itself. A traced call reads little else, because each object that it reads adds a guard
    to every call of the compiled code.
    """
    if not torch.compiler.is_compiling() and TracingContext.try_get() is None:  # torch.export sets only the first
        return False
    by_token[token]._ensure_operator()
    return True
