"""Renders the conventional glue: a pybind11 module that checks a call and launches the variant it is linked with."""

from __future__ import annotations

from tkjit.render.exported import ExportedFunction, render_library
from tkjit.render.text import indent
from tkjit.render.torch_binding import binding_functions, module_definitions

_LIBRARY = "checked"  # the prefix of the C functions


def render_pybind11_glue(function: ExportedFunction, target: str) -> str:
    """Render the module of one overload, with the code of one variant.

    Parameters
    ----------
    function : ExportedFunction
        The overload. Only one of its variants has code.
    target : str
        The target, such as ``sm_90a`` or ``cpu-x86-64-v3``.
    """
    signature = function.signature
    lines = [
        render_library(_LIBRARY, [function], [target], "", is_source=True, has_header=False).rstrip(),
        "",
        "#include <tkjit/export/torch_pybind11.h>",
        "",
        "#include <utility>",
        "",
        *binding_functions(_LIBRARY, [signature]),
        "PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {",
        *indent(
            [
                *module_definitions([signature]),
                "// Why the last call failed: a kind from tkjit_error_kind, or the number of a variant without code.",
                'module.def("error_kind", [] { return std::exchange(last_error_kind, 0); });',
                'module.def("missing_variant", [] { return std::exchange(tkjit::exported::missing_variant, -1); });',
            ]
        ),
        "}",
    ]
    return "\n".join(lines) + "\n"
