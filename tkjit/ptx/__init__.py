"""Inline PTX as C++: parses an ``asm`` statement's text, and names the simulator's function of each instruction."""

from tkjit.ptx.grammar import PtxError
from tkjit.ptx.translate import Operand, is_ptx, translate

__all__ = ["Operand", "PtxError", "is_ptx", "translate"]
