"""Which torch extensions load with tkjit: ``python -m benchmarks.real_extensions DIRECTORY``.

DIRECTORY holds one checkout per repository, named ``owner+name``:

    git clone https://github.com/OWNER/NAME DIRECTORY/OWNER+NAME

and a manifest, ``DIRECTORY/real_extensions.toml``, which describes how each repository builds its extensions. Its
fields are listed in ``benchmarks.real_extension_manifest``:

    [repositories]
    "owner/name" = "0123456789abcdef0123456789abcdef01234567"  # the commit

    [[extension]]
    name = "their_norm"
    repository = "owner/name"
    sources = ["csrc/*.cpp", "csrc/cuda/*.cu"]
    include_dirs = ["csrc"]
    needs = ["NVIDIA/cutlass/include"]  # a directory of another checkout
    cuda_flags = ["-O3"]

Each extension is loaded in a fresh process with an empty cache. It fails at the first name that tkjit's stand-ins for
torch's headers lack; with ``--fallback`` it is then built with torch's own headers. ``--torch`` also builds every
extension with ``torch.utils.cpp_extension``, right after tkjit. Results of unchanged extensions stay in ``--state``.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from benchmarks.real_extension_loading import STAND_INS, TORCH
from benchmarks.real_extension_manifest import RealExtension, read_manifest

_ROOT = Path(__file__).parents[1]
_DECIDING = ("tkjit/include/tkjit/torch", "tkjit/include/stand_ins", "tkjit/extensions", "tkjit/cpp_extension.py")
_TIMED_OUT = "timed out"
Result: TypeAlias = dict[str, Any]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.real_extensions", description=__doc__.splitlines()[0])
    parser.add_argument("directory", type=Path, help="the directory of the checkouts, named owner+name")
    parser.add_argument("--manifest", type=Path, help="default: DIRECTORY/real_extensions.toml")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="extensions or repositories to load")
    parser.add_argument("--state", type=Path, default=Path("real-extensions.json"), help="results so far")
    parser.add_argument("--limit", type=float, default=600, help="seconds for each extension")
    parser.add_argument("--jobs", type=int, default=1, help="extensions at a time")
    parser.add_argument("--fallback", action="store_true", help="use torch's headers if the stand-ins lack a name")
    parser.add_argument("--torch", action="store_true", help="also build with torch.utils.cpp_extension")
    parser.add_argument("--headers", nargs="*", type=Path, default=[], help="headers that the CUDA toolkit lacks")
    options = parser.parse_args(arguments)
    manifest = options.manifest or options.directory / "real_extensions.toml"
    extensions = [
        each
        for each in read_manifest(manifest, options.directory, options.headers)
        if not options.only or {each.name, each.repository} & set(options.only)
    ]
    results: dict[str, Result] = {}
    print("\n".join(_head(options.torch)))
    with ThreadPoolExecutor(options.jobs) as pool:
        for extension, result in zip(extensions, pool.map(partial(_measure, options=options), extensions), strict=True):
            results[extension.name] = result
            _remember(options.state, extension.name, result)
            print(_row(extension, result), flush=True)
    print("\n".join(_summary(extensions, results)))


def _measure(extension: RealExtension, options: argparse.Namespace) -> Result:
    """The result of an extension, from the state if none of its inputs has changed."""
    way = "tkjit-fallback" if options.fallback else "tkjit"
    digest = _digest(extension, way)
    known = _read(options.state).get(extension.name, {})
    result: Result = known if known.get("digest") == digest else {}
    if not result or result.get("error") == _TIMED_OUT:
        result = {"digest": digest, **_run(way, extension, options.limit)}
    if options.torch and "torch" not in result:
        result["torch"] = _run("torch", extension, options.limit)
    return result


def _digest(extension: RealExtension, way: str) -> str:
    """A hash of an extension's sources and flags, and of tkjit's headers and code for extensions."""
    files = [path for part in _DECIDING for path in _files(_ROOT / part)]
    text = b"".join(path.read_bytes() for path in (*files, *extension.sources))
    given = json.dumps([way, extension.arch, extension.arguments])
    return hashlib.sha256(text + given.encode()).hexdigest()[:16]


def _files(path: Path) -> Iterator[Path]:
    if path.is_file():
        yield path
    yield from sorted(each for each in path.rglob("*") if each.is_file() and each.suffix != ".pyc")


def _run(way: str, extension: RealExtension, limit_s: float) -> Result:
    """Load an extension in a new process; returns the outcome, and wall and CPU time in seconds."""
    if not extension.sources:
        return {"outcome": "failed", "error": "no sources", "wall_s": 0, "cpu_s": 0}
    with tempfile.TemporaryDirectory() as made:
        scratch = Path(made)
        environment = {
            **os.environ,
            "TORCH_CUDA_ARCH_LIST": extension.arch,
            "TKJIT_CACHE": str(scratch / "cache"),
            "TKJIT_QUIET": "1",
            "MAX_JOBS": "2",
        }
        given = json.dumps({**extension.arguments, "scratch": made})
        command = [sys.executable, "-m", "benchmarks.real_extension_loading", way, given]
        output, errors = scratch / "output", scratch / "errors"
        start = time.monotonic()
        with output.open("wb") as out, errors.open("wb") as err:
            process = subprocess.Popen(
                command, env=environment, cwd=_ROOT, stdout=out, stderr=err, start_new_session=True
            )
            status, cpu_s = _wait(process.pid, start + limit_s)
        result = _result(status, output, errors)
        return {**result, "wall_s": round(time.monotonic() - start, 1), "cpu_s": round(cpu_s, 1)}


def _wait(pid: int, deadline: float) -> tuple[int | None, float]:
    """The exit status of a session's leader, or None at the deadline, and the CPU time of it and its children."""
    while True:
        ended, status, usage = os.wait4(pid, os.WNOHANG)
        if ended:
            _kill(pid)  # processes that it left running
            return status, usage.ru_utime + usage.ru_stime
        if time.monotonic() > deadline:
            _kill(pid)
            *_, usage = os.wait4(pid, 0)
            return None, usage.ru_utime + usage.ru_stime
        time.sleep(0.05)


