"""What the calls of all instructions need: types, operands, modifiers, and the table that they register in."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from tkjit.ptx.grammar import Address, Instruction, Name, PtxOperand, Vector
from tkjit.ptx.special import SPECIAL

TYPES = {
    "pred": "bool",
    "b8": "uint8_t",
    "u8": "uint8_t",
    "s8": "int8_t",
    "b16": "uint16_t",
    "u16": "uint16_t",
    "s16": "int16_t",
    "b32": "uint32_t",
    "u32": "uint32_t",
    "s32": "int32_t",
    "b64": "uint64_t",
    "u64": "uint64_t",
    "s64": "int64_t",
    "b128": "unsigned __int128",
    "f32": "float",
    "f64": "double",
    "f16": "__half",
    "bf16": "__nv_bfloat16",
    "f16x2": "__half2",
    "bf16x2": "__nv_bfloat162",
    "tf32": "::tkjit::tf32",
    "e4m3": "__nv_fp8_e4m3",
    "e5m2": "__nv_fp8_e5m2",
    "e4m3x2": "__nv_fp8x2_e4m3",
    "e5m2x2": "__nv_fp8x2_e5m2",
}
# what changes how fast an instruction is, or on which GPUs, and not what it does here
_HINTS = re.compile(
    r"weak|nc|L1::\w+|L2::\w+|unified|ca|cg|cs|cv|lu|wb|wt|full|aligned|sync|uni|ftz|cta|cluster|gpu|sys|approx|level::\w+"
)
_SPACES = ("shared", "shared::cta", "shared::cluster", "global", "local", "const", "param", "generic")
COMPARISONS = {
    "eq": "==",
    "ne": "!=",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
    "lo": "<",
    "ls": "<=",
    "hi": ">",
    "hs": ">=",
}


class Unknown(Exception):
    """An instruction that has no body in the simulator."""


class Spelling(Protocol):
    """How the names of a statement are spelled; and whether it goes back to a label, to wait."""

    waits: bool

    def variable(self, name: Name) -> str: ...


Handler = Callable[["Call"], str]
HANDLERS: dict[str, Handler] = {}


def instruction(*opcodes: str) -> Callable[[Handler], Handler]:
    def register(handler: Handler) -> Handler:
        HANDLERS.update(dict.fromkeys(opcodes, handler))
        return handler

    return register


class Call:
    """An instruction whose call is being written."""

    def __init__(self, instruction: Instruction, spelling: Spelling, modifiers: Sequence[str]) -> None:
        self.opcode = instruction.opcode
        self.modifiers = list(modifiers)
        self.operands = instruction.operands
        self.spelling = spelling
        self.waits = spelling.waits

    # ---- modifiers

    def has(self, *words: str) -> bool:
        """Whether one of these modifiers is there; it counts as understood."""
        found = [word for word in self.modifiers if word in words]
        self.modifiers = [word for word in self.modifiers if word not in words]
        return bool(found)

    def one_of(self, words: Iterable[str], default: str = "") -> str:
        found = next((word for word in self.modifiers if word in set(words)), None)
        if found is None:
            if not default:
                raise Unknown
            return default
        self.modifiers.remove(found)
        return found

    def type(self) -> str:
        """The last modifier, a type, as its name in PTX."""
        if not self.modifiers or self.modifiers[-1] not in TYPES:
            raise Unknown
        return self.modifiers.pop()

    def ends(self) -> None:
        """Refuse what nobody has understood."""
        if left := [word for word in self.modifiers if not _HINTS.fullmatch(word)]:
            raise Unknown(f"the simulator does not know .{left[0]}")

    # ---- operands

    def operand(self, index: int) -> PtxOperand:
        if index >= len(self.operands):
            raise Unknown("an operand is missing")
        return self.operands[index]

    def value(self, operand: PtxOperand | int, kind: str) -> str:
        """An operand as a value of a type of PTX."""
        one = self.operand(operand) if isinstance(operand, int) else operand
        if not isinstance(one, Name):
            raise Unknown("an operand has another form here")
        if one.kind == "number":
            text = _as(kind, number(one.text))
        elif one.kind == "special" and one.text.lstrip("%") in SPECIAL:
            text = _as(kind, SPECIAL[one.text.lstrip("%")])
        else:
            text = _as(kind, self.spelling.variable(one))
        if not one.is_negated:
            return text
        return f"!{text}" if kind == "pred" else f"-{text}"

    def values(self, operand: PtxOperand | int, kind: str) -> list[str]:
        """A vector's parts, or one operand as a vector of one."""
        one = self.operand(operand) if isinstance(operand, int) else operand
        if not isinstance(one, Vector):
            return [self.value(one, kind)]
        if any(part.kind != "operand" or part.is_negated for part in one.parts):
            return [self.value(part, kind) for part in one.parts]
        # a matrix's registers: half of the time of a statement went into asking of each what it is
        return [_as(kind, self.spelling.variable(part)) for part in one.parts]

    def set(self, operand: PtxOperand | int, expression: str) -> str:
        """Write a result."""
        one = self.operand(operand) if isinstance(operand, int) else operand
        if not isinstance(one, Name):
            raise Unknown("a result has another form here")
        if one.kind == "sink":
            return f"static_cast<void>({expression});"
        return f"tkjit_ptx::set({self.spelling.variable(one)}, {expression});"

    def set_all(self, operand: PtxOperand | int, array: str) -> str:
        """Write an array's elements to a vector, or to the one operand."""
        one = self.operand(operand) if isinstance(operand, int) else operand
        parts = one.parts if isinstance(one, Vector) else (one,)
        return " ".join(self.set(part, f"{array}[{i}]") for i, part in enumerate(parts))

    def address(self, operand: PtxOperand | int, space: str = "generic") -> str:
        """An operand in square brackets as a pointer."""
        one = self.operand(operand) if isinstance(operand, int) else operand
        if not isinstance(one, Address):
            raise Unknown("an address has another form here")
        function = "shared" if space.startswith("shared") else "global"
        base = self.spelling.variable(one.base) if one.base.kind != "number" else one.base.text
        return f"tkjit_ptx::{function}({base}, {one.offset})"

    def coordinates(self, operand: int) -> str:
        one = self.operand(operand)
        if not isinstance(one, Address) or not one.coordinates:
            raise Unknown("a tensor's coordinates are missing")
        return "{" + ", ".join(self.value(part, "s32") for part in one.coordinates) + "}"

    def space(self) -> str:
        return self.one_of(_SPACES, "generic")

    @property
    def count(self) -> int:
        return len(self.operands)


def _as(kind: str, text: str) -> str:
    return f"tkjit_ptx::as<{TYPES[kind]}>({text})"


def number(text: str) -> str:
    """A number of PTX in C++."""
    if match := re.fullmatch(r"(-?)0[fF]([0-9a-fA-F]{8})", text):
        return f"{match[1]}__builtin_bit_cast(float, 0x{match[2]}u)"
    if match := re.fullmatch(r"(-?)0[dD]([0-9a-fA-F]{16})", text):
        return f"{match[1]}__builtin_bit_cast(double, 0x{match[2]}ull)"
    return text if "." in text else f"{text.rstrip('U')}ll"
