"""``tcgen05``: tensor memory, and the products of the fifth generation of tensor cores."""

from __future__ import annotations

from functools import partial

from tkjit.ptx.call import Call, Unknown, instruction
from tkjit.ptx.grammar import Address, Vector

_SIM = "::tkjit::sim::"


def _group(call: Call) -> str:
    number = call.one_of(("cta_group::1", "cta_group::2"))[-1]
    return f"{_SIM}CtaGroup::{'pair' if number == '2' else 'one'}"


def _address(call: Call, operand: int) -> str:
    """Return an operand in square brackets as an address in tensor memory."""
    parsed = call.operand(operand)
    if not isinstance(parsed, Address):
        raise Unknown("an address in tensor memory is missing")
    base = call.value(parsed.base, "u32")
    return f"{base} + {parsed.offset}u" if parsed.offset else base


@instruction("tcgen05.alloc")
def _alloc(call: Call) -> str:
    group, space = _group(call), call.space()
    call.has("b32")
    call.ends()
    # a 64-bit operand with the space shared::cta is a generic address, of which a device uses the low bits
    return f"tkjit_ptx::tcgen05_alloc({group}, {call.address(0, space)}, {call.value(1, 'u32')});"


@instruction("tcgen05.dealloc")
def _dealloc(call: Call) -> str:
    group = _group(call)
    call.has("b32")
    call.ends()
    return f"tkjit_ptx::tcgen05_dealloc({group}, {call.value(0, 'u32')}, {call.value(1, 'u32')});"


@instruction("tcgen05.relinquish_alloc_permit")
def _relinquish(call: Call) -> str:
    _group(call)
    call.ends()
    return "tkjit_ptx::tcgen05_relinquish_alloc_permit();"


_SHAPES = ("32x32b", "16x64b", "16x128b", "16x256b", "16x32bx2")
_MOST_REGISTERS = 128


def _access(call: Call) -> tuple[str, int]:
    """Return the template arguments of a load or a store, and the number of registers of each thread."""
    packs = call.has("pack::16b", "unpack::16b")
    shape = call.one_of(_SHAPES)
    steps = int(call.one_of(f"x{1 << i}" for i in range(8))[1:])
    call.has("b32")
    call.ends()
    registers = steps * {"16x128b": 2, "16x256b": 4}.get(shape, 1)
    if registers > _MOST_REGISTERS:
        raise Unknown
    return f"{_SIM}TensorShape::l{shape}, {'true' if packs else 'false'}", registers


@instruction("tcgen05.ld")
def _ld(call: Call) -> str:
    arguments, count = _access(call)
    target = call.operand(0)
    if count != (len(target.parts) if isinstance(target, Vector) else 1):
        raise Unknown(f"it needs {count} registers")
    split = f", {call.value(2, 'u32')}" if call.count > 2 else ""
    load = f"tkjit_ptx::tcgen05_ld<{arguments}>(tkjit_parts, {_address(call, 1)}{split});"
    return f"{{ uint32_t tkjit_parts[{count}]; {load} {call.set_all(0, 'tkjit_parts')} }}"


@instruction("tcgen05.st")
def _st(call: Call) -> str:
    arguments, count = _access(call)
    values = call.values(call.count - 1, "b32")
    if count != len(values):
        raise Unknown(f"it needs {count} registers")
    split = f", {call.value(1, 'u32')}" if call.count > 2 else ""
    store = f"tkjit_ptx::tcgen05_st<{arguments}>(tkjit_parts, {_address(call, 0)}{split});"
    return f"{{ const uint32_t tkjit_parts[] = {{{', '.join(values)}}}; {store} }}"


@instruction("tcgen05.wait::ld")
def _wait_ld(call: Call) -> str:
    call.ends()
    return f"{_SIM}wait_for_tensor_loads();"


@instruction("tcgen05.wait::st")
def _wait_st(call: Call) -> str:
    call.ends()
    return f"{_SIM}wait_for_tensor_stores();"


@instruction("tcgen05.fence::before_thread_sync")
def _fence_before(call: Call) -> str:
    return f"{_SIM}fence_tensor_memory(true);"


@instruction("tcgen05.fence::after_thread_sync")
def _fence_after(call: Call) -> str:
    return f"{_SIM}fence_tensor_memory(false);"


_COPIES = {
    ("128x256b", ""): "c128x256b",
    ("4x256b", ""): "c4x256b",
    ("128x128b", ""): "c128x128b",
    ("64x128b", "warpx2::02_13"): "c64x128b_02_13",
    ("64x128b", "warpx2::01_23"): "c64x128b_01_23",
    ("32x128b", "warpx4"): "c32x128b_x4",
}


@instruction("tcgen05.cp")
def _cp(call: Call) -> str:
    group = _group(call)
    words = (
        call.one_of(shape for shape, _ in _COPIES),
        call.one_of({copies for _, copies in _COPIES if copies}, "none").replace("none", ""),
    )
    call.ends()
    if words not in _COPIES:
        raise Unknown
    shape = f"{_SIM}TensorCopyShape::{_COPIES[words]}"
    return f"tkjit_ptx::tcgen05_cp({group}, {shape}, {_address(call, 0)}, {call.value(1, 'b64')});"


