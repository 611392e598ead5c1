"""Compiles a launcher in two halves: the device code by NVRTC, the host code by the C++ compiler.

Such a build takes a fifth of nvcc's time, and no toolkit. docs/decisions/device-code.md says which sources it takes.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tkjit.compile.cubin import constant
from tkjit.compile.flags import INCLUDE, STAND_INS
from tkjit.compile.includes import ComputedInclude, closure, included
from tkjit.compile.nvrtc import STANDARD_LIBRARY, Nvrtc, options_of
from tkjit.compile.targets import Target
from tkjit.errors import ToolchainError
from tkjit.render.halves import DEVICE_CODE, why_not_in_halves
from tkjit.spec import Spec
from tkjit.system import files

if TYPE_CHECKING:
    from tkjit.loader.environment import Environment

CUBIN = "kernel.cubin"
_NAMES = "kernel.names"
_PARAMETERS, _LAYOUT = "tkjit_parameters", "tkjit_layout"

# what only host code includes, but for the standard headers that have a stand-in
_STANDARD = re.compile(r"[a-z_]+|(?:errno|pthread|signal|stdlib|string|time|unistd)\.h|sys/\w+\.h")
_OF_HOSTS = ("torch/", "ATen/", "c10/", "pybind11/", "thrust/", "cub/", "cutlass/", "cute/")

# What NVRTC's log says where nvcc would do: the fixed list of causes for which nvcc is tried.
_CAUSES = {
    r'could not open source file "(?P<what>[^"]+)"': "it includes {what}, which is no header of device code",
    r'cannot open source file "(?P<what>[^"]+)"': "it includes {what}, which is no header of device code",
    r"unrecognized option (?P<what>\S+) found": "its flag {what} is nvcc's",
    r'identifier "(?P<what>cuda[A-Z]\w+)" is undefined': "it calls {what}, which host code does",
    r'namespace "std" has no member "(?P<what>\w+)"': "it uses std::{what}, which is not in NVRTC's standard library",
    r"a host function call cannot be configured|host functions are not allowed in JIT mode": "it has host code",
    r"dynamic initialization is not supported for a __device__ variable": "it has host code",
}


class NotInHalves(Exception):
    """The text says why nvcc has to compile a source: ``it includes <vector>``."""


@dataclass(frozen=True)
class Choice:
    """What compiles a launcher's device code.

    Parameters
    ----------
    nvrtc : Nvrtc or None
        None for the target's own compiler.
    reason : str
        Why it is nvcc.
    is_asked_for : bool
        Whether the user has said so: then no other compiler is tried.
    """

    nvrtc: Nvrtc | None = None
    reason: str = ""
    is_asked_for: bool = False


def choose(spec: Spec, text: str, target: Target, env: Environment) -> Choice:
    """NVRTC where it is there and the source is device code; nvcc otherwise, or where the user says so.

    Raises
    ------
    ToolchainError
        If NVRTC is asked for, and is not there or cannot take the source.
    """
    asked = spec.compiler or env.compiler
    if asked == "nvcc":
        return Choice(is_asked_for=True)
    reason = why_nvcc(spec, text)
    nvrtc = None
    if not reason:
        try:
            nvrtc = env.toolchain.nvrtc
        except ToolchainError as error:
            reason = str(error)
        else:
            reason = "" if nvrtc.knows(target.arch) else f"NVRTC {nvrtc.version} does not know {target.name}"
    if reason and asked == "nvrtc":
        raise ToolchainError(f"{spec.name} is to be compiled by NVRTC, and cannot be: {reason}")
    return Choice(None if reason else nvrtc, reason, asked == "nvrtc")


def why_nvcc(spec: Spec, text: str) -> str:
    """Why a source is nvcc's, as far as its text and its spec say; empty if NVRTC can be asked."""
    if reason := why_not_in_halves(spec):
        return reason
    if spec.libraries:
        return f"it is linked with {spec.libraries[0]}"
    if spec.std not in ("c++11", "c++14", "c++17", "c++20"):
        return f"NVRTC does not know -std={spec.std}"
    try:
        options_of(spec.flags)
    except ValueError as error:
        return f"its flag {error} is nvcc's"
    if "<<<" in text:
        return "it has host code: <<<"
    if re.search(r"\bmain\s*\(", text):
        return "it has host code: main"
    try:
        names = [name for is_quoted, name in included(text) if not is_quoted]
    except ComputedInclude as error:
        return f"it includes what a macro names: {error}"
    host = next((name for name in names if _is_of_hosts(name, spec.include_dirs)), "")
    return f"it includes <{host}>" if host else ""


def _is_of_hosts(name: str, include_dirs: Iterable[Path]) -> bool:
    if any((directory / name).is_file() for directory in (STANDARD_LIBRARY, *include_dirs)):
        return False
    return name.startswith(_OF_HOSTS) or _STANDARD.fullmatch(name) is not None


def refusal(log: str) -> str:
    """Why NVRTC has refused what nvcc may take; empty where the error is the source's own."""
    for pattern, reason in _CAUSES.items():
        if found := re.search(pattern, log):
            return reason.format(**found.groupdict())
    return ""


