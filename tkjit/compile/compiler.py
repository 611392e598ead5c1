"""Runs compilations, and raises ``CompileError`` if they fail. Only this module uses ``torch.utils.cpp_extension``."""

from __future__ import annotations

import itertools
import os
import re
import secrets
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import IO

from tkjit.cache import Product
from tkjit.compile.embedded import embedded_files
from tkjit.compile.flags import PACKAGE
from tkjit.compile.log import first_error
from tkjit.compile.nvrtc import ServedCommand
from tkjit.compile.resources import kernel_resources
from tkjit.compile.run_measured import COULD_NOT_RUN
from tkjit.config import environment_with
from tkjit.errors import REPRODUCE, CacheError, CompileError, ToolchainError
from tkjit.system import files
from tkjit.system.fork_safe import ForkSafeLock
from tkjit.system.process import MemoryWatch

Step = list[str] | Callable[[], object]  # a command line, or a function to call between two command lines

LOG = "build.log"
EXPORTS = "exports.map"
_LIBRARY = re.compile(r"^\s*\S*\.(?:a|o|so[.\d]*)\s*$")

# load_inline's versioner is global, has no lock and remembers names, so tkjit makes one call at a time, and gives each
# module a new name.
_load_inline_lock = ForkSafeLock()
_module_numbers = itertools.count()


@dataclass(frozen=True)
class Unit:
    """A file to compile.

    Parameters
    ----------
    name : str
        The name in messages: ``gemm (T=float32) for sm_90a``.
    file : str
        The file's name in the entry: ``launcher.cu``.
    text : str
        The content of the file.
    source : Path or None
        The user's own file that the text contains. Messages show its full path.
    failure_directory : Path
        The directory that keeps the text and the log of a failed build.
    search : tuple of Path
        The directories that are searched for headers before the compiler's own directories.
    libraries : tuple of str, or None
        The names of the libraries to link with. None if nothing is linked; then the log is not searched for libraries.
    is_measured : bool
        Whether to measure the compiler's memory, which takes an extra process.
    retry_flags : callable, optional
        Takes the log of a failed attempt, and returns the flags to add for another attempt, or none if another attempt
        would be useless.
    repair : callable, optional
        Takes the log of a failed step, and changes the step's input so that the step can run again. Returns False if it
        cannot repair the input.
    find_defect : callable, optional
        Returns an error that is in the output although the compiler does not report it; empty if there is none.
    """

    name: str
    file: str
    text: str
    failure_directory: Path
    source: Path | None = None
    search: tuple[Path, ...] = ()
    libraries: tuple[str, ...] | None = None
    is_measured: bool = True
    retry_flags: Callable[[str], tuple[str, ...]] | None = None
    repair: Callable[[str, Path], bool] | None = None
    find_defect: Callable[[Path], str] | None = None


def compile_binary(
    unit: Unit,
    staging: Path,
    output_name: str,
    commands: Callable[[Path, Path, Path], Sequence[Step]],
    check: Callable[[Path], object] | None = None,
) -> Product:
    """Compile a file in a staging directory into a launcher, an object or a program.

    Parameters
    ----------
    commands : callable
        Takes (source, output, depfile), and returns the steps to run in order: command lines, and functions to call
        between them.
    check : callable, optional
        Loads the shared object, because one that cannot be loaded must not be published.

    Raises
    ------
    CompileError
        With the compiler's first error.
    """
    source, output, depfile = staging / unit.file, staging / output_name, staging / "dependencies.d"
    files.write(source, unit.text)
    steps = list(commands(source, output, depfile))
    start = time.monotonic()
    code, log, peak_bytes = _run_all(steps, staging, unit)
    while code > 0 and unit.retry_flags is not None and (more := set(unit.retry_flags(log)) - set(_lines(steps)[0])):
        # add the flags to every step, because a source may be preprocessed first, even twice
        steps = [[step[0], *sorted(more), *step[1:]] if isinstance(step, list) else step for step in steps]
        code, log, peak_bytes = _run_all(steps, staging, unit)
    lines = _lines(steps)
    command = " && ".join(map(shlex.join, lines))
    files.write(staging / LOG, f"{command}\n{log}")

    def failure(log: str, summary: str = "") -> CompileError | CacheError:
        return _failure(unit, staging, log, command, summary)

    if code != 0:
        killed = "" if code > 0 else f"the compiler was killed by signal {-code}; did it run out of memory?"
        raise failure(log, "" if log.strip() else killed)
    resources = kernel_resources(log, output.read_bytes())
    if unit.find_defect is not None and (reason := unit.find_defect(output)):
        raise failure(log, reason)
    try:
        if check is not None:
            check(output)
    except ImportError as error:
        raise failure(f"{error}\n{log}", f"it compiled, but cannot be loaded: {error}") from None
    facts = {
        "what": unit.name,
        "seconds": round(time.monotonic() - start, 3),
        **({"peak_memory_bytes": peak_bytes} if unit.is_measured else {}),
        "command": command,
        **resources.facts,
    }
    dependencies = _dependencies(unit, staging, depfile, itertools.chain.from_iterable(lines), log)
    _remove(depfile)
    return Product(output.name, dependencies, facts, unit.search)


