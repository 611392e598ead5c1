"""The header of an export in C."""

from __future__ import annotations

from collections.abc import Sequence

from tkjit.exports.model import Export, documentation, interface_of, names
from tkjit.render.c_declarations import c_parameters, c_pointer_parameters
from tkjit.render.text import wrap
from tkjit.spec.c_signature import CSignature


def render_header(export: Export) -> tuple[str, str]:
    """The header, and what it asks of the library (``interface_of``)."""
    declarations = {s.name: "\n".join(_declarations(export.name, s)) for s in export.signatures}
    interface = interface_of(export, declarations)
    declared = "\n".join(
        line for s in export.signatures for line in (*_comment(s), *declarations[s.name].split("\n"), "")
    )
    name, macro = export.name, export.name.upper()
    lines = [
        f"/* {names(export.signatures)}: kernels as functions of C, exported by tkjit.",
        " *",
        " * Each function checks its arguments, launches and returns null, or an error for tkjit_free_error().",
        " * On a GPU it does not wait: the kernel runs in `stream`, a cudaStream_t of the tensors' device; null is the",
        " * default one. On the CPU it returns when all is done, and `stream` is null.",
        " *",
        " * A zeroed output is allocated, and then belongs to the caller; NAME_shape() says what it would be.",
        " * NAME_pointers() takes the memory of each tensor, row-major, with the extents, and allocates nothing.",
        " */",
        f"#ifndef {macro}_H",
        f"#define {macro}_H",
        "",
        f'#include "{name}/tensors.h"',
        "",
        "#ifdef __cplusplus",
        'extern "C" {',
        "#endif",
        "",
        f'#define {macro}_VERSION "{export.version}"',
        f'#define {macro}_INTERFACE "{interface}"',
        "",
        "/* An error if the library is not the one of this header. */",
        f"TKJIT_API tkjit_error {name}_check_interface(const char* interface);",
        "",
        declared,
        "#ifdef __cplusplus",
        "}",
        "#endif",
        "",
        f"#endif /* {macro}_H */",
    ]
    return "\n".join(lines) + "\n", interface


def function_names(export: Export) -> list[str]:
    """All functions that are the export's own."""
    found = [f"{export.name}_check_interface"]
    for signature in export.signatures:
        found += [f"{export.name}_{signature.name}{suffix}" for suffix in _suffixes(signature)]
    return found


def _suffixes(signature: CSignature) -> list[str]:
    return [
        "",
        *(["_shape"] if signature.outputs else []),
        *(["_pointers"] if signature.takes_pointers else []),
    ]


def _declarations(library: str, signature: CSignature) -> list[str]:
    """The functions of an overload."""
    name = f"{library}_{signature.name}"
    parameters = c_parameters(signature)
    lines = _declaration(name, [*parameters, "void* stream"])
    if signature.outputs:
        lines += _declaration(f"{name}_shape", parameters)
    if signature.takes_pointers:
        lines += _declaration(f"{name}_pointers", [*c_pointer_parameters(signature), "void* stream"])
    return lines


def _comment(signature: CSignature) -> list[str]:
    rule = f"/* ---- {signature.name} " + "-" * (110 - len(signature.name))
    return [rule, " *", *(f" * {line}".rstrip() for line in documentation(signature)), " */"]


def _declaration(name: str, parameters: Sequence[str]) -> list[str]:
    return wrap(f"TKJIT_API tkjit_error {name}(", parameters, ");")
