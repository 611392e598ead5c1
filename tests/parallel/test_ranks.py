"""One process per device: parallel tensors in shared memory, under ``torchrun`` with gloo."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import tkjit
from tkjit.parallel.exchange import Peer
from tkjit.parallel.tensor import LocalPart
from tkjit.system.process import this_process

pytestmark = pytest.mark.compiles
RANKS = 4
PROGRAM = Path(__file__).with_name("ranks.py")


@pytest.fixture(scope="module", autouse=True)
def compiled() -> None:
    """Compiles the kernels that the ranks call, so that no rank waits for another one's compiler."""
    flags = [torch.zeros(128, dtype=torch.int32) for _ in range(2)]

    def two(*shape: int, dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
        return [torch.ones(shape, dtype=dtype) for _ in range(2)]

    for name in ("all_reduce", "all_reduce_one_shot"):
        tkjit.load(name)(two(8), flags)
    for name, dtype in (
        ("all_gather", torch.float32),
        ("all_gather", torch.bfloat16),
        ("reduce_scatter", torch.float32),
    ):
        tkjit.load(name)(two(2, 8, dtype=dtype), flags)
    tkjit.load("gemm_all_reduce")(two(2, 8), two(8, 8), two(2, 8), two(2, 8), flags)
    tkjit.load("axpy")(torch.ones(3), torch.ones(3))


def notes(directory: Path) -> list[dict[str, Any]]:
    """Reads the notes of the ranks that finished, in the order of their ranks."""
    return [json.loads(path.read_text()) for path in sorted(directory.glob("*.json"))]


def torchrun(program: str, directory: Path) -> list[dict[str, Any]]:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(RANKS)]
    done = subprocess.run(
        [*command, str(PROGRAM), program, str(directory)], capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = notes(directory)
    assert len(found) == RANKS
    return found


def left_in_shared_memory() -> set[Path]:
    """Finds torch's files, torch_PID_..., of ended processes; other tests may run processes of their own."""
    found = Path("/dev/shm").glob("torch_*")
    return {path for path in found if not Path("/proc", path.name.split("_")[1]).exists()}


@pytest.mark.slow  # starts four processes several times
def test_the_collectives_agree_with_torch_distributed(tmp_path):
    before = left_in_shared_memory()
    for note in torchrun("collectives", tmp_path):
        assert (
            note.pop("all_reduce") < 1e-5 and note.pop("reduce_scatter") < 1e-5 and note.pop("gemm_all_reduce") < 1e-3
        )
        assert note == {
            "one and two shots differ": False,
            "kept": True,
            "all_gather": True,
            "signals are zero": True,
        }
    assert left_in_shared_memory() <= before


def test_parallel_tensors_are_made_together_or_rejected_on_all_ranks(tmp_path):
    found = torchrun("tensors", tmp_path)
    for rank, note in enumerate(found):
        assert note["text"] == f"<tkjit.ParallelTensor (2, 8) bfloat16 on cpu, rank {rank} of {RANKS}>"
        assert note["members"] == [[2, 8], "torch.bfloat16", "cpu", rank, RANKS, 0]
        assert note["all are reached"] == [8.0 + other for other in range(RANKS)]
        assert note["and written"] == [50.0 + other for other in range(RANKS)]
        assert note["globals"] == [rank, True, [1, 1, 2, 8]]
        assert note["a club"].startswith("ArgumentError: all_reduce: club= is for a call with lists")
    shapes, dtypes, strides, given, cuda, exists, empty, many, complex_ = found[0]["refused"]
    assert all(note["refused"] == found[0]["refused"] for note in found)  # the same on all ranks
    assert shapes == (
        "ArgumentError: rank 1 passes (4,) float32 on cpu, but rank 0 (3,) float32 on cpu; pass equal ones"
    )
    assert "rank 1 passes (3,) float64 on cpu" in dtypes
    assert strides == "ArgumentError: rank 1: the tensor is not contiguous; pass tensor.contiguous()"
    assert given.startswith("ArgumentError: rank 0: an existing tensor has a dtype and a device")
    assert cuda.startswith("ArgumentError: rank 0: ")  # torch's error for a missing device
    assert "existing memory cannot be bound to a multicast address" in exists
    assert "(0, 4) is not a shape of a part" in empty and "more than 4 dimensions" in many
    assert "kernels do not support torch.complex32" in complex_
    for note in found[:2]:
        assert note["a pair's sum"] == [1.0] * 4
        assert "expected a tkjit.ParallelTensor" in note["mixed with lists"]
        assert re.search(r"(x is on 2|signals is on 4) devices and this is number", note["of two groups"])


def without_torchrun(program: str, directory: Path) -> list[subprocess.Popen[bytes]]:
    """Runs a program that kills rank 2, without torchrun, which would end the other ranks; returns the processes."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    around = {**os.environ, "WORLD_SIZE": str(RANKS), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    command = [sys.executable, str(PROGRAM), program, str(directory)]
    ranks = [subprocess.Popen(command, env={**around, "RANK": str(rank)}) for rank in range(RANKS)]
    assert [process.wait(120) for process in ranks] == [0, 0, -9, 0]
    return ranks


@pytest.mark.slow
def test_after_one_rank_is_killed_the_others_raise_an_error_that_names_it(tmp_path):
    ranks = without_torchrun("killed", tmp_path)
    for note in notes(tmp_path):
        assert note["waiting"].startswith("LaunchError: all_reduce: ") and note["waiting"].endswith(" wait for it")
        assert f"rank 2 (process {ranks[2].pid} on " in note["waiting"]
        assert note["seconds"] < 10
        assert f"rank 2 (process {ranks[2].pid} on " in note["the next"]
        assert note["alone"] == [2.0, 2.0, 2.0]


@pytest.mark.slow
def test_a_rank_that_was_killed_before_the_first_parallel_tensor_is_named(tmp_path):
    without_torchrun("absent", tmp_path)
    # a rank that notices this late may name other ranks as well, which were aborted by then
    errors = [note["refused"] for note in notes(tmp_path)]
    assert all(text.startswith("LaunchError: ") and "rank 2" in text and "not arrived" in text for text in errors), (
        errors
    )


@pytest.mark.slow
def test_a_rank_that_is_killed_while_it_makes_a_parallel_tensor_is_named(tmp_path):
    ranks = without_torchrun("broken_off", tmp_path)
    errors = [note["refused"] for note in notes(tmp_path)]
    assert all(f"rank 2 (process {ranks[2].pid} on " in text and "ended" in text for text in errors), errors


@pytest.mark.slow
def test_a_part_that_one_rank_cannot_map_is_an_error_on_all_ranks(tmp_path):
    for rank, note in enumerate(torchrun("unmapped", tmp_path)):
        assert note["refused"] == "LaunchError: rank 1: unable to mmap 16 bytes: Cannot allocate memory (12)"
        assert note["the next"].endswith(f"rank {rank} of {RANKS}>")


@pytest.mark.slow
def test_errors_in_a_subgroup_name_global_ranks(tmp_path):
    found = torchrun("some", tmp_path)
    text = "ArgumentError: rank 3 passes (5,) float32 on cpu, but rank 1 (4,) float32 on cpu; pass equal ones"
    assert [found[rank]["refused"] for rank in (1, 3)] == [text, text]
    assert [found[rank]["made"].split()[-3:] for rank in (1, 3)] == [["0", "of", "2>"], ["1", "of", "2>"]]


@pytest.mark.slow
def test_a_rank_that_does_not_arrive_within_the_groups_timeout_is_named(tmp_path):
    for rank, note in enumerate(torchrun("late", tmp_path)):
        if rank != 1:
            assert note["refused"] == "LaunchError: rank 1 has not arrived within 20 s"
            assert 20 <= note["seconds"] < 24


@pytest.mark.slow
def test_a_store_can_serve_another_group_later(python):
    printed = python("""if True:
        import torch.distributed as dist
        import tkjit
        from tkjit.parallel.exchange import exchange

        store = dist.HashStore()
        for name in ("first", "second"):
            dist.init_process_group("gloo", store=store, rank=0, world_size=1)
            messages = [exchange(dist.group.WORLD, "is here", f"{name} {i}") for i in range(3)]
            print(messages, tkjit.ParallelTensor((4,)).world_size)
            dist.destroy_process_group()
        print(store.num_keys() < 20)
    """)
    assert printed.split("\n")[:3] == [
        "[['first 0'], ['first 1'], ['first 2']] 1",
        "[['second 0'], ['second 1'], ['second 2']] 1",
        "True",
    ]


@pytest.mark.slow
def test_ranks_at_different_steps_raise_an_error_and_can_try_again(tmp_path):
    for note in torchrun("apart", tmp_path):
        text = "LaunchError: rank 1 shares its part, but rank 0 makes a parallel tensor: one of"
        assert note["refused"].startswith(text)
        assert note["the next"].startswith("<tkjit.ParallelTensor (4,)")


@pytest.mark.slow  # starts several processes
def test_processes_are_no_longer_watched_after_the_tensor_is_freed():
    code = """if True:
        import gc, time, torch.distributed as dist
        import tkjit
        from tkjit.parallel import peers

        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        x = tkjit.ParallelTensor((4,))
        time.sleep(2 * peers.WATCH_S)
        print(len(peers._watched))
        del x
        gc.collect()
        time.sleep(5 * peers.WATCH_S)
        print(len(peers._watched))
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["1", "0"], done.stderr


def test_the_kinds_of_memory_are_compared():
    part = LocalPart((4,), "torch.float32", "cuda", ", a new one", Peer(0, this_process()))
    assert part.what != part._replace(memory=", a new one with multicast").what
    assert part.text == "(4,) float32 on cuda, a new one"


@pytest.mark.slow  # builds the runtime
def test_a_rank_without_a_runtime_is_named(tmp_path):
    for note in torchrun("no_runtime", tmp_path):
        assert note["refused"].startswith("LaunchError: rank 3: ") and "TKJIT_JIT=0" in note["refused"]


@pytest.mark.slow  # waits for a timeout
def test_a_process_whose_gpu_waits_for_an_ended_process_is_ended():
    program = """if True:
        import sys, time, torch
        from tkjit.parallel import peers

        device, seconds = map(float, sys.argv[1:])
        seen = []
        torch.cuda.synchronize = lambda given: (seen.append(given), time.sleep(seconds))
        peers.GPU_PATIENCE_S = 0.5
        peers._end_if_stuck(int(device), "rank 3 (process 7 on there) has ended")
        print("goes on", seen)
    """

    def ends(device: int, seconds: float) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", program, str(device), str(seconds)]
        return subprocess.run(command, capture_output=True, text=True, timeout=60)

    stuck, done = ends(1, 50), ends(1, 0)
    assert (stuck.returncode, stuck.stdout) == (1, "")
    assert stuck.stderr.startswith("tkjit: rank 3 (process 7 on there) has ended; ending this process")
    assert (done.returncode, done.stdout, done.stderr) == (0, "goes on [1]\n", "")


def test_without_a_process_group_the_error_says_how_to_start_one():
    with pytest.raises(tkjit.ArgumentError, match="there is no process group: start the program with torchrun"):
        tkjit.ParallelTensor((4,))
