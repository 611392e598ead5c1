"""The cache commands, and the settings for compilation and cache size."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.caches import CALL, RIGHT, entries, stagings
from support.forking import Child, Server
from support.waiting import wait_until

from tkjit.cache import checked_json
from tkjit.cache.entry import MANIFEST, read_manifest
from tkjit.cache.recipe import digest_of_file
from tkjit.compile.targets import cpu_target
from tkjit.system.start_time import start_time

pytestmark = pytest.mark.compiles
CPU = cpu_target().name
OF_BUILDS = {"simulator", "common_headers"}  # used by builds, but not by calls
# a call that needs another variant than CALL
HALF = 'import torch, tkjit; print(tkjit.load("axpy")(torch.ones(1).half(), torch.ones(1).half()).item())'
WARMUP = "python -m tkjit warmup axpy --device cpu --types float32"


def parsed(child: Child) -> object:
    """Parse the JSON that a command printed."""
    return json.loads(child.printed())


def built(root: Path, dtype: str) -> Path:
    """Return the entry of a variant of axpy."""
    (found,) = [path for path in entries(root) if read_manifest(path).get("what") == f"axpy (T={dtype}) for {CPU}"]
    return found


@contextmanager
def in_use(fresh: Server, directory: Path) -> Iterator[Child]:
    """Keep a process running that uses the entries of CALL."""
    wait = f"import os, time\nprint(flush=True)\nwhile not os.path.exists({str(directory / 'go')!r}): time.sleep(0.01)"
    child = fresh.start(f"{CALL}\n{wait}\n{CALL}")
    wait_until(lambda: child.stdout.startswith(RIGHT + "\n"), 30)
    yield child
    (directory / "go").touch()
    assert child.printed() == f"{RIGHT}\n{RIGHT}"


# ---- dir, list, size


def test_dir_prints_the_cache_and_its_layers(fresh, cache):
    assert fresh.tkjit("cache", "dir").printed() == f"{cache}\n"
    answer = parsed(fresh.tkjit("cache", "dir", "--json", TKJIT_CACHE_READONLY="/first:/second"))
    assert answer == {"directory": str(cache), "layers": ["/first", "/second"]}
    assert not cache.exists()


@pytest.mark.slow
def test_list_prints_entries_and_whether_they_are_in_use(fresh, warmed, tmp_path):
    def listed(*names: str) -> dict[str, dict]:
        return {entry["arch"]: entry for entry in parsed(fresh.tkjit("cache", "list", *names, "--json"))}

    found = listed()
    names = {(entry["arch"], entry["name"]) for entry in parsed(fresh.tkjit("cache", "list", "--json"))}
    headers = {("common_headers", "glue"), ("common_headers", "launcher")}
    assert names == {("runtime", "runtime"), ("simulator", CPU), ("glue", "axpy"), (CPU, "axpy"), *headers}
    assert {Path(entry["directory"]) for arch, entry in found.items() if arch not in OF_BUILDS} == entries(warmed)
    assert not any(entry["in_use"] for entry in found.values())
    assert all(entry["size_bytes"] > 4096 for entry in found.values())
    assert found[CPU]["manifest"]["what"] == f"axpy (T=float32) for {CPU}"
    assert listed("axpy").keys() == {"glue", CPU} and listed("gemm") == {}
    with in_use(fresh, tmp_path):
        assert {arch for arch, entry in listed().items() if not entry["in_use"]} == OF_BUILDS
        head, *rows = fresh.tkjit("cache", "list").printed().splitlines()
        assert head.split() == ["kernel", "for", "variant", "size", "used"]
        of_calls = [row for row in rows if not any(name in row for name in OF_BUILDS)]
        assert [row.split()[:2] for row in of_calls] == [["axpy", CPU], ["axpy", "glue"], ["runtime", "runtime"]]
        assert of_calls[0].split()[2] == "T=float32" and all(row.endswith("in use") for row in of_calls)


@pytest.mark.slow
def test_size_counts_entries_and_leftovers(fresh, warmed):
    listed = parsed(fresh.tkjit("cache", "list", "--json"))
    before = parsed(fresh.tkjit("cache", "size", "--json"))
    assert before == {
        "entries": 6,
        "entries_bytes": sum(entry["size_bytes"] for entry in listed),
        "leftovers_bytes": 0,
        "limit_bytes": None,
    }
    kept = built(warmed, "float32").parent / ".failed"
    kept.mkdir()
    (kept / "launcher.cu").write_text("x" * 10_000)
    after = parsed(fresh.tkjit("cache", "size", "--json", TKJIT_CACHE_LIMIT="1.5G"))
    assert after["limit_bytes"] == 1.5 * 2**30 and 10_000 <= after["leftovers_bytes"] < 20_000
    shown = fresh.tkjit("cache", "size").printed()
    assert shown.startswith("6 entries, ") and "other leftovers, 12.0 KiB" in shown and "limit: none" in shown


# ---- prune, clear


def used_before(directory: Path, hours: float) -> None:
    """Set an entry's last use to some hours ago."""
    when = directory.stat().st_mtime - hours * 3600
    os.utime(directory, (when, when))


