"""One process of a group, for ``torchrun`` or a test: ``ranks.py PROGRAM DIRECTORY`` writes its notes to a file."""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
import time
import weakref
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

import tkjit
from tkjit.parallel.exchange import exchange


def part(rank: int, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(rank))


def signals() -> tkjit.ParallelTensor:
    return tkjit.ParallelTensor.zeros((64 * dist.get_world_size(),), dtype=torch.int32)


def refusal(make: Any) -> str:
    try:
        make()
    except tkjit.TkjitError as error:
        return f"{type(error).__name__}: {error}"
    return "nothing was refused"


def collectives(note: dict[str, Any]) -> None:
    """Compares each collective with torch.distributed's."""
    rank, size, flags = dist.get_rank(), dist.get_world_size(), signals()

    x, wanted = part(rank, 20011), part(rank, 20011)
    dist.all_reduce(wanted)
    y = tkjit.load("all_reduce_one_shot")(tkjit.ParallelTensor(x), flags)
    shared = tkjit.ParallelTensor(x)
    assert tkjit.load("all_reduce")(shared, flags) is None
    note["all_reduce"] = float((x - wanted).abs().max())
    note["one and two shots differ"] = not torch.equal(x, y)
    note["kept"] = shared.tensor is x and shared.data_ptrs[rank] == x.data_ptr()

    rows = part(rank, 6, 5)
    gathered = torch.empty(6 * size, 5)
    dist.all_gather_into_tensor(gathered, rows)
    note["all_gather"] = bool(torch.equal(tkjit.load("all_gather")(tkjit.ParallelTensor(rows), flags), gathered))

    rows = part(rank, 3 * size, 7)
    total = rows.clone()
    dist.all_reduce(total)
    share = tkjit.load("reduce_scatter")(tkjit.ParallelTensor(rows), flags)
    note["reduce_scatter"] = float((share - total[3 * rank : 3 * rank + 3]).abs().max())

    a, b = part(rank, 130, 40), part(rank, 40, 60)
    product = a @ b
    dist.all_reduce(product)
    c = tkjit.ParallelTensor((130, 60))
    tkjit.load("gemm_all_reduce")(a, b, c, tkjit.ParallelTensor((130, 60)), flags)
    note["gemm_all_reduce"] = float((c.tensor - product).abs().max())
    note["signals are zero"] = not flags.tensor.any()


def tensors(note: dict[str, Any]) -> None:
    """Makes parallel tensors, and collects the errors of wrong ones, which are the same on all ranks."""
    rank = dist.get_rank()
    x = torch.arange(24, dtype=torch.bfloat16).view(3, 8) + rank
    made = tkjit.ParallelTensor(x[1:])  # part of a larger storage
    note["text"] = repr(made)
    note["members"] = [
        list(made.shape),
        str(made.dtype),
        str(made.device),
        made.rank,
        made.world_size,
        made.multicast_ptr,
    ]
    note["all are reached"] = [float(peer[0, 0]) for peer in made._parts]
    dist.barrier()
    made.tensor[0, 0] = 50 + rank
    dist.barrier()
    note["and written"] = [float(peer[0, 0]) for peer in made._parts]
    (seen,) = tkjit.make_globals("all_gather", made, signals())
    note["globals"] = [seen["x"].dev_idx, list(seen["x"].data_ptrs) == list(made.data_ptrs), list(seen["x"].extents)]
    odd = rank == 1
    note["refused"] = [
        refusal(lambda: tkjit.ParallelTensor(torch.zeros(3 + odd))),
        refusal(lambda: tkjit.ParallelTensor(torch.zeros(3, dtype=torch.float64 if odd else torch.float32))),
        refusal(lambda: tkjit.ParallelTensor(torch.zeros(3, 4).T if odd else torch.zeros(4, 3))),
        refusal(lambda: tkjit.ParallelTensor(torch.zeros(4), dtype=torch.float32)),
        refusal(lambda: tkjit.ParallelTensor((4,), multicast=True, device="cuda")),
        refusal(lambda: tkjit.ParallelTensor(torch.zeros(4), multicast=True)),
        refusal(lambda: tkjit.ParallelTensor((0, 4))),
        refusal(lambda: tkjit.ParallelTensor((1, 1, 1, 1, 1))),
        refusal(lambda: tkjit.ParallelTensor((4,), dtype=torch.complex32)),
    ]
    group = dist.new_group([0, 1])  # all processes have to call this
    if rank < 2:
        pair = tkjit.ParallelTensor(torch.full((4,), float(rank)), group=group)
        flags = tkjit.ParallelTensor.zeros((128,), dtype=torch.int32, group=group)
        note["a pair's sum"] = tkjit.load("all_reduce_one_shot")(pair, flags).tolist()
        mixed = refusal(lambda: tkjit.load("all_reduce_one_shot")(pair, [torch.zeros(128, dtype=torch.int32)]))
        note["mixed with lists"] = mixed
    everyone = signals()
    if rank < 2:
        note["of two groups"] = refusal(lambda: tkjit.load("all_reduce_one_shot")(pair, everyone))
    note["a club"] = refusal(lambda: tkjit.load("all_reduce")(everyone, everyone, club=tkjit.Club(["cpu"])))


