"""Compiles a launcher's device code with NVRTC, and describes its launch as data.

This takes a tenth of nvcc's time, and needs no CUDA toolkit and no C++ compiler. Decision 48
(docs/explanation/decisions/0048-device-code-by-nvrtc.md) explains which sources are built this way.
"""

from __future__ import annotations

import hashlib
import json
import re
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

from tkjit.compile.cubin import constant
from tkjit.compile.flags import INCLUDE
from tkjit.compile.includes import ComputedInclude, closure, included
from tkjit.compile.nvrtc import STANDARD_LIBRARY, Nvrtc, options_of
from tkjit.compile.targets import Target
from tkjit.errors import ToolchainError
from tkjit.render.launch_program import LaunchProgram, Operation, launch_program
from tkjit.render.launcher import why_host_code
from tkjit.spec import Spec, Variant
from tkjit.system import files
from tkjit.system.fork_safe import cached_property

if TYPE_CHECKING:
    from tkjit.loader.environment import Environment

CUBIN = "kernel.cubin"
PROGRAM = "launcher.json"  # the launch program
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


class NeedsNvcc(Exception):
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
    if reason := why_host_code(spec):
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


class DeviceCode:
    """Builds one launcher from a cubin and a launch program.

    Parameters
    ----------
    spec : Spec
        A spec that ``with_names`` has returned for the variant.
    directory : Path or None
        The directory in which the source's quoted includes are found.
    """

    # These files have to be removed before nvcc compiles in the same directory.
    files = (CUBIN, _NAMES, PROGRAM)

    def __init__(self, spec: Spec, variant: Variant, target: Target, nvrtc: Nvrtc, directory: Path | None) -> None:
        self._spec, self._variant, self._target, self._nvrtc = spec, variant, target, nvrtc
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
        NeedsNvcc
            If a header includes another one whose name is a macro.
        """
        try:
            return closure(launcher, self._search, [*self._nvrtc.include_dirs, INCLUDE])
        except ComputedInclude as error:
            raise NeedsNvcc(f"one of its headers includes a header whose name is a macro: {error}") from None

    def steps(self, source: Path, output: Path, depfile: Path) -> list[list[str] | Callable[[], object]]:
        """Return steps that compile the device code and write the launch program."""
        staging = source.parent

        def finish() -> None:
            self._write_program(staging, output)
            files.write(depfile, f"{output.name}:")  # NVRTC writes no dependencies; see ``dependencies``

        arch = f"-arch=sm_{self._target.arch}"
        return [self._device_command(source, staging / CUBIN, arch, "--ptxas-options=-v"), finish]

    def ptx_steps(self, source: Path, output: Path, depfile: Path) -> list[list[str] | Callable[[], object]]:
        """Return steps that compile the device code to PTX."""

        def finish() -> None:
            (source.parent / _NAMES).unlink()
            files.write(depfile, f"{output.name}:")

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

    @cached_property
    def _program(self) -> LaunchProgram:
        return launch_program(self._spec, self._variant)

    def _write_program(self, staging: Path, output: Path) -> None:
        cubin = files.read(staging / CUBIN)
        symbol = files.read(staging / _NAMES).decode().split("\n")[0]
        (staging / _NAMES).unlink()
        *parameters, _ = struct.iter_unpack("<BxH", constant(cubin, _PARAMETERS))
        block = ParameterBlock([_Parameter(*parameter) for parameter in parameters])
        values = {}
        if not self._spec.args:
            layout = constant(cubin, _LAYOUT)
            size, *numbers = struct.unpack(f"<{len(layout) // 8}Q", layout)
            if size != parameters[0][1]:
                sizes = f"{size} bytes for the struct, and {parameters[0][1]} for the kernel's parameter"
                raise ToolchainError(f"{self._spec.name}: NVRTC {self._nvrtc.version} reports {sizes}")
            values = dict(zip(self._program.layout, numbers, strict=True))
        description = {
            "cuda": self._nvrtc.cuda,
            "cubin": hashlib.sha256(cubin).hexdigest(),
            "symbol": symbol,
            "arguments": len(self._spec.struct_fields),
            "bytes": block.bytes,
            "parameters": block.offsets,
            "texts": self._program.texts,
            "program": [step for operation in self._program.operations for step in block.resolve(operation, values)],
        }
        files.write(output, _as_text(description))


def _as_text(description: Mapping[str, Any]) -> str:
    """Return the description as JSON, with one operation on each line."""
    *facts, (name, program) = description.items()
    lines = [f"  {json.dumps(key)}: {json.dumps(value)},\n" for key, value in facts]
    operations = ",\n".join(f"    {json.dumps(operation)}" for operation in program)
    return f"{{\n{''.join(lines)}  {json.dumps(name)}: [\n{operations}\n  ]\n}}\n"


class _Parameter(NamedTuple):
    """A parameter of a kernel (``Parameter`` in include/tkjit/device_code.h)."""

    kind: int
    bytes: int


# ``ParameterKind`` in include/tkjit/device_code.h
_POINTER, _BOOLEAN, _SIGNED, _UNSIGNED, _FLOATING = range(1, 6)


class ParameterBlock:
    """The memory in which a launch puts the kernel's parameters."""

    def __init__(self, parameters: Iterable[_Parameter]) -> None:
        self._parameters = list(parameters)
        self.offsets: list[int] = []
        self.bytes = 0
        for parameter in self._parameters:
            self.offsets.append(self.bytes)
            self.bytes += -(-parameter.bytes // 16) * 16

    def resolve(self, operation: Operation, values: Mapping[str, int]) -> Iterator[list[Any]]:
        """Yield what an operation becomes when the offsets and sizes are known."""
        match operation:
            case ("argument", int(position), int(arg), int(text)):
                yield from self._of_argument(position, arg, text)
            case ("computed", int(position), int(text)):
                yield self._of_computed(position, text)
            case (name, *operands):
                yield [name, *(self._resolved(operand, values) for operand in operands)]

    def _resolved(self, operand: Any, values: Mapping[str, int]) -> Any:
        if isinstance(operand, tuple):
            return [step for operation in operand for step in self.resolve(operation, values)]
        return values[operand] if isinstance(operand, str) else operand

    def _of_argument(self, position: int, arg: int, text: int) -> Iterator[list[Any]]:
        kind, size = self._parameter(position)
        offset = self.offsets[position]
        if kind == _POINTER:
            yield ["store_pointer", arg, offset]
        elif kind == _FLOATING:
            yield ["store_real", arg, offset, size]
        elif kind == _BOOLEAN:
            yield ["store_integer", arg, offset, size]
        else:
            if text >= 0:  # otherwise the glue has checked that the number fits
                yield ["check_integer", arg, size, int(kind == _SIGNED), text]
            yield ["store_integer", arg, offset, size]

    def _of_computed(self, position: int, text: int) -> list[Any]:
        kind, size = self._parameter(position)
        if kind not in (_SIGNED, _UNSIGNED):
            raise NeedsNvcc("its entry takes a computed integer as another type")
        return ["store_computed", self.offsets[position], size, int(kind == _SIGNED), text]

    def _parameter(self, position: int) -> _Parameter:
        parameter = self._parameters[position]
        if parameter.kind not in (_POINTER, _BOOLEAN, _SIGNED, _UNSIGNED, _FLOATING):
            raise NeedsNvcc("its entry takes a struct that the source defines, which the host code has to fill")
        return parameter


def open_program(path: Path, module: ModuleType, *, synchronous: bool) -> int:
    """Open a cubin with its launch program, and return the launcher's address.

    Raises
    ------
    ImportError
        If the program is not one that the module of launch programs can run.
    """
    try:
        description = files.read_json(path)
        numbers = {name: number for number, name in enumerate(module.operations)}
        words = list(_words(description["program"], numbers))
        more = [description[name] for name in ("texts", "parameters", "bytes", "arguments")]
        cubin = files.read(path.with_name(CUBIN))
        if hashlib.sha256(cubin).hexdigest() != description["cubin"]:
            raise ValueError(f"{CUBIN} has changed")
        address = module.open_program(cubin, description["symbol"], description["cuda"], synchronous, words, *more)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ImportError(f"{path} is not a launch program: {error!r}") from None
    return int(address)


def _words(program: Iterable[list[Any]], numbers: Mapping[str, int]) -> Iterator[int]:
    for name, *operands in program:
        yield numbers[name]
        if name == "each":
            *before, operations = operands
            body = list(_words(operations, numbers))
            yield from (*before, len(body), *body)
        else:
            yield from operands
