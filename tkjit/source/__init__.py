"""CUDA source text as tokens: rewrites it for a host compiler, and finds code that cannot run on the CPU.

It is independent of specs. A warm call imports none of it.
"""
