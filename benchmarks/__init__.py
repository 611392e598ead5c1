"""Ratios against peers, each measured in one run: ``python -m benchmarks [--json FILE] [NAME...]``."""
