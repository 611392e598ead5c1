"""Kernels with Hopper's instructions as inline PTX: products with wgmma, boxes with tensor maps."""
