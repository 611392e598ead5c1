"""Renders the C++ header of an export: functions on tensors that own their memory."""

from __future__ import annotations

import math

from tkjit.exports.model import Export, documentation, names
from tkjit.exports.names import cpp_name
from tkjit.render.text import indent, literal, number, repr_text, wrap
from tkjit.spec.c_signature import CParameter, CSignature, Kind

_NUMBERS = {Kind.INT: "std::int64_t", Kind.FLOAT: "double", Kind.BOOL: "bool"}
_ITEMS = {Kind.INTS: "std::int64_t", Kind.FLOATS: "double", Kind.BOOLS: "bool", Kind.STRS: "const char*"}
_STREAM = "void* stream = nullptr"


def render_wrapper(export: Export) -> str:
    """Render the header ``NAME.hpp``."""
    macro = f"{export.name.upper()}_HPP"
    lines = [
        f"// {names(export.signatures)} in C++17, exported by tkjit: a wrapper around {export.name}.h.",
        "//",
        "// A function throws a tkjit::Error if it fails; its try_ form returns a tkjit::Result instead. Its _into",
        "// form writes to outputs that you pass. A stream is a cudaStream_t of the tensors' device; null is the",
        "// default stream.",
        f"#ifndef {macro}",
        f"#define {macro}",
        "",
        f'#include "{export.name}.h"',
        f'#include "{export.name}/tensors.hpp"',
        "",
        "#include <tuple>",
        "",
        f"namespace {export.name} {{",
        "",
        "using tkjit::Tensor;",
        "",
        "// Throws if the library does not match this header.",
        "inline void check_interface() {",
        f"    tkjit::check({export.name}_check_interface({export.name.upper()}_INTERFACE));",
        "}",
        "",
    ]
    for signature in export.signatures:
        lines += _functions(export.name, signature)
    return "\n".join([*lines, f"}}  // namespace {export.name}", "", f"#endif  // {macro}"]) + "\n"


def _functions(library: str, signature: CSignature) -> list[str]:
    comment = [f"// {line}".rstrip() for line in documentation(signature)]
    into = _into(library, signature)
    return [*comment, *into, *_returning(signature), *_trying(signature)]


def _inputs(signature: CSignature) -> list[CParameter]:
    return [p for p in signature.parameters if p.kind is not Kind.OUTPUT]


def _parameters(signature: CSignature) -> list[str]:
    """Return the parameters except outputs. Python defaults are kept only if no parameter without a default follows."""
    listed: list[str] = []
    defaults = True
    for p in reversed(_inputs(signature)):
        default = _default(p)
        defaults = defaults and bool(default)
        listed.append(f"{_type(p)} {p.identifier}{f' = {default}' if defaults else ''}")
    return listed[::-1]


def _default(p: CParameter) -> str:
    if p.is_optional:
        return "nullptr" if p.kind in (Kind.TENSOR, Kind.STR) else "std::nullopt" if p.is_number else "{}"
    if p.is_number and p.has_default:
        value = p.field.default
        return literal(value) if math.isfinite(value) else number(value)
    if p.kind in _ITEMS and p.has_default:
        return "{}"
    if p.kind is Kind.STR and p.has_default:
        return repr_text(p.field.default)
    return ""


def _type(p: CParameter) -> str:
    match p.kind:
        case Kind.TENSOR:
            constant = "" if p.field.is_written else "const "
            return f"{constant}Tensor{'*' if p.is_optional else '&'}"
        case Kind.TENSORS:
            return f"const std::vector<{'' if p.field.is_written else 'const '}Tensor*>&"
        case Kind.STR:
            return "const char*"
        case Kind.DTYPE:
            return "tkjit_dtype"
        case Kind.DEVICE:
            return "tkjit::Device"
        case Kind.SEED:
            return "tkjit::Seed"
    if p.kind in _ITEMS:
        return f"tkjit::Items<{_ITEMS[p.kind]}>"
    return f"std::optional<{_NUMBERS[p.kind]}>" if p.is_optional else _NUMBERS[p.kind]


