"""Writes a Python module for sources that do not define one; it exposes their functions on tensors."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from tkjit.extensions.functions import HostFunction, names_in_module
from tkjit.extensions.sources import Extension, Source

_DEFINES_MODULE = re.compile(r"\b(?:PYBIND11_MODULE|PyMODINIT_FUNC|PyInit_\w+|NB_MODULE|REGISTER_EXTENSION)\b")
_SIMPLE_DEFAULT = re.compile(r"-?[\d.]+(?:e-?\d+)?[fFlLuU]*|true|false|\"[^\"\\]*\"|(?:std|c10)::nullopt")
# TORCH_ERROR_CODE_CHECK is defined by torch's own headers of its stable C++ API, but not by the stand-ins.
_HEADER = """
#ifdef TORCH_ERROR_CODE_CHECK
#include <tkjit/torch/stable_module.h>
#else
#include <torch/extension.h>
#endif
"""


def defines_module(sources: Sequence[Source]) -> bool:
    """Whether any of the sources defines a Python module."""
    return any(_DEFINES_MODULE.search(source.content) for source in sources)


def with_module(extension: Extension, functions: Sequence[Sequence[HostFunction]]) -> Extension:
    """Add a module that exposes functions to an extension. ``functions`` has one list for each source."""
    header = _HEADER if extension.has_stand_ins else "\n#include <torch/extension.h>\n"
    names = names_in_module([function for found in functions for function in found])
    own = extension.own_sources
    last = len(own) - 1
    sources = [source for source in extension.sources if source not in own]
    for position, (source, found) in enumerate(zip(own, functions, strict=True)):
        named = [(f"tkjit_add_{position}_{number}", function) for number, function in enumerate(found)]
        lines = [line for name, function in named for line in _adder(name, function, names[function.name])]
        calls = [f"    {function.namespace}::{name}(m);" for name, function in named]
        if position == last:
            others = [f"tkjit_functions_{other}" for other in range(last) if functions[other]]
            lines += [f"void {other}(pybind11::module_&);" for other in others]
            lines += ["PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {", *(f"    {other}(m);" for other in others)]
        elif found:
            lines += [f"void tkjit_functions_{position}(pybind11::module_& m) {{"]
        text = "\n".join([source.text, header, *lines, *calls, "}", ""]) if lines else source.text
        sources.append(replace(source, text=text))
    return replace(extension, sources=tuple(sources))


def _adder(name: str, function: HostFunction, known_as: str) -> list[str]:
    """Return C++ code that adds a function to a module, in the function's namespace so that type names resolve."""
    arguments = []
    for parameter in function.parameters:
        default = f" = {parameter.default}" if _SIMPLE_DEFAULT.fullmatch(parameter.default) else ""
        arguments.append(f', pybind11::arg("{parameter.name}"){default}')
    chosen = f"static_cast<{function.pointer}>(&{function.bare_name})"
    return [
        *([f"namespace {function.namespace} {{"] if function.namespace else []),
        f"static void {name}(pybind11::module_& m) {{",
        f'    m.def("{known_as}", {chosen}, pybind11::whole_doc{{"{function.schema}"}}{"".join(arguments)});',
        "}",
        *(["}"] if function.namespace else []),
    ]
