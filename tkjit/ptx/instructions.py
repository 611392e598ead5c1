"""Finds the C++ call for a PTX instruction by its opcode and modifiers; ``sim/ptx/`` has the functions.

An unsupported instruction becomes a trap and not an error, because many are in branches that no kernel reaches.
"""

from __future__ import annotations

# importing these modules registers their instructions
from tkjit.ptx import arithmetic, copies, moves, synchronisation, tcgen05, warpgroups, warps  # noqa: F401
from tkjit.ptx.call import HANDLERS, Call, Spelling, Unknown
from tkjit.ptx.grammar import Instruction

__all__ = ["Spelling", "Unknown", "call"]


def call(instruction: Instruction, spelling: Spelling) -> str:
    """Return the C++ statements for an instruction.

    Raises
    ------
    Unknown
        If the simulator does not support the instruction.
    """
    words = [instruction.opcode, *instruction.modifiers]
    for length in range(len(words), 0, -1):  # the longest prefix that has an entry
        if handler := HANDLERS.get(".".join(words[:length])):
            return handler(Call(instruction, spelling, words[length:]))
    raise Unknown
