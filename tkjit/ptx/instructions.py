"""The C++ call for each PTX instruction: the functions of ``sim/ptx/``, by opcode and modifiers.

An instruction without an entry becomes a trap, since many stand in branches that no kernel reaches.
"""

from __future__ import annotations

# each module registers its instructions
from tkjit.ptx import arithmetic, copies, moves, synchronisation, warpgroups, warps  # noqa: F401
from tkjit.ptx.call import HANDLERS, Call, Spelling, Unknown
from tkjit.ptx.grammar import Instruction

__all__ = ["Spelling", "Unknown", "call"]


def call(instruction: Instruction, spelling: Spelling) -> str:
    """The C++ statements of an instruction.

    Raises
    ------
    Unknown
    """
    words = [instruction.opcode, *instruction.modifiers]
    for length in range(len(words), 0, -1):  # the longest beginning that has an entry
        if handler := HANDLERS.get(".".join(words[:length])):
            return handler(Call(instruction, spelling, words[length:]))
    raise Unknown
