"""Renders the operators of an exported torch package. Each operator calls a C function of the library."""

from __future__ import annotations

from collections.abc import Sequence

from tkjit.errors import SpecError
from tkjit.render.results import RESULTS
from tkjit.render.text import indent, repr_text, wrap
from tkjit.spec.c_signature import CParameter, CSignature, Kind
from tkjit.spec.schema import check_operator, schema_default, schema_type, written_alias

BINDINGS = ("stable", "pybind11")
_NUMBERS = {Kind.INT: "int64_t", Kind.FLOAT: "double", Kind.BOOL: "bool", Kind.STR: "std::string"}
_LISTS = {Kind.INTS: "int64_t", Kind.FLOATS: "double", Kind.BOOLS: "bool", Kind.STRS: "std::string"}
_ITEMS = {**_LISTS, Kind.STRS: "const char*"}


_NAMESPACE = ["", "#ifndef OPERATORS_NAMESPACE", "#define OPERATORS_NAMESPACE TORCH_EXTENSION_NAME", "#endif"]


def operator_parameters(signature: CSignature, *, out: bool = False) -> list[CParameter]:
    """Return an operator's parameters in order: first those that may be passed by position, outputs last.

    Parameters
    ----------
    out : bool
        Whether the operator writes into outputs that the caller passes.
    """
    inputs = [p for p in signature.parameters if p.kind is not Kind.OUTPUT]
    return [*sorted(inputs, key=lambda p: p.field.keyword_only), *(signature.outputs if out else ())]


def operator_schema(signature: CSignature, *, out: bool = False) -> str:
    """Return the operator's schema, in which a generator becomes a seed and an offset.

    Examples
    --------
    >>> import tkjit
    >>> from tkjit.spec.c_signature import c_signature
    >>> operator_schema(c_signature(tkjit.find("gemm").specs[0]), out=True)
    'gemm_out(Tensor a, Tensor b, Tensor(a!) c) -> ()'
    """
    parameters = operator_parameters(signature, out=out)
    written = [p.name for p in parameters if p.field.is_written]
    listed = []
    defaults = [schema_default(p.field) if p.kind is not Kind.SEED else "" for p in parameters]
    # torch rejects a default before a parameter that has none
    first = max((i for i, default in enumerate(defaults) if not default), default=-1) + 1
    for i, (p, default) in enumerate(zip(parameters, defaults, strict=True)):
        if p.kind is Kind.SEED:
            listed += [f"int seed_of_{p.name}", f"int offset_of_{p.name}"]
            continue
        alias = written_alias(written.index(p.name)) if p.field.is_written else ""
        listed.append(f"{schema_type(p.field, alias)} {p.name}{default if i >= first else ''}")
    outputs = [] if out else [p.name for p in signature.outputs]
    returned = "Tensor" if len(outputs) == 1 else f"({', '.join(f'Tensor {name}' for name in outputs)})"
    return f"{operator_name(signature, out=out)}({', '.join(listed)}) -> {returned}"


def operators(signature: CSignature) -> list[bool]:
    """Return ``out`` for each operator of a kernel: False if it allocates outputs, True if the caller passes them."""
    return [False, True] if signature.outputs else [False]


def render_binding(library: str, signatures: Sequence[CSignature], binding: str, devices: Sequence[str]) -> str:
    """Render ``torch_binding.cpp``.

    Parameters
    ----------
    library : str
        The export's name.
    binding : {"stable", "pybind11"}
    devices : sequence of str
        The devices with code: ``"cpu"``, ``"cuda"`` or both.
    """
    for signature in signatures:
        check_operator(signature.spec)
    header = "torch_stable.h" if binding == "stable" else "torch_pybind11.h"
    register = _stable if binding == "stable" else _pybind11
    includes = [f"#include <tkjit/export/{header}>", "", f"#include <{library}.h>"]
    if binding == "stable":
        includes += ["", '#include "registration.h"']
    lines = [
        f"// The operators of {library}, rendered by tkjit. Each passes its tensors to a function of {library}.h,",
        "// which checks them and launches the kernel; torch allocates the outputs.",
        *includes,
        *(_NAMESPACE if binding == "stable" else []),
        "",
        *binding_functions(library, signatures),
        *register(signatures, devices),
    ]
    return "\n".join(lines) + "\n"


