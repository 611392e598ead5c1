"""One process of a group on GPUs: ``gpu_ranks.py PROGRAM DIRECTORY`` writes its notes to a file."""

from __future__ import annotations

import json
import os
import runpy
import signal
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

import tkjit
from tkjit.verify.bounds import bound_of, row_error
from tkjit.verify.call import Planned
from tkjit.verify.reference import expected_results

DEVICE = torch.device("cuda", int(os.environ["RANK"]) % torch.cuda.device_count())


def part(rank: int, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(rank)).to(DEVICE, torch.bfloat16)


def parts(*shape: int) -> list[torch.Tensor]:
    """The parts of all processes, in the order of their ranks."""
    return [part(rank, *shape) for rank in range(dist.get_world_size())]


def existing(note: dict[str, Any]) -> None:
    """Shares existing tensors through CUDA IPC; several processes may share one GPU."""
    rank = dist.get_rank()
    flags = tkjit.ParallelTensor(torch.zeros(64 * dist.get_world_size(), dtype=torch.int32, device=DEVICE))
    wanted = sum(each.float() for each in parts(5003)).bfloat16()
    x = part(rank, 5003)
    shared = tkjit.ParallelTensor(x)
    note["one shot"] = bool(torch.equal(tkjit.load("all_reduce_one_shot")(shared, flags), wanted))
    tkjit.load("all_reduce")(shared, flags)
    note["two shots"] = bool(torch.equal(x, wanted))
    note["signals are zero"] = not flags.tensor.any()
    note["own"] = shared.data_ptrs[rank] == x.data_ptr()
    dist.barrier()  # no process may end while others read its part


def collectives(note: dict[str, Any]) -> None:
    """Compares each collective in symmetric memory with NCCL's."""
    rank, size = dist.get_rank(), dist.get_world_size()
    flags = tkjit.ParallelTensor.zeros((64 * size,), dtype=torch.int32)

    def shared(values: torch.Tensor) -> tkjit.ParallelTensor:
        made = tkjit.ParallelTensor(tuple(values.shape), dtype=values.dtype)
        made.tensor.copy_(values)
        return made

    x, wanted = part(rank, 20011), part(rank, 20011)
    dist.all_reduce(wanted)
    exact = sum(each.float() for each in parts(20011)).bfloat16()
    y = tkjit.load("all_reduce_one_shot")(shared(x), flags)
    note["exact"] = bool(torch.equal(y, exact))
    note["all_reduce"] = float((y.float() - wanted.float()).abs().max() / wanted.float().abs().max())

    rows = part(rank, 6, 5)
    gathered = torch.empty(6 * size, 5, device=DEVICE, dtype=rows.dtype)
    dist.all_gather_into_tensor(gathered, rows)
    note["all_gather"] = bool(torch.equal(tkjit.load("all_gather")(shared(rows), flags), gathered))

    rows = part(rank, 3 * size, 8)
    share = torch.empty(3, 8, device=DEVICE, dtype=rows.dtype)
    dist.reduce_scatter_tensor(share, rows)
    own = tkjit.load("reduce_scatter")(shared(rows), flags)
    note["reduce_scatter"] = float((own.float() - share.float()).abs().max() / share.float().abs().max())
    note["signals are zero"] = not flags.tensor.any()
    dist.barrier()


def multicast(note: dict[str, Any]) -> None:
    """Computes a sum in the switch, if there is one; the switch adds in its own order."""
    flags = tkjit.ParallelTensor.zeros((64 * dist.get_world_size(),), dtype=torch.int32)
    try:
        x = tkjit.ParallelTensor((8192,), dtype=torch.bfloat16, multicast=True)
    except tkjit.LaunchError as error:
        note["refused"] = str(error)
        return
    x.tensor.copy_(part(dist.get_rank(), 8192))
    tkjit.load("all_reduce")(x, flags)
    wanted = sum(each.float() for each in parts(8192))
    note["address"] = x.multicast_ptr != 0
    note["error"] = float((x.tensor.float() - wanted).abs().max() / wanted.abs().max())
    dist.barrier()


def thunderkittens(note: dict[str, Any]) -> None:
    """Compares ThunderKittens' kernels over 8 devices with their references, with the calls of ``verify``."""
    helpers = runpy.run_path(str(Path(__file__).parents[1] / "support" / "thunderkittens.py"))
    met = tkjit.ParallelTensor.zeros((1,), dtype=torch.int32, multicast=True)
    wait = tkjit.load("tk_device_barrier")
    arch = "{}{}a".format(*torch.cuda.get_device_capability(DEVICE))
    for kernel in helpers["CALLED"]:
        spec = tkjit.find(kernel).specs[0]
        if not spec.is_parallel or helpers["arch_of"](spec) != arch or kernel.endswith("_epilogue"):
            continue
        for call in helpers["calls"](kernel):
            given = _own(call)
            wait(met)
            tkjit.load(kernel)(**given)
            if f"{kernel}_epilogue" in helpers["CALLED"]:
                tkjit.load(f"{kernel}_epilogue")(**given)
            wait(met)
            note[f"{kernel}({call.case.name})"] = _errors(call, given)


def _own(call: Planned) -> dict[str, Any]:
    """This device's arguments of a call; all processes generate the same calls."""
    given = dict(call.case.arguments)
    for field in call.spec.tensors:
        own = given[field.name][dist.get_rank()].to(DEVICE)
        given[field.name] = own
        if field.is_parallel:
            given[field.name] = tkjit.ParallelTensor(tuple(own.shape), dtype=own.dtype, multicast=True)
            given[field.name].tensor.copy_(own)
    return given


def _errors(call: Planned, given: dict[str, Any]) -> dict[str, float]:
    expected, _ = expected_results(call.reference, call.case.arguments, bound_of(call.spec, call.variant))
    return {
        name: row_error(parts[dist.get_rank()], getattr(given[name], "tensor", given[name]).cpu())
        for name, parts in expected.items()
        if name not in call.spec.verification.unchecked
    }


def killed(note: dict[str, Any]) -> None:
    """Kills rank 1. The GPU of rank 0 waits for rank 1, so tkjit ends rank 0 as well."""
    flags = tkjit.ParallelTensor(torch.zeros(64 * dist.get_world_size(), dtype=torch.int32, device=DEVICE))
    x = tkjit.ParallelTensor(part(dist.get_rank(), 1000))
    all_reduce = tkjit.load("all_reduce")
    all_reduce(x, flags)
    torch.cuda.synchronize()
    dist.barrier()
    if dist.get_rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    all_reduce(x, flags)
    torch.cuda.synchronize()


if __name__ == "__main__":
    program, directory = sys.argv[1:]
    torch.cuda.set_device(DEVICE)
    dist.init_process_group("gloo" if program in ("existing", "killed") else "nccl")
    seen: dict[str, Any] = {}
    globals()[program](seen)
    (Path(directory) / f"{dist.get_rank()}.json").write_text(json.dumps(seen))
    dist.destroy_process_group()