def _kill(session: int) -> None:
    with contextlib.suppress(ProcessLookupError):  # if no process is left
        os.killpg(session, signal.SIGKILL)


def _result(status: int | None, output: Path, errors: Path) -> Result:
    if status is None:
        return {"outcome": "failed", "error": _TIMED_OUT}
    said = output.read_text(errors="replace").strip().rpartition("\n")[2]
    if os.waitstatus_to_exitcode(status) == 0 and said.startswith("{"):
        return dict(json.loads(said))
    last = errors.read_text(errors="replace").strip().rpartition("\n")[2]
    return {"outcome": "failed", "error": f"exit status {os.waitstatus_to_exitcode(status)}: {last}"}


def _read(path: Path) -> dict[str, Result]:
    return dict(json.loads(path.read_text())) if path.is_file() else {}


def _remember(path: Path, name: str, result: Result) -> None:
    """Add a result to the state, which is replaced atomically."""
    beside = path.with_suffix(".part")
    beside.write_text(json.dumps({**_read(path), name: result}, indent=1))
    beside.replace(path)


def _head(has_torch: bool) -> list[str]:
    columns = ["extension", "repository", "outcome", "first missing name, or error", "torch fails", "wall s", "CPU s"]
    columns += ["torch's wall s", "torch's CPU s"] if has_torch else []
    return [f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}"]


def _row(extension: RealExtension, result: Result) -> str:
    cells = [extension.name, extension.repository, result["outcome"], _reason(result), extension.torch_fails]
    cells += [result["wall_s"], result["cpu_s"]]
    if peer := result.get("torch"):
        cells += [peer["wall_s"], peer["cpu_s"] if peer["outcome"] == TORCH else _reason(peer)]
    return f"| {' | '.join(map(str, cells))} |"


def _reason(result: Result) -> str:
    said = str(result.get("lacks") or result.get("error") or "")
    return re.sub(r"(?<![\w.])(?:/[\w.+-]+)+/", "", said).replace("|", "\\|")[:160]


def _summary(extensions: Sequence[RealExtension], results: dict[str, Result]) -> Iterator[str]:
    counted = [each for each in extensions if not each.torch_fails]
    outcomes = Counter(results[each.name]["outcome"] for each in counted)
    yield f"\n{len(counted)} extensions that torch can build: " + ", ".join(
        f"{outcomes[outcome]} {outcome}" for outcome in sorted(outcomes, key=lambda each: each != STAND_INS)
    )
    yield f"{len(extensions) - len(counted)} extensions that torch cannot build\n"
    reasons = Counter(_reason(results[each.name]) for each in counted)
    del reasons[""]
    yield "| first missing name or error | extensions |\n|---|---:|"
    yield from (f"| {reason} | {count} |" for reason, count in reasons.most_common())


if __name__ == "__main__":
    main()