def test_prune_removes_the_least_recently_used_entry(fresh, warmed):
    assert fresh.run(HALF) == "2.0\n"
    old = built(warmed, "float32")
    for entry in entries(warmed):
        used_before(entry, 5 if entry == old else 1)
    size = parsed(fresh.tkjit("cache", "size", "--json"))["entries_bytes"]
    answer = parsed(fresh.tkjit("cache", "prune", "--limit", str(size - 1), "--json"))
    assert [entry["directory"] for entry in answer["removed"]] == [str(old)]
    assert not old.exists() and len(entries(warmed)) == 3
    assert fresh.tkjit("cache", "prune", "--limit", "1T").printed() == "removed 0 entries, 0 B\n"
    refused = fresh.tkjit("cache", "prune")
    assert refused.code == 1 and "pass --limit, or set TKJIT_CACHE_LIMIT" in refused.stderr
    assert fresh.run(CALL) == RIGHT


def test_call_renews_the_last_use_of_its_entries(fresh, warmed):
    for entry in entries(warmed):
        used_before(entry, 5)
    before = {entry: entry.stat().st_mtime for entry in entries(warmed)}
    assert fresh.run(CALL) == RIGHT
    assert all(entry.stat().st_mtime > before[entry] + 4 * 3600 for entry in entries(warmed))


@pytest.mark.slow
@pytest.mark.parametrize(
    "command", [("clear",), pytest.param(("prune", "--limit", "0"), marks=pytest.mark.slow)], ids=" ".join
)
def test_entries_in_use_are_not_removed(command, fresh, warmed, compiler, tmp_path):
    assert fresh.run(HALF) == "2.0\n"
    everything, half = entries(warmed), built(warmed, "float16")
    with in_use(fresh, tmp_path):
        everything_removed = parsed(fresh.tkjit("cache", *command, "--json"))["removed"]
        (removed,) = [entry for entry in everything_removed if entry["arch"] not in OF_BUILDS]
        assert (removed["directory"], removed["name"], removed["arch"]) == (str(half), "axpy", CPU)
        assert removed["size_bytes"] > 4096
        assert entries(warmed) == everything - {half}
    assert fresh.tkjit("cache", *command).printed().startswith("removed 3 entries, ")
    assert entries(warmed) == set()


def test_clear_removes_the_entries_of_one_kernel(fresh, warmed):
    assert fresh.tkjit("cache", "clear", "axpy").printed().startswith("removed 2 entries, ")
    (left,) = entries(warmed)
    assert left.parents[1].name == "runtime"
    removed = parsed(fresh.tkjit("cache", "clear", "--json"))["removed"]
    assert {entry["arch"] for entry in removed} == {"runtime", *OF_BUILDS}
    assert [path for path in (warmed / "v1").rglob("*") if path.is_dir() and path.parent.name == "runtime"] == []


