"""Compiles a launcher in two halves: the device code with NVRTC, the host code with the C++ compiler.

Building in two halves takes a fifth of nvcc's time and needs no CUDA toolkit. Decision 48
(docs/explanation/decisions/0048-device-code-by-nvrtc.md) explains which sources are built this way.
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

# Matches headers that only host code includes. Standard headers for which tkjit has a stand-in are exempt.
_STANDARD = re.compile(r"[a-z_]+|(?:errno|pthread|signal|stdlib|string|time|unistd)\.h|sys/\w+\.h")
_HOST_LIBRARIES = ("torch/", "ATen/", "c10/", "pybind11/", "thrust/", "cub/", "cutlass/", "cute/")

# Maps errors in NVRTC's log to the reasons for trying nvcc instead. Any other error is shown to the user.
_CAUSES = {
    r'(?:cannot|could not) open source file "(?P<what>[^"]+)"': "it includes {what}, which NVRTC does not find",
    r"unrecognized option (?P<what>\S+) found": "its flag {what} is only for nvcc",
    r'identifier "(?P<what>cuda[A-Z]\w+)" is undefined': "it uses {what}, which is only for host code",
    r'namespace "std" has no member "(?P<what>\w+)"': "it uses std::{what}, which tkjit does not provide for NVRTC",
    r"a host function call cannot be configured|host functions are not allowed in JIT mode": "it has host code",
    r"dynamic initialization is not supported for a __device__ variable": "it has host code",
}


class NotInHalves(Exception):
    """Raised if only nvcc can compile the source. The text is the reason: ``it includes <vector>``."""


@dataclass(frozen=True)
class Choice:
    """The compiler of a launcher's device code.

    Parameters
    ----------
    nvrtc : Nvrtc or None
        The NVRTC to use, or None to use the target's usual compiler.
    reason : str
        Why nvcc is needed.
    is_asked_for : bool
        Whether the user chose the compiler. If so, tkjit tries no other compiler.
    """

    nvrtc: Nvrtc | None = None
    reason: str = ""
    is_asked_for: bool = False


def choose(spec: Spec, text: str, target: Target, env: Environment) -> Choice:
    """Choose NVRTC if it is installed and the source is device code, otherwise nvcc. The user's choice has precedence.

    Raises
    ------
    ToolchainError
        If the user chose NVRTC, but it is missing or cannot compile the source.
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
        raise ToolchainError(
            f"{spec.name} cannot be compiled with NVRTC, which compiler= or TKJIT_COMPILER asks for: {reason}"
        )
    return Choice(None if reason else nvrtc, reason, asked == "nvrtc")


def why_nvcc(spec: Spec, text: str) -> str:
    """Return why a source needs nvcc, judging by its text and its spec, or an empty text if NVRTC can be tried."""
    if reason := why_not_in_halves(spec):
        return reason
    if spec.libraries:
        return f"it is linked with {spec.libraries[0]}"
    if spec.std not in ("c++11", "c++14", "c++17", "c++20"):
        return f"NVRTC does not know -std={spec.std}"
    try:
        options_of(spec.flags)
    except ValueError as error:
        return f"its flag {error} is only for nvcc"
    if "<<<" in text:
        return "it has host code: <<<"
    if re.search(r"\bmain\s*\(", text):
        return "it has host code: main"
    try:
        names = [name for is_quoted, name in included(text) if not is_quoted]
    except ComputedInclude as error:
        return f"it includes a header whose name is a macro: {error}"
    host = next((name for name in names if _is_host_header(name, spec.include_dirs)), "")
    return f"it includes <{host}>" if host else ""


def _is_host_header(name: str, include_dirs: Iterable[Path]) -> bool:
    if any((directory / name).is_file() for directory in (STANDARD_LIBRARY, *include_dirs)):
        return False
    return name.startswith(_HOST_LIBRARIES) or _STANDARD.fullmatch(name) is not None


def refusal(log: str) -> str:
    """Return why NVRTC rejected a source that nvcc may accept, or an empty text if the source itself is wrong."""
    for pattern, reason in _CAUSES.items():
        if found := re.search(pattern, log):
            return reason.format(**found.groupdict())
    return ""