def _dependencies(unit: Unit, staging: Path, depfile: Path, flags: Iterable[str], log: str) -> tuple[Path, ...]:
    """Return every file that the compiler, its assembler and the linker have read."""
    read = _read_depfile(depfile, staging)
    assembled = _outside(map(str, embedded_files(unit.text, read, unit.search, flags)), staging)
    return tuple(dict.fromkeys([*read, *assembled, *_linked_files(log, unit.libraries, staging)]))


def _lines(steps: Iterable[Step]) -> list[list[str]]:
    return [step for step in steps if isinstance(step, list)]


def _run_all(steps: Iterable[Step], directory: Path, unit: Unit) -> tuple[int, str, int]:
    """Run steps until one fails. Return the last exit status, the output of all steps, and the highest peak memory."""
    code, log, peak_bytes = 0, "", 0
    for step in steps:
        if not isinstance(step, list):
            step()
            continue
        code, printed, bytes_taken = _run(step, directory, unit.is_measured)
        while code > 0 and unit.repair is not None and unit.repair(printed, directory):
            code, printed, bytes_taken = _run(step, directory, unit.is_measured)
        log, peak_bytes = log + printed, max(peak_bytes, bytes_taken)
        if code != 0:
            break
    return code, log, peak_bytes


def _run(line: list[str], directory: Path, measured: bool) -> tuple[int, str, int]:
    """Run a compiler. Return its exit status, its output, and the peak memory of its largest process in bytes."""
    # keep the log in memory, because a compiler's error about a full disk could not be written to that disk
    with os.fdopen(os.memfd_create(LOG), "w+b") as log, os.fdopen(os.memfd_create("usage"), "w+b") as usage:
        name = line[0]
        # put temporary files here, so that those of a killed compiler are removed with the build's other files
        scratch = directory / "tmp"
        with suppress(OSError):  # if the disk is full, the compiler's own error is clearer
            scratch.mkdir(exist_ok=True)
        environ = environment_with(TMPDIR=str(scratch))
        if isinstance(line, ServedCommand) and (answer := _run_served(line, directory, environ, log)) is not None:
            shutil.rmtree(scratch, ignore_errors=True)
            return answer
        script = [sys.executable, "-I", "-S", str(PACKAGE / "compile" / "run_measured.py"), str(usage.fileno())]
        if measured:
            line = [*script, *line]
        try:
            # Run in the build's directory, because leftovers are removed together with this directory, and the watchdog
            # recognises compilers by their working directory.
            child = subprocess.Popen(
                line,
                cwd=directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                pass_fds=[usage.fileno()],
                env=environ,
            )
        except OSError as error:
            raise ToolchainError(f"{name} does not run: {error.strerror}") from None
        try:
            code = child.wait()
        except BaseException:
            child.kill()
            child.wait()
            raise
        shutil.rmtree(scratch, ignore_errors=True)
        for file in (log, usage):
            file.seek(0)
        printed, report = log.read().decode(errors="replace"), usage.read().decode()
    if report.startswith(COULD_NOT_RUN):
        raise ToolchainError(f"{name} does not run: {report.removeprefix(COULD_NOT_RUN)}")
    if not report:  # not measured, or killed before the report
        return code, printed, 0
    status, peak_kib = report.split()
    return int(status), printed, int(peak_kib) << 10


