"""Builds extensions for all later versions of torch and Python, and checks that they use only stable ABIs."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

from tkjit.config import Settings
from tkjit.errors import ArgumentError
from tkjit.extensions.load import build_stable
from tkjit.extensions.registrations import registers_operators
from tkjit.extensions.sources import Extension
from tkjit.loader import loader_for
from tkjit.torch_headers import needed

OLDEST_TORCH = (2, 11)
OLDEST_PYTHON = "0x030a0000"
_C_SHIMS = (
    "torch/csrc/inductor/aoti_torch/c/shim.h",
    "torch/csrc/inductor/aoti_torch/generated/c_shim_aten.h",
    "torch/csrc/stable/c/shim.h",
)
_TORCH_NAMESPACES = re.compile(r"\b(?:at|c10|torch|caffe2|pybind11)::")
_CONDITION = re.compile(r"#\s*if TORCH_FEATURE_VERSION >= TORCH_VERSION_(\d+)_(\d+)_\d+")
_DECLARED = re.compile(r"\b(\w+)\s*\(")


def build_and_audit(extension: Extension) -> Path:
    """Build an extension that needs only the stable ABIs of torch and Python, and return its shared object.

    Raises
    ------
    ArgumentError
        If a source uses an unstable API of torch; the message gives its name and line. Also if the shared object needs
        an unstable symbol, or if its operators cannot be registered.
    CompileError, ToolchainError
        In the same cases as ``tkjit.cpp_extension.load``.
    """
    path = build_stable(with_stable_flags(extension))
    if unstable := list(unstable_symbols(path)):
        torch = "torch {}.{}".format(*OLDEST_TORCH)
        raise ArgumentError(f"{extension.name} needs symbols outside the stable ABI of {torch}: {', '.join(unstable)}")
    if registers_operators(extension):
        _check_operators(extension, path)
    return path


def with_stable_flags(extension: Extension) -> Extension:
    """Return the extension with macros that restrict it to the oldest versions, unless its own flags set a version."""
    has_module = any("PYBIND11_MODULE" in source.content for source in extension.own_sources)
    macros = ["-DTKJIT_RAISES_AT_IMPORT" if has_module else "-DTKJIT_PRINTS_ERRORS"]
    versions = {"Py_LIMITED_API": OLDEST_PYTHON}
    if _includes_stable_headers_alone(extension):  # torch's other headers reject this macro
        versions["TORCH_TARGET_VERSION"] = f"0x{OLDEST_TORCH[0]:02x}{OLDEST_TORCH[1]:02x}000000000000"

    def with_macros(flags: tuple[str, ...]) -> tuple[str, ...]:
        text = " ".join(flags)
        missing = (f"-D{name}={value}" for name, value in versions.items() if f"-D{name}" not in text)
        return (*macros, *missing, *flags)

    return replace(extension, cflags=with_macros(extension.cflags), cuda_flags=with_macros(extension.cuda_flags))


def _includes_stable_headers_alone(extension: Extension) -> bool:
    texts = (needed.text_of(source.content, extension.directories_of(source)) for source in extension.own_sources)
    headers = {header for text in texts for header in text.headers}
    return bool(headers) and all(header.startswith(needed.USABLE_DIRECTORIES) for header in headers)


def unstable_symbols(shared_object: Path) -> Iterator[str]:
    """Return the symbols that a shared object needs from torch outside torch's stable C ABI.

    A C function that only a later torch has counts as well, unless the reference to it is weak. Python's functions need
    no check, because ``Python.h`` declares only the stable ones if ``Py_LIMITED_API`` is defined.
    """
    nm = loader_for(Settings.from_environment()).env.toolchain.binutil("nm")
    command = [nm, "--dynamic", "--undefined-only", "--demangle", str(shared_object)]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    for line in listed.splitlines():
        kind, _, name = line.strip().partition(" ")
        name = name.partition("@")[0]
        if kind == "U" and (_TORCH_NAMESPACES.search(name) or _is_newer(name)):
            yield name


def _is_newer(name: str) -> bool:
    version = versions_of_c_functions().get(name)
    return version > OLDEST_TORCH if version else name.startswith(("aoti_torch_", "torch_"))


@cache
def versions_of_c_functions() -> dict[str, tuple[int, int]]:
    """Map each function of torch's stable C ABI to the version of torch that a program must target to see it."""
    found: dict[str, tuple[int, int]] = {}
    for header in _C_SHIMS:
        version = (0, 0)
        for line in (needed.torch_include() / header).read_text(encoding="utf-8").splitlines():
            if condition := _CONDITION.match(line):
                version = (int(condition[1]), int(condition[2]))
            elif line.startswith("#endif // TORCH_FEATURE_VERSION"):
                version = (0, 0)
            for name in _DECLARED.findall(line):
                found.setdefault(name, version)
    return found


def _check_operators(extension: Extension, path: Path) -> None:
    """Check that an extension's operators can be registered and that its functions match their schemas.

    torch's C ABI passes untyped 64-bit values, so a mismatch would go unnoticed at run time. A child process loads the
    library for this check.
    """
    command = [sys.executable, "-m", "tkjit.extensions.registration_check", extension.name, str(path)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode:
        raise ArgumentError(run.stdout.strip() or f"{extension.name} cannot be loaded: {run.stderr.strip()}")
