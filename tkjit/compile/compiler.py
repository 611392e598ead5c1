"""Runs compilations. Only this module uses ``torch.utils.cpp_extension``. A failure is a ``CompileError``."""

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

from tkjit.cache import Product
from tkjit.compile.embedded import embedded_files
from tkjit.compile.flags import PACKAGE
from tkjit.compile.log import first_error
from tkjit.compile.resources import KernelResources, kernel_resources
from tkjit.compile.run_measured import COULD_NOT_RUN
from tkjit.compile.torch_linking import quick_torch_linking
from tkjit.config import environment_with
from tkjit.errors import REPRODUCE, CacheError, CompileError, ToolchainError
from tkjit.system import files
from tkjit.system.fork_safe import ForkSafeLock
from tkjit.system.process import MemoryWatch

Step = list[str] | Callable[[], object]  # a command line, or what is done between two

LOG = "build.log"
EXPORTS = "exports.map"
_LIBRARY = re.compile(r"^\s*\S*\.(?:a|o|so[.\d]*)\s*$")

# load_inline's versioner is global and unlocked, and it remembers names: one call at a time, each with a new name
_load_inline_lock = ForkSafeLock()
_module_numbers = itertools.count()


@dataclass(frozen=True)
class Unit:
    """One file to compile.

    Parameters
    ----------
    name : str
        What a person calls it: ``gemm (T=float32) for sm_90a``.
    file : str
        Its name in the entry: ``launcher.cu``.
    text : str
        What it holds.
    source : Path or None
        The user's own file within it, which messages should name in full.
    failure_directory : Path
        Where the text and the log of a failed build stay.
    search : tuple of Path
        Where its headers are looked for before the compiler's own directories.
    libraries : tuple of str, or None
        The names of libraries that it is linked with; None where nothing is, and the linker does not say what it reads.
    may_spill : bool
        Whether registers may be spilled to local memory.
    is_measured : bool
        Whether the compiler's memory is measured, which takes a process more.
    retry_flags : callable, optional
        What to add to the flags for another attempt, by the log of one that failed; nothing if there is none.
    repair : callable, optional
        Changes what the failed step reads, by the log; False if it has nothing to change. The step is run again.
    find_defect : callable, optional
        What is wrong with the output that the compiler does not say; nothing if all is well.
    """

    name: str
    file: str
    text: str
    failure_directory: Path
    source: Path | None = None
    search: tuple[Path, ...] = ()
    libraries: tuple[str, ...] | None = None
    may_spill: bool = True
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
    """Compile a file in a staging directory to a launcher, an object or a program.

    Parameters
    ----------
    commands : callable
        The command lines for (source, output, depfile), to be run one after the other; or functions between them.
    check : callable, optional
        Loads a shared object: what cannot be loaded is not published.

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
        # of every step: a source may be preprocessed twice
        steps = [[step[0], *sorted(more), *step[1:]] if isinstance(step, list) else step for step in steps]
        code, log, peak_bytes = _run_all(steps, staging, unit)
    lines = _lines(steps)
    command = " && ".join(map(shlex.join, lines))
    files.write(staging / LOG, f"{command}\n{log}")

    def failure(log: str, summary: str = "") -> CompileError | CacheError:
        return _failure(unit, staging, log, command, summary)

    if code != 0:
        ended = "" if code > 0 else f"the compiler was ended by signal {-code}; has the memory run out?"
        raise failure(log, "" if log.strip() else ended)
    taken = kernel_resources(log, output.read_bytes())
    if reason := _refusal(unit, output, taken):
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
        **taken.facts,
    }
    dependencies = _dependencies(unit, staging, depfile, itertools.chain.from_iterable(lines), log)
    _remove(depfile)
    return Product(output.name, dependencies, facts, unit.search)


def _refusal(unit: Unit, output: Path, taken: KernelResources) -> str:
    """Why a compiled file is not published; empty if it is."""
    if not unit.may_spill and (spills := ", ".join(taken.spills())):
        return f"it spills registers, which its spec forbids (forbid_spills): {spills}"
    return unit.find_defect(output) if unit.find_defect is not None else ""


def _dependencies(unit: Unit, staging: Path, depfile: Path, flags: Iterable[str], log: str) -> tuple[Path, ...]:
    """Every file that the compiler, its assembler and the linker have read."""
    read = _read_depfile(depfile, staging)
    assembled = _outside(map(str, embedded_files(unit.text, read, unit.search, flags)), staging)
    return tuple(dict.fromkeys([*read, *assembled, *_linked_files(log, unit.libraries, staging)]))


def _lines(steps: Iterable[Step]) -> list[list[str]]:
    return [step for step in steps if isinstance(step, list)]


def _run_all(steps: Iterable[Step], directory: Path, unit: Unit) -> tuple[int, str, int]:
    """Run commands up to the first that fails: its exit status, what all printed, and the most memory one took."""
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
    """Run a compiler: its exit status, what it printed, and the memory that its largest process took, in bytes."""
    # in memory: what a compiler says of a full disk should not be lost on that disk
    with os.fdopen(os.memfd_create(LOG), "w+b") as log, os.fdopen(os.memfd_create("usage"), "w+b") as usage:
        name = line[0]
        # what a compiler that is killed leaves behind lies where its build's other files do
        scratch = directory / "tmp"
        with suppress(OSError):  # a full disk: the compiler says it better
            scratch.mkdir(exist_ok=True)
        script = [sys.executable, "-I", "-S", str(PACKAGE / "compile" / "run_measured.py"), str(usage.fileno())]
        if measured:
            line = [*script, *line]
        try:
            # in its directory: what the compiler leaves beside itself goes away with it, and it is found by it
            child = subprocess.Popen(
                line,
                cwd=directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                pass_fds=[usage.fileno()],
                env=environment_with(TMPDIR=str(scratch)),
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
    if not report:  # nothing measures, or it was killed before it could say anything
        return code, printed, 0
    status, peak_kib = report.split()
    return int(status), printed, int(peak_kib) << 10


def new_module_name(unit: Unit) -> str:
    """A name that no other module of this process has."""
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
        A linker's version script: which symbols others see.
    linked : iterable of str
        Objects and flags to link with.
    with_cuda : bool
        Whether it needs the CUDA part of torch.

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
    with (
        _load_inline_lock,
        _environment({"PATH": search_path, "CXX": str(cxx)}),
        memory,
        quick_torch_linking(cxx, staging) as linking,
    ):
        from torch.utils import cpp_extension

        try:
            module = cpp_extension.load_inline(  # type: ignore[no-untyped-call]
                module_name,
                [unit.text],
                extra_cflags=cflags,
                # the linker runs in the staging directory
                extra_ldflags=[f"-Wl,--version-script={EXPORTS}", *linked, *linking()],
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
    (staging / "main.cpp").rename(staging / unit.file)  # load_inline's name for the text
    for leftover in [".ninja_deps", ".ninja_log", "main.o", EXPORTS]:
        _remove(staging / leftover)
    return Product(f"{module_name}.so", dependencies, facts, unit.search), module


def _remove(path: Path) -> None:
    """Remove a file that an entry does not need; a disk that keeps it costs no build."""
    with suppress(OSError):
        path.unlink()


@contextmanager
def _environment(changes: Mapping[str, str]) -> Iterator[None]:
    """Set variables that ``cpp_extension`` reads, and put back what was there."""
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
    """The files of a make rule, without those of the build itself."""
    rule = os.fsdecode(files.read(depfile)).replace("\\\n", " ").split(":", 1)[1]
    # make's own characters are escaped: a space and a number sign by a backslash, a dollar sign by another
    words = [re.sub(r"\\([ #])", r"\1", word).replace("$$", "$") for word in re.findall(r"(?:\\[ #]|\S)+", rule)]
    return _outside(words, staging)


def _read_ninja_dependencies(ninja: Path, staging: Path) -> tuple[Path, ...]:
    """What the compiler reported to ninja, which keeps it in a database of its own."""
    listed = subprocess.run([ninja, "-C", staging, "-t", "deps"], capture_output=True, text=True, check=True).stdout
    return _outside([line.strip() for line in listed.splitlines() if line.startswith("    ")], staging)


def _linked_files(log: str, libraries: tuple[str, ...] | None, staging: Path) -> tuple[Path, ...]:
    """The files that the linker named: those that were asked for, and others that are not the compiler's own."""
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
            # a toolkit's libraries lie in targets/<platform>/lib
            and (path.name.startswith(asked) or not (str(path).startswith(system) or "/targets/" in str(path)))
        )
    )


