"""Kernels as PyTorch's operators: ``torch.ops.tkjit``, for ``torch.compile``, gradients, ``vmap``, fake tensors.

A plain call bypasses this room: the glue sends on only calls that need torch's dispatcher.
"""

from tkjit.torchlib.operators import calls_of, opaque, operator_of, register_operators

__all__ = ["calls_of", "opaque", "operator_of", "register_operators"]