def _run_served(
    line: ServedCommand, directory: Path, environ: Mapping[str, str], log: IO[bytes]
) -> tuple[int, str, int] | None:
    """Run a command in a server of NVRTC, and return the same as ``_run``, or None if no server works."""
    from tkjit.compile import nvrtc_server

    answer = nvrtc_server.run(line, directory, environ, log)
    if answer is None:
        return None
    code, peak_bytes = answer
    log.seek(0)
    return code, log.read().decode(errors="replace"), peak_bytes


def new_module_name(unit: Unit) -> str:
    """Return a name that no other module in this process has."""
    return f"tkjit_{unit.file.removesuffix('.cpp')}_{os.getpid()}_{next(_module_numbers)}"


def compile_module(
    unit: Unit,
    staging: Path,
    *,
    cxx: Path,
    include_dirs: list[Path],
    cflags: list[str],
    exports: str,
    linked: Iterable[str] = (),
    with_cuda: bool = False,
) -> tuple[Product, ModuleType]:
    """Compile and import a Python module through torch's ``load_inline``.

    Parameters
    ----------
    exports : str
        The linker's version script, which selects the exported symbols.
    linked : iterable of str
        Objects to link with, and flags for the linker.
    with_cuda : bool
        Whether the module needs the CUDA part of torch.

    Raises
    ------
    CompileError
        With the compiler's first error.
    """
    import ninja

    module_name = new_module_name(unit)
    start = time.monotonic()
    files.write(staging / EXPORTS, exports)
    search_path = os.pathsep.join([ninja.BIN_DIR, os.environ.get("PATH", os.defpath)])
    memory = MemoryWatch(staging)
    with _load_inline_lock, _environment({"PATH": search_path, "CXX": str(cxx)}), memory:
        from torch.utils import cpp_extension

        try:
            module = cpp_extension.load_inline(  # type: ignore[no-untyped-call]
                module_name,
                [unit.text],
                extra_cflags=cflags,
                # a relative path suffices, because the linker runs in the staging directory
                extra_ldflags=[f"-Wl,--version-script={EXPORTS}", *linked],
                extra_include_paths=[str(directory) for directory in include_dirs],
                build_directory=str(staging),
                no_implicit_headers=True,
                with_cuda=with_cuda,
            )
        except (RuntimeError, ImportError) as error:
            raise _failure(
                unit, staging, str(error), f"ninja -v -C {shlex.quote(str(unit.failure_directory))}"
            ) from None
        dependencies = _read_ninja_dependencies(Path(ninja.BIN_DIR) / "ninja", staging)
    cflags_given, ldflags = flags_of_module(staging)
    facts = {
        "what": unit.name,
        "seconds": round(time.monotonic() - start, 3),
        "peak_memory_bytes": memory.peak_bytes,
        "module": module_name,
        "cflags": cflags_given,
        "ldflags": ldflags,
    }
    (staging / "main.cpp").rename(staging / unit.file)  # load_inline calls the text main.cpp
    for leftover in [".ninja_deps", ".ninja_log", "main.o", EXPORTS]:
        _remove(staging / leftover)
    return Product(f"{module_name}.so", dependencies, facts, unit.search), module


def _remove(path: Path) -> None:
    """Remove a file that an entry does not need. Ignore errors, because they are no reason to fail the build."""
    with suppress(OSError):
        path.unlink()


