"""Instructions of a whole warp: shuffles, votes, matrices."""

from __future__ import annotations

import re

from tkjit.ptx.call import TYPES, Call, Unknown, instruction
from tkjit.ptx.grammar import Pair


@instruction("activemask")
def _activemask(call: Call) -> str:
    return call.set(0, "::__activemask()")


@instruction("elect")
def _elect(call: Call) -> str:
    call.ends()
    target = call.operand(0)
    if not isinstance(target, Pair):
        raise Unknown
    leader = f"tkjit_ptx::elect({call.value(1, 'u32')})"
    return f"{{ const unsigned tkjit_leader = {leader}; {call.set(target.first, 'tkjit_leader')} " + (
        f"{call.set(target.second, '(tkjit_ptx::laneid() == tkjit_leader)')} }}"
    )


@instruction("shfl.sync")
def _shfl(call: Call) -> str:
    mode = call.one_of(("idx", "up", "down", "bfly"))
    call.type()
    call.ends()
    target = call.operand(0)
    first, second = (target.first, target.second) if isinstance(target, Pair) else (target, None)
    values = ", ".join(call.value(i, "u32") for i in range(1, call.count))
    moved = f"const auto tkjit_moved = tkjit_ptx::shfl_{mode}({values});"
    also = call.set(second, "tkjit_moved.is_within") if second else ""
    return f"{{ {moved} {call.set(first, 'tkjit_moved.value')} {also} }}"


@instruction("vote.sync")
def _vote(call: Call) -> str:
    mode = call.one_of(("all", "any", "uni", "ballot"))
    call.type()
    call.ends()
    function = {"all": "::__all_sync", "any": "::__any_sync", "ballot": "::__ballot_sync"}.get(mode)
    if function is None:
        raise Unknown
    return call.set(0, f"{function}({call.value(2, 'u32')}, {call.value(1, 'pred')})")


@instruction("redux.sync")
def _redux(call: Call) -> str:
    kind = call.type()
    operation = call.one_of(("add", "min", "max", "and", "or", "xor"))
    call.ends()
    kind = kind.replace("b", "u")
    return call.set(0, f"::__reduce_{operation}_sync({call.value(2, 'u32')}, {call.value(1, kind)})")


def _matrices(call: Call) -> tuple[int, str]:
    call.has("m8n8")
    count = int(call.one_of(("x1", "x2", "x4"))[1:])
    is_transposed = "true" if call.has("trans") else "false"
    call.one_of(("shared", "shared::cta"), "generic")
    call.one_of(("b16",))
    call.ends()
    return count, is_transposed


@instruction("ldmatrix")
def _ldmatrix(call: Call) -> str:
    space = "shared" if {"shared", "shared::cta"} & set(call.modifiers) else "generic"
    count, is_transposed = _matrices(call)
    read = f"tkjit_ptx::ldmatrix<{count}, {is_transposed}>(tkjit_parts, {call.address(1, space)});"
    return f"{{ uint32_t tkjit_parts[{count}]; {read} {call.set_all(0, 'tkjit_parts')} }}"


@instruction("stmatrix")
def _stmatrix(call: Call) -> str:
    space = "shared" if {"shared", "shared::cta"} & set(call.modifiers) else "generic"
    count, is_transposed = _matrices(call)
    values = ", ".join(call.values(1, "b32"))
    return f"tkjit_ptx::stmatrix<{count}, {is_transposed}>({call.address(0, space)}, {{{values}}});"


@instruction("movmatrix")
def _movmatrix(call: Call) -> str:
    call.has("m8n8", "trans", "b16")
    call.ends()
    return call.set(0, f"tkjit_ptx::movmatrix_trans({call.value(1, 'b32')})")


_MMA_ELEMENTS = {"f16", "bf16", "tf32", "s8", "u8", "e4m3", "e5m2"}


@instruction("mma.sync")
def _mma(call: Call) -> str:
    shape = next((word for word in call.modifiers if re.fullmatch(r"m\d+n\d+k\d+", word)), "")
    call.has(shape, "row", "col")
    saturates = call.has("satfinite")
    types = [word for word in call.modifiers if word in TYPES]
    call.has(*types)
    call.ends()
    if not shape or len(types) != 4 or types[0] != types[3] or not {types[1], types[2]} <= _MMA_ELEMENTS:
        raise Unknown
    m, n, k = map(int, re.findall(r"\d+", shape))
    result = "float" if types[0] == "f32" else "int32_t" if types[0] == "s32" else "uint32_t"
    kind = {"float": "f32", "int32_t": "s32"}.get(result, "b32")
    a, b, c = call.values(1, "b32"), call.values(2, "b32"), call.values(3, kind)
    declared = (
        f"const uint32_t tkjit_a[] = {{{', '.join(a)}}}, tkjit_b[] = {{{', '.join(b)}}}; "
        f"const {result} tkjit_c[] = {{{', '.join(c)}}}; {result} tkjit_d[{len(c)}];"
    )
    of = f"{m}, {n}, {k}, {TYPES[types[1]]}, {TYPES[types[2]]}, {'true' if saturates else 'false'}"
    multiplied = f"tkjit_ptx::mma<{of}>(tkjit_d, tkjit_a, tkjit_b, tkjit_c);"
    return f"{{ {declared} {multiplied} {call.set_all(0, 'tkjit_d')} }}"