# Maps each kind with scales to the words for the number of elements that share one. The first is the default, except
# for mxf4nvf4, which has none.
_SCALES = {
    "mxf8f6f4": {"scale_vec::1X": 32, "block32": 32},
    "mxf4": {"scale_vec::2X": 32, "block32": 32},
    "mxf4nvf4": {"scale_vec::2X": 32, "block32": 32, "scale_vec::4X": 16, "block16": 16},
}
_KINDS = ("f16", "tf32", "f8f6f4", "i8", *_SCALES)


@instruction("tcgen05.mma")
def _mma(call: Call) -> str:
    group = _group(call)
    kind = call.one_of(f"kind::{kind}" for kind in _KINDS).removeprefix("kind::")
    is_scaled = call.has("block_scale")
    if is_scaled != (kind in _SCALES):
        raise Unknown
    words = _SCALES.get(kind, {})
    default = "" if kind == "mxf4nvf4" else next(iter(words), "")
    block = words[call.one_of(words, default)] if is_scaled else 0
    call.has(*(f"collector::a::{use}" for use in ("fill", "use", "lastuse", "discard")))  # hints
    call.ends()

    a = call.operand(1)
    fields = [
        f".kind = {_SIM}TensorKind::{kind}",
        f".group = {group}",
        f".scale_block = {block}u",
        f".d = {_address(call, 0)}",
    ]
    after = 4  # D, A, B and the instruction descriptor
    if is_scaled:
        fields += [f".scales_a = {_address(call, 4)}", f".scales_b = {_address(call, 5)}"]
        after = 6
    fields.append(f".a = {_address(call, 1) if isinstance(a, Address) else call.value(1, 'b64')}")
    fields.append(f".a_in_tensor_memory = {'true' if isinstance(a, Address) else 'false'}")
    fields += [f".b = {call.value(2, 'b64')}", f".instruction = {call.value(3, 'u32')}"]
    kept = None
    if call.count > after and isinstance(call.operand(after), Vector):
        kept = call.values(after, "u32")
        after += 1
        if len(kept) != (8 if group.endswith("pair") else 4):
            raise Unknown("a mask of lanes has 4 registers, or 8 for a pair of blocks")
    fields.append(f".accumulates = {call.value(after, 'pred')}")
    fields.append(f".shift_of_d = {call.value(after + 1, 'u32') if call.count > after + 1 else '0u'}")
    fields.append(f".disabled_lanes = {{{', '.join(kept or [])}}}")
    return f"tkjit_ptx::tcgen05_mma({_SIM}TensorProduct{{{', '.join(fields)}}});"


@instruction("tcgen05.commit")
def _commit(call: Call) -> str:
    _group(call)
    call.has("mbarrier::arrive::one", "shared::cluster", "b64")
    is_multicast = call.has("multicast::cluster")
    call.ends()
    # Without a state space, the address is generic; a device takes the low bits of either kind of address.
    barrier = call.address(0, "shared")
    if is_multicast:
        return f"tkjit_ptx::tcgen05_commit_to({barrier}, {call.value(1, 'u16')});"
    return f"tkjit_ptx::tcgen05_commit({barrier});"


@instruction("clusterlaunchcontrol.try_cancel.async")
def _try_cancel(call: Call) -> str:
    space = call.space()
    call.has("mbarrier::complete_tx::bytes", "b128")
    for_cluster = "true" if call.has("multicast::cluster::all") else "false"
    call.ends()
    return f"tkjit_ptx::try_cancel({call.address(0, space)}, {call.address(1, space)}, {for_cluster});"


@instruction("clusterlaunchcontrol.query_cancel.is_canceled")
def _is_canceled(call: Call) -> str:
    call.has("pred", "b128")
    call.ends()
    return call.set(0, f"tkjit_ptx::is_canceled({call.value(1, 'b128')})")


@instruction("clusterlaunchcontrol.query_cancel.get_first_ctaid")
def _first_block(call: Call) -> str:
    call.has("v4", "b32", "b128")
    call.ends()
    target = call.operand(0)
    if not isinstance(target, Vector):
        raise Unknown
    index = [f"tkjit_ptx::first_block_of({call.value(1, 'b128')}, {axis}u)" for axis in range(len(target.parts))]
    return " ".join(map(call.set, target.parts, index))


def _first_block_along(axis: int, call: Call) -> str:
    call.has("b32", "b128")
    call.ends()
    return call.set(0, f"tkjit_ptx::first_block_of({call.value(1, 'b128')}, {axis}u)")


for _axis, _name in enumerate("xyz"):
    instruction(f"clusterlaunchcontrol.query_cancel.get_first_ctaid::{_name}")(partial(_first_block_along, _axis))
