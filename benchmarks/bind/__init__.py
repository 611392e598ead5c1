"""Benchmarks of bound libraries."""
