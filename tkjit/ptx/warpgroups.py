"""``wgmma``: matrix products of a warpgroup."""

from __future__ import annotations

import re

from tkjit.ptx.call import TYPES, Call, Unknown, instruction
from tkjit.ptx.grammar import Vector

# Maps the input type to the extent of K in one instruction. Source: PTX ISA, "wgmma.mma_async"
_K = {"f16": 16, "bf16": 16, "tf32": 8, "e4m3": 32, "e5m2": 32, "s8": 32, "u8": 32}


@instruction("wgmma.mma_async")
def _wgmma(call: Call) -> str:
    shape = next((word for word in call.modifiers if re.fullmatch(r"m64n\d+k\d+", word)), "")
    types = [word for word in call.modifiers if word in TYPES]
    call.has(shape, *types, "satfinite")
    is_sparse = call.has("sp")
    call.ends()
    if not shape or len(types) != 3 or types[1] not in _K:
        raise Unknown
    _, n, k = map(int, re.findall(r"\d+", shape))
    if k != _K[types[1]] * (2 if is_sparse else 1):
        raise Unknown
    first = 5 if is_sparse else 3  # the index of the predicate of D; the metadata and its selector come before it
    # The operands after the scale of D are the signs of A and B (not for integers), and whether A and B are transposed
    # (only for 16 bits).
    if call.count > first + (5 if _K[types[1]] == 16 else 1 if types[0] == "s32" else 3):
        raise Unknown
    target, a = call.operand(0), call.operand(1)
    if not isinstance(target, Vector):
        raise Unknown
    register = {"f32": "float", "s32": "int32_t", "f16": "uint32_t"}[types[0]]
    kind = {"f32": "f32", "s32": "s32", "f16": "b32"}[types[0]]
    sums = ", ".join(call.values(target, kind))
    more = [call.value(i, "s32") for i in range(first + 1, call.count)]
    sparsity = (
        f"tkjit_ptx::Sparse{{{call.value(3, 'b32')}, {call.value(4, 'u32')}}}" if is_sparse else "tkjit_ptx::Dense{}"
    )
    a_text = f"{{{', '.join(call.values(1, 'b32'))}}}" if isinstance(a, Vector) else call.value(1, "b64")
    at = "_registers" if isinstance(a, Vector) else ""
    product = f"tkjit_ptx::wgmma{at}<{n}, {_ELEMENTS[types[1]]}, {_ELEMENTS[types[2]]}>"
    arguments = ", ".join([a_text, call.value(2, "b64"), sparsity, call.value(first, "pred"), *more])
    declared = f"{register} tkjit_d[{len(target.parts)}] = {{{sums}}};"
    return f"{{ {declared} {product}(tkjit_d, {arguments}); {call.set_all(0, 'tkjit_d')} }}"


@instruction("wgmma.fence")
def _fence(call: Call) -> str:
    call.ends()
    return "tkjit_ptx::wgmma_fence();"


@instruction("wgmma.commit_group")
def _commit(call: Call) -> str:
    call.ends()
    return "tkjit_ptx::wgmma_commit();"


@instruction("wgmma.wait_group")
def _wait(call: Call) -> str:
    call.ends()
    return f"tkjit_ptx::wgmma_wait({call.value(0, 'u32')});"


_ELEMENTS = {kind: f"::tkjit::sim::Element::{kind}" for kind in _K}
