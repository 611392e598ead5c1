"""Registers a kernel's operator while ``torch.compile`` traces a call.

Ordinary calls do not import this module, because it imports torch.
"""

from __future__ import annotations

import torch
from torch._guards import TracingContext

from tkjit.kernel_objects.tokens import by_token


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def register_if_traced(token: str) -> bool:
    """Return whether ``torch.compile`` is tracing a kernel's call, and if so, register the kernel's operator.

    This function itself is not traced. A traced call reads as little else as possible, because each object that it
    reads adds a guard to every call of the compiled code.
    """
    if not torch.compiler.is_compiling() and TracingContext.try_get() is None:  # torch.export has no TracingContext
        return False
    by_token[token]._ensure_operator()
    return True