def _outside(names: Iterable[str], staging: Path) -> tuple[Path, ...]:
    # a compiler reports a/../b as it was found; two names of one file are one dependency
    paths = {Path(os.path.normpath(staging / name)) for name in names} - {Path(os.devnull)}
    return tuple(sorted(path for path in paths if not path.is_relative_to(staging)))


def _failure(unit: Unit, staging: Path, log: str, command: str, summary: str = "") -> CompileError | CacheError:
    """Keep what a person needs to look into a failed build, and say it."""
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
    """The compiler's and the linker's flags of a module that ``load_inline`` is making; empty before it has begun."""
    try:
        rules = files.read(staging / "build.ninja").decode()
    except OSError:
        return "", ""
    cflags, ldflags = (re.search(rf"^{name} = (.*)\n", rules, re.MULTILINE) for name in ("cflags", "ldflags"))
    return (cflags[1].strip(), ldflags[1].strip()) if cflags and ldflags else ("", "")


def _keep(staging: Path, keep: Path) -> Path:
    """Leave a failed build for a person to read; another process may be doing the same."""
    scratch = keep.with_name(f"{keep.name}-{secrets.token_hex(4)}")
    try:
        scratch.mkdir(0o700)
        shutil.copytree(staging, scratch, dirs_exist_ok=True)
        shutil.rmtree(keep, ignore_errors=True)
        scratch.rename(keep)
    except OSError:
        shutil.rmtree(scratch, ignore_errors=True)
    return keep
