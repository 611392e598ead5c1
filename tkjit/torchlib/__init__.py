"""Kernels as PyTorch's operators: ``torch.ops.tkjit``, for ``torch.compile``, gradients, ``vmap``, fake tensors.

A plain call does not come here: the glue sends on what only torch's dispatcher can deal with.
"""

from tkjit.torchlib.operators import calls_of, opaque, operator_of, register_operators

__all__ = ["calls_of", "opaque", "operator_of", "register_operators"]
