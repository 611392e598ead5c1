"""The collectives compile for GPUs, with barriers of system scope, and with multicast on architectures that have it."""

from __future__ import annotations

import pytest
from support.sampling import sample

import tkjit
from tkjit.compile.targets import gpu_target
from tkjit.spec import variants_of

pytestmark = pytest.mark.nvcc
NAMES = ("all_reduce", "all_gather", "gemm_all_reduce")


CASES = [*((name, "90a") for name in NAMES), ("all_reduce", "80")]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "arch"), sample(CASES, "all_reduce-90a", "gemm_all_reduce-90a", name="-".join))
def test_compiles(loader, sass, name, arch):
    spec = tkjit.find(name).specs[0]
    entry = loader.launcher(spec, variants_of(spec)[1], gpu_target(arch))
    code = sass(entry.shared_object)
    assert entry.manifest["spill_store_bytes"] == 0
    assert "ATOMG" in code and "STRONG.SYS" in code  # the barrier's flags on other devices
    has_multicast = name == "all_reduce" and arch == "90a"
    assert ("LDGMC" in code or "MULTIMEM" in code) == has_multicast