def binding_functions(library: str, signatures: Sequence[CSignature]) -> list[str]:
    """Render the functions of all operators, in an unnamed namespace."""
    functions = [line for s in signatures for out in operators(s) for line in _function(library, s, out=out)]
    return ["namespace {", "", "using namespace tkjit::operators;", "", *functions, "}  // namespace", ""]


def module_definitions(signatures: Sequence[CSignature]) -> list[str]:
    """Render the definition of each function in a pybind11 module."""
    lines = []
    for signature in signatures:
        for out in operators(signature):
            # the dispatcher leaves out arguments that equal their defaults, so pybind11 must know the defaults
            names = [part for p in operator_parameters(signature, out=out) for part in _python_parameter(p)]
            listed = [repr_text(operator_name(signature, out=out)), f"&{_function_name(signature, out=out)}", *names]
            lines += wrap("module.def(", listed, ");")
    return lines


def operator_name(signature: CSignature, *, out: bool) -> str:
    """Return an operator's name: ``gemm``, or ``gemm_out`` if the caller passes the outputs."""
    return f"{signature.name}_out" if out else signature.name


def _function(library: str, signature: CSignature, *, out: bool) -> list[str]:
    """Render the function of one operator."""
    outputs = signature.outputs
    result = RESULTS[signature.spec.result].cpp if signature.spec.result else ""
    returned = result or ("void" if out or not outputs else "Tensor" if len(outputs) == 1 else _tuple(outputs))
    parameters = [part for p in operator_parameters(signature, out=out) for part in _parameter(p)]
    function = f"{library}_{signature.name}"
    passed = [part for p in signature.parameters for part in _passed(p)]
    body = [line for p in signature.parameters for line in _local(signature, p, out=out)]
    if result:
        body.append(f"{result} result{{}};")
        passed.append("&result")
    if outputs and not out:
        body.append(f"check({function}_shape({', '.join(passed)}));")
        body += [f"Tensor {_argument(p)} = allocate(of_{p.name});" for p in outputs]
    body.append(f"check({function}({', '.join([*passed, f'stream_of({_place(signature)})'])}));")
    if result:
        body.append("return result;")
    elif returned == "Tensor":
        body.append(f"return {_argument(outputs[0])};")
    elif returned != "void":
        body.append(f"return {{{', '.join(map(_argument, outputs))}}};")
    return [*wrap(f"{returned} {_function_name(signature, out=out)}(", parameters, ") {"), *indent(body), "}", ""]


def _function_name(signature: CSignature, *, out: bool) -> str:
    return f"op_{operator_name(signature, out=out)}"


def _tuple(outputs: Sequence[CParameter]) -> str:
    return f"std::tuple<{', '.join(['Tensor'] * len(outputs))}>"


def _argument(p: CParameter) -> str:
    """Return the variable for an operator's argument; neither C++ nor a header uses that name."""
    return f"arg_{p.name}"


def _parameter(p: CParameter) -> list[str]:
    name = _argument(p)
    match p.kind:
        case Kind.SEED:
            return [f"int64_t seed_of_{p.name}", f"int64_t offset_of_{p.name}"]
        case Kind.TENSOR | Kind.OUTPUT:
            kind = "std::optional<Tensor>" if p.is_optional else "Tensor"
        case Kind.TENSORS:
            kind = f"std::vector<{'std::optional<Tensor>' if p.field.has_optional_items else 'Tensor'}>"
        case Kind.DTYPE:
            return [f"ScalarType {name}"]
        case Kind.DEVICE:
            return [f"Device {name}"]
        case _:
            plain = f"std::vector<{_LISTS[p.kind]}>" if p.kind in _LISTS else _NUMBERS[p.kind]
            kind = f"std::optional<{plain}>" if p.is_optional else plain
            if p.is_number and not p.is_optional:
                return [f"{kind} {name}"]
    return [f"const {kind}& {name}"]


