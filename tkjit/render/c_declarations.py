"""Renders the C parameters of an exported library's functions."""

from __future__ import annotations

from tkjit.render.results import RESULTS
from tkjit.spec import Field
from tkjit.spec.c_signature import CParameter, CSignature, Kind, identifier

# Maps a parameter's kind to its C type: NUMBERS for numbers, ITEMS for the items of a list.
NUMBERS = {Kind.INT: "int64_t", Kind.FLOAT: "double", Kind.BOOL: "bool"}
ITEMS = {Kind.INTS: "int64_t", Kind.FLOATS: "double", Kind.BOOLS: "bool", Kind.STRS: "const char*"}


def c_parameters(signature: CSignature) -> list[str]:
    """Return the C parameters of the function that takes tensors, without the stream."""
    listed = [part for p in signature.parameters for part in _c_parameter(p)]
    return [*listed, *_c_result(signature)]


def c_pointer_parameters(signature: CSignature) -> list[str]:
    """Return the C parameters of the function that takes plain pointers, without the stream."""
    listed = [part for p in signature.parameters for part in _c_pointer(p)]
    strides = [f"const int64_t* strides_of_{f.name}" for f in tensors_of(signature) if f.is_strided]
    leading = ["int32_t leading_ndim", "const int64_t* leading_sizes"] if signature.leading else []
    extents = [f"int64_t {identifier(name)}" for name in signature.extents]
    types = [f"tkjit_dtype {identifier(name)}" for name in signature.types]
    place = [] if signature.spec.device_field else [f"tkjit_device {signature.place}"]
    return [*listed, *_c_result(signature), *strides, *leading, *extents, *types, *place]


def _c_result(signature: CSignature) -> list[str]:
    result = signature.spec.result
    return [f"{RESULTS[result].cpp}* result"] if result else []


def tensors_of(signature: CSignature) -> list[Field]:
    """Return the single tensors in the order of the parameters, without the tensors in lists."""
    return [p.field for p in signature.parameters if p.kind in (Kind.TENSOR, Kind.OUTPUT)]


def _c_parameter(p: CParameter) -> list[str]:
    match p.kind:
        case Kind.TENSOR:
            return [f"const tkjit_tensor* {p.identifier}"]
        case Kind.OUTPUT:
            return [f"tkjit_tensor* {p.identifier}"]
        case Kind.TENSORS:
            return [f"const tkjit_tensor* const* {p.identifier}", f"int64_t count_of_{p.identifier}"]
    return _c_value(p)


def _c_pointer(p: CParameter) -> list[str]:
    if p.kind in (Kind.TENSOR, Kind.OUTPUT):
        return [f"{'' if p.field.is_written else 'const '}void* {p.identifier}"]
    return _c_value(p)


def _c_value(p: CParameter) -> list[str]:
    match p.kind:
        case Kind.STR:
            return [f"const char* {p.identifier}"]
        case Kind.DTYPE:
            return [f"tkjit_dtype {p.identifier}"]
        case Kind.DEVICE:
            return [f"tkjit_device {p.identifier}"]
        case Kind.SEED:
            return [f"uint64_t seed_of_{p.identifier}", f"uint64_t offset_of_{p.identifier}"]
        case Kind.INTS | Kind.FLOATS | Kind.BOOLS | Kind.STRS:
            constant = " const" if p.kind is Kind.STRS else ""
            item = ITEMS[p.kind] if p.kind is Kind.STRS else f"const {ITEMS[p.kind]}"
            return [f"{item}{constant}* {p.identifier}", f"int64_t count_of_{p.identifier}"]
    return [f"const {NUMBERS[p.kind]}* {p.identifier}" if p.is_optional else f"{NUMBERS[p.kind]} {p.identifier}"]
