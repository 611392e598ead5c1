"""Renders the Rust crate of an export: a type ``Tensor``, and functions that return a ``Result``."""

from __future__ import annotations

from pathlib import Path

from tkjit.exports.model import Export, documentation, names
from tkjit.exports.names import RUST_KEYWORDS, rust_name, unique
from tkjit.exports.templates import filled
from tkjit.spec.c_signature import CParameter, CSignature, Kind

_FILES = Path(__file__).with_name("rust")
_NUMBERS = {Kind.INT: "i64", Kind.FLOAT: "f64", Kind.BOOL: "bool"}
_ITEMS = {Kind.INTS: "i64", Kind.FLOATS: "f64", Kind.BOOLS: "bool"}


def render_rust(export: Export, interface: str) -> dict[str, str]:
    """Render the files of the crate, by their paths in the export."""
    words = {
        "LIBRARY": export.name,
        "MACRO": export.name.upper(),
        "PACKAGE": export.package_name,
        "VERSION": export.version if export.version.count(".") == 2 else f"{export.version}.0",
        "KERNELS": names(export.signatures),
        "INTERFACE": interface,
        "FUNCTIONS": "".join(_declaration(export.name, signature) for signature in export.signatures).strip(),
    }
    return {**filled(_FILES, words), "src/kernels.rs": _kernels(export)}


# names that the crate's functions use
_TAKEN = RUST_KEYWORDS | frozenset(["check", "ffi", "pointer_of", "ready", "result", "stream"])


def _local(name: str) -> str:
    """Return a parameter's Rust name: its Python name, with ``_`` appended if that is taken."""
    return unique(name, _TAKEN)


def _declaration(library: str, signature: CSignature) -> str:
    """Return a C function's declaration in Rust."""
    parameters = [part for p in signature.parameters for part in _c_parameter(p)]
    if signature.result:
        parameters.append(f"result: *mut {_NUMBERS[signature.result]}")
    listed = "".join(f"        {parameter},\n" for parameter in [*parameters, "stream: *mut c_void"])
    return f"    pub fn {library}_{signature.name}(\n{listed}    ) -> *mut c_char;\n"


def _c_parameter(p: CParameter) -> list[str]:
    name = _local(p.name)
    match p.kind:
        case Kind.TENSOR:
            return [f"{name}: *const tkjit_tensor"]
        case Kind.OUTPUT:
            return [f"{name}: *mut tkjit_tensor"]
        case Kind.TENSORS:
            return [f"{name}: *const *const tkjit_tensor", f"count_of_{name}: i64"]
        case Kind.STR:
            return [f"{name}: *const c_char"]
        case Kind.DTYPE:
            return [f"{name}: i32"]
        case Kind.DEVICE:
            return [f"{name}: tkjit_device"]
        case Kind.SEED:
            return [f"seed_of_{name}: u64", f"offset_of_{name}: u64"]
        case Kind.STRS:
            return [f"{name}: *const *const c_char", f"count_of_{name}: i64"]
    if p.kind in _ITEMS:
        return [f"{name}: *const {_ITEMS[p.kind]}", f"count_of_{name}: i64"]
    kind = _NUMBERS[p.kind]
    return [f"{name}: *const {kind}" if p.is_optional else f"{name}: {kind}"]


def _kernels(export: Export) -> str:
    functions = [line for signature in export.signatures for line in _Function(export.name, signature).render()]
    text = "\n".join(functions)
    types = [kind for kind in ("DType", "Device", "Seed") if f": {kind}" in text]
    lines = [
        "//! The kernels. Pass `None` as the stream for the device's default stream, the only one on the CPU.",
        "#![allow(clippy::too_many_arguments, non_snake_case)]",
        "",
        *(["use std::ffi::CString;", ""] if "CString" in text else []),
        "use crate::error::{check, ready, Error};",
        "use crate::ffi;",
        "use crate::stream::{pointer_of, Stream};",
        "use crate::tensor::Tensor;",
        *([f"use crate::types::{{{', '.join(types)}}};"] if types else []),
        "",
        text,
    ]
    return "\n".join(lines).rstrip() + "\n"


