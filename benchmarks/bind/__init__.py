"""Benchmarks of bound C++ libraries."""
