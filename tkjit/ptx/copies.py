"""Asynchronous copies, tensor maps and multicast memory."""

from __future__ import annotations

from tkjit.ptx.call import TYPES, Call, Unknown, instruction


@instruction("cp.async.ca", "cp.async.cg")
def _cp_async(call: Call) -> str:
    space = call.space()
    has_policy = call.has("L2::cache_hint")
    call.has("global")
    call.ends()
    bytes_read = call.value(3, "u32") if call.count - has_policy > 3 else call.value(2, "u32")
    to, of = call.address(0, space), call.address(1, "global")
    return f"tkjit_ptx::cp_async({to}, {of}, {call.value(2, 'u32')}, {bytes_read});"


@instruction("cp.async.commit_group")
def _cp_async_commit(call: Call) -> str:
    return "::tkjit::sim::commit_copies();"


@instruction("cp.async.wait_group")
def _cp_async_wait(call: Call) -> str:
    return f"::tkjit::sim::wait_for_copies({call.value(0, 'u32')});"


@instruction("cp.async.wait_all")
def _cp_async_wait_all(call: Call) -> str:
    return "tkjit_ptx::cp_async_wait_all();"


@instruction("cp.async.mbarrier.arrive")
def _cp_async_arrive(call: Call) -> str:
    has_no_increase = call.has("noinc")
    space = call.space()
    call.has("b64")
    call.ends()
    return f"tkjit_ptx::cp_async_mbarrier_arrive<{'true' if has_no_increase else 'false'}>({call.address(0, space)});"


@instruction("cp.async.bulk.commit_group")
def _bulk_commit(call: Call) -> str:
    return "::tkjit::sim::commit_bulk_stores();"


@instruction("cp.async.bulk.wait_group")
def _bulk_wait(call: Call) -> str:
    only_reads = ", true" if call.has("read") else ""
    return f"::tkjit::sim::wait_for_bulk_stores({call.value(0, 'u32')}{only_reads});"


_COMPLETES = "mbarrier::complete_tx::bytes"


@instruction("cp.async.bulk")
def _bulk(call: Call) -> str:
    words = call.modifiers[:2]
    call.has(*words)
    loads = call.has(_COMPLETES)
    is_multicast = call.has("multicast::cluster")
    call.has("bulk_group")
    call.ends()
    if words == ["shared::cluster", "shared::cta"] and loads:  # to another block of the cluster
        to, of = call.address(0, "shared"), call.address(1, "shared")
        return f"tkjit_ptx::bulk_load({to}, {of}, {call.value(2, 'u32')}, {call.address(3, 'shared')});"
    if words in (["shared::cluster", "global"], ["shared::cta", "global"]) and loads:
        to, of = call.address(0, "shared"), call.address(1, "global")
        if is_multicast:
            size, barrier = call.value(2, "u32"), call.address(3, "shared")
            return f"tkjit_ptx::bulk_load_to_blocks({to}, {of}, {size}, {barrier}, {call.value(4, 'u16')});"
        return f"tkjit_ptx::bulk_load({to}, {of}, {call.value(2, 'u32')}, {call.address(3, 'shared')});"
    if words == ["global", "shared::cta"]:
        return (
            f"tkjit_ptx::bulk_store({call.address(0, 'global')}, {call.address(1, 'shared')}, {call.value(2, 'u32')});"
        )
    raise Unknown


# Source: PTX ISA, "cp.reduce.async.bulk"
_ORDERED_TYPES = ("f16", "bf16", "u32", "s32", "u64", "s64")
_REDUCED_TYPES = {
    "add": ("f16", "bf16", "f32", "f64", "u32", "s32", "u64"),
    "min": _ORDERED_TYPES,
    "max": _ORDERED_TYPES,
    "and": ("b32", "b64"),
    "or": ("b32", "b64"),
    "xor": ("b32", "b64"),
}


@instruction("cp.reduce.async.bulk")
def _bulk_reduce(call: Call) -> str:
    kind = call.type()
    call.has("bulk_group", "noftz")
    if not (call.has("global") and call.has("shared::cta")):
        raise Unknown
    operation = call.one_of(_REDUCED_TYPES)
    call.ends()
    if kind not in _REDUCED_TYPES[operation]:
        raise Unknown
    kind = kind.replace("b", "u") if kind in ("b32", "b64") else kind
    to, of, size = call.address(0, "global"), call.address(1, "shared"), call.value(2, "u32")
    types = f"::tkjit::sim::Reduction::{operation}_, ::tkjit::sim::TensorType::{kind}"
    return f"tkjit_ptx::bulk_reduce({types}, {to}, {of}, {size});"


@instruction("cp.async.bulk.prefetch")
def _bulk_prefetch(call: Call) -> str:
    return "static_cast<void>(0);"


def _rank(call: Call) -> int:
    return int(call.one_of(f"{number}d" for number in range(1, 6))[0])