@pytest.mark.slow
def test_build_enforces_the_limit_without_removing_entries_in_use(fresh, warmed, tmp_path):
    with in_use(fresh, tmp_path):
        held = entries(warmed)
        assert fresh.run(HALF, TKJIT_CACHE_LIMIT="1K") == "2.0\n"
        assert len(entries(warmed)) == 4 and entries(warmed) > held, "entries in use and the new build must stay"
    bfloat16 = HALF.replace("half", "bfloat16")
    assert fresh.run(bfloat16, TKJIT_CACHE_LIMIT="1K") == "2.0\n"
    kept = {read_manifest(entry)["what"] for entry in entries(warmed)}
    assert f"axpy (T=bfloat16) for {CPU}" in kept
    assert not kept & {f"axpy (T={one}) for {CPU}" for one in ("float32", "float16")}
    refused = fresh.tkjit("cache", "dir", TKJIT_CACHE_LIMIT="much")
    assert refused.code == 1 and "TKJIT_CACHE_LIMIT='much' is not a size" in refused.stderr


# ---- why, diff


def test_why_reports_hits_and_misses(fresh, warmed):
    why = ("why", "axpy", "--device", "cpu", "--types", "float32")
    hits = parsed(fresh.tkjit(*why, "--json"))
    assert [hit["hit"] for hit in hits] == [True] * 3
    assert {Path(hit["directory"]) for hit in hits} == entries(warmed)
    shown = fresh.tkjit(*why).printed().splitlines()
    assert all(line.startswith("hit   ") and " ago: " in line for line in shown) and len(shown) == 3
    # the nearest entry is that of another variant
    missed = fresh.tkjit(*why[:-1], "bfloat16")
    assert missed.code == 1
    assert f"miss  axpy (T=bfloat16) for {CPU}\n      nearest is axpy (T=float32) for {CPU}, built " in missed.stdout
    assert "\n      text: " in missed.stdout and f"to build it: {WARMUP[:-7]}bfloat16\n" in missed.stdout


DIFFED = """
import tkjit
from tkjit import InOut, Tensor

@tkjit.kernel("diffed.cu", entry="f", grid=1, block=1)
def diffed(x: InOut[Tensor, "float32", "N"]) -> Tensor: ...
"""


@pytest.mark.slow
def test_diff_compares_the_last_two_builds(fresh, cache_with_runtime, tmp_path, monkeypatch):
    (tmp_path / "diffed.py").write_text(DIFFED)
    source, header = tmp_path / "diffed.cu", tmp_path / "value.h"
    source.write_text('#include "value.h"\n__global__ void f(Globals g) { g.x[0] = VALUE; }\n')
    monkeypatch.setenv("TKJIT_KERNEL_PATH", str(tmp_path))
    call = 'import torch, tkjit; print(tkjit.load("diffed")(torch.zeros(1)).item())'
    nothing = fresh.tkjit("diff", "diffed")
    assert (nothing.code, nothing.stderr) == (1, f"tkjit: diffed has no build in {cache_with_runtime}\n")
    for value in (1, 2):
        header.write_text(f"#define VALUE {value}\n")
        assert fresh.run(call) == f"{value}.0\n"
        if value == 1:
            assert "  built once; there is nothing to compare it with\n" in fresh.tkjit("diff", "diffed").printed()
    glue, launcher = sorted(parsed(fresh.tkjit("diff", "diffed", "--json")), key=lambda one: "glue" not in one["what"])
    assert len(glue["builds"]) == 1 and glue["differences"] == []
    assert launcher["what"] == f"diffed for {CPU}" and len(launcher["builds"]) == 2
    assert launcher["differences"] == [{"part": "files", "text": "<kernels>/value.h has changed"}]
    assert {"seconds", "peak_memory_bytes", "shared_object_bytes"} <= launcher["figures"].keys()
    assert all(before > 0 and now > 0 for before, now in launcher["figures"].values())
    shown = fresh.tkjit("diff", "diffed").printed()
    assert "  files: <kernels>/value.h has changed\n" in shown and "\n  peak_memory_bytes " in shown
    source.write_text(source.read_text().replace("= VALUE", "= 3"))
    assert fresh.run(call) == "3.0\n"
    assert "lines differ; --text shows them" in fresh.tkjit("diff", "diffed").printed()
    text = fresh.tkjit("diff", "diffed", "--text").printed()
    assert (
        "\n-__global__ void f(Globals g) { g.x[0] = VALUE; }\n+__global__ void f(Globals g) { g.x[0] = 3; }\n" in text
    )


