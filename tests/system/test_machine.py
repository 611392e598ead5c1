"""CPU and memory limits of a process, inside and outside containers."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tkjit.system import machine
from tkjit.system.machine import available_memory_bytes, usable_cores


def files(directory: Path, **contents: str) -> Path:
    for name, text in contents.items():
        (directory / name.replace("_", ".")).write_text(text)
    return directory


@pytest.mark.parametrize(
    "quota, cores",
    [("max 100000", 4), ("200000 100000", 2), ("50000 100000", 1), ("900000 100000", 4), ("nonsense", 4)],
)
def test_cores_are_limited_by_affinity_and_container_quota(quota, cores, monkeypatch, tmp_path):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 2, 4, 6})
    monkeypatch.setattr(machine, "_CGROUP", files(tmp_path, cpu_max=f"{quota}\n"))
    assert usable_cores() == cores


def test_cores_without_a_container(monkeypatch, tmp_path):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 2})
    monkeypatch.setattr(machine, "_CGROUP", tmp_path)
    assert usable_cores() == 2


def test_memory_is_limited_by_free_memory_and_container_limit(monkeypatch, tmp_path):
    monkeypatch.setattr(machine, "_CGROUP", tmp_path / "absent")
    free = available_memory_bytes()
    assert 1 << 20 < free < 1 << 50
    limits = files(tmp_path, memory_max="30000000\n", memory_current="10000000\n")
    monkeypatch.setattr(machine, "_CGROUP", limits)
    assert available_memory_bytes() == 20_000_000
    files(tmp_path, memory_current="40000000\n")
    assert available_memory_bytes() == 0
    files(tmp_path, memory_max="max\n")
    assert available_memory_bytes() > 20_000_000