@instruction("cp.async.bulk.tensor")
def _tensor(call: Call) -> str:
    rank = _rank(call)
    if any(word.startswith("im2col") for word in call.modifiers):
        raise Unknown("im2col is not supported")
    call.has("tile")
    goes_to = call.one_of(("shared::cluster", "shared::cta", "global"))
    comes_from = call.one_of(("shared::cta", "global"))
    loads = call.has(_COMPLETES)
    is_multicast = call.has("multicast::cluster")
    of_pair = call.has("cta_group::2")  # the mbarrier may be in the other block of the pair
    call.has("bulk_group", "cta_group::1")
    call.ends()
    if goes_to == "global" and comes_from == "shared::cta":
        map_, source = call.address(0, "global"), call.address(1, "shared")
        return f"tkjit_ptx::tensor_store<{rank}>({map_}, {call.coordinates(0)}, {source});"
    if comes_from == "global" and loads:
        to, map_ = call.address(0, "shared"), call.address(1, "global")
        arguments = f"{to}, {map_}, {call.coordinates(1)}, {call.address(2, 'shared')}"
        if is_multicast:
            pair = ", true" if of_pair else ""
            return f"tkjit_ptx::tensor_load_to_blocks<{rank}>({arguments}, {call.value(3, 'u16')}{pair});"
        return f"tkjit_ptx::tensor_load<{rank}>({arguments});"
    raise Unknown


@instruction("cp.reduce.async.bulk.tensor")
def _tensor_reduce(call: Call) -> str:
    rank = _rank(call)
    call.has("tile", "bulk_group")
    if not (call.has("global") and call.has("shared::cta")):
        raise Unknown
    operation = call.one_of(("add", "min", "max", "inc", "dec", "and", "or", "xor"))
    call.ends()
    if operation in ("inc", "dec"):
        raise Unknown
    map_, source = call.address(0, "global"), call.address(1, "shared")
    arguments = f"::tkjit::sim::Reduction::{operation}_, {map_}, {call.coordinates(0)}, {source}"
    return f"tkjit_ptx::tensor_reduce<{rank}>({arguments});"


# Maps the fields of a tensor map to the PTX types of their new values. Those with an index take it as an operand.
_MAP_FIELDS = {
    "global_address": "b64",
    "rank": "b32",
    "box_dim": "b32",
    "global_dim": "b32",
    "global_stride": "b64",
    "element_stride": "b32",
    "elemtype": "b32",
    "interleave_layout": "b32",
    "swizzle_mode": "b32",
    "fill_mode": "b32",
}
_INDEXED_FIELDS = {"box_dim", "global_dim", "global_stride", "element_stride"}


@instruction("tensormap.replace.tile")
def _replace_in_map(call: Call) -> str:
    call.one_of(("b32", "b64"))
    call.has("b1024")
    field = call.one_of(_MAP_FIELDS)
    map_ = call.address(0, call.space())
    call.ends()
    index = call.value(1, "u32") if field in _INDEXED_FIELDS else "0u"
    value = call.value(call.count - 1, _MAP_FIELDS[field])
    return f"tkjit_ptx::replace_in_map(tkjit_ptx::MapField::{field}, {map_}, {index}, {value});"


@instruction("tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release")
def _copy_map(call: Call) -> str:
    call.ends()
    return f"tkjit_ptx::copy_map({call.address(0, 'global')}, {call.address(1, 'shared')}, {call.value(2, 'u32')});"


@instruction("multimem.ld_reduce")
def _multimem_load(call: Call) -> str:
    kind = call.type()
    call.has("relaxed", "acquire", "global", "acc::f32")
    operation = call.one_of(("add", "min", "max"))
    count = int(call.one_of(("v2", "v4", "v8"), "v1")[1:])
    call.ends()
    cpp = TYPES[kind]
    arguments = f"::tkjit::sim::Reduction::{operation}_, tkjit_parts, {call.address(1)}"
    read = f"tkjit_ptx::multimem_ld_reduce<{cpp}, {count}>({arguments});"
    return f"{{ {cpp} tkjit_parts[{count}]; {read} {call.set_all(0, 'tkjit_parts')} }}"


@instruction("multimem.st")
def _multimem_st(call: Call) -> str:
    kind = call.type()
    call.has("relaxed", "release", "global")
    count = int(call.one_of(("v2", "v4", "v8"), "v1")[1:])
    call.ends()
    return f"tkjit_ptx::multimem_st<{TYPES[kind]}, {count}>({call.address(0)}, {{{', '.join(call.values(1, kind))}}});"


@instruction("multimem.red")
def _multimem_red(call: Call) -> str:
    kind = call.type()
    call.has("relaxed", "release", "global")
    operation = call.one_of(("add", "min", "max", "and", "or", "xor"))
    count = int(call.one_of(("v2", "v4", "v8"), "v1")[1:])
    call.ends()
    values = ", ".join(call.values(1, kind))
    arguments = f"tkjit_ptx::{operation}_operation{{}}, {call.address(0)}, {{{values}}}"
    return f"tkjit_ptx::multimem_red<{TYPES[kind]}, {count}>({arguments});"