# ---- bundles


@pytest.fixture
def bundle(fresh, warmed, operators, tmp_path) -> Path:
    """A bundle of axpy that was moved after it was made."""
    operators(warmed)
    made = tmp_path / "made"
    printed = fresh.tkjit("bundle", "axpy", "--device", "cpu", "--types", "float32", "-o", made).printed()
    assert f"{made}: 4 entries, " in printed and f"TKJIT_CACHE_READONLY={made}\n" in printed
    return made.rename(tmp_path / "bundle")


def on_a_bare_machine(fresh: Server, bundle: Path, tmp_path: Path, code: str = CALL) -> Child:
    """Run code on a machine that has no compilers and no cache except the bundle."""
    empty = tmp_path / "empty"
    empty.mkdir(exist_ok=True)
    environ = {"PATH": str(empty), "CXX": "", "CUDA_HOME": "", "TKJIT_JIT": "0", "TKJIT_CACHE": str(empty / "cache")}
    return fresh.start(code, **environ, TKJIT_CACHE_READONLY=str(bundle)).wait()


def test_bundle_serves_a_machine_without_compilers(fresh, bundle, tmp_path):
    before = sorted((path, path.stat().st_mtime_ns) for path in bundle.rglob("*"))
    for _ in range(2):  # the second run has warm records
        assert on_a_bare_machine(fresh, bundle, tmp_path).printed() == RIGHT
    assert sorted((path, path.stat().st_mtime_ns) for path in bundle.rglob("*")) == before
    listed = json.loads((bundle / "bundle.json").read_text())
    assert listed["kernels"] == ["axpy"] and listed["archs"] == [CPU]
    assert set(listed["files"]) == {
        str(path.relative_to(bundle)) for path in bundle.rglob("*") if path.is_file() and path.name != "bundle.json"
    }
    assert fresh.tkjit("cache", "verify", bundle).printed() == "4 entries, 0 problems\n"
    missing = on_a_bare_machine(fresh, bundle, tmp_path, HALF)
    assert missing.code == 1 and "TKJIT_JIT=0 forbids compiling it" in missing.stderr


def test_tampered_bundle_is_detected_and_not_served(fresh, bundle, tmp_path):
    (launcher,) = bundle.glob("v1/*/cpu-*/*/*/launcher.so")
    # the attacker also updates the hash in the manifest, so only the list of the bundle reveals the change
    launcher.write_bytes(launcher.read_bytes() + b" ")
    manifest = read_manifest(launcher.parent)
    files = {**manifest["files"], launcher.name: digest_of_file(launcher)}
    checked_json.write(launcher.parent / MANIFEST, {**manifest, "files": files})
    found = fresh.tkjit("cache", "verify", bundle)
    assert (found.code, found.stdout) == (1, "4 entries, 2 problems\n")
    for name in ("launcher.so", "manifest.json"):
        assert f"{launcher.with_name(name)} is not the file that was bundled\n" in found.stderr
    refused = on_a_bare_machine(fresh, bundle, tmp_path)
    assert refused.code == 1 and "axpy (T=float32)" in refused.stderr and "is not in the cache" in refused.stderr


def test_unknown_file_in_a_bundle_is_found_and_other_directories_are_kept(fresh, bundle, tmp_path):
    (bundle / "v1" / "stranger.so").write_text("")
    found = fresh.tkjit("cache", "verify", bundle)
    assert found.code == 1 and found.stderr == f"{bundle / 'v1/stranger.so'} was not bundled\n"
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").write_text("")
    refused = fresh.tkjit("bundle", "axpy", "--device", "cpu", "--types", "float32", "-o", tmp_path / "precious")
    assert refused.code == 1 and "exists and is not a bundle" in refused.stderr


# ---- recorded runs


