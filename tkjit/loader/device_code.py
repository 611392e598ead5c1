"""Compiles a launcher in two halves: the device code by NVRTC, the host code by the C++ compiler.

Such a build takes a fifth of nvcc's time, and no toolkit. Decision 48 says which sources it takes.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tkjit.compile.cubin import constant
from tkjit.compile.flags import INCLUDE, host_half_flags
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
    r'(?:cannot|could not) open source file "(?P<what>[^"]+)"': "it includes {what}, which is no header of device code",
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
    """

    # what a build that nvcc goes on with has to remove
    files = (CUBIN, _NAMES, DEVICE_CODE)

    def __init__(self, spec: Spec, target: Target, nvrtc: Nvrtc, directory: Path | None) -> None:
        self._spec, self._target, self._nvrtc = spec, target, nvrtc
        own = [*([directory] if directory else []), *spec.include_dirs]
        given = options_of(spec.flags)
        more = [Path(flag[2:]) for flag in given if flag.startswith("-I")]
        # where headers are looked for before those of CUDA
        self.search = (INCLUDE, *own, *more)
        self._search = (*self.search, *nvrtc.include_dirs, STANDARD_LIBRARY)
        self._defines = [f"-D{name}={value}" for name, value in spec.defines]
        self._given = [flag for flag in given if not flag.startswith("-I")]

    def dependencies(self, launcher: str) -> tuple[Path, ...]:
        """Every file that NVRTC can read for a launcher's text; of NVRTC the key has the version, as of any compiler.

        Raises
        ------
        NotInHalves
            If a header includes what a macro names.
        """
        try:
            return closure(launcher, self._search, [*self._nvrtc.include_dirs, INCLUDE])
        except ComputedInclude as error:
            raise NotInHalves(f"a header of its own includes what a macro names: {error}") from None

    def steps(
        self, source: Path, output: Path, depfile: Path, cxx: Path, included: list[str], linking: list[str]
    ) -> list[list[str] | Callable[[], object]]:
        """The device code, what the host code is told of it, and the host code with the cubin.

        Parameters
        ----------
        included : list of str
            Flags by which the host code includes a precompiled header.
        """
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
            *host_half_flags(self._spec.std),
            *linking,
            *included,
            *self._defines,
            *(flag for flag in self._given if flag.startswith(("-D", "-U"))),
            *["-MD", "-MF", str(depfile), "-x", "c++", str(source), "-o", str(output)],
        ]
        return [device, lambda: self._tell(staging), host]

    def _tell(self, staging: Path) -> None:
        """Write what the host code has to know of the device code."""
        cubin = files.read(staging / CUBIN)
        symbol = files.read(staging / _NAMES).decode().split("\n")[0]
        (staging / _NAMES).unlink()
        text = _DEVICE_CODE.format(
            version=self._nvrtc.version,
            cuda=self._nvrtc.cuda,
            cubin=CUBIN,
            symbol=symbol,
            layout=", ".join(map(str, self._layout(cubin))),
            types=", ".join(self._types(cubin)),
        )
        files.write(staging / DEVICE_CODE, text)

    def _layout(self, cubin: bytes) -> tuple[int, ...]:
        """The struct's size, alignment and offsets; 0 where there is none."""
        if self._spec.args:
            return (0,)
        layout = constant(cubin, _LAYOUT)
        return struct.unpack(f"<{len(layout) // 8}Q", layout)

    def _types(self, cubin: bytes) -> Iterator[str]:
        """The entry's parameters in the host code."""
        *parameters, _ = struct.iter_unpack("<BxH", constant(cubin, _PARAMETERS))
        for i, (kind, size) in enumerate(parameters):
            yield "Globals" if i == 0 and not self._spec.args else _type(kind, size)


# the generated file (include/tkjit/driver_launch.h); braces of C++ are doubled
_DEVICE_CODE = """\
// What NVRTC {version} has made of the device code.
asm(R"(
    .pushsection .rodata
    .balign 64
    .globl tkjit_cubin
    .hidden tkjit_cubin
tkjit_cubin:
    .incbin "{cubin}"
    .popsection
)");
extern "C" {{
const int tkjit_cubin_cuda = {cuda};
const char tkjit_entry_symbol[] = "{symbol}";
[[gnu::used]] static const char tkjit_named_entry[] = "tkjit_entry={symbol}";
}}
namespace tkjit {{
inline constexpr size_t device_layout[] = {{{layout}}};
using EntryKernel = DeviceKernel<{types}>;
}}  // namespace tkjit
"""


def _type(kind: int, size: int) -> str:
    """A parameter's type in the host code (``ParameterKind`` in include/tkjit/device_code.h)."""
    names = {
        1: "void*",
        2: "bool",
        3: f"int{8 * size}_t",
        4: f"uint{8 * size}_t",
        5: "float" if size == 4 else "double",
    }
    if kind not in names:
        raise NotInHalves("its entry takes a struct of its own, which host code has to fill")
    return names[kind]
