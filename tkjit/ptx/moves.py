"""Data movement: ``mov``, ``ld``, ``st``, ``red``, ``atom`` and ``cvta``."""

from __future__ import annotations

from tkjit.ptx.call import TYPES, Call, Unknown, instruction
from tkjit.ptx.grammar import Vector


@instruction("mov")
def _mov(one: Call) -> str:
    kind = one.type()
    one.ends()
    target, source = one.operand(0), one.operand(1)
    if isinstance(target, Vector):  # unpack
        part = _part_of(kind, len(target.parts))
        unpacked = f"tkjit_ptx::unpack(tkjit_parts, {one.value(source, kind)});"
        return f"{{ {TYPES[part]} tkjit_parts[{len(target.parts)}]; {unpacked} {one.set_all(0, 'tkjit_parts')} }}"
    if isinstance(source, Vector):
        part = _part_of(kind, len(source.parts))
        return one.set(0, f"tkjit_ptx::pack<{TYPES[kind]}, {TYPES[part]}>({{{', '.join(one.values(1, part))}}})")
    return one.set(0, one.value(1, kind))


def _part_of(kind: str, parts: int) -> str:
    bits = int(kind[1:]) // parts
    if f"b{bits}" not in TYPES:
        raise Unknown
    return f"b{bits}"


@instruction("cvta")
def _cvta(one: Call) -> str:
    kind = one.type()
    goes_to = one.has("to")
    space = one.space()
    one.ends()
    if not space.startswith("shared"):
        return one.set(0, one.value(1, kind))
    function = "to_shared" if goes_to else "from_shared"
    return one.set(0, f"tkjit_ptx::{function}({one.value(1, kind)})")


@instruction("ld", "ldu")
def _ld(one: Call) -> str:
    kind, space = one.type(), one.space()
    waits = "for_devices" if one.has("sys") else "for_blocks"
    waits = waits if one.has("volatile", "relaxed", "acquire", "mmio") else "none"
    count = int(one.one_of(("v2", "v4", "v8"), "v1")[1:])
    one.ends()
    cpp = TYPES[kind]
    read = f"tkjit_ptx::ld<{cpp}, {count}, tkjit_ptx::Waits::{waits}>(tkjit_parts, {one.address(1, space)});"
    return f"{{ {cpp} tkjit_parts[{count}]; {read} {one.set_all(0, 'tkjit_parts')} }}"


@instruction("st")
def _st(one: Call) -> str:
    kind, space = one.type(), one.space()
    is_ordered = one.has("volatile", "relaxed", "release", "mmio")
    count = int(one.one_of(("v2", "v4", "v8"), "v1")[1:])
    one.ends()
    values = ", ".join(one.values(1, kind))
    order = "true" if is_ordered else "false"
    return f"tkjit_ptx::st<{TYPES[kind]}, {count}, {order}>({one.address(0, space)}, {{{values}}});"


_OPERATIONS = {"add", "min", "max", "and", "or", "xor", "inc", "dec", "exch"}


@instruction("red")
def _red(one: Call) -> str:
    kind, space = one.type(), one.space()
    one.has("relaxed", "release", "noftz")
    operation = one.one_of(_OPERATIONS)
    count = int(one.one_of(("v2", "v4", "v8"), "v1")[1:])
    one.ends()
    address = one.address(0, space)
    values = ", ".join(one.values(1, kind))
    return f"tkjit_ptx::red<{TYPES[kind]}, {count}>(tkjit_ptx::{operation}_operation{{}}, {address}, {{{values}}});"


@instruction("atom")
def _atom(one: Call) -> str:
    kind, space = one.type(), one.space()
    one.has("relaxed", "acquire", "release", "acq_rel", "noftz")
    operation = one.one_of({*_OPERATIONS, "cas"})
    one.ends()
    values = ", ".join(one.value(i, kind) for i in range(2, one.count))
    address = one.address(1, space)
    if operation == "cas":
        return one.set(0, f"tkjit_ptx::atom_cas<{TYPES[kind]}>({address}, {values})")
    return one.set(0, f"tkjit_ptx::atom<{TYPES[kind]}>(tkjit_ptx::{operation}_operation{{}}, {address}, {values})")


@instruction("prefetch", "prefetchu", "applypriority", "discard")
def _nothing(one: Call) -> str:
    return "static_cast<void>(0);"