class Halves:
    """Builds one launcher in two halves.

    Parameters
    ----------
    directory : Path or None
        The directory in which the source's quoted includes are found.
    """

    # These files have to be removed before nvcc compiles in the same directory.
    files = (CUBIN, _NAMES, DEVICE_CODE)

    def __init__(self, spec: Spec, target: Target, nvrtc: Nvrtc, directory: Path | None) -> None:
        self._spec, self._target, self._nvrtc = spec, target, nvrtc
        own_directories = [*([directory] if directory else []), *spec.include_dirs]
        given = options_of(spec.flags)
        more = [Path(flag[2:]) for flag in given if flag.startswith("-I")]
        # the directories that are searched before those of CUDA
        self.search = (INCLUDE, *own_directories, *more)
        self._search = (*self.search, *nvrtc.include_dirs, STANDARD_LIBRARY)
        self._defines = [f"-D{name}={value}" for name, value in spec.defines]
        self._given = [flag for flag in given if not flag.startswith("-I")]

    def dependencies(self, launcher: str) -> tuple[Path, ...]:
        """Return every file that NVRTC may read for a launcher's text.

        NVRTC itself is not in the list, because the key contains its version.

        Raises
        ------
        NotInHalves
            If a header includes another one whose name is a macro.
        """
        try:
            return closure(launcher, self._search, [*self._nvrtc.include_dirs, INCLUDE])
        except ComputedInclude as error:
            raise NotInHalves(f"one of its headers includes a header whose name is a macro: {error}") from None

    def steps(
        self, source: Path, output: Path, depfile: Path, cxx: Path, included: list[str], linking: list[str]
    ) -> list[list[str] | Callable[[], object]]:
        """Return steps that compile the device code, describe the cubin to the host code, and compile the host code.

        Parameters
        ----------
        included : list of str
            Flags that make the host code include a precompiled header.
        """
        staging = source.parent
        device = self._device_command(source, staging / CUBIN, f"-arch=sm_{self._target.arch}", "--ptxas-options=-v")
        host = [
            str(cxx),
            *host_half_flags(self._spec.std),
            *linking,
            *included,
            *self._defines,
            *(flag for flag in self._given if flag.startswith(("-D", "-U"))),
            *["-MD", "-MF", str(depfile), "-x", "c++", str(source), "-o", str(output)],
        ]
        return [device, lambda: self._write_description(staging), host]

    def ptx_steps(self, source: Path, output: Path, depfile: Path) -> list[list[str] | Callable[[], object]]:
        """Return steps that compile the device code to PTX."""

        def finish() -> None:
            (source.parent / _NAMES).unlink()
            files.write(depfile, f"{output.name}:")  # NVRTC writes no dependencies; see ``dependencies``

        return [self._device_command(source, output, f"-arch=compute_{self._target.arch}"), finish]

    def _device_command(self, source: Path, output: Path, *options: str) -> list[str]:
        layout = [] if self._spec.args else [f"&{_LAYOUT}"]
        expressions = [self._spec.entry, f"&{_PARAMETERS}", *layout]
        more = [
            f"-std={self._spec.std}",
            "--no-cache",
            "-default-device",
            *self._defines,
            *self._given,
            *(f"-I{path}" for path in self._search),
        ]
        return self._nvrtc.command(source, output, source.parent / _NAMES, expressions, [*options, *more])

    def _write_description(self, staging: Path) -> None:
        """Write the file that describes the device code to the host code."""
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
        """Return the struct's size, alignment and offsets, or 0 if there is no struct."""
        if self._spec.args:
            return (0,)
        layout = constant(cubin, _LAYOUT)
        return struct.unpack(f"<{len(layout) // 8}Q", layout)

    def _types(self, cubin: bytes) -> Iterator[str]:
        """Yield the types that the entry's parameters have in the host code."""
        *parameters, _ = struct.iter_unpack("<BxH", constant(cubin, _PARAMETERS))
        for i, (kind, size) in enumerate(parameters):
            yield "Globals" if i == 0 and not self._spec.args else _type(kind, size)


# The template of the generated file, which include/tkjit/driver_launch.h uses. C++ braces are doubled for str.format.
_DEVICE_CODE = """\
// The device code, compiled by NVRTC {version}.
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
    """Return the type that a parameter has in the host code (``ParameterKind`` in include/tkjit/device_code.h)."""
    names = {
        1: "void*",
        2: "bool",
        3: f"int{8 * size}_t",
        4: f"uint{8 * size}_t",
        5: "float" if size == 4 else "double",
    }
    if kind not in names:
        raise NotInHalves("its entry takes a struct that the source defines, which the host code has to fill")
    return names[kind]
