"""The parts that all instructions share: types, operands, modifiers, and the table of handlers."""

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
    "f32x2": "float2",
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
# modifiers that change an instruction's speed or the GPUs that support it, but not its result in the simulator
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
    """The simulator does not support an instruction, or not in this form."""


class Spelling(Protocol):
    """Spells a statement's names in C++. ``waits`` tells whether the statement contains a loop."""

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
    """Writes the C++ call of one instruction."""

    def __init__(self, instruction: Instruction, spelling: Spelling, modifiers: Sequence[str]) -> None:
        self.opcode = instruction.opcode
        self.modifiers = list(modifiers)
        self.operands = instruction.operands
        self.spelling = spelling
        self.waits = spelling.waits

    # ---- modifiers

    def has(self, *words: str) -> bool:
        """Return whether the instruction has one of these modifiers, and remove them from the unhandled modifiers."""
        found = [word for word in self.modifiers if word in words]
        self.modifiers = [word for word in self.modifiers if word not in words]
        return bool(found)

    def one_of(self, words: Iterable[str], default: str = "") -> str:
        known = set(words)
        found = next((word for word in self.modifiers if word in known), None)
        if found is None:
            if not default:
                raise Unknown
            return default
        self.modifiers.remove(found)
        return found

    def scope(self) -> str:
        """Remove the modifier for a scope, and return the scope's name in ``tkjit_ptx::Scope``."""
        return "block" if self.has("cta") else "cluster" if self.has("cluster") else "device"

    def type(self) -> str:
        """Remove and return the last modifier, which must be a PTX type."""
        if not self.modifiers or self.modifiers[-1] not in TYPES:
            raise Unknown
        return self.modifiers.pop()

    def ends(self) -> None:
        """Reject the instruction if any of its modifiers has not been handled."""
        if left := [word for word in self.modifiers if not _HINTS.fullmatch(word)]:
            raise Unknown(f"unsupported modifier .{left[0]}")

    # ---- operands

    def operand(self, index: int) -> PtxOperand:
        if index >= len(self.operands):
            raise Unknown("an operand is missing")
        return self.operands[index]

    def value(self, operand: PtxOperand | int, kind: str) -> str:
        """Return an operand as a value of a PTX type."""
        parsed = self.operand(operand) if isinstance(operand, int) else operand
        if not isinstance(parsed, Name):
            raise Unknown("an operand has an unsupported form")
        if parsed.kind == "number":
            text = _as(kind, number(parsed.text))
        elif parsed.kind == "special" and parsed.text.lstrip("%") in SPECIAL:
            text = _as(kind, SPECIAL[parsed.text.lstrip("%")])
        else:
            text = _as(kind, self.spelling.variable(parsed))
        if not parsed.is_negated:
            return text
        return f"!{text}" if kind == "pred" else f"-{text}"

    def values(self, operand: PtxOperand | int, kind: str) -> list[str]:
        """Return the values of a vector's parts, or of a single operand."""
        parsed = self.operand(operand) if isinstance(operand, int) else operand
        if not isinstance(parsed, Vector):
            return [self.value(parsed, kind)]
        if any(part.kind != "operand" or part.is_negated for part in parsed.parts):
            return [self.value(part, kind) for part in parsed.parts]
        # fast path for a matrix's registers: value() on each of them took half of the time to translate a statement
        return [_as(kind, self.spelling.variable(part)) for part in parsed.parts]

    def set(self, operand: PtxOperand | int, expression: str) -> str:
        """Return the statement that writes a result to its target."""
        parsed = self.operand(operand) if isinstance(operand, int) else operand
        if not isinstance(parsed, Name):
            raise Unknown("a result has an unsupported form")
        if parsed.kind == "sink":
            return f"static_cast<void>({expression});"
        return f"tkjit_ptx::set({self.spelling.variable(parsed)}, {expression});"

    def set_all(self, operand: PtxOperand | int, array: str) -> str:
        """Return the statements that write an array's elements to a vector, or to a single operand."""
        parsed = self.operand(operand) if isinstance(operand, int) else operand
        parts = parsed.parts if isinstance(parsed, Vector) else (parsed,)
        return " ".join(self.set(part, f"{array}[{i}]") for i, part in enumerate(parts))

    def address(self, operand: PtxOperand | int, space: str = "generic") -> str:
        """Return an operand in square brackets as a pointer."""
        parsed = self.operand(operand) if isinstance(operand, int) else operand
        if not isinstance(parsed, Address):
            raise Unknown("an address has an unsupported form")
        function = "shared" if space.startswith("shared") else "global"
        base = self.spelling.variable(parsed.base) if parsed.base.kind != "number" else parsed.base.text
        return f"tkjit_ptx::{function}({base}, {parsed.offset})"

    def coordinates(self, operand: int) -> str:
        parsed = self.operand(operand)
        if not isinstance(parsed, Address) or not parsed.coordinates:
            raise Unknown("a tensor's coordinates are missing")
        return "{" + ", ".join(self.value(part, "s32") for part in parsed.coordinates) + "}"

    def space(self) -> str:
        return self.one_of(_SPACES, "generic")

    @property
    def count(self) -> int:
        return len(self.operands)


def _as(kind: str, text: str) -> str:
    return f"tkjit_ptx::as<{TYPES[kind]}>({text})"


def number(text: str) -> str:
    """Spell a PTX number in C++."""
    if match := re.fullmatch(r"(-?)0[fF]([0-9a-fA-F]{8})", text):
        return f"{match[1]}__builtin_bit_cast(float, 0x{match[2]}u)"
    if match := re.fullmatch(r"(-?)0[dD]([0-9a-fA-F]{16})", text):
        return f"{match[1]}__builtin_bit_cast(double, 0x{match[2]}ull)"
    return text if "." in text else f"{text.rstrip('U')}ll"
