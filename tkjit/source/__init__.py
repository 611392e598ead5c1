"""CUDA source text as tokens: rewritten for a host compiler, and searched for what cannot run on the CPU.

Nothing here knows a spec. A warm call imports none of it.
"""