def _passed(p: CParameter) -> list[str]:
    name = p.identifier
    match p.kind:
        case Kind.TENSOR if p.is_optional:
            return [f"{name} ? {name}->get() : nullptr"]
        case Kind.TENSOR | Kind.OUTPUT:
            return [f"{name}.get()"]
        case Kind.TENSORS:
            return [f"pointers_of_{name}.data()", f"std::int64_t({name}.size())"]
        case Kind.SEED:
            return [f"{name}.seed", f"{name}.offset"]
    if p.kind in _ITEMS:
        return [f"{name}.data()", f"std::int64_t({name}.size())"]
    return [f"{name} ? &*{name} : nullptr" if p.is_number and p.is_optional else name]


def _into(library: str, signature: CSignature) -> list[str]:
    """Return the function that writes to the caller's outputs, or the plain function if the kernel has no outputs."""
    outputs = [f"Tensor& {p.identifier}" for p in signature.outputs]
    result = _NUMBERS[signature.result] if signature.result else "void"
    passed = [part for p in signature.parameters for part in _passed(p)]
    body = [
        f"const auto pointers_of_{p.identifier} = tkjit::pointers({p.identifier});"
        for p in signature.parameters
        if p.kind is Kind.TENSORS
    ]
    if signature.result:
        body.append(f"{result} result{{}};")
        passed.append("&result")
    call = ", ".join([*passed, "stream"])
    body.append(f"tkjit::check({library}_{signature.name}({call}));")
    if signature.result:
        body.append("return result;")
    parameters = [*_into_parameters(signature), *outputs, _STREAM]
    name = f"{cpp_name(signature)}_into" if outputs else cpp_name(signature)
    return [*wrap(f"inline {result} {name}(", parameters, ") {"), *indent(body), "}"]


def _into_parameters(signature: CSignature) -> list[str]:
    """Return the parameters that precede the outputs. If outputs follow, these parameters can have no defaults."""
    if not signature.outputs:
        return _parameters(signature)
    return [f"{_type(p)} {p.identifier}" for p in _inputs(signature)]


def _returned(signature: CSignature) -> str:
    count = len(signature.outputs)
    return "Tensor" if count == 1 else f"std::tuple<{', '.join(['Tensor'] * count)}>"


def _returning(signature: CSignature) -> list[str]:
    """Return the function that allocates the outputs and returns them."""
    if not signature.outputs:
        return []
    outputs = [p.identifier for p in signature.outputs]
    passed = ", ".join([*(p.identifier for p in _inputs(signature)), *outputs, "stream"])
    value = outputs[0] if len(outputs) == 1 else f"{{{', '.join(f'std::move({name})' for name in outputs)}}}"
    body = [f"Tensor {', '.join(outputs)};", f"{cpp_name(signature)}_into({passed});", f"return {value};"]
    parameters = [*_parameters(signature), _STREAM]
    return [*wrap(f"inline {_returned(signature)} {cpp_name(signature)}(", parameters, ") {"), *indent(body), "}"]


def _trying(signature: CSignature) -> list[str]:
    has_value = bool(signature.outputs or signature.result)
    kind = "tkjit::Done"
    if signature.outputs:
        kind = _returned(signature)
    elif signature.result:
        kind = _NUMBERS[signature.result]
    call = f"{cpp_name(signature)}({', '.join([*(p.identifier for p in _inputs(signature)), 'stream'])})"
    body = f"return {call};" if has_value else f"{call}; return tkjit::Done{{}};"
    parameters = [*_parameters(signature), _STREAM]
    return [
        *wrap(f"inline tkjit::Result<{kind}> try_{cpp_name(signature)}(", parameters, ") {"),
        f"    return tkjit::result_of([&] {{ {body} }});",
        "}",
        "",
    ]


def call_text(library: str, signature: CSignature) -> str:
    """Return an example call: ``auto y = layers::softmax(x)``."""
    outputs = [p.identifier for p in signature.outputs]
    passed = ", ".join(f"&{p.identifier}" if p.is_optional else p.identifier for p in _inputs(signature))
    bound = outputs[0] if len(outputs) == 1 else f"[{', '.join(outputs)}]"
    return f"{f'auto {bound} = ' if outputs else ''}{library}::{cpp_name(signature)}({passed})"
