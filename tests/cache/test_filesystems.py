"""File systems that are full, read-only, noexec or without locks cause a clear error or several builds, but no hang.

The tests mount the file systems in a private namespace, which ends with its processes.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support.caches import entries, stagings
from support.sampling import sample
from support.waiting import wait_until

pytestmark = pytest.mark.compiles
SMALL = Path(__file__).parents[1] / "support" / "small_build.py"
SPEC = """
import tkjit
from tkjit import InOut, Tensor

def numbered(number):
    source = f"__global__ void f(Globals g) {{ g.x[0] = {number}; }}"
    @tkjit.kernel(source, entry="f", grid=1, block=1)
    def numbered(x: InOut[Tensor, "float32", "N"]) -> Tensor: ...
    return numbered
"""


@pytest.fixture(scope="session")
def namespace() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Returns a function that runs a shell command and then Python code, in a process with mounts of its own."""
    unshare = shutil.which("unshare")
    words = [unshare, "-m"] if os.geteuid() == 0 else [unshare, "-rm"]
    probe = "mount -t tmpfs -o size=64k tmpfs /mnt"
    if unshare is None or subprocess.run([*words, "sh", "-c", probe], capture_output=True).returncode != 0:
        pytest.skip("mounting needs unshare (util-linux), and root or user namespaces (docker run --privileged)")

    def run(mount: str, code: str, *arguments: object, **environ: str) -> subprocess.CompletedProcess[str]:
        script = f'{mount} && exec "$0" -c "$@"'
        command = [*words, "sh", "-c", script, sys.executable, code, *map(str, arguments)]
        # the timeout detects hangs
        return subprocess.run(command, env={**os.environ, **environ}, capture_output=True, text=True, timeout=120)

    return run