def test_recorded_variants_are_built_on_another_machine(
    fresh, warmed, compiler, runtime, operators, tmp_path, monkeypatch
):
    used = tmp_path / "used"
    command = [sys.executable, "-m", "tkjit", "warmup", "--record", used, "--", sys.executable, "-c", CALL]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, RIGHT, f"recorded 1 variant in {used}\n")
    assert compiler.compiled == []
    monkeypatch.setenv("TKJIT_CACHE", str(shutil.copytree(runtime, tmp_path / "elsewhere")))
    operators(tmp_path / "elsewhere")
    printed = fresh.tkjit("warmup", "--from-file", used).printed()
    assert printed.splitlines()[-1].startswith("4 ready (2 from the cache), 0 failed")
    assert compiler.compiled == ["launcher", "module"]
    assert fresh.run(CALL, TKJIT_JIT="0") == RIGHT
    # a run on a GPU, built for the CPU
    line = json.loads(used.read_text())
    used.write_text(json.dumps(line | {"arch": "90a", "cpu_level": "", "model": ""}) + "\n")
    printed = fresh.tkjit("warmup", "--from-file", used, "--arch", "cpu").printed()
    assert printed.splitlines()[-1].startswith("4 ready (4 from the cache), 0 failed")
    refused = fresh.tkjit("warmup", "axpy", "--from-file", used)
    assert refused.code == 1 and "--from-file sets the kernels" in refused.stderr


NOTEBOOK = """
@tkjit.kernel("__global__ void f(Globals g) { g.x[0] = 1; }", entry="f", grid=1, block=1)
def in_a_cell(x: tkjit.InOut[tkjit.Tensor, "float32", "N"]) -> tkjit.Tensor: ...
in_a_cell(torch.zeros(1))
"""


@pytest.mark.slow
def test_unknown_recorded_kernel_fails_and_the_others_are_built(fresh, cache_with_runtime, operators, tmp_path):
    operators(cache_with_runtime)
    used = tmp_path / "used"
    fresh.run(CALL + NOTEBOOK + CALL, TKJIT_RECORD=str(used))
    assert [json.loads(line)["name"] for line in used.read_text().splitlines()] == ["axpy", "in_a_cell"]
    fresh.tkjit("cache", "clear", "axpy", "in_a_cell").printed()
    done = fresh.tkjit("warmup", "--from-file", used)
    assert done.code == 1
    assert done.stdout.splitlines()[-1].startswith("4 ready (2 from the cache), 1 failed")
    assert f"in_a_cell for {CPU}: in_a_cell was defined in a script or a notebook; put it in a module" in done.stderr
    assert fresh.run(CALL, TKJIT_JIT="0") == RIGHT


def test_recorded_command_keeps_its_exit_code(fresh, cache, tmp_path):
    done = fresh.tkjit("warmup", "--record", tmp_path / "used", "--", "sh", "-c", "exit 3")
    assert (done.code, done.stderr) == (3, f"recorded 0 variants in {tmp_path / 'used'}\n")
    assert fresh.tkjit("warmup", "--record", tmp_path / "used").code == 1
    (tmp_path / "used").write_text("x\n")
    refused = fresh.tkjit("warmup", "--from-file", tmp_path / "used")
    assert refused.code == 1 and f"{tmp_path / 'used'}:1 is not a line that TKJIT_RECORD" in refused.stderr


def test_recorded_command_ends_when_warmup_is_killed(cache, tmp_path):
    program = ["sh", "-c", "echo $$; exec sleep 60"]
    command = [sys.executable, "-m", "tkjit", "warmup", "--record", tmp_path / "used", "--", *program]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as recording:
        pid = int(recording.stdout.readline())
        recording.kill()
    wait_until(lambda: start_time(pid) is None, 5, "the command ends")


