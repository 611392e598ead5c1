"""Registers kernels as PyTorch operators in ``torch.ops.tkjit``, for ``torch.compile``, gradients, ``vmap`` and so on.

A direct call bypasses this package. Only calls that need PyTorch's dispatcher use it.
"""

from tkjit.torchlib.operators import calls_of, opaque, operator_of, register_operators

__all__ = ["calls_of", "opaque", "operator_of", "register_operators"]
