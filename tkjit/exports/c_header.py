"""Renders the C header of an export."""

from __future__ import annotations

from collections.abc import Sequence

from tkjit.exports.model import Export, documentation, interface_of, names
from tkjit.render.c_declarations import c_parameters, c_pointer_parameters
from tkjit.render.text import wrap
from tkjit.spec.c_signature import CSignature


def render_header(export: Export) -> tuple[str, str]:
    """Return the header, and the interface that it expects of the library (``interface_of``)."""
    declarations = {s.name: "\n".join(_declarations(export.name, s)) for s in export.signatures}
    interface = interface_of(export, declarations)
    declared = "\n".join(
        line for s in export.signatures for line in (*_comment(s), *declarations[s.name].split("\n"), "")
    )
    name, macro = export.name, export.name.upper()
    lines = [
        f"/* {names(export.signatures)} as C functions, exported by tkjit.",
        " *",
        " * Each function checks its arguments and launches a kernel. It returns null, or an error to be freed with",
        " * tkjit_free_error(). On a GPU it does not wait: the kernel runs in `stream`, a cudaStream_t of the tensors'",
        " * device; null is the default stream. On the CPU it returns when the kernel is done, and `stream` is null.",
        " *",
        " * If an output is zeroed, the function allocates it, and it then belongs to the caller. NAME_shape()",
        " * describes such an output without allocating it. NAME_pointers() takes pointers to row-major tensors, and",
        " * their extents; it allocates no outputs.",
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
        "/* Returns an error if the library does not match this header. */",
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
    """Return the names of the functions that are specific to this export."""
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
    """Return the declarations of an overload's functions."""
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