def killed(note: dict[str, Any]) -> None:
    """Kills rank 2 in the middle of a program; the others have to notice that it has ended."""
    x, flags = tkjit.ParallelTensor((1000,)), signals()
    x.tensor.fill_(1)
    all_reduce, axpy = tkjit.load("all_reduce"), tkjit.load("axpy")
    all_reduce(x, flags)
    if dist.get_rank() == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    start = time.monotonic()
    note["waiting"] = refusal(lambda: all_reduce(x, flags))
    note["seconds"] = time.monotonic() - start
    note["the next"] = refusal(lambda: all_reduce(x, flags))
    # a kernel of a single device still works
    note["alone"] = axpy(torch.ones(3), torch.ones(3)).tolist()


def unmapped(note: dict[str, Any]) -> None:
    """Lets rank 1 share its memory but fail to map the others', as if it had no address space left."""
    opened = torch.UntypedStorage._new_shared_filename_cpu

    def fails(*name: Any) -> None:
        raise RuntimeError("unable to mmap 16 bytes: Cannot allocate memory (12)\nand a stack of C++")

    if dist.get_rank() == 1:
        torch.UntypedStorage._new_shared_filename_cpu = fails
    note["refused"] = refusal(lambda: tkjit.ParallelTensor((4,)))
    torch.UntypedStorage._new_shared_filename_cpu = opened
    note["the next"] = repr(tkjit.ParallelTensor((4,)))


def some(note: dict[str, Any]) -> None:
    """Uses a group of some processes, whose ranks in it differ from their global ranks."""
    some = dist.new_group([1, 3])
    if dist.get_rank() in (1, 3):
        odd = dist.get_rank() == 3
        note["refused"] = refusal(lambda: tkjit.ParallelTensor((4 + odd,), group=some))
        note["made"] = repr(tkjit.ParallelTensor((4,), group=some))


def late(note: dict[str, Any]) -> None:
    """Lets rank 1 arrive after the group's timeout."""
    signals()
    start = time.monotonic()
    if dist.get_rank() == 1:
        time.sleep(24)
    else:
        note["refused"] = refusal(signals)
    note["seconds"] = time.monotonic() - start


def apart(note: dict[str, Any]) -> None:
    """Lets rank 1 be at another step than the others, like a rank that arrives after the others were aborted."""
    signals()
    if dist.get_rank() == 1:
        note["refused"] = refusal(lambda: exchange(dist.group.WORLD, "shares its part"))
    else:
        note["refused"] = refusal(signals)
    note["the next"] = repr(tkjit.ParallelTensor((4,)))


def no_runtime(note: dict[str, Any]) -> None:
    """Gives rank 3 an empty cache, and forbids it to compile."""
    if dist.get_rank() == 3:
        os.environ.update(TKJIT_CACHE=f"{os.environ['HOME']}/no/cache", TKJIT_JIT="0")
    note["refused"] = refusal(signals)


def absent(note: dict[str, Any]) -> None:
    """Kills rank 2 before it makes a parallel tensor."""
    if dist.get_rank() == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    note["refused"] = refusal(signals)


def broken_off(note: dict[str, Any]) -> None:
    """Kills rank 2 while it makes a parallel tensor with the others."""
    if dist.get_rank() == 2:
        torch.UntypedStorage._new_shared_filename_cpu = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
    note["refused"] = refusal(signals)


if __name__ == "__main__":
    program, directory = sys.argv[1:]
    # longer than torch.distributed.run takes to start all processes
    dist.init_process_group("gloo", timeout=timedelta(seconds=20 if program == "late" else 300))
    seen: dict[str, Any] = {}
    globals()[program](seen)
    (Path(directory) / f"{dist.get_rank()}.json").write_text(json.dumps(seen))
    if program in ("killed", "absent", "broken_off"):
        os._exit(0)  # a group that has lost a process cannot be destroyed normally
    group = weakref.ref(dist.group.WORLD)
    dist.destroy_process_group()
    # a group that is still alive has threads, which may call std::terminate when Python exits
    assert group() is None, f"the group is kept by {gc.get_referrers(group())}"
