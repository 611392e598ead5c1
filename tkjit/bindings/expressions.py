"""Defines the C++ expressions for calls from Python, and renders the source files that contain them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType


@dataclass(frozen=True)
class Argument:
    """The type of an argument, and how it is passed.

    Parameters
    ----------
    how : str
        ``"object"``, ``"const"``, ``"moved"``, ``"pointer"``, ``"const pointer"``, ``"array"`` or ``"const array"``;
        ``"text"`` for a str, or ``"as characters"`` if the function takes no ``std::string``; ``"constant"`` for an
        expression that is written into the call; ``"deferred"`` or ``"deferred pointer"`` for the result of another
        call in the same unit. Empty for a number.
    type : str
        The C++ type. For an array, the type of its elements; for a constant, its expression; for a deferred result, the
        number of the other call.
    """

    how: str
    type: str

    @property
    def declared(self) -> str:
        """The type of the parameter that takes the argument."""
        result = f"tkjit::bind::ResultOf<decltype(&tkjit_call_{self.type})>::type"
        if self.how.startswith("deferred"):
            return result if self.how == "deferred" else f"std::remove_reference_t<{result}>*"
        fixed = {"text": "String&", "as characters": "String&", "constant": "Constant&"}
        if self.how in fixed:
            return f"tkjit::bind::{fixed[self.how]}"
        if self.how.endswith("array"):
            return f"const tkjit::bind::Array<{'const ' if self.how.startswith('const') else ''}{self.type}>&"
        forms = {"object": "{}&", "const": "const {}&", "moved": "{}&&", "const moved": "const {}&&"}
        forms |= {"pointer": "{}*", "const pointer": "const {}*"}
        return forms.get(self.how, "{}&&").format(self.type)

    def text(self, name: str) -> str:
        """Return the C++ text of the argument in an expression."""
        if self.how == "deferred pointer":
            return name
        if self.how == "deferred":
            return f"tkjit::bind::pass<{self.declared}>({name})"
        if self.how == "text":
            return f"static_cast<std::string&&>({name}.value)"
        if self.how == "as characters":
            return f"{name}.value.c_str()"
        if self.how.endswith("array"):
            return f"{name}.data"
        if self.how == "constant":
            return self.type
        if self.type == "std::nullptr_t":
            return "nullptr"
        if self.how in ("object", "const"):
            return name
        return f"static_cast<decltype({name})&&>({name})"

    def __str__(self) -> str:
        forms = {"object": "{}&", "const": "const {}&", "moved": "{}&&", "pointer": "{}*", "const pointer": "const {}*"}
        forms |= {"array": "{}[]", "const array": "const {}[]", "as characters": "const char*", "text": "std::string"}
        return forms.get(self.how, "{}").format(self.type)


@dataclass(frozen=True)
class Expression:
    """A call that can be compiled.

    Parameters
    ----------
    form : str
        C++ code in which ``{0}`` and ``{1}`` are replaced by the arguments. ``Argument.how`` tells how each is passed.
        ``{a0}`` is replaced by the name of the generated function's parameter.
        ``{*}`` is replaced by all arguments, and ``{1*}`` by all arguments but the first.
    arguments : tuple of Argument
        The types of the arguments.
    name : str
        The name of the call in messages: ``thrust::sort``.
    is_optional : bool
        Whether it is acceptable that the call does not compile.
    makes : str
        How C++ spells the type of the result. It is set if a recorded call needs it, or if other calls in the same
        translation unit take the result and refer to its type by this spelling.
    """

    form: str
    arguments: tuple[Argument, ...]
    name: str = field(compare=False)
    is_optional: bool = field(default=False, compare=False)
    makes: str = field(default="", compare=False)

    @property
    def text(self) -> str:
        texts = [one.text(f"a{i}") for i, one in enumerate(self.arguments)]
        code = self.form
        for i in range(len(texts), -1, -1):
            code = code.replace(f"{{{i or ''}*}}", ", ".join(texts[i:]))
        for i, text in enumerate(texts):
            code = code.replace(f"{{{i}}}", text).replace(f"{{a{i}}}", f"a{i}")
        return code

    @property
    def is_of_member(self) -> bool:
        """Whether the call uses a member or an operator of its first argument, rather than a function."""
        return bool(self.arguments) and "{0}" in self.form

    def with_characters(self) -> Expression:
        """Return a copy of this call that passes each str as a ``const char*``."""
        arguments = tuple(replace(one, how="as characters") if one.how == "text" else one for one in self.arguments)
        return replace(self, arguments=arguments)

    def with_types(self, names: Mapping[str, str]) -> Expression:
        """Return a copy of this call in which each type that ``names`` contains is replaced by its full name."""
        arguments = tuple(replace(one, type=names.get(one.type, one.type)) for one in self.arguments)
        return replace(self, arguments=arguments, is_optional=False)

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(str, self.arguments))})"


# The C++ expressions that implement Python's syntax and protocols.
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


def data_member(name: str) -> str:
    return f"tkjit::bind::value(({{0}}.{name}))"


def binary(sign: str) -> str:
    return f"{{0}} {sign} {{1}}"


# Maps a header to a text. A unit includes the header if one of its calls contains the text.
_HEADERS = {"tkjit/bind_print.h": "tkjit::bind::printed(", "tkjit/bind_complex.h": "std::complex<"}


def render_unit(calls: Sequence[Expression], origins: Mapping[str, Expression] = MappingProxyType({})) -> str:
    """Render the source file for some calls, with one entry for each call, in the same order.

    Parameters
    ----------
    origins : mapping of str to Expression
        Maps each type that C++ code cannot name, such as a closure's, to a call that returns a value of it. The type is
        spelled as the result type of that call.
    """
    texts = [text for call in calls for text in (call.form, *(one.declared for one in call.arguments))]
    headers = [name for name, sign in _HEADERS.items() if any(sign in text for text in texts)]
    includes = [*(f"#include <{name}>" for name in headers), ""] if headers else []
    lines: list[str] = []
    names: dict[str, str] = {}
    for type_text in _hidden(calls, origins):
        lines += [*_render_origin(len(names), _renamed(origins[type_text], names)), ""]
        names[type_text] = f"tkjit_type_{len(names)}"
    calls = [_renamed(call, names) for call in calls]
    for number, call in enumerate(calls):
        lines += [*_render_call(number, call), ""]
    lines += [
        "static constexpr tkjit::bind::Entry tkjit_entries[] = {",
        *(f"    {_entry(number, call)}," for number, call in enumerate(calls)),
        "};",
        'extern "C" __attribute__((visibility("default"))) const tkjit::bind::Unit tkjit_bind_unit{',
        f"    tkjit::bind::abi_version, {len(calls)}, tkjit_entries}};",
    ]
    body = "\n".join(lines)
    # A closure's type contains the name of the enclosing function, so a digest keeps the closures of two units apart.
    digest = hashlib.sha256(body.encode()).hexdigest()[:12]
    for name in ("tkjit_call_", "tkjit_origin_"):
        body = body.replace(name, f"{name}{digest}_")
    return "\n".join(["// Calls of bound functions, rendered by tkjit.", "", *includes, body, ""])


def _hidden(calls: Iterable[Expression], origins: Mapping[str, Expression]) -> list[str]:
    """Return the argument types that have an origin. Each type comes after the types that its origin needs."""
    found: dict[str, None] = {}
    for call in calls:
        for argument in call.arguments:
            if argument.type in origins and argument.type not in found:
                others = {name: origin for name, origin in origins.items() if name != argument.type}
                found |= dict.fromkeys(_hidden([origins[argument.type]], others))
                found[argument.type] = None
    return list(found)


def _renamed(call: Expression, names: Mapping[str, str]) -> Expression:
    form = call.form
    for type_text in sorted(names, key=len, reverse=True):
        form = form.replace(type_text, names[type_text])
    arguments = tuple(replace(one, type=names.get(one.type, one.type)) for one in call.arguments)
    return replace(call, form=form, arguments=arguments)


def _render_origin(number: int, call: Expression) -> Iterable[str]:
    parameters = ", ".join(f"{one.declared} a{i}" for i, one in enumerate(call.arguments))
    yield f"static inline decltype(auto) tkjit_origin_{number}({parameters}) {{ return {call.text}; }}"
    yield f"using tkjit_type_{number} = tkjit::bind::ReferredOf<decltype(&tkjit_origin_{number})>::type;"


def _render_call(number: int, call: Expression) -> Iterable[str]:
    parameters = ", ".join(f"{one.declared} a{i}" for i, one in enumerate(call.arguments))
    # without the call's name, because this text is part of the cache key, and the same call may have other names
    yield f"// {call.form} with ({', '.join(map(str, call.arguments))})"
    if not call.is_optional or not call.arguments:
        yield f"static decltype(auto) tkjit_call_{number}({parameters}) {{ return {call.text}; }}"
        return
    types = "".join(f", class A{i}" for i in range(len(call.arguments)))[2:]
    arguments = ", ".join(f"A{i} a{i}" for i in range(len(call.arguments)))
    yield f"struct tkjit_call_{number} {{"
    yield f"    template <{types}>"
    yield f"    static auto call({arguments}) -> decltype({call.text}) {{ return {call.text}; }}"
    yield "};"


def _entry(number: int, call: Expression) -> str:
    name = f"tkjit_call_{number}"
    if not call.is_optional or not call.arguments:
        return f"tkjit::bind::Caller<decltype(&{name}), &{name}>::entry()"
    types = "".join(f", {one.declared}" for one in call.arguments)
    return f"tkjit::bind::optional_entry<{name}{types}>(0)"