@contextmanager
def _environment(changes: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables that ``cpp_extension`` reads, and restore the old values afterwards."""
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _read_depfile(depfile: Path, staging: Path) -> tuple[Path, ...]:
    """Return the dependencies that a make rule lists, without the build's own files."""
    rule = os.fsdecode(files.read(depfile)).replace("\\\n", " ").split(":", 1)[1]
    # make escapes a space and a number sign with a backslash, and a dollar sign by doubling it
    words = [re.sub(r"\\([ #])", r"\1", word).replace("$$", "$") for word in re.findall(r"(?:\\[ #]|\S)+", rule)]
    return _outside(words, staging)


def _read_ninja_dependencies(ninja: Path, staging: Path) -> tuple[Path, ...]:
    """Return the dependencies that the compiler reported to ninja, which stores them in its database."""
    listed = subprocess.run([ninja, "-C", staging, "-t", "deps"], capture_output=True, text=True, check=True).stdout
    return _outside([line.strip() for line in listed.splitlines() if line.startswith("    ")], staging)


def _linked_files(log: str, libraries: tuple[str, ...] | None, staging: Path) -> tuple[Path, ...]:
    """Return the libraries and objects that the linker listed, except system libraries that were not requested."""
    if libraries is None:
        return ()
    asked = tuple(name.removeprefix(":") if name.startswith(":") else f"lib{name}." for name in libraries)
    paths = {Path(os.path.normpath(staging / line.strip())) for line in log.splitlines() if _LIBRARY.search(line)}
    system = ("/usr/lib/", "/usr/lib64/", "/lib/", "/lib64/")
    return tuple(
        sorted(
            path
            for path in paths
            if path.is_file()
            and not path.is_relative_to(staging)
            # the libraries of a CUDA toolkit are in targets/<platform>/lib
            and (path.name.startswith(asked) or not (str(path).startswith(system) or "/targets/" in str(path)))
        )
    )


def _outside(names: Iterable[str], staging: Path) -> tuple[Path, ...]:
    # a compiler reports a path such as a/../b as it found it, but two paths to the same file are one dependency
    paths = {Path(os.path.normpath(staging / name)) for name in names} - {Path(os.devnull)}
    return tuple(sorted(path for path in paths if not path.is_relative_to(staging)))


def _failure(unit: Unit, staging: Path, log: str, command: str, summary: str = "") -> CompileError | CacheError:
    """Keep the files that are needed to investigate a failed build, and return the error to raise."""
    if "No space left on device" in log:
        return CacheError(
            f"no space left for compiling {unit.name} in {staging.parent}; set TKJIT_CACHE to another disk"
        )
    keep = _keep(staging, unit.failure_directory)
    command, log, summary = (text.replace(str(staging), str(keep)) for text in (command, log, summary))
    with suppress(OSError):
        for build_file in keep.glob("build.ninja"):
            files.write(build_file, files.read(build_file).decode().replace(str(staging), str(keep)))
        files.write(keep / LOG, f"{command}\n{log}")
        files.write(keep / REPRODUCE, f"{command}\n")
    first = summary or first_error(log, unit.source)
    return CompileError(first, what=unit.name, log=log, log_path=keep / LOG, command=command)


def flags_of_module(staging: Path) -> tuple[str, str]:
    """Return the compiler flags and the linker flags that ``load_inline`` chose for a module."""
    rules = files.read(staging / "build.ninja").decode()
    cflags, ldflags = (re.search(rf"^{name} = (.*)\n", rules, re.MULTILINE) for name in ("cflags", "ldflags"))
    return (cflags[1].strip(), ldflags[1].strip()) if cflags and ldflags else ("", "")


def _keep(staging: Path, keep: Path) -> Path:
    """Keep the files of a failed build for the user. Another process may do the same at the same time."""
    scratch = keep.with_name(f"{keep.name}-{secrets.token_hex(4)}")
    try:
        scratch.mkdir(0o700)
        shutil.copytree(staging, scratch, dirs_exist_ok=True)
        shutil.rmtree(keep, ignore_errors=True)
        scratch.rename(keep)
    except OSError:
        shutil.rmtree(scratch, ignore_errors=True)
    return keep
