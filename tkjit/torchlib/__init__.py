"""Kernels as PyTorch's operators: ``torch.ops.tkjit``, for ``torch.compile``, gradients, ``vmap``, fake tensors.

A direct call bypasses this room. Only calls that need PyTorch's dispatcher use it.
"""

from tkjit.torchlib.operators import calls_of, opaque, operator_of, register_operators

__all__ = ["calls_of", "opaque", "operator_of", "register_operators"]
