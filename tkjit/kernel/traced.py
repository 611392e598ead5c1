"""A kernel's call where ``torch.compile`` traces it. It is imported by then, for it imports torch."""

from __future__ import annotations

import torch

from tkjit.kernel.tokens import by_token


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def register_operator(token: str) -> str:
    """Register a kernel's operator while its call is traced; this is not traced itself."""
    return by_token[token].register_operator()
