"""Translates inline PTX to C++: parses an ``asm`` statement, and calls a simulator function for each instruction."""

from tkjit.ptx.grammar import PtxError
from tkjit.ptx.translate import Operand, is_ptx, translate

__all__ = ["Operand", "PtxError", "is_ptx", "translate"]