@pytest.mark.slow
@pytest.mark.parametrize(
    "bound", [("--jobs", "2"), pytest.param(("--jobs", "4", "--memory", "600M"), marks=pytest.mark.slow)], ids=" ".join
)
def test_warmup_respects_jobs_and_memory(bound, fresh, cache_with_runtime, operators, compiler):
    """600 MB are enough for one compiler of unknown size, but not for two."""
    operators(cache_with_runtime)
    compiler.hold()
    code = "import sys\nfrom tkjit.cli import main\nsys.exit(main(sys.argv[1:]))"
    running = fresh.start(code, "warmup", "axpy", "--device", "cpu", *bound)
    at_once = 2 if "2" in bound else 1
    wait_until(lambda: len(compiler.compiled) == at_once, 30)
    time.sleep(0.5)  # time for one more compiler to start, if the bound failed
    assert len(compiler.compiled) == at_once
    compiler.release()
    assert running.printed().splitlines()[-1].startswith("6 ready (2 from the cache), 0 failed")
    assert compiler.compiled == ["launcher"] * 3 + ["module"]


# ---- when compilation is forbidden


@pytest.mark.slow  # builds the runtime
def test_miss_that_must_not_compile_names_the_warmup_command(fresh, cache_with_runtime, compiler):
    refused = fresh.start(CALL, TKJIT_JIT="0").wait()
    assert refused.code == 1 and compiler.compiled == [] and not stagings(cache_with_runtime)
    assert "CacheError: the glue of axpy is not in the cache (" in refused.stderr
    assert "build it ahead of time: python -m tkjit warmup axpy " in refused.stderr
    assert fresh.tkjit("warmup", "axpy", "--device", "cpu", "--types", "float32").code == 0
    assert fresh.run(CALL, TKJIT_JIT="0") == RIGHT
    refused = fresh.start(HALF, TKJIT_JIT="0").wait()
    command = "python -m tkjit warmup axpy --device cpu --types float16"
    assert refused.code == 1 and f"build it ahead of time: {command} " in refused.stderr
    assert fresh.tkjit(*shlex.split(command)[3:]).code == 0
    assert fresh.run(HALF, TKJIT_JIT="0") == "2.0\n"


CAPTURING = """
import torch
torch.cuda.is_initialized = torch.cuda.is_current_stream_capturing = lambda: True
"""


@pytest.mark.slow
def test_miss_raises_and_hit_passes_during_graph_capture(fresh, warmed, compiler):
    assert fresh.run(CAPTURING + CALL) == RIGHT
    refused = fresh.start(CAPTURING + HALF).wait()
    assert refused.code == 1 and compiler.compiled == []
    assert "nothing can be compiled while a CUDA graph is captured; build it ahead of time" in refused.stderr
    assert "warmup axpy --device cpu --types float16, or call it once before the capture" in refused.stderr
    asleep = f"{CAPTURING}\ntorch.cuda.is_initialized = lambda: False\n"
    assert fresh.run(asleep + HALF) == "2.0\n", "a GPU that was never used must not be queried"


GROUP = """
import sys, warnings
import torch.distributed
rank, size, file = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
torch.distributed.init_process_group("gloo", init_method=f"file://{file}", rank=rank, world_size=size)
torch.distributed.barrier()
"""


@pytest.mark.slow
def test_one_rank_of_a_process_group_builds_with_a_warning(fresh, cache_with_runtime, compiler, tmp_path):
    begun = [fresh.start(GROUP + CALL, rank, 4, tmp_path / "store") for rank in range(4)]
    assert [child.printed() for child in begun] == [RIGHT] * 4
    assert compiler.compiled == ["launcher", "module"]
    warned = [child.stderr for child in begun if "TkjitWarning" in child.stderr]
    assert warned and all("is compiled while a process group is running" in text for text in warned)
    assert all("warmup axpy" in text for text in warned)
    again = [fresh.start(GROUP + CALL, rank, 2, tmp_path / "another") for rank in range(2)]
    assert [(child.printed(), "TkjitWarning" in child.stderr) for child in again] == [(RIGHT, False)] * 2


def test_manifest_records_the_time_and_memory_of_a_build(warmed):
    manifests = {manifest["arch"].split("-")[0]: manifest for manifest in map(read_manifest, entries(warmed))}
    for arch in ("runtime", "glue", "cpu"):
        assert 0.05 < manifests[arch]["seconds"] < 600
        # a C++ compiler needs at least tens of megabytes
        assert 1 << 24 < manifests[arch]["peak_memory_bytes"] < 1 << 34
    assert manifests["cpu"]["command"].split()[0].endswith("g++")