class _Function:
    """Renders the functions of one overload."""

    def __init__(self, library: str, signature: CSignature) -> None:
        self.signature = signature
        self.symbol = f"ffi::{library}_{signature.name}"
        self.name = rust_name(signature)
        self.inputs = [p for p in signature.parameters if p.kind is not Kind.OUTPUT]
        self.outputs = signature.outputs
        self.result = _NUMBERS[signature.result] if signature.result else ""

    def render(self) -> list[str]:
        doc = [f"/// {line}".rstrip() for line in _as_markdown(documentation(self.signature))]
        if not self.outputs:
            return [*doc, *self._call(self.name, [])]
        outputs = [f"{_local(p.name)}: &mut Tensor<'_>" for p in self.outputs]
        return [
            *doc,
            *self._returning(),
            f"/// Like `{self.name}`, but writes to outputs that you pass.",
            *self._call(f"{self.name}_into", outputs),
        ]

    def _parameters(self, more: list[str]) -> str:
        listed = [*(f"{_local(p.name)}: {_type(p)}" for p in self.inputs), *more, "stream: Option<&Stream>"]
        return "".join(f"    {parameter},\n" for parameter in listed)

    def _returning(self) -> list[str]:
        outputs = [_local(p.name) for p in self.outputs]
        kinds = ["Tensor<'static>"] * len(outputs)
        kind = kinds[0] if len(kinds) == 1 else f"({', '.join(kinds)})"
        value = outputs[0] if len(outputs) == 1 else f"({', '.join(outputs)})"
        passed = ", ".join([*(_local(p.name) for p in self.inputs), *(f"&mut {name}" for name in outputs), "stream"])
        return [
            f"pub fn {self.name}(\n{self._parameters([])}) -> Result<{kind}, Error> {{",
            *(f"    let mut {name} = Tensor::none();" for name in outputs),
            f"    {self.name}_into({passed})?;",
            f"    Ok({value})",
            "}",
            "",
        ]

    def _call(self, name: str, given: list[str]) -> list[str]:
        before: list[str] = []
        passed: list[str] = []
        taken = {_local(p.name) for p in self.signature.parameters}
        for p in self.signature.parameters:
            lines, values = _argument(p, taken)
            before += lines
            passed += values
        if self.result:
            before.append(f"    let mut result: {self.result} = Default::default();")
            passed.append("&mut result")
        listed = "".join(f"            {value},\n" for value in [*passed, "pointer_of(stream)"])
        call = f"    check(unsafe {{\n        {self.symbol}(\n{listed}        )\n    }})"
        tail = [f"{call}?;", "    Ok(result)"] if self.result else [call]
        return [
            f"pub fn {name}(\n{self._parameters(given)}) -> Result<{self.result or '()'}, Error> {{",
            "    ready()?;",
            *before,
            *tail,
            "}",
            "",
        ]


def _type(p: CParameter) -> str:
    match p.kind:
        case Kind.TENSOR:
            reference = "&mut Tensor<'_>" if p.field.is_written else "&Tensor<'_>"
            return f"Option<{reference}>" if p.is_optional else reference
        case Kind.TENSORS:
            item = "&mut Tensor<'_>" if p.field.is_written else "&Tensor<'_>"
            item = f"Option<{item}>" if p.field.has_optional_items else item
            return f"&mut [{item}]" if p.field.is_written else f"&[{item}]"
        case Kind.STR:
            return "Option<&str>" if p.is_optional else "&str"
        case Kind.DTYPE:
            return "DType"
        case Kind.DEVICE:
            return "Device"
        case Kind.SEED:
            return "Seed"
        case Kind.STRS:
            return "&[&str]"
    if p.kind in _ITEMS:
        return f"Option<&[{_ITEMS[p.kind]}]>" if _has_default(p) else f"&[{_ITEMS[p.kind]}]"
    return f"Option<{_NUMBERS[p.kind]}>" if p.is_optional else _NUMBERS[p.kind]