def ended_well(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    path = tmp_path / "disk"
    path.mkdir()
    return path


# ---- full

SMALL_ON_A_FULL_DISK = """
import json, os, subprocess, sys
small, disk, *sizes = sys.argv[1:]
outcomes = []
for size in sizes:
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}k", "tmpfs", disk], check=True)
    command = [sys.executable, small, f"{disk}/cache", "7"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    left = [name for _, names, _ in os.walk(disk) for name in names if name.startswith(".staging")]
    subprocess.run(["mount", "-o", "remount,size=4m", disk], check=True)
    later = subprocess.run(command, capture_output=True, text=True, timeout=30)
    outcomes.append([size, done.stdout, done.stderr, left, later.stdout])
    subprocess.run(["umount", disk], check=True)
print(json.dumps(outcomes))
"""


@pytest.mark.slow
def test_full_disk_is_reported_at_any_size_and_the_next_build_works(namespace, disk, rng):
    sizes = [4, *(rng.randrange(8, 120, 4) for _ in range(11)), 400]
    outcomes = json.loads(ended_well(namespace(":", SMALL_ON_A_FULL_DISK, SMALL, disk, *sizes)))
    for size, printed, errors, left, later in outcomes:
        last = errors.rstrip().splitlines()[-1:]
        full = bool(last) and last[0].startswith("tkjit.errors.CacheError") and "TKJIT_CACHE" in last[0]
        assert printed == "7\n" or full, f"{size} KiB: {errors}"
        assert not left and later == "7\n", f"{size} KiB"
    assert outcomes[0][1] == "" and outcomes[-1][1] == "7\n"


CALLS_ON_A_FULL_DISK = (
    SPEC
    + """
import json, os, shutil, sys, torch
disk, *rooms = sys.argv[1:]
outcomes = []
for number, room in enumerate(map(int, rooms)):
    free = os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize
    with open(f"{disk}/filler", "wb") as filler:
        os.posix_fallocate(filler.fileno(), 0, max(1, free - room * 1024))
    try:
        outcome = numbered(number)(torch.zeros(1)).item()
    except tkjit.CacheError as error:
        outcome = str(error)
    os.unlink(f"{disk}/filler")
    outcomes.append([room, outcome, numbered(number)(torch.zeros(1)).item()])
print(json.dumps(outcomes))
"""
)


@pytest.mark.slow
def test_call_reports_a_full_disk_and_works_once_there_is_room(namespace, disk, cache_with_runtime, rng):
    rooms = [0, *(rng.randrange(4, 200, 4) for _ in range(5)), 2000]
    mount = f"mount -t tmpfs -o size=64m tmpfs '{disk}' && cp -a '{cache_with_runtime}' '{disk}/cache'"
    done = namespace(mount, CALLS_ON_A_FULL_DISK, disk, *rooms, TKJIT_CACHE=f"{disk}/cache")
    outcomes = json.loads(ended_well(done))
    for number, (room, outcome, later) in enumerate(outcomes):
        assert outcome == number or ("TKJIT_CACHE" in outcome and f"{disk}/cache" in outcome), f"{room} KiB: {outcome}"
        assert later == number
    assert isinstance(outcomes[0][1], str) and outcomes[-1][1] == len(rooms) - 1


# ---- read-only and noexec

CALL = """
import sys, torch, tkjit
try:
    print(tkjit.load("axpy")(torch.ones(1), torch.ones(1), 2.0).item())
    print(tkjit.load("axpy")(torch.ones(1).half(), torch.ones(1).half(), 2.0).item())
except tkjit.TkjitError as error:
    print(f"{type(error).__name__}: {error}")
"""
WARM = 'import torch, tkjit; print(tkjit.load("axpy")(torch.ones(1), torch.ones(1)).item())'


@pytest.mark.slow  # builds in several directories
def test_read_only_cache_serves_existing_entries_and_rejects_builds(namespace, fresh, cache_with_runtime, tmp_path):
    assert fresh.run(WARM) == "2.0\n"
    mount = (
        f"mount --bind '{cache_with_runtime}' '{cache_with_runtime}' && mount -o remount,bind,ro '{cache_with_runtime}'"
    )
    served, refused = ended_well(namespace(mount, CALL)).splitlines()
    assert served == "3.0"
    assert refused == (
        f"CacheError: cannot write to the cache directory {cache_with_runtime}: Read-only file system; "
        "set TKJIT_CACHE to another one"
    )
    own = {"TKJIT_CACHE": str(tmp_path / "own"), "TKJIT_CACHE_READONLY": str(cache_with_runtime)}
    assert ended_well(namespace(mount, CALL, **own)).splitlines() == ["3.0", "3.0"]
    (built,) = entries(tmp_path / "own")
    assert json.loads((built / "manifest.json").read_text())["what"].startswith("axpy (T=float16)")


@pytest.mark.slow
def test_error_says_that_the_file_system_is_noexec(namespace, fresh, cache_with_runtime, disk):
    assert fresh.run(WARM) == "2.0\n"
    reason = f"CacheError: the cache directory {disk}/cache is on a file system that is mounted noexec"
    empty = f"mount -t tmpfs -o noexec tmpfs '{disk}'"
    assert ended_well(namespace(empty, CALL, TKJIT_CACHE=f"{disk}/cache")).startswith(reason)
    # existing entries cannot be loaded either, and rebuilding them would not help
    filled = f"{empty} && cp -a '{cache_with_runtime}' '{disk}/cache'"
    assert ended_well(namespace(filled, CALL, TKJIT_CACHE=f"{disk}/cache")).startswith(reason)
    assert fresh.run(CALL) == "3.0\n3.0\n"


# ---- no locks, and failing clean-up

FAILING = """
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

// affects only Python, because compilers remove files for their own reasons
static int fails(const char* variable) {
    const char* number = strncmp(program_invocation_short_name, "python", 6) ? 0 : getenv(variable);
    if (number) errno = atoi(number);
    return number != 0;
}
template <class F> static F real(const char* name) { return reinterpret_cast<F>(dlsym(RTLD_NEXT, name)); }

extern "C" int flock(int file, int operation) noexcept {
    return fails("FAIL_LOCKS") ? -1 : real<int (*)(int, int)>("flock")(file, operation);
}
extern "C" int fcntl64(int file, int command, ...) {
    va_list list;
    va_start(list, command);
    void* argument = va_arg(list, void*);
    va_end(list);
    if ((command == F_OFD_SETLK || command == F_SETLK) && fails("FAIL_LOCKS")) return -1;
    return real<int (*)(int, int, ...)>("fcntl64")(file, command, argument);
}
extern "C" int unlinkat(int directory, const char* path, int flags) noexcept {
    return fails("FAIL_CLEANING") ? -1 : real<int (*)(int, const char*, int)>("unlinkat")(directory, path, flags);
}
extern "C" int unlink(const char* path) noexcept {
    // torch removes its own lock file next to the output of load_inline
    const bool is_torchs = strlen(path) > 5 && !strcmp(path + strlen(path) - 5, "/lock");
    return !is_torchs && fails("FAIL_CLEANING") ? -1 : real<int (*)(const char*)>("unlink")(path);
}
extern "C" int rmdir(const char* path) noexcept {
    return fails("FAIL_CLEANING") ? -1 : real<int (*)(const char*)>("rmdir")(path);
}
"""


@pytest.fixture(scope="session")
def failing(tmp_path_factory) -> dict[str, str]:
    """Returns environment variables that make file system calls of Python fail on request."""
    directory = tmp_path_factory.mktemp("failing")
    (directory / "failing.cpp").write_text(FAILING)
    build = ["g++", "-shared", "-fPIC", directory / "failing.cpp", "-o", directory / "failing.so", "-ldl"]
    subprocess.run(build, check=True)
    return {"LD_PRELOAD": str(directory / "failing.so")}


def small(root: Path, **environ: str) -> subprocess.Popen[str]:
    environment = {**os.environ, **environ}
    command = [sys.executable, SMALL, root, "7"]
    # Python's tempfile tries its directories with a file, the last one in the working directory, and cannot remove it
    directory = root.parent
    return subprocess.Popen(
        command, cwd=directory, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def no_locks(error: str) -> dict[str, str]:
    return {"FAIL_LOCKS": str(getattr(errno, error))}


@pytest.mark.parametrize("error", sample(["ENOLCK", "ENOSYS", "EOPNOTSUPP"], "ENOLCK"))
def test_without_locks_each_process_builds_and_one_result_is_published(error, failing, compiler, tmp_path):
    compiler.hold()
    begun = [small(tmp_path / "cache", **failing, **no_locks(error)) for _ in range(3)]
    wait_until(lambda: len(compiler.compiled) == 3, 30, "all three are compiling")
    compiler.release()
    ended = [(*process.communicate(timeout=60), process.returncode) for process in begun]
    assert [(printed, code) for printed, _, code in ended] == [("7\n", 0)] * 3
    assert all("is on a file system without locks" in warned for _, warned, _ in ended)
    assert len(entries(tmp_path / "cache")) == 1 and not stagings(tmp_path / "cache")


@pytest.mark.parametrize("error", ["EBUSY", "ESTALE"])
def test_finished_build_survives_failing_clean_up(error, failing, compiler, tmp_path):
    root = tmp_path / "cache"
    fails = {**failing, "FAIL_CLEANING": str(getattr(errno, error))}
    done = small(root, **fails)
    assert (*done.communicate(timeout=60), done.returncode) == ("7\n", "", 0)
    assert len(entries(root)) == 1
    again = small(root)
    assert (*again.communicate(timeout=60), again.returncode) == ("7\n", "", 0)
    assert compiler.compiled == ["launcher"]


def test_call_works_without_locks_and_with_failing_clean_up(failing, cache_with_runtime):
    environment = {**os.environ, **failing, **no_locks("ENOLCK"), "FAIL_CLEANING": str(errno.EBUSY)}
    command, directory = [sys.executable, "-c", CALL], cache_with_runtime.parent
    done = subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, timeout=60)
    assert ended_well(done) == "3.0\n3.0\n"
    assert len(entries(cache_with_runtime)) == 4
