"""The C++ expressions that Python's own syntax stands for. See ``Expression.form``."""

from __future__ import annotations

SIZE = "static_cast<std::size_t>({0}.size())"
AT = "tkjit::bind::item({0}, {1})"
SET_AT = "void({0}[tkjit::bind::at({0}, {1})] = {2})"
DEREFERENCE = "tkjit::bind::dereferenced({0})"
INCREMENT = "void(++{0})"
ADDRESS_OF_ELEMENTS = "tkjit::bind::address_of_elements({0})"
POINTER_TO_ELEMENTS = "tkjit::bind::pointer_to_elements({0})"
RANK = "int(std::decay_t<decltype({0})>::rank)"
EXTENT = "{0}.extent({1})"
STRIDE = "{0}.stride({1})"
COPY = "tkjit::bind::Boxed<std::decay_t<decltype({0})>>{new std::decay_t<decltype({0})>({0})}"
PRINTED = "tkjit::bind::printed({0})"
UNEQUAL = "static_cast<bool>({0} != {1})"


def constructor(type_text: str, *, is_aggregate: bool = False) -> str:
    arguments = "{{*}}" if is_aggregate else "({*})"
    return f"tkjit::bind::Boxed<{type_text}>{{new {type_text}{arguments}}}"


def from_buffer(type_text: str) -> str:
    return f"tkjit::bind::from_array<{type_text}>({{a0}})"


def method(name: str) -> str:
    return f"{{0}}.{name}({{1*}})"


def field(name: str) -> str:
    return f"tkjit::bind::value(({{0}}.{name}))"


def binary(sign: str) -> str:
    return f"{{0}} {sign} {{1}}"
