"""Registers a kernel's operator while ``torch.compile`` traces a call.

Only traced calls import this module, because it imports torch.
"""

from __future__ import annotations

import torch

from tkjit.kernel.tokens import by_token


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def register_operator(token: str) -> str:
    """Register a kernel's operator while its call is traced; this is not traced itself."""
    return by_token[token].register_operator()
