"""Compares real extensions with references: ``python -m benchmarks.real_extension_references DIRECTORY``.

DIRECTORY holds the checkouts and the manifest that ``benchmarks.real_extensions`` describes. Each extension with
references in ``benchmarks.extension_references`` is loaded as in the manifest, in its own process with a time limit.
Its functions are called with random tensors. With ``--device cpu`` its kernels run in tkjit's simulator; with
``--device cuda`` the tensors are on the GPU. Each function gets a row with its largest error.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeAlias

import torch

from benchmarks.extension_references import FIELDS
from benchmarks.extension_references.cases import REFERENCES, error_of
from benchmarks.real_extension_manifest import RealExtension, read_manifest

# a function's name, its largest error, whether it agrees with the reference, and a remark
Row: TypeAlias = dict[str, Any]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.real_extension_references", description=__doc__.splitlines()[0]
    )
    parser.add_argument("directory", type=Path, help="the directory that holds the checkouts, each named owner+name")
    parser.add_argument("--manifest", type=Path, help="default: DIRECTORY/real_extensions.toml")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="extensions or repositories to compare")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--headers", nargs="*", type=Path, default=[], help="directories of headers not in the toolkit")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the rows to FILE")
    parser.add_argument("--jobs", type=int, default=1, help="extensions at a time")
    parser.add_argument("--limit", type=float, default=600, help="seconds for each extension")
    parser.add_argument("--results", type=Path, help=argparse.SUPPRESS)  # for a process that compares one extension
    options = parser.parse_args(arguments)
    for field in FIELDS:
        importlib.import_module(f"benchmarks.extension_references.{field}")
    extensions = [each for each in _known_extensions(options) if each.name in REFERENCES and each.sources]
    if options.results:
        _compare(extensions[0], options.device, options.results)
    print("| extension | function | cases | largest error | |\n|---|---|---:|---:|---|")
    rows: list[Row] = []
    with ThreadPoolExecutor(options.jobs) as pool:
        for found in pool.map(partial(_rows, options=options), extensions):
            rows += found
            print("\n".join(map(_line, found)), flush=True)
    agrees = Counter(row["agrees"] for row in rows)
    print(f"\n{len(extensions)} extensions: {agrees[True]} functions agree, {agrees[False]} do not", end="")
    print(f", {agrees[None]} were not compared")
    if options.json:
        options.json.write_text(json.dumps({"device": options.device, "torch": torch.__version__, "rows": rows}))
    return int(agrees[False] > 0 or not rows)


def _known_extensions(options: argparse.Namespace) -> Iterator[RealExtension]:
    manifest = options.manifest or options.directory / "real_extensions.toml"
    for extension in read_manifest(manifest, options.directory, options.headers):
        if not options.only or {extension.name, extension.repository} & set(options.only):
            yield extension


def _rows(extension: RealExtension, options: argparse.Namespace) -> list[Row]:
    """Compare an extension in its own process; at the time limit it is killed together with its compilers."""
    command = [sys.executable, "-m", "benchmarks.real_extension_references", str(options.directory)]
    command += ["--only", extension.name, "--device", options.device]
    command += ["--manifest", str(options.manifest)] if options.manifest else []
    command += ["--headers", *map(str, options.headers)]
    environment = {name: value for name, value in os.environ.items() if name != "TORCH_CUDA_ARCH_LIST"}
    if options.device == "cpu":
        environment["CUDA_VISIBLE_DEVICES"] = ""
    with tempfile.NamedTemporaryFile("r") as results, tempfile.TemporaryFile("w+") as output:
        command += ["--results", results.name]
        process = subprocess.Popen(command, env=environment, stdout=output, stderr=output, start_new_session=True)
        try:
            ending = f"exit status {process.wait(options.limit)}"
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            ending = f"timed out after {options.limit:.0f} s"
        found = [json.loads(line) for line in results]
        output.seek(0)
        log = output.read().splitlines()[-20:]
    if not found or "error" not in found[-1]:
        function = found[-1]["function"] if found else "load"
        found.append({"function": function, "error": None, "agrees": False, "said": ending, "log": log})
    return _by_function(extension, found)


def _by_function(extension: RealExtension, results: Sequence[Row]) -> list[Row]:
    """Merge the results of all calls of a function into one row. Results without ``error`` only announce a call."""
    rows: dict[str, Row] = {}
    for result in results:
        if "error" in result:
            row = rows.setdefault(result["function"], {"extension": extension.name, **result, "cases": 0})
            row["cases"] += 1
            if _badness(result) > _badness(row):
                row.update(result)
    return list(rows.values())


def _badness(result: Row) -> tuple[bool, float]:
    return result["agrees"] is False, result["error"] or 0.0


def _line(row: Row) -> str:
    error = "" if row["error"] is None else f"{row['error']:.1e}"
    said = str(row["said"]).replace("|", "\\|")
    return f"| {row['extension']} | {row['function']} | {row['cases']} | {error} | {said} |"


def _compare(extension: RealExtension, device: str, results: Path) -> None:
    """Call an extension's functions, and write a line of JSON before and after each call."""

    def write(function: str, **fields: Any) -> None:
        with results.open("a") as file:
            print(json.dumps({"function": function, **fields}), file=file)

    def write_failure(function: str, error: Exception) -> None:
        first = next(iter(str(error).splitlines()), "")[:160]
        write(function, error=None, agrees=False, said=f"{type(error).__name__}: {first}")

    torch.manual_seed(0)
    has_kernels = extension.functions or any(path.suffix == ".cu" for path in extension.sources)
    try:
        module = _load(extension)
    except Exception as error:
        write_failure("load", error)
        os._exit(0)
    for case in REFERENCES[extension.name]():
        write(case.function)
        if case.races and device == "cpu":
            write(case.function, error=None, agrees=None, said=f"not compared: {case.races}")
            continue
        try:
            difference = error_of(_function(module, case.function), case, device if has_kernels else "cpu")
        except Exception as error:
            write_failure(case.function, error)
        else:
            agrees = difference <= case.tolerance
            said = "agrees" if agrees else f"disagrees: the tolerance is {case.tolerance:.0e}"
            write(case.function, error=difference, agrees=agrees, said=said)
    os._exit(0)  # other people's modules may crash when Python unloads them


def _load(extension: RealExtension) -> Any:
    from tkjit import cpp_extension

    load = cpp_extension.load_inline if extension.functions else cpp_extension.load
    return load(**extension.arguments)


def _function(module: Any, name: str) -> Callable[..., Any]:
    """A function of a module, or an operator if the name is ``library::name``."""
    found: Callable[..., Any] = attrgetter(name.replace("::", "."))(torch.ops if "::" in name else module)
    return found


if __name__ == "__main__":
    sys.exit(main())
