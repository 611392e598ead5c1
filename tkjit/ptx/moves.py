"""Data movement: ``mov``, ``ld``, ``st``, ``red``, ``atom`` and ``cvta``."""

from __future__ import annotations

from tkjit.ptx.call import TYPES, Call, Unknown, instruction
from tkjit.ptx.grammar import Vector


@instruction("mov")
def _mov(call: Call) -> str:
    kind = call.type()
    call.ends()
    target, source = call.operand(0), call.operand(1)
    if isinstance(target, Vector):  # unpack
        part = _part_of(kind, len(target.parts))
        unpacked = f"tkjit_ptx::unpack(tkjit_parts, {call.value(source, kind)});"
        return f"{{ {TYPES[part]} tkjit_parts[{len(target.parts)}]; {unpacked} {call.set_all(0, 'tkjit_parts')} }}"
    if isinstance(source, Vector):
        part = _part_of(kind, len(source.parts))
        return call.set(0, f"tkjit_ptx::pack<{TYPES[kind]}, {TYPES[part]}>({{{', '.join(call.values(1, part))}}})")
    return call.set(0, call.value(1, kind))


def _part_of(kind: str, parts: int) -> str:
    bits = int(kind[1:]) // parts
    if f"b{bits}" not in TYPES:
        raise Unknown
    return f"b{bits}"


@instruction("cvta")
def _cvta(call: Call) -> str:
    kind = call.type()
    goes_to = call.has("to")
    space = call.space()
    call.ends()
    if not space.startswith("shared"):
        return call.set(0, call.value(1, kind))
    function = "to_shared" if goes_to else "from_shared"
    return call.set(0, f"tkjit_ptx::{function}({call.value(1, kind)})")


@instruction("mapa", "getctarank")
def _of_cluster(call: Call) -> str:
    kind = call.type()
    is_shared = call.has("shared::cluster")
    call.ends()
    function, kind = (call.opcode, "u32") if is_shared else (f"{call.opcode}_generic", "u64")
    ranks = [call.value(2, "u32")] if call.opcode == "mapa" else []
    return call.set(0, f"tkjit_ptx::{function}({', '.join([call.value(1, kind), *ranks])})")


@instruction("st.async")
def _st_async(call: Call) -> str:
    kind = call.type()
    call.has("shared::cluster", "mbarrier::complete_tx::bytes", "weak")
    count = int(call.one_of(("v2", "v4"), "v1")[1:])
    call.ends()
    values = ", ".join(call.values(1, kind))
    to, barrier = call.address(0, "shared"), call.address(2, "shared")
    return f"tkjit_ptx::st_async<{TYPES[kind]}, {count}>({to}, {{{values}}}, {barrier});"


@instruction("ld", "ldu")
def _ld(call: Call) -> str:
    kind, space = call.type(), call.space()
    waits = "for_devices" if call.has("sys") else "for_blocks"
    waits = waits if call.has("volatile", "relaxed", "acquire", "mmio") else "none"
    scope = _scope(call) if waits != "none" else ""
    count = int(call.one_of(("v2", "v4", "v8"), "v1")[1:])
    call.ends()
    cpp = TYPES[kind]
    read = f"tkjit_ptx::ld<{cpp}, {count}, tkjit_ptx::Waits::{waits}>(tkjit_parts, {call.address(1, space)});"
    return f"{{ {scope}{cpp} tkjit_parts[{count}]; {read} {call.set_all(0, 'tkjit_parts')} }}"


def _scope(call: Call) -> str:
    """Declare the scope of an access, if it is narrower than the device."""
    scope = call.scope()
    if scope == "device":
        return ""
    return f"[[maybe_unused]] const ::tkjit::sim::InScope tkjit_scope{{tkjit_ptx::Scope::{scope}}}; "


@instruction("st")
def _st(call: Call) -> str:
    kind, space = call.type(), call.space()
    order = "release" if call.has("release") else "relaxed" if call.has("volatile", "relaxed", "mmio") else "weak"
    scope = _scope(call) if order != "weak" else ""
    count = int(call.one_of(("v2", "v4", "v8"), "v1")[1:])
    call.ends()
    values = ", ".join(call.values(1, kind))
    write = f"tkjit_ptx::st<{TYPES[kind]}, {count}, tkjit_ptx::Order::{order}>({call.address(0, space)}, {{{values}}});"
    return f"{{ {scope}{write} }}" if scope else write


_OPERATIONS = {"add", "min", "max", "and", "or", "xor", "inc", "dec", "exch"}


def _ordered(expression: str, order: str) -> str:
    """Return an atomic operation with its order and scope, which only the race detector distinguishes."""
    return f"tkjit_ptx::ordered<{order}>([&] {{ return {expression}; }})" if order else expression


def _order(call: Call) -> str:
    """Take an instruction's order and scope: whether it acquires and releases, and for which threads it is atomic."""
    acquires, releases = call.has("acquire"), call.has("release")
    both = call.has("acq_rel")
    call.has("relaxed", "noftz")
    orders, scope = (acquires or both, releases or both), call.scope()
    if not any(orders) and scope == "device":
        return ""
    return ", ".join([*("true" if one else "false" for one in orders), f"tkjit_ptx::Scope::{scope}"])


@instruction("red")
def _red(call: Call) -> str:
    kind, space = call.type(), call.space()
    order = _order(call)
    operation = call.one_of(_OPERATIONS)
    count = int(call.one_of(("v2", "v4", "v8"), "v1")[1:])
    call.ends()
    address = call.address(0, space)
    values = ", ".join(call.values(1, kind))
    red = f"tkjit_ptx::red<{TYPES[kind]}, {count}>(tkjit_ptx::{operation}_operation{{}}, {address}, {{{values}}})"
    return f"{_ordered(red, order)};"


@instruction("atom")
def _atom(call: Call) -> str:
    kind, space = call.type(), call.space()
    order = _order(call)
    operation = call.one_of({*_OPERATIONS, "cas"})
    call.ends()
    values = ", ".join(call.value(i, kind) for i in range(2, call.count))
    address = call.address(1, space)
    if operation == "cas":
        atom = f"tkjit_ptx::atom_cas<{TYPES[kind]}>({address}, {values})"
    else:
        atom = f"tkjit_ptx::atom<{TYPES[kind]}>(tkjit_ptx::{operation}_operation{{}}, {address}, {values})"
    return call.set(0, _ordered(atom, order))


@instruction("prefetch", "prefetchu", "applypriority", "discard")
def _nothing(call: Call) -> str:
    return "static_cast<void>(0);"


@instruction("createpolicy")
def _createpolicy(call: Call) -> str:
    return call.set(0, "uint64_t{0}")  # for the cache, which the simulator does not have
