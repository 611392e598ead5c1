"""One process per GPU: parallel tensors over CUDA IPC (two processes may share a GPU) and symmetric memory."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch

import tkjit
from tkjit.config import Settings
from tkjit.headers import locate

pytestmark = pytest.mark.gpu


# read before the tests set their own cache, because `headers add` installs libraries into the user's cache
SETTINGS = Settings.from_environment()
PROGRAM = Path(__file__).with_name("gpu_ranks.py")
TIMEOUT_S = 480  # one process compiles: ten ThunderKittens kernels take a minute or two


def processes(program: str, directory: Path, count: int) -> list[subprocess.CompletedProcess[str]]:
    """Runs a group of processes until all have ended."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    around = {**os.environ, "WORLD_SIZE": str(count), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    command = [sys.executable, str(PROGRAM), program, str(directory)]
    outputs = [directory / f"{rank}.txt" for rank in range(count)]  # files, because a full pipe would block its writer
    started: list[subprocess.Popen[bytes]] = []
    try:
        for rank in range(count):
            with outputs[rank].open("wb") as file:
                started.append(subprocess.Popen(command, env={**around, "RANK": str(rank)}, stderr=file))
        deadline = time.monotonic() + TIMEOUT_S
        codes = [process.wait(deadline - time.monotonic()) for process in started]
    finally:
        for process in started:
            process.kill()
    return [
        subprocess.CompletedProcess(command, code, None, path.read_text())
        for code, path in zip(codes, outputs, strict=True)
    ]


def notes(program: str, directory: Path, count: int) -> list[dict[str, Any]]:
    ended = processes(program, directory, count)
    assert all(process.returncode == 0 for process in ended), "\n".join(process.stderr for process in ended)
    return [json.loads((directory / f"{rank}.json").read_text()) for rank in range(count)]


@pytest.fixture
def several(gpu) -> int:
    """The number of GPUs, at most 8; the test is skipped if there is only one."""
    if torch.cuda.device_count() < 2:
        pytest.skip("one GPU; run on a machine with several")
    return min(8, torch.cuda.device_count())


def test_parallel_tensors_from_existing_tensors(gpu, tmp_path):
    for note in notes("existing", tmp_path, max(2, min(8, torch.cuda.device_count()))):
        assert note == {"one shot": True, "two shots": True, "signals are zero": True, "own": True}


def test_symmetric_memory_agrees_with_nccl(several, tmp_path):
    for note in notes("collectives", tmp_path, several):
        assert note.pop("all_reduce") < 0.02 and note.pop("reduce_scatter") < 0.02  # NCCL rounds intermediate sums
        assert note == {"exact": True, "all_gather": True, "signals are zero": True}


def test_multicast_sums(several, tmp_path):
    for note in notes("multicast", tmp_path, several):
        if "refused" in note:
            assert "these devices have no multicast" in note["refused"]
            pytest.skip(note["refused"])
        assert note["address"] and note["error"] < 0.02


def test_thunderkittens_over_8_devices(gpu, tmp_path, monkeypatch):
    if torch.cuda.device_count() < 8 or torch.cuda.get_device_capability(gpu) not in ((9, 0), (10, 0)):
        pytest.skip("written for 8 GPUs of compute capability 9.0 or 10.0 (H100, H200, B200) and NVLink switches")
    try:
        (library,) = locate(tkjit.find("tk_all_reduce").specs[0], SETTINGS).headers
    except tkjit.ToolchainError as error:
        pytest.skip(str(error))
    monkeypatch.setenv(library.variable, str(library.root))
    for note in notes("thunderkittens", tmp_path, 8):
        # the switch rounds intermediate sums
        assert all(error < 0.03 for errors in note.values() for error in errors.values()), note


def test_a_process_whose_gpu_waits_for_a_killed_process_is_ended(gpu, tmp_path):
    left, lost = processes("killed", tmp_path, 2)
    assert lost.returncode == -9 and left.returncode == 1
    assert "tkjit: rank 1 (process " in left.stderr
    assert "ending this process, because its GPU would wait forever" in left.stderr or "LaunchError" in left.stderr
