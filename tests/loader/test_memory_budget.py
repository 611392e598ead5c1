"""The number of parallel builds, which depends on the cores and on the memory of previous builds."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field

import pytest

from tkjit.cache import Recipe
from tkjit.cli import main, parallel_builds, warmup
from tkjit.loader import memory_budget
from tkjit.loader.memory_budget import MemoryBudget, estimated_bytes


def greatest_at_once(total: int, sizes: list[int]) -> tuple[int, int]:
    """The most memory and the most builds that a budget allowed at the same time."""
    limit, now, greatest, lock = MemoryBudget(total), [0, 0], [0, 0], threading.Lock()

    def work(size: int) -> None:
        with limit.taking(size):
            with lock:
                now[0], now[1] = now[0] + size, now[1] + 1
                greatest[:] = map(max, greatest, now)
            time.sleep(0.02)
            with lock:
                now[0], now[1] = now[0] - size, now[1] - 1

    threads = [threading.Thread(target=work, args=(size,)) for size in sizes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
        assert not thread.is_alive()
    return greatest[0], greatest[1]


def test_concurrent_builds_fit_into_the_budget():
    memory, builds = greatest_at_once(100, [30] * 9)
    assert memory <= 100 and 1 < builds <= 3


def test_one_build_may_always_run_alone():
    assert greatest_at_once(10, [50, 60, 70]) == (70, 1)


def test_a_build_that_fails_releases_its_memory():
    limit = MemoryBudget(10)
    with pytest.raises(ValueError), limit.taking(10):
        raise ValueError
    with limit.taking(10):  # would wait forever if the failed build had kept its memory
        pass


@dataclass(frozen=True)
class Built:
    """The part of an entry that ``estimated_bytes`` reads."""

    name: str
    arch: str
    manifest: dict = field(default_factory=dict)


@dataclass(frozen=True)
class Wanted:
    """The part of a plan that ``estimated_bytes`` reads."""

    recipe: Recipe
    what: str


def wanted(arch: str, what: str = "gemm (T=float32)") -> Wanted:
    return Wanted(Recipe(arch, "gemm", ()), what)


def test_the_estimate_is_the_variants_last_peak_or_else_its_kernels_highest():
    def took(peak: int, what: str, built: float, arch: str = "sm_90a", name: str = "gemm") -> Built:
        return Built(name, arch, {"what": what, "built": built, "peak_memory_bytes": peak})

    known = [
        took(300, "gemm (T=float32)", 1.0),
        took(200, "gemm (T=float32)", 2.0),
        took(500, "gemm (T=int8)", 3.0),
        took(900, "gemm (T=float32)", 4.0, arch="sm_80"),
        took(950, "gemm (T=float32)", 5.0, name="axpy"),
        Built("gemm", "sm_90a", {}),  # a damaged entry
    ]
    assert estimated_bytes(wanted("sm_90a"), known) == 200
    assert estimated_bytes(wanted("sm_90a", "gemm (T=bfloat16)"), known) == 500
    assert estimated_bytes(wanted("sm_100a"), known) == memory_budget.UNKNOWN_GPU_BYTES
    assert estimated_bytes(wanted("cpu-x86-64-v3"), known) == memory_budget.UNKNOWN_CPU_BYTES


@pytest.mark.parametrize(
    "options, expected",
    [((), (7, 1000)), (("--jobs", "2"), (2, 1000)), (("--memory", "2K"), (7, 2048))],
    ids=["none", "jobs", "memory"],
)
def test_warmup_uses_all_cores_and_all_free_memory_by_default(options, expected, monkeypatch):
    limits = []
    monkeypatch.setattr(parallel_builds, "usable_cores", lambda: 7)
    monkeypatch.setattr(parallel_builds, "available_memory_bytes", lambda: 1000)
    monkeypatch.setattr(
        warmup, "build_all", lambda loader, plans, jobs, memory, **_: limits.append((jobs, memory)) or []
    )
    assert main(["warmup", "axpy", "--device", "cpu", *options]) == 0
    assert limits == [expected]
