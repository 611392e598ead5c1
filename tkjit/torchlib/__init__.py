"""Registers kernels as PyTorch operators in ``torch.ops.tkjit``, for ``torch.compile``, gradients, ``vmap`` and so on.

Ordinary direct calls bypass this package; only calls that need PyTorch's dispatcher go through it.
"""

from tkjit.torchlib.operators import calls_of, opaque, operator_of, register_operators

__all__ = ["calls_of", "opaque", "operator_of", "register_operators"]
