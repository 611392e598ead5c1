"""Arithmetic, logic, comparisons and conversions."""

from __future__ import annotations

from tkjit.ptx.call import COMPARISONS, TYPES, Call, Unknown, instruction
from tkjit.ptx.grammar import Pair

_UNARY = {"neg": "neg", "abs": "abs", "not": "not_", "popc": "popc", "clz": "clz", "brev": "brev", "cnot": "cnot"}
_BINARY = {
    "add": "add",
    "sub": "sub",
    "and": "and_",
    "or": "or_",
    "xor": "xor_",
    "min": "min",
    "max": "max",
    "rem": "rem",
}
_APPROXIMATE = {
    "ex2": "exp2",
    "lg2": "log2",
    "rcp": "rcp",
    "sqrt": "sqrt",
    "rsqrt": "rsqrt",
    "sin": "sin",
    "cos": "cos",
    "tanh": "tanh",
}


@instruction(*_UNARY)
def _unary(call: Call) -> str:
    kind = call.type()
    call.ends()
    return call.set(0, f"tkjit_ptx::{_UNARY[call.opcode]}({call.value(1, kind)})")


@instruction(*_APPROXIMATE)
def _approximate(call: Call) -> str:
    kind = call.type()
    call.has("rn")
    call.ends()
    return call.set(0, f"tkjit_ptx::{_APPROXIMATE[call.opcode]}({call.value(1, kind)})")


@instruction(*_BINARY)
def _binary(call: Call) -> str:
    kind = call.type()
    call.has("rn")
    function = (
        f"{_BINARY[call.opcode]}_nan" if call.opcode in ("min", "max") and call.has("NaN") else _BINARY[call.opcode]
    )
    call.ends()
    return call.set(0, f"tkjit_ptx::{function}({call.value(1, kind)}, {call.value(2, kind)})")


@instruction("div")
def _div(call: Call) -> str:
    kind = call.type()
    call.has("rn", "full")
    call.ends()
    return call.set(0, f"tkjit_ptx::div({call.value(1, kind)}, {call.value(2, kind)})")


@instruction("mul")
def _mul(call: Call) -> str:
    kind = call.type()
    part = call.one_of(("lo", "hi", "wide"), "lo")
    call.has("rn")
    call.ends()
    return call.set(0, f"tkjit_ptx::mul_{part}({call.value(1, kind)}, {call.value(2, kind)})")


@instruction("mad", "fma")
def _mad(call: Call) -> str:
    kind = call.type()
    part = call.one_of(("lo", "hi", "wide"), "lo")
    has_relu = call.has("relu")
    call.has("rn")
    call.ends()
    a, b = call.value(1, kind), call.value(2, kind)
    if kind.startswith(("f", "bf")):
        return call.set(0, f"tkjit_ptx::fma{'_relu' if has_relu else ''}({a}, {b}, {call.value(3, kind)})")
    wide = f"{kind[0]}{2 * int(kind[1:])}" if part == "wide" else kind
    return call.set(0, f"tkjit_ptx::add(tkjit_ptx::mul_{part}({a}, {b}), {call.value(3, wide)})")


@instruction("shl", "shr")
def _shift(call: Call) -> str:
    kind = call.type()
    call.ends()
    return call.set(0, f"tkjit_ptx::{call.opcode}({call.value(1, kind)}, {call.value(2, 'u32')})")


@instruction("shf")
def _shf(call: Call) -> str:
    direction = call.one_of(("l", "r"))
    mode = call.one_of(("wrap", "clamp"))
    call.type()
    call.ends()
    values = ", ".join(call.value(i, "u32") for i in (1, 2, 3))
    return call.set(0, f"tkjit_ptx::shf_{direction}<{'true' if mode == 'wrap' else 'false'}>({values})")


@instruction("bfe", "bfi", "lop3", "prmt")
def _bits(call: Call) -> str:
    kind = call.type()
    call.ends()
    first = 2 if call.opcode == "bfi" else 1 if call.opcode == "bfe" else 3
    values = [call.value(i, kind if i <= first else "u32") for i in range(1, call.count)]
    return call.set(0, f"tkjit_ptx::{call.opcode}({', '.join(values)})")


@instruction("selp")
def _selp(call: Call) -> str:
    kind = call.type()
    call.ends()
    return call.set(0, f"({call.value(3, 'pred')} ? {call.value(1, kind)} : {call.value(2, kind)})")


@instruction("setp")
def _setp(call: Call) -> str:
    kind = call.type()
    comparison = call.one_of(COMPARISONS)
    combine = call.one_of(("and", "or", "xor"), "none")
    call.ends()
    kind = kind.replace("b", "u") if kind in ("b16", "b32", "b64") else kind
    if comparison in ("lo", "ls", "hi", "hs"):
        kind = f"u{kind[1:]}"
    result = f"({call.value(1, kind)} {COMPARISONS[comparison]} {call.value(2, kind)})"
    target = call.operand(0)
    first, second = (target.first, target.second) if isinstance(target, Pair) else (target, None)
    sign = {"and": "&&", "or": "||", "xor": "!="}.get(combine)
    right = f" {sign} {call.value(3, 'pred')}" if sign else ""
    text = call.set(first, f"({result}{right})")
    return f"{text} {call.set(second, f'(!{result}{right})')}" if second else text


_ROUNDINGS = {"rn", "rz", "rm", "rp", "rni", "rzi", "rmi", "rpi", "rna"}


@instruction("cvt")
def _cvt(call: Call) -> str:
    source = call.type()
    target = call.type()
    rounding = call.one_of(_ROUNDINGS, "none")
    has_relu, saturates = call.has("relu"), call.has("sat", "satfinite")
    call.ends()
    if has_relu:
        raise Unknown("unsupported modifier .relu")
    name = f"cvt<{TYPES[target]}, tkjit_ptx::Rounding::{rounding}, {'true' if saturates else 'false'}>"
    values = [call.value(i, source) for i in range(1, call.count)]
    return call.set(0, f"tkjit_ptx::{name}({', '.join(values)})")
