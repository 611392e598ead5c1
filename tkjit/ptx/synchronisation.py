"""Control, barriers, fences and mbarriers."""

from __future__ import annotations

from tkjit.ptx.call import Call, Unknown, instruction
from tkjit.ptx.grammar import Address, Name


@instruction("bra")
def _bra(one: Call) -> str:
    target = one.operand(0)
    if not isinstance(target, Name):
        raise Unknown
    return f"goto {one.spelling.variable(target)};"


@instruction("trap", "brkpt")
def _trap(one: Call) -> str:
    return "::__trap();"


@instruction("nanosleep")
def _nanosleep(one: Call) -> str:
    return f"::__nanosleep({one.value(0, 'u32')});"


@instruction("bar.sync", "barrier.sync", "barrier.cta.sync", "bar.cta.sync")
def _bar_sync(one: Call) -> str:
    one.ends()
    threads = one.value(1, "u32") if one.count > 1 else "0u"
    return f"tkjit_ptx::bar_sync({one.value(0, 'u32')}, {threads});"


@instruction("bar.arrive", "barrier.arrive", "barrier.cta.arrive", "bar.cta.arrive")
def _bar_arrive(one: Call) -> str:
    one.ends()
    return f"tkjit_ptx::bar_arrive({one.value(0, 'u32')}, {one.value(1, 'u32')});"


@instruction("bar.warp.sync")
def _bar_warp(one: Call) -> str:
    return f"::__syncwarp({one.value(0, 'u32')});"


@instruction("barrier.cluster.arrive")
def _cluster_arrive(one: Call) -> str:
    return "tkjit_ptx::cluster_arrive();"


@instruction("barrier.cluster.wait")
def _cluster_wait(one: Call) -> str:
    return "tkjit_ptx::cluster_wait();"


@instruction("fence", "membar")
def _fence(one: Call) -> str:
    return "::__threadfence();"


@instruction("fence.proxy", "fence.mbarrier_init", "griddepcontrol", "wgmma.fence")
def _ordered(one: Call) -> str:
    return '__asm__ __volatile__("" ::: "memory");'


@instruction("setmaxnreg.inc", "setmaxnreg.dec")
def _setmaxnreg(one: Call) -> str:
    return f"tkjit_ptx::setmaxnreg({one.value(0, 'u32')});"


@instruction("mbarrier.init")
def _mbarrier_init(one: Call) -> str:
    space = _barrier_space(one)
    return f"tkjit_ptx::mbarrier_init({one.address(0, space)}, {one.value(1, 'u32')});"


def _barrier_space(one: Call) -> str:
    """Return the state space of an mbarrier, after handling all other modifiers."""
    space = one.space()
    one.has("b64", "release", "relaxed", "acquire")
    one.ends()
    return space


@instruction("mbarrier.inval")
def _mbarrier_inval(one: Call) -> str:
    return f"tkjit_ptx::mbarrier_inval({one.address(0, _barrier_space(one))});"


@instruction("mbarrier.expect_tx")
def _mbarrier_expect(one: Call) -> str:
    space = _barrier_space(one)
    return f"tkjit_ptx::mbarrier_expect_tx({one.address(0, space)}, {one.value(1, 'u32')});"


@instruction("mbarrier.arrive")
def _mbarrier_arrive(one: Call) -> str:
    expects = one.has("expect_tx")
    if one.has("noComplete"):
        raise Unknown
    space = _barrier_space(one)
    first = 0 if isinstance(one.operand(0), Address) else 1
    count = one.value(first + 1, "u32") if one.count > first + 1 else "1u"
    function = (
        f"mbarrier_arrive_expect_tx({one.address(first, space)}, {count})"
        if expects
        else (f"mbarrier_arrive({one.address(first, space)}, {count})")
    )
    return one.set(0, f"tkjit_ptx::{function}") if first else f"tkjit_ptx::{function};"


@instruction("mbarrier.test_wait", "mbarrier.try_wait")
def _mbarrier_wait(one: Call) -> str:
    by_parity = one.has("parity")
    space = _barrier_space(one)
    phase = one.value(2, "u32") if by_parity else f"tkjit_ptx::parity_of({one.value(2, 'b64')})"
    tries = "true" if one.waits else "false"
    return one.set(0, f"tkjit_ptx::mbarrier_wait<{tries}>({one.address(1, space)}, {phase})")
