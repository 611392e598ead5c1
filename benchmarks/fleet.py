"""Many processes that call the same new kernel at once, and warmup of many variants: builds, times, bytes.

    python -m benchmarks.fleet                        # 64 processes, and 200 variants
    python -m benchmarks.fleet --processes 64 --variants 1000

The processes are forked from one that has imported torch and tkjit, wait for each other, and then call. If the system
allows it, each gets its own user, PID, UTS and mount namespaces, like a container on its own machine.
"""

from __future__ import annotations

import argparse
import ctypes
import http.server
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

import tkjit
from benchmarks.harness import ROOT
from tkjit.cache import building
from tkjit.cache.listing import leftovers, list_entries

Scenario = Callable[[int, Path], list[tuple[str, ...]]]
_NEW = {"user": 0x10000000, "pid": 0x20000000, "uts": 0x04000000, "mount": 0x00020000}
_SOURCE = """
#include <tkjit/arg.h>
template <int D> __global__ void scale(float* x, int) { x[threadIdx.x] *= D; }
"""
_SPEC = """
import tkjit
from tkjit import InOut, Tensor

@tkjit.kernel("scale.cu", entry="scale<D>", args=True, grid=1, block="N", variants={"D": tuple(range(COUNT))})
def scale(x: InOut[Tensor, "float32", "N"], D: int) -> None: ...
"""


# ---- processes


def isolate(number: int) -> bool:
    """Enter new namespaces, in which the next child is the first process; returns whether the system allows it."""
    libc = ctypes.CDLL(None, use_errno=True)
    user, group = os.getuid(), os.getgid()
    if libc.unshare(sum(_NEW.values())):
        return False
    try:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    except OSError:
        return False
    name = f"node{number}".encode()
    return bool(libc.sethostname(name, len(name)) == 0)


def first_call() -> None:
    import torch

    x = torch.ones(1000)
    assert torch.equal(tkjit.load("axpy")(x, torch.ones(1000), 2.0), 3 * x)


def run_one(number: int, root: Path, go: int, said: int) -> None:
    """Wait for the start signal, make the first call, and report its time and builds."""
    os.environ["TKJIT_CACHE"] = str(root)
    builds = 0
    attempt = building._attempt

    def counted(*arguments: Any) -> Any:
        nonlocal builds
        builds += 1
        return attempt(*arguments)

    building._attempt = counted  # type: ignore[assignment]
    isolated = isolate(number)
    pid = os.fork()
    if pid:
        os._exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    os.write(said, b"ready\n")
    os.read(go, 1)  # ends when the parent closes it
    start = time.perf_counter()
    first_call()
    seconds = time.perf_counter() - start
    os.write(said, json.dumps({"seconds": seconds, "builds": builds, "isolated": isolated}).encode() + b"\n")
    os._exit(0)


def fleet(count: int, root_of: Callable[[int], Path], **environ: str) -> tuple[float, list[dict[str, Any]]]:
    """Start processes that all call at once; returns the seconds until the last result, and each process's report.

    The processes are forked from this one, which has imported torch and tkjit but called no kernel.
    """
    os.environ.update(environ)
    go_read, go_write = os.pipe()
    said_read, said_write = os.pipe()
    pids = []
    for number in range(count):
        if not (pid := os.fork()):
            os.close(go_write)
            run_one(number, root_of(number), go_read, said_write)
        pids.append(pid)
    os.close(said_write)
    with os.fdopen(said_read) as lines:
        for _ in range(count):
            assert lines.readline() == "ready\n"
        start = time.perf_counter()
        os.close(go_write)
        results = [json.loads(line) for line in lines]
    seconds = time.perf_counter() - start
    for pid in pids:
        assert os.waitpid(pid, 0)[1] == 0
    os.close(go_read)
    assert len(results) == count
    return seconds, results


# ---- a server that counts bytes


