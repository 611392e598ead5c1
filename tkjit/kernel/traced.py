"""Registers a kernel's operator while ``torch.compile`` traces a call.

A call that the interpreter makes does not import this module, because it imports torch.
"""

from __future__ import annotations

import torch
from torch._guards import TracingContext

from tkjit.kernel.tokens import by_token


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def register_if_traced(token: str) -> bool:
    """Register a kernel's operator if ``torch.compile`` traces its call; whether it does.

    This is not traced itself. A call reads little else while it is traced, since each thing that it reads costs a guard
    in each call of the compiled code.
    """
    if not torch.compiler.is_compiling() and TracingContext.try_get() is None:  # torch.export sets only the first
        return False
    by_token[token].register_operator()
    return True
