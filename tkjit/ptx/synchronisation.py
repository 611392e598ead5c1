"""Control, barriers, fences and mbarriers."""

from __future__ import annotations

from tkjit.ptx.call import Call, Unknown, instruction
from tkjit.ptx.grammar import Address, Name


@instruction("bra")
def _bra(call: Call) -> str:
    target = call.operand(0)
    if not isinstance(target, Name):
        raise Unknown
    return f"goto {call.spelling.variable(target)};"


@instruction("trap", "brkpt")
def _trap(call: Call) -> str:
    return "::__trap();"


@instruction("nanosleep")
def _nanosleep(call: Call) -> str:
    return f"::__nanosleep({call.value(0, 'u32')});"


@instruction("bar.sync", "barrier.sync", "barrier.cta.sync", "bar.cta.sync")
def _bar_sync(call: Call) -> str:
    is_aligned = call.opcode == "bar" or "aligned" in call.modifiers
    call.ends()
    threads = call.value(1, "u32") if call.count > 1 else "0u"
    return f"tkjit_ptx::bar_sync<{_bool(is_aligned)}>({call.value(0, 'u32')}, {threads});"


@instruction("bar.arrive", "barrier.arrive", "barrier.cta.arrive", "bar.cta.arrive")
def _bar_arrive(call: Call) -> str:
    call.ends()
    return f"tkjit_ptx::bar_arrive({call.value(0, 'u32')}, {call.value(1, 'u32')});"


@instruction("bar.warp.sync")
def _bar_warp(call: Call) -> str:
    return f"::__syncwarp({call.value(0, 'u32')});"


@instruction("barrier.cluster.arrive")
def _cluster_arrive(call: Call) -> str:
    releases = not call.has("relaxed")
    call.has("release")
    call.ends()
    return f"::tkjit::sim::cluster_arrive({_bool(releases)});"


@instruction("barrier.cluster.wait")
def _cluster_wait(call: Call) -> str:
    call.has("acquire")
    call.ends()
    return "::tkjit::sim::cluster_wait();"


@instruction("fence", "membar")
def _fence(call: Call) -> str:
    return f"tkjit_ptx::fence(tkjit_ptx::Scope::{call.scope()});"


@instruction("fence.proxy.async")
def _async_proxy_fence(call: Call) -> str:
    shared, is_global = call.has("shared", "shared::cta", "shared::cluster"), call.has("global")
    both = not shared and not is_global
    return f"::tkjit::sim::fence_async_proxy({_bool(shared or both)}, {_bool(is_global or both)});"


def _bool(value: bool) -> str:
    return "true" if value else "false"


@instruction("fence.mbarrier_init")
def _fence_mbarrier_init(call: Call) -> str:
    return "::tkjit::sim::fence_mbarrier_init();"


@instruction("fence.proxy.tensormap::generic")
def _tensor_map_fence(call: Call) -> str:
    order = call.one_of(("acquire", "release"))
    call.ends()
    return f"::tkjit::sim::{order}_tensor_maps();"


@instruction("fence.proxy", "griddepcontrol.launch_dependents")
def _ordered(call: Call) -> str:
    return '__asm__ __volatile__("" ::: "memory");'


@instruction("setmaxnreg.inc", "setmaxnreg.dec")
def _setmaxnreg(call: Call) -> str:
    return f"::tkjit::sim::set_register_count({call.value(0, 'u32')});"


@instruction("griddepcontrol.wait")
def _wait_for_previous_launches(call: Call) -> str:
    return "::tkjit::sim::wait_for_previous_launches();"


@instruction("mbarrier.init")
def _mbarrier_init(call: Call) -> str:
    space = _barrier_space(call)
    return f"tkjit_ptx::mbarrier_init({call.address(0, space)}, {call.value(1, 'u32')});"


def _barrier_space(call: Call) -> str:
    """Return the state space of an mbarrier, after handling all other modifiers."""
    space = call.space()
    call.has("b64")
    call.ends()
    return space


def _ordering(call: Call) -> str:
    """Remove the modifier for the order, and return it as a template argument."""
    relaxed = call.has("relaxed")
    call.has("release", "acquire")
    return f"::tkjit::sim::Ordering::{'relaxed' if relaxed else 'ordered'}"


@instruction("mbarrier.inval")
def _mbarrier_inval(call: Call) -> str:
    return f"tkjit_ptx::mbarrier_inval({call.address(0, _barrier_space(call))});"


@instruction("mbarrier.expect_tx")
def _mbarrier_expect(call: Call) -> str:
    call.has("relaxed")
    return f"tkjit_ptx::mbarrier_expect_tx({call.address(0, _barrier_space(call))}, {call.value(1, 'u32')});"


@instruction("mbarrier.complete_tx")
def _mbarrier_complete(call: Call) -> str:
    call.has("relaxed")
    return f"tkjit_ptx::mbarrier_complete_tx({call.address(0, _barrier_space(call))}, {call.value(1, 'u32')});"


@instruction("mbarrier.arrive")
def _mbarrier_arrive(call: Call) -> str:
    return _arrival(call, "mbarrier_arrive")


@instruction("mbarrier.arrive_drop")
def _mbarrier_arrive_drop(call: Call) -> str:
    return _arrival(call, "mbarrier_arrive_drop")


def _arrival(call: Call, function: str) -> str:
    expects, ordering = call.has("expect_tx"), _ordering(call)
    if call.has("noComplete"):
        raise Unknown
    space = _barrier_space(call)
    first = 0 if isinstance(call.operand(0), Address) else 1
    given = call.value(first + 1, "u32") if call.count > first + 1 else "1u"
    count, expected = ("1u", given) if expects else (given, "0u")
    address = call.address(first, space)
    arrival = f"tkjit_ptx::{function}<{ordering}>({address}, {count}, {expected})"
    return call.set(0, arrival) if first else f"{arrival};"


@instruction("mbarrier.pending_count")
def _mbarrier_pending_count(call: Call) -> str:
    call.has("b64")
    call.ends()
    return call.set(0, f"tkjit_ptx::mbarrier_pending_count({call.value(1, 'b64')})")


@instruction("mbarrier.test_wait", "mbarrier.try_wait")
def _mbarrier_wait(call: Call) -> str:
    by_parity, ordering = call.has("parity"), _ordering(call)
    space = _barrier_space(call)
    phase = call.value(2, "u32") if by_parity else f"tkjit_ptx::parity_of({call.value(2, 'b64')})"
    tries = "true" if call.waits else "false"
    return call.set(0, f"tkjit_ptx::mbarrier_wait<{tries}, {ordering}>({call.address(1, space)}, {phase})")