@contextmanager
def serving(directory: Path) -> Iterator[tuple[str, list[int]]]:
    """Serve a directory over HTTP on loopback; yields the URL and the sizes of the files sent."""
    sent: list[int] = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def copyfile(self, source: Any, outputfile: Any) -> None:
            content = source.read()
            sent.append(len(content))
            outputfile.write(content)

        def log_message(self, *words: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(directory)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", sent
    finally:
        server.shutdown()


def in_child(scenario: Scenario, number: int, directory: Path) -> list[tuple[str, ...]]:
    """Run a scenario in a forked child, so that its changes to the environment end with it; returns its rows."""
    read, write = os.pipe()
    if not (pid := os.fork()):
        os.write(write, json.dumps(scenario(number, directory)).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as file:
        text = file.read()
    assert os.waitpid(pid, 0)[1] == 0
    return [tuple(row) for row in json.loads(text)]


# ---- scenarios


def shared_directory(processes: int, directory: Path) -> list[tuple[str, ...]]:
    """All processes share one empty cache."""
    alone, _ = fleet(1, lambda number: directory / "alone")
    together, results = fleet(processes, lambda number: directory / "shared", TKJIT_CACHE_SHARED="1")
    builds = sum(result["builds"] for result in results)
    entries = len(list_entries(directory / "shared"))
    isolated = sum(result["isolated"] for result in results)
    return [
        (
            f"{processes} processes, one empty cache ({isolated} in namespaces)",
            f"{together:.1f} s",
            f"{alone:.1f} s alone; limit {1.5 * alone + 1:.1f} s{' over' if together > 1.5 * alone + 1 else ''}",
            f"{builds} builds of {entries} entries",
        )
    ]


def one_remote(processes: int, directory: Path) -> list[tuple[str, ...]]:
    """Eight empty caches, as on eight machines, and a remote cache that has everything; compiling is forbidden."""
    remote = directory / "remote"
    fleet(
        1, lambda number: directory / "writer", TKJIT_CACHE_REMOTE=f"file://{remote}", TKJIT_CACHE_REMOTE_UNSIGNED="1"
    )
    subprocess.run(
        [sys.executable, "-m", "tkjit", "cache", "push"],
        env={**os.environ, "TKJIT_CACHE": str(directory / "writer")},
        check=True,
        stdout=subprocess.DEVNULL,
    )
    caches = min(8, processes)
    with serving(remote) as (url, sent):
        environ = {"TKJIT_CACHE_REMOTE": url, "TKJIT_JIT": "0"}
        alone, _ = fleet(1, lambda number: directory / "reader", **environ)
        of_one = sum(sent)
        sent.clear()
        together, results = fleet(processes, lambda number: directory / f"machine{number % caches}", **environ)
        moved, requests = sum(sent), len(sent)
    builds = sum(result["builds"] for result in results)
    return [
        (
            f"{processes} processes, {caches} empty caches, one remote cache",
            f"{together:.1f} s",
            f"{alone:.1f} s alone; {requests} objects, {moved >> 10} KiB, {of_one >> 10} KiB per cache",
            f"{builds} builds",
        )
    ]


def many_variants(count: int, directory: Path) -> list[tuple[str, ...]]:
    """Warm up a kernel with more and more variants; the last warmup is interrupted halfway and then resumed."""
    kernels = directory / "kernels"
    kernels.mkdir()
    (kernels / "scale.cu").write_text(_SOURCE)
    root = directory / "variants"
    warm(root, kernels, 1)  # builds the parts that all kernels of an environment share
    rows: list[tuple[str, ...]] = []
    seconds = 0.0
    for number in (count // 4, count // 2, count):
        begun = len(list_entries(root))
        # the last warmup builds twice as many variants as the one before, so after that one's time it is halfway
        seconds, peak = warm(root, kernels, number, interrupt_after_s=seconds if number == count else None)
        built = len(list_entries(root)) - begun
        rows.append(
            (f"{built} variants", f"{seconds:.1f} s", f"{seconds / built:.2f} s each", f"peak {peak} MiB of warmup")
        )
    begun = len(list_entries(root))
    seconds, peak = warm(root, kernels, count)
    built, left = len(list_entries(root)) - begun, len(leftovers(root))
    rows.append(
        (f"interrupted, and {built} more", f"{seconds:.1f} s", f"{left} leftovers", f"peak {peak} MiB of warmup")
    )
    return rows


def warm(root: Path, kernels: Path, variants: int, interrupt_after_s: float | None = None) -> tuple[float, int]:
    """Warm up a kernel; returns the seconds, and the peak memory of the warmup process in MiB."""
    (kernels / "scale.py").write_text(_SPEC.replace("COUNT", str(variants)))
    command = [sys.executable, "-m", "tkjit", "warmup", "scale", "--device", "cpu"]
    environ = {**os.environ, "TKJIT_CACHE": str(root), "TKJIT_KERNEL_PATH": str(kernels), "PYTHONPATH": str(ROOT)}
    start = time.perf_counter()
    process = subprocess.Popen(command, env=environ, stdout=subprocess.DEVNULL)
    if interrupt_after_s is not None:
        time.sleep(interrupt_after_s)
        process.send_signal(signal.SIGINT)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = status
    assert interrupt_after_s is not None or status == 0
    return time.perf_counter() - start, usage.ru_maxrss >> 10


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fleet", description=__doc__)
    parser.add_argument("--processes", type=int, default=64, metavar="N")
    parser.add_argument("--variants", type=int, default=200, metavar="N")
    arguments = parser.parse_args()
    import torch

    torch.set_num_threads(1)
    table = Table("", "took", "", "", box=None, header_style="bold")
    with tempfile.TemporaryDirectory(prefix="fleet-") as name:
        directory = Path(name)
        directory.chmod(0o777)
        for scenario, number in (
            (shared_directory, arguments.processes),
            (one_remote, arguments.processes),
            (many_variants, arguments.variants),
        ):
            if number:
                for row in in_child(scenario, number, directory):
                    table.add_row(*row)
    Console(width=160).print(table)


if __name__ == "__main__":
    main()