def _has_default(p: CParameter) -> bool:
    """Whether a list may be left out, because it is optional or has a default in the spec."""
    return p.has_default or p.is_optional


_NO_ZERO = '.map_err(|_| Error::argument("a text contains a NUL character, which C cannot take"))?'


def _argument(p: CParameter, taken: set[str]) -> tuple[list[str], list[str]]:
    """Return the lines before the call, and the values to pass."""
    name = _local(p.name)
    in_c, pointers = (unique(f"{name}_{kind}", taken) for kind in ("in_c", "pointers"))
    match p.kind:
        case Kind.TENSOR if p.is_optional:
            return [], [f"{name}.as_ref().map_or(std::ptr::null(), |tensor| &tensor.c as *const _)"]
        case Kind.TENSOR:
            return [], [f"&{name}.c"]
        case Kind.OUTPUT:
            return [], [f"&mut {name}.c"]
        case Kind.TENSORS:
            of = "&tensor.c as *const _"
            of = f"tensor.as_ref().map_or(std::ptr::null(), |tensor| {of})" if p.field.has_optional_items else of
            line = f"    let {in_c}: Vec<*const ffi::tkjit_tensor> = {name}.iter().map(|tensor| {of}).collect();"
            return [line], [f"{in_c}.as_ptr()", f"{in_c}.len() as i64"]
        case Kind.STR if p.is_optional:
            line = f"    let {in_c} = {name}.map(CString::new).transpose(){_NO_ZERO};"
            return [line], [f"{in_c}.as_ref().map_or(std::ptr::null(), |text| text.as_ptr())"]
        case Kind.STR:
            return [f"    let {in_c} = CString::new({name}){_NO_ZERO};"], [f"{in_c}.as_ptr()"]
        case Kind.DTYPE:
            return [], [f"{name} as i32"]
        case Kind.DEVICE:
            return [], [f"{name}.c()"]
        case Kind.SEED:
            return [], [f"{name}.seed", f"{name}.offset"]
        case Kind.STRS:
            texts = f"{name}.iter().map(|text| CString::new(*text)).collect::<Result<_, _>>(){_NO_ZERO}"
            collected = f"    let {in_c}: Vec<CString> = {texts};"
            listed = f"    let {pointers}: Vec<_> = {in_c}.iter().map(|text| text.as_ptr()).collect();"
            return [collected, listed], [f"{pointers}.as_ptr()", f"{pointers}.len() as i64"]
    if p.kind in _ITEMS and _has_default(p):
        return [], [
            f"{name}.map_or(std::ptr::null(), |items| items.as_ptr())",
            f"{name}.map_or(0, |items| items.len() as i64)",
        ]
    if p.kind in _ITEMS:
        return [], [f"{name}.as_ptr()", f"{name}.len() as i64"]
    if p.is_optional:
        return [], [f"{name}.as_ref().map_or(std::ptr::null(), |number| number as *const _)"]
    return [], [name]


def _as_markdown(lines: list[str]) -> list[str]:
    """Put a numpydoc docstring into a code block, because Markdown would join its lines."""
    first, *others = lines
    if not any(others):
        return [first]
    return [first, "", "```text", *"\n".join(others).strip().split("\n"), "```"]


def call_text(crate: str, signature: CSignature) -> str:
    """Return an example call: ``let y = layers::softmax(&x, None)?``."""
    function = _Function("", signature)
    lists = (Kind.TENSOR, Kind.TENSORS, Kind.STRS, *_ITEMS)
    passed = [
        f"Some({_local(p.name)})"
        if p.is_optional or (p.kind in _ITEMS and _has_default(p))
        else f"{'&mut ' if p.field.is_written else '&' if p.kind in lists else ''}{_local(p.name)}"
        for p in function.inputs
    ]
    outputs = [_local(p.name) for p in function.outputs]
    bound = outputs[0] if len(outputs) == 1 else f"({', '.join(outputs)})"
    return f"{f'let {bound} = ' if outputs else ''}{crate}::{function.name}({', '.join([*passed, 'None'])})?"
