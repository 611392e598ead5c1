"""Kernels of Hopper's instructions as inline PTX: products through wgmma, boxes through tensor maps."""
