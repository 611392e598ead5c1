"""Compiles and links the library of an export."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path

from tkjit.compile import compiler, flags
from tkjit.exports.c_header import function_names
from tkjit.exports.model import Export
from tkjit.loader import Loader
from tkjit.loader.objects import ENTRY, POOL, ObjectPlan
from tkjit.loader.variant_names import describe
from tkjit.render.exported import Code, ExportedFunction, pool_symbol, render_library
from tkjit.system import files

# the functions that every export has, declared in include/tkjit/export/tensors.h
COMMON = (
    *("tkjit_dtype_name", "tkjit_dtype_size", "tkjit_error_kind", "tkjit_error_new", "tkjit_free_error"),
    *("tkjit_tensor_new", "tkjit_tensor_view", "tkjit_tensor_free", "tkjit_tensor_copy", "tkjit_tensor_bytes"),
    *("tkjit_tensor_is_contiguous", "tkjit_tensor_from_dlpack", "tkjit_tensor_to_dlpack", "tkjit_device_count"),
    *("tkjit_stream_new", "tkjit_stream_free", "tkjit_stream_wait"),
)


def object_plans(loader: Loader, export: Export) -> list[ObjectPlan]:
    """Plan the object files of an export, in the order of function, variant and target.

    Raises
    ------
    SpecError
        If a kernel has no variant of the export's dtypes.
    ToolchainError
        If a kernel has no source for a target.
    """
    return [
        loader.object_plan(signature.spec, variant, target)
        for signature in export.signatures
        for variant, is_kept in export.variants(signature.spec)
        for target in export.targets
        if is_kept
    ]


Objects = Sequence[tuple[ObjectPlan, Path]]


def link_library(
    loader: Loader,
    export: Export,
    objects: Objects,
    include: Path,
    interface: str,
    staging: Path,
) -> Path:
    """Compile the library's own source, link it with the objects, and return the shared object in ``staging``.

    Parameters
    ----------
    objects : Objects
        The plans from ``object_plans``, in the same order, each with its object file.
    include : Path
        The directory of the export's headers.

    Raises
    ------
    CompileError
        With the first error of the compiler or the linker.
    """
    functions, symbols = _functions(export)
    text = render_library(export.name, functions, [target.name for target in export.targets], interface)
    renamed = [staging / f"{symbol}.o" for symbol in symbols]
    script = staging / "exports.map"
    script.write_text(_version_script(export))

    def commands(source: Path, built: Path, depfile: Path) -> list[list[str]]:
        own = staging / "library.o"
        files = ["-MD", "-MF", str(depfile), "-c", str(source), "-o", str(own)]
        link = [*_link_command(loader, export, script), *_inputs(own, renamed, objects), "-o", str(built)]
        compile_own = [str(loader.toolchain.cxx.path), *_compile_flags(loader, export, include), *files]
        return [compile_own, *_renaming(loader, objects, symbols, renamed), link]

    unit = compiler.Unit(f"the library {export.name}", f"{export.name}.cpp", text, staging / ".failed")
    compiler.compile_binary(unit, staging, export.soname, commands)
    return staging / export.soname


def _renaming(loader: Loader, objects: Objects, symbols: Sequence[str], renamed: Sequence[Path]) -> list[list[str]]:
    """Return the commands that rename each launcher's symbols, which have the same names in every object."""
    objcopy = loader.toolchain.binutil("objcopy")
    return [
        [
            objcopy,
            f"--redefine-sym={ENTRY}={symbol}",
            f"--redefine-sym={POOL}={pool_symbol(symbol)}",
            str(path),
            str(to),
        ]
        for (_, path), symbol, to in zip(objects, symbols, renamed, strict=True)
    ]


def _functions(export: Export) -> tuple[list[ExportedFunction], list[str]]:
    """Return the library's functions, and its launchers' symbols in the order of ``object_plans``."""
    numbers = itertools.count()
    functions, symbols = [], []
    for signature in export.signatures:
        variants = export.variants(signature.spec)
        table = []
        for variant, is_kept in variants:
            row = []
            for target in export.targets:
                symbol = f"{export.name}_code_{next(numbers)}" if is_kept else ""
                row.append(Code(symbol, describe(signature.spec, variant, target), target.is_cpu))
                symbols += [symbol] if is_kept else []
            table.append(row)
        functions.append(ExportedFunction(signature, [variant for variant, _ in variants], table))
    return functions, symbols


def _compile_flags(loader: Loader, export: Export, include: Path) -> list[str]:
    own = ["-std=c++20", "-O2", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wno-unused-function"]
    own.append('-DTKJIT_API=__attribute__((visibility("default")))')
    includes = [f"-I{include}", f"-I{flags.INCLUDE}"]
    if export.has_cuda:
        own.append("-DTKJIT_EXPORT_CUDA")
        includes += ["-isystem", str(loader.toolchain.cuda_root / "include")]
    return [*own, *includes]


def _link_command(loader: Loader, export: Export, script: Path) -> list[str]:
    """Return the link command without its inputs. Only the export's symbols stay visible, and libstdc++ is static."""
    options = [word for kind in ("defs", "relro", "now", "nodelete") for word in ("-z", kind)]
    options += ["-Bsymbolic", f"-soname={export.soname}", f"--version-script={script}"]
    cxx = str(loader.toolchain.cxx.path)
    static = ["-static-libstdc++", "-static-libgcc", "-pthread"]
    if not export.has_cuda:
        return [cxx, "-shared", *static, f"-Wl,{','.join(options)}"]
    root = loader.toolchain.cuda_root
    nvcc = [str(loader.toolchain.nvcc.path), f"-ccbin={cxx}", f"-L{root / 'lib'}", "-shared", "-cudart=static"]
    return [*nvcc, f"-Xcompiler={','.join(static)}", *(f"-Xlinker={option}" for option in options)]


def _inputs(own: Path, renamed: Sequence[Path], objects: Objects) -> list[str]:
    libraries = dict.fromkeys(flag for plan, _ in objects for flag in plan.link_flags)
    return [str(own), *map(str, renamed), *libraries, "-ldl", "-lrt"]


def _version_script(export: Export) -> str:
    """Return the linker's version script, which lists the visible functions and gives each a symbol version."""
    common = "".join(f"        {name};\n" for name in COMMON)
    own = "".join(f"        {name};\n" for name in function_names(export))
    node = f"{export.name.upper()}_{export.major}"
    return f"TKJIT_1 {{\n    global:\n{common}    local: *;\n}};\n{node} {{\n    global:\n{own}}};\n"


def write_includes(export: Export, header: str, directory: Path, more: Mapping[str, str]) -> None:
    """Write the header ``NAME.h``, and put the headers that it includes into the directory ``NAME``."""
    (directory / export.name).mkdir(parents=True)
    (directory / f"{export.name}.h").write_text(header)
    common = flags.INCLUDE / "tkjit/export/tensors.h"
    (directory / export.name / "tensors.h").write_text(files.read(common, follow=True).decode())
    for name, text in more.items():
        (directory / name).write_text(text)
