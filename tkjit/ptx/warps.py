"""Instructions of a whole warp: shuffles, votes, matrices."""

from __future__ import annotations

import re

from tkjit.ptx.call import TYPES, Call, Unknown, instruction
from tkjit.ptx.grammar import Pair


@instruction("activemask")
def _activemask(one: Call) -> str:
    return one.set(0, "::__activemask()")


@instruction("elect")
def _elect(one: Call) -> str:
    one.ends()
    target = one.operand(0)
    if not isinstance(target, Pair):
        raise Unknown
    leader = f"tkjit_ptx::elect({one.value(1, 'u32')})"
    return f"{{ const unsigned tkjit_leader = {leader}; {one.set(target.first, 'tkjit_leader')} " + (
        f"{one.set(target.second, '(tkjit_ptx::laneid() == tkjit_leader)')} }}"
    )


@instruction("shfl.sync")
def _shfl(one: Call) -> str:
    mode = one.one_of(("idx", "up", "down", "bfly"))
    one.type()
    one.ends()
    target = one.operand(0)
    first, second = (target.first, target.second) if isinstance(target, Pair) else (target, None)
    values = ", ".join(one.value(i, "u32") for i in range(1, one.count))
    call = f"const auto tkjit_moved = tkjit_ptx::shfl_{mode}({values});"
    also = one.set(second, "tkjit_moved.is_within") if second else ""
    return f"{{ {call} {one.set(first, 'tkjit_moved.value')} {also} }}"


@instruction("vote.sync")
def _vote(one: Call) -> str:
    mode = one.one_of(("all", "any", "uni", "ballot"))
    one.type()
    one.ends()
    function = {"all": "::__all_sync", "any": "::__any_sync", "ballot": "::__ballot_sync"}.get(mode)
    if function is None:
        raise Unknown
    return one.set(0, f"{function}({one.value(2, 'u32')}, {one.value(1, 'pred')})")


@instruction("redux.sync")
def _redux(one: Call) -> str:
    kind = one.type()
    operation = one.one_of(("add", "min", "max", "and", "or", "xor"))
    one.ends()
    kind = kind.replace("b", "u")
    return one.set(0, f"::__reduce_{operation}_sync({one.value(2, 'u32')}, {one.value(1, kind)})")


def _matrices(one: Call) -> tuple[int, str]:
    one.has("m8n8")
    count = int(one.one_of(("x1", "x2", "x4"))[1:])
    is_transposed = "true" if one.has("trans") else "false"
    one.one_of(("shared", "shared::cta"), "generic")
    one.one_of(("b16",))
    one.ends()
    return count, is_transposed


@instruction("ldmatrix")
def _ldmatrix(one: Call) -> str:
    space = "shared" if {"shared", "shared::cta"} & set(one.modifiers) else "generic"
    count, is_transposed = _matrices(one)
    read = f"tkjit_ptx::ldmatrix<{count}, {is_transposed}>(tkjit_parts, {one.address(1, space)});"
    return f"{{ uint32_t tkjit_parts[{count}]; {read} {one.set_all(0, 'tkjit_parts')} }}"


@instruction("stmatrix")
def _stmatrix(one: Call) -> str:
    space = "shared" if {"shared", "shared::cta"} & set(one.modifiers) else "generic"
    count, is_transposed = _matrices(one)
    values = ", ".join(one.values(1, "b32"))
    return f"tkjit_ptx::stmatrix<{count}, {is_transposed}>({one.address(0, space)}, {{{values}}});"


@instruction("movmatrix")
def _movmatrix(one: Call) -> str:
    one.has("m8n8", "trans", "b16")
    one.ends()
    return one.set(0, f"tkjit_ptx::movmatrix_trans({one.value(1, 'b32')})")


@instruction("mma.sync")
def _mma(one: Call) -> str:
    shape = next((word for word in one.modifiers if re.fullmatch(r"m\d+n\d+k\d+", word)), "")
    one.has(shape, "row", "col")
    saturates = one.has("satfinite")
    types = [word for word in one.modifiers if word in TYPES]
    one.has(*types)
    one.ends()
    if not shape or len(types) != 4 or types[0] != types[3]:
        raise Unknown
    m, n, k = map(int, re.findall(r"\d+", shape))
    result = "float" if types[0] == "f32" else "int32_t" if types[0] == "s32" else "uint32_t"
    kind = {"float": "f32", "int32_t": "s32"}.get(result, "b32")
    a, b, c = one.values(1, "b32"), one.values(2, "b32"), one.values(3, kind)
    declared = (
        f"const uint32_t tkjit_a[] = {{{', '.join(a)}}}, tkjit_b[] = {{{', '.join(b)}}}; "
        f"const {result} tkjit_c[] = {{{', '.join(c)}}}; {result} tkjit_d[{len(c)}];"
    )
    of = f"{m}, {n}, {k}, {TYPES[types[1]]}, {TYPES[types[2]]}, {'true' if saturates else 'false'}"
    multiplied = f"tkjit_ptx::mma<{of}>(tkjit_d, tkjit_a, tkjit_b, tkjit_c);"
    return f"{{ {declared} {multiplied} {one.set_all(0, 'tkjit_d')} }}"
