"""Each header compiles alone, with the flags of every mode in which it is used, so that an editor can open it.

Two kinds of files cannot: the simulator's ``.inc`` files need macros to be set, and ``include/stand_ins`` includes
headers of ThunderKittens.
"""

from __future__ import annotations

import subprocess
import sysconfig
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import pytest
from support.sampling import sample
from support.specs import F32, by_hand, field

from tkjit.cache import Product
from tkjit.compile.flags import (
    DRIVER,
    INCLUDE,
    RUNTIME,
    SIMULATOR,
    Flags,
    checker_flags,
    checker_macros,
    launcher_flags,
    simulator_flags,
)
from tkjit.compile.targets import cpu_target
from tkjit.config import Settings
from tkjit.loader import loader_for
from tkjit.loader.simulator import with_simulator_sources

pytestmark = pytest.mark.compiles
SPEC = by_hand(field("x", "in", F32, "N"))
CHECKER_MODES = ("memory", "race", "overflow")
# the modes in which sources for the CPU and simulator.cpp are compiled; ucontext is for CPUs other than x86-64
LAUNCHER_MODES = ["plain", "bounds", "memory", "memory cooperative", "race", "overflow"]
SIMULATOR_MODES = ["plain", "memory", "race", "overflow", "ucontext"]


def flags_of_launcher(mode: str) -> Flags:
    plain = launcher_flags(SPEC, cpu_target(), None, checks_bounds=mode == "bounds")
    checked, _, cooperative = mode.partition(" ")
    if checked not in CHECKER_MODES:
        return plain
    return checker_flags(plain, checked, is_clang=compiler()[1], cooperative=bool(cooperative))


def flags_of_simulator(mode: str) -> Flags:
    macros = checker_macros(mode) if mode in CHECKER_MODES else ["TKJIT_SIM_UCONTEXT"] if mode == "ucontext" else []
    return simulator_flags(cpu_target(), macros)


@cache
def compiler() -> tuple[str, bool]:
    """Return the path of the C++ compiler, and whether it is clang."""
    found = loader_for(Settings.from_environment()).toolchain.cxx
    return str(found.path), "clang" in found.version


def compile_text(text: str, flags: Flags, *more: str) -> subprocess.CompletedProcess[str]:
    command = [compiler()[0], *flags.compile, *flags.paths, *more, "-x", "c++", "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True)


def first_error(header: Path, flags: Flags) -> str:
    done = compile_text(f'#include "{header}"\n', flags, "-fsyntax-only")
    errors = [line for line in done.stderr.split("\n") if "error:" in line]
    return errors[0] if errors else done.stderr * (done.returncode != 0)


def errors_alone(headers: Collection[Path], flags: Flags) -> list[str]:
    """Return the first error of each header that does not compile alone."""
    assert headers
    with ThreadPoolExecutor(2) as pool:
        return [error for error in pool.map(lambda header: first_error(header, flags), sorted(headers)) if error]


def headers_in(directory: Path) -> set[Path]:
    return {path for path in directory.rglob("*") if path.is_file() and path.suffix in (".h", ".cuh", "")}


def files_read(text: str, flags: Flags) -> set[Path]:
    """Return the files of tkjit that a compilation reads."""
    rule = compile_text(text, flags, "-M").stdout
    found = {Path(word).resolve() for word in rule.replace("\\\n", " ").split()[1:]}
    return {path for path in found if path.is_relative_to(SIMULATOR) or path.is_relative_to(INCLUDE)}


@cache
def read_by_simulator(mode: str) -> set[Path]:
    return files_read("#include <simulator.cpp>\n", flags_of_simulator(mode))


# the headers that only simulator.cpp includes; the others are for sources
OWN = headers_in(SIMULATOR / "runtime") | headers_in(SIMULATOR / "check")
FOR_SANITIZED_SOURCES = SIMULATOR / "check/copy_calls.h"


@pytest.mark.slow  # 80 compilations per mode
@pytest.mark.parametrize("mode", LAUNCHER_MODES)
def test_the_headers_for_sources_compile_alone(mode):
    headers = headers_in(SIMULATOR) - OWN
    if mode == "race":
        headers.add(FOR_SANITIZED_SOURCES)
    assert errors_alone(headers, flags_of_launcher(mode)) == []


@pytest.mark.slow
@pytest.mark.parametrize("mode", LAUNCHER_MODES)
def test_the_headers_of_include_tkjit_compile_alone(mode):
    # these need torch's headers, which are only on the include path of extensions
    of_torch = headers_in(INCLUDE / "tkjit/torch") | set((INCLUDE / "tkjit/export").glob("torch_*.h"))
    assert errors_alone(headers_in(INCLUDE / "tkjit") - of_torch, flags_of_launcher(mode)) == []


@pytest.mark.parametrize(
    ("folder", "mode"),
    sample(
        [(folder, mode) for folder in ("runtime", "check") for mode in SIMULATOR_MODES],
        "check memory",
        name=" ".join,
    ),
)
def test_the_headers_of_the_simulators_object_compile_alone(folder, mode):
    headers = headers_in(SIMULATOR / folder) & read_by_simulator(mode)
    assert errors_alone(headers, flags_of_simulator(mode)) == []


def test_each_header_is_used_in_some_mode():
    used = set.union(*map(read_by_simulator, SIMULATOR_MODES))
    assert OWN - used == {FOR_SANITIZED_SOURCES}


@pytest.mark.slow  # most include torch's headers, which take 3 s each
def test_the_headers_of_the_runtime_compile_alone():
    from torch.utils.cpp_extension import include_paths

    directories = [str(INCLUDE), str(DRIVER), sysconfig.get_path("include"), *include_paths()]
    flags = Flags(("-std=c++20",), tuple(f"-I{directory}" for directory in directories))
    assert errors_alone(headers_in(RUNTIME), flags) == []


@pytest.mark.parametrize("mode", ["plain", "memory", "race"])
def test_a_launcher_depends_on_all_files_that_its_simulator_is_compiled_from(mode):
    read = files_read("#include <tkjit/launcher.h>\n", flags_of_launcher(mode))
    product = with_simulator_sources(Product("launcher.so", tuple(read)), mode.replace("plain", ""))
    assert read_by_simulator(mode) - set(product.dependencies) == set()
