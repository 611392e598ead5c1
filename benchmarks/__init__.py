"""Compares tkjit with its peers, both measured in the same run: ``python -m benchmarks [--json FILE] [NAME...]``."""
