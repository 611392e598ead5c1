"""Kernels of CUTLASS, DeepGEMM and FlashAttention-3, verified and checked on the CPU from unchanged headers."""
