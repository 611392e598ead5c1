"""Reads CUDA source text as tokens, rewrites it for a host compiler, and finds code that cannot run on the CPU.

This package is independent of specs. Only a call that generates code imports it.
"""