def _local(signature: CSignature, p: CParameter, *, out: bool) -> list[str]:
    """Render the variable that holds an argument in its C form."""
    name = _argument(p)
    named = f"{{{repr_text(signature.spec.name)}, {repr_text(p.name)}}}"
    match p.kind:
        case Kind.OUTPUT:
            return [
                f"tkjit_tensor of_{p.name} = describe({named}, {name});" if out else f"tkjit_tensor of_{p.name}{{}};"
            ]
        case Kind.TENSOR if p.is_optional:
            return [f"const Optional of_{p.name}({named}, {name});"]
        case Kind.TENSOR:
            return [f"const tkjit_tensor of_{p.name} = describe({named}, {name});"]
        case Kind.TENSORS:
            return [f"const List of_{p.name}({named}, {name});"]
    return [f"const Array<{_ITEMS[p.kind]}> of_{p.name}({name});"] if p.kind in _LISTS else []


def _passed(p: CParameter) -> list[str]:
    """Render the arguments of the C function."""
    name = _argument(p)
    match p.kind:
        case Kind.SEED:
            return [f"uint64_t(seed_of_{p.name})", f"uint64_t(offset_of_{p.name})"]
        case Kind.OUTPUT:
            return [f"&of_{p.name}"]
        case Kind.TENSOR:
            return [f"of_{p.name}.get()" if p.is_optional else f"&of_{p.name}"]
        case Kind.DTYPE:
            return [f"dtype_of({name})"]
        case Kind.DEVICE:
            return [f"device_of({name})"]
        case Kind.STR if not p.is_optional:
            return [f"{name}.c_str()"]
    if p.kind is Kind.TENSORS or p.kind in _LISTS:
        return [f"of_{p.name}.items()", f"of_{p.name}.count()"]
    return [f"pointer({name})" if p.is_optional else name]


def _place(signature: CSignature) -> str:
    """Return the C++ expression for the call's device."""
    given = {p.kind: p for p in reversed(signature.parameters) if not p.is_optional}
    if Kind.TENSOR in given:
        return f"of_{given[Kind.TENSOR].name}.device"
    if Kind.TENSORS in given:
        return f"of_{given[Kind.TENSORS].name}.device()"
    if Kind.DEVICE in given:
        return f"device_of({_argument(given[Kind.DEVICE])})"
    raise SpecError(f"{signature.spec.name} has no operator: all of its tensors are optional")


def _stable(signatures: Sequence[CSignature], devices: Sequence[str]) -> list[str]:
    """Render the registration of all operators with torch's stable ABI."""
    lines = ["STABLE_TORCH_LIBRARY_EXPAND(OPERATORS_NAMESPACE, library) {"]
    lines += [f"    library.def({repr_text(operator_schema(s, out=out))});" for s in signatures for out in operators(s)]
    lines += ["}", ""]
    for device in devices:
        key = device.upper()
        lines += [f"#ifdef {key}_KERNEL", f"STABLE_TORCH_LIBRARY_IMPL_EXPAND(OPERATORS_NAMESPACE, {key}, library) {{"]
        lines += [
            f"    library.impl({repr_text(operator_name(s, out=out))}, TORCH_BOX(&{_function_name(s, out=out)}));"
            for s in signatures
            for out in operators(s)
        ]
        lines += ["}", "#endif", ""]
    return [*lines, "REGISTER_EXTENSION(TORCH_EXTENSION_NAME)"]


def _pybind11(signatures: Sequence[CSignature], devices: Sequence[str]) -> list[str]:
    """Render the pybind11 module with all functions."""
    return ["PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {", *indent(module_definitions(signatures)), "}"]


def _python_parameter(p: CParameter) -> list[str]:
    if p.kind is Kind.SEED:
        return [f'py::arg("seed_of_{p.name}")', f'py::arg("offset_of_{p.name}")']
    return [f"py::arg({repr_text(p.name)}){_python_default(p)}"]


def _python_default(p: CParameter) -> str:
    """Return a parameter's default, if a schema can express it."""
    default = p.field.default
    if not schema_default(p.field):
        return ""
    if default is None:
        return " = py::none()"
    match p.kind:
        case Kind.BOOL:
            return f" = {str(default).lower()}"
        case Kind.STR:
            return f" = {repr_text(default)}"
        case Kind.INT | Kind.FLOAT:
            return f" = {default!r}"
    if p.kind in _LISTS:
        items = ", ".join(repr_text(item) if isinstance(item, str) else str(item).lower() for item in default)
        return f" = std::vector<{_LISTS[p.kind]}>{{{items}}}"
    return ""
