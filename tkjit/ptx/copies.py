"""Asynchronous copies, tensor maps and multicast memory."""

from __future__ import annotations

from tkjit.ptx.call import TYPES, Call, Unknown, instruction


@instruction("cp.async.ca", "cp.async.cg")
def _cp_async(one: Call) -> str:
    space = one.space()
    has_policy = one.has("L2::cache_hint")
    one.has("global")
    one.ends()
    bytes_read = one.value(3, "u32") if one.count - has_policy > 3 else one.value(2, "u32")
    to, of = one.address(0, space), one.address(1, "global")
    return f"tkjit_ptx::cp_async({to}, {of}, {one.value(2, 'u32')}, {bytes_read});"


@instruction("cp.async.commit_group")
def _cp_async_commit(one: Call) -> str:
    return "::tkjit::sim::commit_copies();"


@instruction("cp.async.wait_group")
def _cp_async_wait(one: Call) -> str:
    return f"::tkjit::sim::wait_for_copies({one.value(0, 'u32')});"


@instruction("cp.async.wait_all")
def _cp_async_wait_all(one: Call) -> str:
    return "tkjit_ptx::cp_async_wait_all();"


@instruction("cp.async.mbarrier.arrive")
def _cp_async_arrive(one: Call) -> str:
    has_no_increase = one.has("noinc")
    space = one.space()
    one.has("b64")
    one.ends()
    return f"tkjit_ptx::cp_async_mbarrier_arrive<{'true' if has_no_increase else 'false'}>({one.address(0, space)});"


@instruction("cp.async.bulk.commit_group")
def _bulk_commit(one: Call) -> str:
    return "::tkjit::sim::commit_bulk_stores();"


@instruction("cp.async.bulk.wait_group")
def _bulk_wait(one: Call) -> str:
    return f"::tkjit::sim::wait_for_bulk_stores({one.value(0, 'u32')});"


_COMPLETES = "mbarrier::complete_tx::bytes"


@instruction("cp.async.bulk")
def _bulk(one: Call) -> str:
    words = one.modifiers[:2]
    one.has(*words)
    loads = one.has(_COMPLETES)
    one.has("bulk_group")
    one.ends()
    if words in (["shared::cluster", "global"], ["shared::cta", "global"]) and loads:
        to, of = one.address(0, "shared"), one.address(1, "global")
        return f"tkjit_ptx::bulk_load({to}, {of}, {one.value(2, 'u32')}, {one.address(3, 'shared')});"
    if words == ["global", "shared::cta"]:
        return f"tkjit_ptx::bulk_store({one.address(0, 'global')}, {one.address(1, 'shared')}, {one.value(2, 'u32')});"
    raise Unknown


@instruction("cp.async.bulk.prefetch")
def _bulk_prefetch(one: Call) -> str:
    return "static_cast<void>(0);"


def _rank(one: Call) -> int:
    return int(one.one_of(f"{number}d" for number in range(1, 6))[0])


@instruction("cp.async.bulk.tensor")
def _tensor(one: Call) -> str:
    rank = _rank(one)
    if any(word.startswith("im2col") for word in one.modifiers):
        raise Unknown("im2col is not supported")
    one.has("tile")
    goes_to = one.one_of(("shared::cluster", "shared::cta", "global"))
    comes_from = one.one_of(("shared::cta", "global"))
    loads = one.has(_COMPLETES)
    one.has("bulk_group")
    one.ends()
    if goes_to == "global" and comes_from == "shared::cta":
        map_, source = one.address(0, "global"), one.address(1, "shared")
        return f"tkjit_ptx::tensor_store<{rank}>({map_}, {one.coordinates(0)}, {source});"
    if comes_from == "global" and loads:
        to, map_ = one.address(0, "shared"), one.address(1, "global")
        return f"tkjit_ptx::tensor_load<{rank}>({to}, {map_}, {one.coordinates(1)}, {one.address(2, 'shared')});"
    raise Unknown


@instruction("cp.reduce.async.bulk.tensor")
def _tensor_reduce(one: Call) -> str:
    rank = _rank(one)
    one.has("tile", "bulk_group")
    if not (one.has("global") and one.has("shared::cta")):
        raise Unknown
    operation = one.one_of(("add", "min", "max", "inc", "dec", "and", "or", "xor"))
    one.ends()
    if operation in ("inc", "dec"):
        raise Unknown
    map_, source = one.address(0, "global"), one.address(1, "shared")
    arguments = f"::tkjit::sim::Reduction::{operation}_, {map_}, {one.coordinates(0)}, {source}"
    return f"tkjit_ptx::tensor_reduce<{rank}>({arguments});"


@instruction("multimem.ld_reduce")
def _multimem_load(one: Call) -> str:
    kind = one.type()
    one.has("relaxed", "acquire", "global", "acc::f32")
    operation = one.one_of(("add", "min", "max"))
    count = int(one.one_of(("v2", "v4", "v8"), "v1")[1:])
    one.ends()
    cpp = TYPES[kind]
    arguments = f"::tkjit::sim::Reduction::{operation}_, tkjit_parts, {one.address(1)}"
    read = f"tkjit_ptx::multimem_ld_reduce<{cpp}, {count}>({arguments});"
    return f"{{ {cpp} tkjit_parts[{count}]; {read} {one.set_all(0, 'tkjit_parts')} }}"


@instruction("multimem.st")
def _multimem_st(one: Call) -> str:
    kind = one.type()
    one.has("relaxed", "release", "global")
    count = int(one.one_of(("v2", "v4", "v8"), "v1")[1:])
    one.ends()
    return f"tkjit_ptx::multimem_st<{TYPES[kind]}, {count}>({one.address(0)}, {{{', '.join(one.values(1, kind))}}});"


@instruction("multimem.red")
def _multimem_red(one: Call) -> str:
    kind = one.type()
    one.has("relaxed", "release", "global")
    operation = one.one_of(("add", "min", "max", "and", "or", "xor"))
    count = int(one.one_of(("v2", "v4", "v8"), "v1")[1:])
    one.ends()
    values = ", ".join(one.values(1, kind))
    arguments = f"tkjit_ptx::{operation}_operation{{}}, {one.address(0)}, {{{values}}}"
    return f"tkjit_ptx::multimem_red<{TYPES[kind]}, {count}>({arguments});"
