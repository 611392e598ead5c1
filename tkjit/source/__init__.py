"""Reads CUDA source text as tokens, rewrites it for a host compiler, and finds code that cannot run on the CPU.

The package does not depend on specs. Only calls that generate code import the package.
"""
