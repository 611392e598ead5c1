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
def _unary(one: Call) -> str:
    kind = one.type()
    one.ends()
    return one.set(0, f"tkjit_ptx::{_UNARY[one.opcode]}({one.value(1, kind)})")


@instruction(*_APPROXIMATE)
def _approximate(one: Call) -> str:
    kind = one.type()
    one.has("rn")
    one.ends()
    return one.set(0, f"tkjit_ptx::{_APPROXIMATE[one.opcode]}({one.value(1, kind)})")


@instruction(*_BINARY)
def _binary(one: Call) -> str:
    kind = one.type()
    one.has("rn")
    function = f"{_BINARY[one.opcode]}_nan" if one.opcode in ("min", "max") and one.has("NaN") else _BINARY[one.opcode]
    one.ends()
    return one.set(0, f"tkjit_ptx::{function}({one.value(1, kind)}, {one.value(2, kind)})")


@instruction("div")
def _div(one: Call) -> str:
    kind = one.type()
    one.has("rn", "full")
    one.ends()
    return one.set(0, f"tkjit_ptx::div({one.value(1, kind)}, {one.value(2, kind)})")


@instruction("mul")
def _mul(one: Call) -> str:
    kind = one.type()
    part = one.one_of(("lo", "hi", "wide"), "lo")
    one.has("rn")
    one.ends()
    return one.set(0, f"tkjit_ptx::mul_{part}({one.value(1, kind)}, {one.value(2, kind)})")


@instruction("mad", "fma")
def _mad(one: Call) -> str:
    kind = one.type()
    part = one.one_of(("lo", "hi", "wide"), "lo")
    has_relu = one.has("relu")
    one.has("rn")
    one.ends()
    a, b = one.value(1, kind), one.value(2, kind)
    if kind.startswith(("f", "bf")):
        return one.set(0, f"tkjit_ptx::fma{'_relu' if has_relu else ''}({a}, {b}, {one.value(3, kind)})")
    wide = f"{kind[0]}{2 * int(kind[1:])}" if part == "wide" else kind
    return one.set(0, f"tkjit_ptx::add(tkjit_ptx::mul_{part}({a}, {b}), {one.value(3, wide)})")


@instruction("shl", "shr")
def _shift(one: Call) -> str:
    kind = one.type()
    one.ends()
    return one.set(0, f"tkjit_ptx::{one.opcode}({one.value(1, kind)}, {one.value(2, 'u32')})")


@instruction("shf")
def _shf(one: Call) -> str:
    direction = one.one_of(("l", "r"))
    mode = one.one_of(("wrap", "clamp"))
    one.type()
    one.ends()
    values = ", ".join(one.value(i, "u32") for i in (1, 2, 3))
    return one.set(0, f"tkjit_ptx::shf_{direction}<{'true' if mode == 'wrap' else 'false'}>({values})")


@instruction("bfe", "bfi", "lop3", "prmt")
def _bits(one: Call) -> str:
    kind = one.type()
    one.ends()
    first = 2 if one.opcode == "bfi" else 1 if one.opcode == "bfe" else 3
    values = [one.value(i, kind if i <= first else "u32") for i in range(1, one.count)]
    return one.set(0, f"tkjit_ptx::{one.opcode}({', '.join(values)})")


@instruction("selp")
def _selp(one: Call) -> str:
    kind = one.type()
    one.ends()
    return one.set(0, f"({one.value(3, 'pred')} ? {one.value(1, kind)} : {one.value(2, kind)})")


@instruction("setp")
def _setp(one: Call) -> str:
    kind = one.type()
    comparison = one.one_of(COMPARISONS)
    combine = one.one_of(("and", "or", "xor"), "none")
    one.ends()
    kind = kind.replace("b", "u") if kind in ("b16", "b32", "b64") else kind
    if comparison in ("lo", "ls", "hi", "hs"):
        kind = f"u{kind[1:]}"
    result = f"({one.value(1, kind)} {COMPARISONS[comparison]} {one.value(2, kind)})"
    target = one.operand(0)
    first, second = (target.first, target.second) if isinstance(target, Pair) else (target, None)
    sign = {"and": "&&", "or": "||", "xor": "!="}.get(combine)
    right = f" {sign} {one.value(3, 'pred')}" if sign else ""
    text = one.set(first, f"({result}{right})")
    return f"{text} {one.set(second, f'(!{result}{right})')}" if second else text


_ROUNDINGS = {"rn", "rz", "rm", "rp", "rni", "rzi", "rmi", "rpi", "rna"}


@instruction("cvt")
def _cvt(one: Call) -> str:
    source = one.type()
    target = one.type()
    rounding = one.one_of(_ROUNDINGS, "none")
    has_relu, saturates = one.has("relu"), one.has("sat", "satfinite")
    one.ends()
    if has_relu:
        raise Unknown("unsupported modifier .relu")
    name = f"cvt<{TYPES[target]}, tkjit_ptx::Rounding::{rounding}, {'true' if saturates else 'false'}>"
    values = [one.value(i, source) for i in range(1, one.count)]
    return one.set(0, f"tkjit_ptx::{name}({', '.join(values)})")
