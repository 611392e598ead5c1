"""Finds libclang and clang's headers, and parses a source. No other module uses the ``clang`` package."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from tkjit.compile.flags import INCLUDE
from tkjit.errors import ToolchainError
from tkjit.system.install import pip_install

EXTRA = "tkjit[import]"  # the extra that installs libclang
_OWN_HEADERS = Path(__file__).parent / "include"
# CXTranslationUnit_Flags: go on after a missing header; skip function bodies, which halves the time; list macros
_KEEP_GOING, _SKIP_BODIES, _MACROS = 0x200, 0x40, 0x01
_MEMBERS = ("CXX_METHOD", "FIELD_DECL", "FUNCTION_TEMPLATE", "VAR_DECL")
_ERROR = 3  # CXDiagnosticSeverity


@dataclass(frozen=True)
class Error:
    """An error from a compiler.

    Parameters
    ----------
    places : tuple of (str, int)
        The file and line of the error, followed by those of its notes.
    """

    text: str
    places: tuple[tuple[str, int], ...]


class Parsed:
    """The result of parsing a source with libclang, including the lines that ``parse`` appended to the source."""

    def __init__(self, unit: Any) -> None:
        self._unit = unit
        self.errors = tuple(_errors(unit.diagnostics))

    def declarations(self) -> Iterator[Any]:
        """Return the cursors of the outermost declarations."""
        yield from self._unit.cursor.get_children()

    def macros(self) -> dict[str, tuple[str, int]]:
        """Map each macro to the file and line of its last definition; empty unless parsed with ``with_macros``."""
        return {
            cursor.spelling: (cursor.location.file.name, cursor.location.line)
            for cursor in self.declarations()
            if cursor.kind.name == "MACRO_DEFINITION" and cursor.location.file is not None
        }

    def included(self, names: Iterable[str]) -> list[str]:
        """Return the parsed text's file name, and the files with these names that the text includes directly."""
        ends = tuple(f"/{name.removeprefix('/')}" for name in names)
        found = {str(inclusion.include.name) for inclusion in self._unit.get_includes() if inclusion.depth == 1}
        return [self._unit.spelling, *(file for file in found if f"/{file}".endswith(ends))]


def parse(path: Path, questions: Sequence[str], arguments: Sequence[str], *, with_macros: bool = False) -> Parsed:
    """Parse a source with lines of C++ appended to it.

    Parameters
    ----------
    path : Path
        The source.
    questions : sequence of str
        Lines of C++ whose types and values the caller wants; ``line_of_question`` returns their line numbers.
    arguments : sequence of str
        The arguments for clang.

    Raises
    ------
    ToolchainError
        If libclang, or what it needs, is missing.
    """
    text = "\n".join(["#include <tkjit_import.h>", f'#include "{path}"', *questions, ""])
    return parse_text(str(wrapper_of(path)), text, arguments, with_macros=with_macros)


def parse_text(name: str, text: str, arguments: Sequence[str], *, with_macros: bool = False) -> Parsed:
    """Parse a text under the name of a file, which need not exist.

    Raises
    ------
    ToolchainError
        If libclang, or what it needs, is missing.
    """
    return Parsed(_parse(name, text, arguments, _MACROS if with_macros else 0))


def _parse(name: str, text: str, arguments: Sequence[str], options: int = 0) -> Any:
    cindex = _cindex()
    all_arguments = ["-resource-dir", str(_resources()), *arguments]
    try:
        return cindex.Index.create().parse(name, all_arguments, [(name, text)], _KEEP_GOING | _SKIP_BODIES | options)
    except cindex.TranslationUnitLoadError as error:
        raise ToolchainError(f"libclang cannot read {name}: {error}") from None
    finally:
        # libclang's signal handlers would take precedence over those for faults in kernels
        cindex.conf.lib.clang_toggleCrashRecovery(0)


def complete_member(name: str, text: str, arguments: Sequence[str]) -> list[str]:
    """Return the names of the functions and variables that an editor would offer at the end of a text.

    Raises
    ------
    ToolchainError
        If libclang, or what it needs, is missing.
    """
    unit = _parse(name, text, arguments)
    *before, last = text.split("\n")
    found = unit.codeComplete(name, len(before) + 1, len(last) + 1, [(name, text)])
    offered = [
        chunk.spelling
        for result in (found.results if found is not None else ())
        if result.kind.name in _MEMBERS and result.string.availability.name == "Available"
        for chunk in result.string
        if chunk.isKindTypedText()
    ]
    return sorted({spelling for spelling in offered if spelling.isidentifier()})