class Halves:
    """The steps of one build.

    Parameters
    ----------
    directory : Path or None
        Where the source's quoted includes are found.
    defines : sequence of str
        ``-DNAME=VALUE``.
    """

    def __init__(self, spec: Spec, target: Target, nvrtc: Nvrtc, directory: Path | None, text: str) -> None:
        self._spec, self._target, self._nvrtc, self._text = spec, target, nvrtc, text
        own = [*([directory] if directory else []), *spec.include_dirs]
        given = options_of(spec.flags)
        more = [Path(flag[2:]) for flag in given if flag.startswith("-I")]
        self._search = [INCLUDE, *own, *more, *nvrtc.include_dirs, STANDARD_LIBRARY]
        self._defines = [f"-D{name}={value}" for name, value in spec.defines]
        self._given = [flag for flag in given if not flag.startswith("-I")]
        self._directory = directory

    @property
    def search(self) -> tuple[Path, ...]:
        """Where headers are looked for before those of CUDA."""
        return tuple(path for path in self._search if path not in (*self._nvrtc.include_dirs, STANDARD_LIBRARY))

    def dependencies(self) -> tuple[Path, ...]:
        """Every file that NVRTC can have read, and NVRTC.

        Raises
        ------
        NotInHalves
            If a header includes what a macro names.
        """
        try:
            found = closure(self._text, self._directory, self._search, [*self._nvrtc.include_dirs, INCLUDE])
        except ComputedInclude as error:
            raise NotInHalves(f"a header of its own includes what a macro names: {error}") from None
        return (*found, self._nvrtc.path)

    def steps(
        self, source: Path, output: Path, depfile: Path, cxx: Path, linking: list[str]
    ) -> list[list[str] | Callable[[], object]]:
        """The device code, what the host code is told of it, and the host code with the cubin."""
        staging = source.parent
        cubin, names = staging / CUBIN, staging / _NAMES
        layout = [] if self._spec.args else [f"&{_LAYOUT}"]
        options = [
            f"-arch=sm_{self._target.arch}",
            f"-std={self._spec.std}",
            "--no-cache",
            "-default-device",
            "--ptxas-options=-v",
            *self._defines,
            *self._given,
            *(f"-I{path}" for path in self._search),
        ]
        device = self._nvrtc.command(source, cubin, names, [self._spec.entry, f"&{_PARAMETERS}", *layout], options)
        host = [
            str(cxx),
            f"-std={self._spec.std}",
            "-O1",
            "-shared",
            "-fPIC",
            "-fvisibility=hidden",
            "-DTKJIT_HOST_HALF",
            *linking,
            *self._defines,
            *(flag for flag in self._given if flag.startswith(("-D", "-U"))),
            f"-I{STAND_INS / 'driver'}",
            f"-I{INCLUDE}",
            *["-MD", "-MF", str(depfile), "-x", "c++", str(source), "-o", str(output)],
        ]
        return [device, lambda: self._describe(staging), host]

    def _describe(self, staging: Path) -> None:
        """Write what the host code is told."""
        cubin = files.read(staging / CUBIN)
        symbol = files.read(staging / _NAMES).decode().split("\n")[0]
        (staging / _NAMES).unlink()
        parameters = constant(cubin, _PARAMETERS)
        kinds = [struct.unpack_from("<BBH", parameters, at) for at in range(0, len(parameters), 4)]
        types = [
            _type(kind, size, is_globals=i == 0 and not self._spec.args) for i, (kind, _, size) in enumerate(kinds[:-1])
        ]
        offsets = (
            []
            if self._spec.args
            else [*struct.unpack(f"<{len(constant(cubin, _LAYOUT)) // 8}Q", constant(cubin, _LAYOUT))]
        )
        layout = [f"inline constexpr size_t device_layout[] = {{{', '.join(map(str, offsets))}}};"] if offsets else []
        lines = [
            f"// What NVRTC {self._nvrtc.version} has made of the device code.",
            'asm(R"(',
            "    .pushsection .rodata",
            "    .balign 64",
            "    .globl tkjit_cubin",
            "    .hidden tkjit_cubin",
            "tkjit_cubin:",
            f'    .incbin "{CUBIN}"',
            "    .popsection",
            ')");',
            'extern "C" {',
            f"const int tkjit_cubin_cuda = {self._nvrtc.cuda};",
            f'const char tkjit_entry_symbol[] = "{symbol}";',
            f'[[gnu::used]] static const char tkjit_named_entry[] = "tkjit_entry={symbol}";',
            "}",
            "namespace tkjit {",
            *layout,
            f"using EntryKernel = DeviceKernel<{', '.join(types)}>;",
            "}  // namespace tkjit",
        ]
        files.write(staging / DEVICE_CODE, "\n".join(lines) + "\n")


def _type(kind: int, size: int, *, is_globals: bool) -> str:
    """A parameter's type in the host code (``ParameterKind`` in tkjit/device_code.h)."""
    if is_globals:
        return "Globals"
    name = {
        1: "void*",
        2: "bool",
        3: f"int{8 * size}_t",
        4: f"uint{8 * size}_t",
        5: {4: "float", 8: "double"}.get(size),
    }.get(kind)
    if name is None:
        raise NotInHalves("its entry takes a struct of its own, which host code has to fill")
    return name
