"""Collects the C++ and CUDA sources of an exported torch package: each variant's launcher, and the headers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tkjit.compile.flags import CUDA_LIBRARIES, INCLUDE, SIMULATOR, STAND_INS, Flags, simulator_flags
from tkjit.compile.includes import closure
from tkjit.compile.targets import Target
from tkjit.errors import SpecError
from tkjit.exports.model import Export
from tkjit.loader import Loader
from tkjit.loader.objects import ObjectPlan
from tkjit.render.exported import Code, ExportedFunction
from tkjit.system import files

# flags that the package's build sets itself
_LEFT_OUT = ("-shared", "-cudart=static", "-Xptxas=-v")
_SIMULATOR = "sim/simulator.cpp"


@dataclass(frozen=True)
class CompiledSource:
    """A source with its compiler flags.

    Parameters
    ----------
    path : str
        Relative to the package.
    symbol : str
        The symbol of its launcher; empty for the simulator.
    device : {"cpu", "cuda"}
    flags : tuple of str
        Compiler flags, except those for include directories.
    include : tuple of str
        Directories of headers, relative to the package.
    libraries : tuple of str
        Linker flags.
    """

    path: str
    symbol: str
    device: str
    flags: tuple[str, ...]
    include: tuple[str, ...]
    libraries: tuple[str, ...]


@dataclass(frozen=True)
class Sources:
    """All sources of a package.

    Parameters
    ----------
    texts : mapping
        Maps each file's path in the package to its text.
    compiled : sequence of CompiledSource
    functions : sequence of ExportedFunction
        The functions of the library's own source.
    """

    texts: Mapping[str, str]
    compiled: Sequence[CompiledSource]
    functions: Sequence[ExportedFunction]


def collect_sources(loader: Loader, export: Export) -> Sources:
    """Render every launcher, and find the headers.

    Targets with the same source share a file, and one compilation builds it for all of these targets.

    Raises
    ------
    SpecError
        If only tkjit can compile a kernel or its headers, or a header is outside the kernel's directories.
    ToolchainError
        If a kernel has no source for a target.
    """
    collector = _Collector(loader, export)
    functions = []
    for signature in export.signatures:
        variants = export.variants(signature.spec)
        table = []
        for variant, is_kept in variants:
            plans = (
                [loader.object_plan(signature.spec, variant, target) for target in export.targets] if is_kept else []
            )
            name = "_".join([signature.name, *(re.sub(r"\W+", "_", str(value)) for _, value in variant.values)])
            codes = list(collector.add(name, plans))
            table.append(codes or [Code("", "", target.is_cpu) for target in export.targets])
        functions.append(ExportedFunction(signature, [variant for variant, _ in variants], table))
    if any(target.is_cpu for target in export.targets):
        collector.add_simulator()
    for header in ("call", "tensors", "torch_stable", "torch_pybind11"):
        path = INCLUDE / f"tkjit/export/{header}.h"
        collector.texts[f"include/tkjit/export/{header}.h"] = _read(path)
        collector.add_headers(_read(path), Flags((), (f"-I{INCLUDE}",)))
    return Sources(collector.texts, collector.compiled, functions)


class _Collector:
    def __init__(self, loader: Loader, export: Export) -> None:
        self._loader, self._export = loader, export
        self.texts: dict[str, str] = {}
        self._places: dict[Path, str] = {}  # maps the kernels' own directories to paths in the package
        self.compiled: list[CompiledSource] = []

    def add(self, name: str, plans: Sequence[ObjectPlan]) -> Iterator[Code]:
        """Add a variant's launchers, and yield the variant's code for each target."""
        known: dict[str, str] = {}  # maps launcher texts to symbols
        texts = [plan.text() for plan in plans]
        of_gpus = {text for plan, text in zip(plans, texts, strict=True) if not plan.target.is_cpu}
        for plan, text in zip(plans, texts, strict=True):
            target = plan.target
            if target.is_cpu and plan.is_adapted_while_built():
                raise SpecError(
                    f"{plan.spec.name} cannot be exported as a source for the CPU: it or its headers contain inline "
                    "PTX, which tkjit adapts only while it builds; export for GPUs only: --arch 90a"
                )
            if text not in known:
                suffix = f"_{target.name}" if len(of_gpus) > 1 and not target.is_cpu else ""
                known[text] = f"{self._export.name}_{'cpu' if target.is_cpu else 'cuda'}_{name}{suffix}"
                self._add_source(plan, f"{name}{suffix}", known[text], text)
            else:
                self._add_target(known[text], target)
            yield Code(known[text], plan.what, target.is_cpu)

    def _add_source(self, plan: ObjectPlan, name: str, symbol: str, text: str) -> None:
        flags = plan.launcher_flags
        is_cpu = plan.target.is_cpu
        device = "cpu" if is_cpu else "cuda"
        path = f"{self._export.name}_{device}/{name}.{'cpp' if is_cpu else 'cu'}"
        names = [f"#define {name} {name}_of_{symbol}" for name in ("Globals", "tkjit_kernel_name")]
        names += [f"#define tkjit_launch {symbol}", "#define TKJIT_LINKED"]
        head = ["// The launcher of one variant. It is linked with others, so it needs its own names.", *names, ""]
        self.texts[path] = "\n".join(head) + text
        own = tuple(flag for flag in flags.compile if flag not in _LEFT_OUT and not flag.startswith("-march="))
        include = tuple(self._place_of(directory, plan) for directory in flags.include_dirs)
        linked = (*flags.link, *flags.packages)
        self.compiled.append(CompiledSource(path, symbol, device, own, tuple(dict.fromkeys(include)), linked))
        if plan.source.path is not None:  # creates the directory, so that "../common.h" is found
            self.texts[f"{self._place_of(plan.source.path.parent, plan)}/{plan.source.path.name}"] = plan.source.read()
        self.add_headers(text, flags, plan)

    def _add_target(self, symbol: str, target: Target) -> None:
        """Add an architecture to those for which a source is compiled."""
        index = next(i for i, source in enumerate(self.compiled) if source.symbol == symbol)
        old = self.compiled[index]
        flags = (*old.flags, f"-gencode=arch=compute_{target.arch},code=sm_{target.arch}")
        self.compiled[index] = CompiledSource(old.path, old.symbol, old.device, flags, old.include, old.libraries)

    def add_simulator(self) -> None:
        target = next(target for target in self._export.targets if target.is_cpu)
        flags = simulator_flags(target)
        text = _read(SIMULATOR / "simulator.cpp")
        self.texts[_SIMULATOR] = text
        own = tuple(flag for flag in flags.compile if flag != "-c" and not flag.startswith("-march="))
        self.compiled.append(CompiledSource(_SIMULATOR, "", "cpu", own, ("include", "sim"), ()))
        self.add_headers(text, flags)

    def add_headers(self, text: str, flags: Flags, plan: ObjectPlan | None = None) -> None:
        """Copy every header that a text may include, from tkjit and from the kernel's own directories."""
        for path in closure(text, flags.include_dirs, skips_computed=True):
            # a header such as "../common.h" is next to the source's directory, outside the include directories
            source = plan.source.path if plan is not None else None
            searched = sorted(flags.include_dirs, key=lambda one: -len(one.parts))
            directory = next((one for one in searched if path.is_relative_to(one)), None)
            if directory is not None:
                place = f"{self._place_of(directory, plan)}/{path.relative_to(directory)}"
            elif source is not None and path.is_relative_to(source.parent.parent):
                place = f"{Path(self._place_of(source.parent, plan)).parent}/{path.relative_to(source.parent.parent)}"
            else:
                raise SpecError(
                    f"{plan.spec.name if plan else 'the library'} cannot be exported: it includes {path}, "
                    "which is outside its directories; add the header's directory to include_dirs="
                )
            self.texts[place] = _read(path)

    def _place_of(self, directory: Path, plan: ObjectPlan | None) -> str:
        """Return the path in the package for a directory of headers."""
        known = {INCLUDE: "include", SIMULATOR: "sim", CUDA_LIBRARIES: "include/stand_ins/cuda_libraries"}
        if directory in known:
            return known[directory]
        if directory.is_relative_to(STAND_INS):
            return f"include/stand_ins/{directory.relative_to(STAND_INS)}"
        assert plan is not None
        if directory not in self._places:
            owners = (library.name for library in plan.spec.headers if directory in library.include_paths)
            library = next(owners, "")
            # each directory gets its own parent directory, so that a source can include "../common.h"
            place = f"third_party/{library}" if library else f"kernels/{len(self._places)}/{directory.name}"
            taken = set(self._places.values())
            self._places[directory] = next(
                name for name in (place, *(f"{place}_{i}" for i in range(2, 100))) if name not in taken
            )
        return self._places[directory]


def _read(path: Path) -> str:
    return files.read(path, follow=True).decode(errors="replace")