def children_of_template(cursor: Any) -> list[Any]:
    """Return the children of a record's template; empty if the record is not an instance of a template."""
    template = _cindex().conf.lib.clang_getSpecializedCursorTemplate(cursor)
    return list(template.get_children()) if template is not None else []


def is_inline_namespace(cursor: Any) -> bool:
    return bool(_cindex().conf.lib.clang_Cursor_isInlineNamespace(cursor))


_REFERENCES = ("TYPE_REF", "TEMPLATE_REF", "DECL_REF_EXPR", "MEMBER_REF")


def targets_of_using(cursor: Any) -> Iterator[Any]:
    """Return the declarations that a using-declaration adds to a scope."""
    library = _cindex().conf.lib
    for child in cursor.get_children():
        if child.kind.name == "OVERLOADED_DECL_REF":
            library.clang_getNumOverloadedDecls.argtypes = [type(child)]
            library.clang_getOverloadedDecl.argtypes = [type(child), ctypes.c_uint]
            library.clang_getOverloadedDecl.restype = type(child)
            for index in range(library.clang_getNumOverloadedDecls(child)):
                found = library.clang_getOverloadedDecl(child, index)
                found._tu = child._tu
                yield found
        elif child.kind.name in _REFERENCES and child.referenced is not None:
            yield child.referenced


def wrapper_of(path: Path) -> Path:
    """Return the file name under which ``parse`` parses a source with its questions. No such file exists."""
    return path.with_name(f".{path.name}.tkjit-import.cu")


def line_of_question(index: int) -> int:
    """Return a question's line in the wrapper; questions are counted from 0."""
    return index + 3


def arguments_for(
    arch: str, cuda_root: Path, include_dirs: Iterable[Path], flags: Iterable[str], std: str
) -> list[str]:
    """Return clang's arguments for a CUDA source.

    The source is parsed as host code, which contains the launches and all declarations. The last include directory has
    stubs for headers that clang's wrapper of the CUDA runtime includes and some toolkits lack.
    """
    return [
        *("-x", "cuda", "--cuda-host-only", f"--cuda-gpu-arch=sm_{_known(arch)}"),
        *(f"--cuda-path={cuda_root}", "-nocudalib"),
        *(f"-std={std}", "-w", "-ferror-limit=0", "-Wno-unknown-cuda-version"),
        *(f"-I{directory}" for directory in (INCLUDE, *include_dirs)),
        *flags,
        *("-idirafter", str(_OWN_HEADERS)),
    ]


def _known(arch: str) -> str:
    """Return an architecture that clang 18 knows. Host code is the same for later architectures."""
    return "90a" if int(arch.rstrip("af")) > 90 else arch.rstrip("f")


@cache
def _cindex() -> Any:
    try:
        from clang import cindex

        cindex.Index.create()
        cindex.conf.lib.clang_toggleCrashRecovery(0)
    except ImportError:
        raise ToolchainError(f"libclang is not installed; install it: {pip_install(EXTRA)}") from None
    except cindex.LibclangError as error:
        again = pip_install("--force-reinstall", "--no-deps", "libclang==18.1.1")
        raise ToolchainError(f"libclang cannot be loaded: {error}; install it again: {again}") from None
    return cindex


def _version() -> int:
    """Return libclang's major version."""
    cindex = _cindex()
    function = cindex.conf.lib.clang_getClangVersion
    function.restype = cindex._CXString
    printed = str(cindex._CXString.from_result(function()))
    found = re.search(r"version (\d+)", printed)
    return int(found[1]) if found else 0


@cache
def _resources() -> Path:
    """Return the directory of clang's own headers.

    The directory belongs to clang-tidy's package or to the system, because libclang's package has no headers.
    """
    version = _version()
    system_directories = [Path(f"/usr/lib/llvm-{version}/lib/clang/{version}"), Path(f"/usr/lib/clang/{version}")]
    for directory in (*_in_package("clang-tidy", version), *system_directories):
        if (directory / "include/stddef.h").is_file():
            return directory
    raise ToolchainError(f"the headers of clang {version} are not found; install them: {pip_install(EXTRA)}")


def _in_package(name: str, version: int) -> list[Path]:
    try:
        files = metadata.files(name) or ()
    except metadata.PackageNotFoundError:
        return []
    found = [Path(str(file.locate())) for file in files if file.name == "stddef.h"]
    return [path.parents[1] for path in found if path.parents[1].name.split(".")[0] == str(version)]


def _errors(diagnostics: Any) -> Iterator[Error]:
    for diagnostic in diagnostics:
        if diagnostic.severity >= _ERROR:
            locations = [diagnostic.location, *(note.location for note in diagnostic.children)]
            places = tuple((place.file.name, place.line) for place in locations if place.file)
            yield Error(diagnostic.spelling, places)
