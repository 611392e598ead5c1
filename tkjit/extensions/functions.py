"""Finds the functions of a source that take or return tensors, and derives their schemas."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tkjit.source.lexer import Token, closing, tokens_of
from tkjit.source.scopes import Function, outline, without_brackets
from tkjit.source.tokens import closing_angle, spell, split, with_angles_apart

_SPECIFIERS = frozenset(["static", "inline", "constexpr", "extern", "const", "__host__", "__forceinline__", "struct"])
_NO_TYPE = _SPECIFIERS - {"const", "struct"}
_OF_DEVICES = frozenset(["__global__", "__device__"])
_KNOWN = {
    **dict.fromkeys(["Tensor"], "Tensor"),
    **dict.fromkeys("bool".split(), "bool"),
    **dict.fromkeys("char short int long signed unsigned size_t ptrdiff_t uintptr_t intptr_t".split(), "int"),
    **dict.fromkeys([f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)], "int"),
    **dict.fromkeys(["float", "double"], "float"),
    **dict.fromkeys(["string", "string_view"], "str"),
    "ScalarType": "ScalarType",
    "Device": "Device",
    "IntArrayRef": "int[]",
    "IntHeaderOnlyArrayRef": "int[]",
    "TensorList": "Tensor[]",
    "void": "",
}
_LINE_MARK = re.compile(r'# \d+ "([^"]*)"')
_LISTS = frozenset(["vector", "ArrayRef", "HeaderOnlyArrayRef"])


@dataclass(frozen=True)
class Parameter:
    """A parameter of a function.

    Parameters
    ----------
    type : str
        Its type in a schema: ``Tensor?``.
    spelling : str
        Its type as the source spells it: ``const std::optional<at::Tensor>&``.
    is_mutable : bool
        Whether it is a non-const reference.
    """

    name: str
    type: str
    spelling: str
    is_mutable: bool
    default: str = ""


@dataclass(frozen=True)
class HostFunction:
    """A function that runs on the host.

    Parameters
    ----------
    name : str
        Its name, with namespaces.
    results : tuple of str
        The types of its results in a schema.
    result_spelling : str
        Its return type as the source spells it.
    """

    name: str
    parameters: tuple[Parameter, ...]
    results: tuple[str, ...]
    result_spelling: str

    @property
    def namespace(self) -> str:
        return self.name.rpartition("::")[0]

    @property
    def pointer(self) -> str:
        """The function's pointer type, as code in its namespace can spell it."""
        return f"{self.result_spelling} (*)({', '.join(parameter.spelling for parameter in self.parameters)})"

    @property
    def bare_name(self) -> str:
        return self.name.rsplit("::", 1)[-1]

    @property
    def schema(self) -> str:
        """The function's schema in PyTorch's syntax.

        A non-const reference counts as written to. If a function has no such reference and returns nothing, it must
        still write its result somewhere, so every tensor counts as written to.
        """
        mutable = {p.name for p in self.parameters if p.is_mutable and p.type.startswith("Tensor")}
        if not mutable and not self.results:
            mutable = {p.name for p in self.parameters if p.type.startswith("Tensor")}
        listed = []
        for position, parameter in enumerate(self.parameters):
            type_ = parameter.type
            if parameter.name in mutable:
                type_ = type_.replace("Tensor", f"Tensor({alias_letter(position)}!)", 1)
            listed.append(f"{type_} {parameter.name}")
        results = self.results[0] if len(self.results) == 1 else f"({', '.join(self.results)})"
        return f"{self.bare_name}({', '.join(listed)}) -> {results}"


def functions_of(text: str) -> list[HostFunction]:
    """Find the functions of a preprocessed source that have a tensor among their parameters or results.

    Templates, members, overloaded functions and functions with a parameter of an unknown type are left out.

    >>> source = "namespace n { void f(torch::Tensor& out, std::optional<at::Tensor> in, double by) { } }"
    >>> [(function.name, function.schema) for function in functions_of(source)]
    [('n::f', 'f(Tensor(a!) out, Tensor? in, float by) -> ()')]
    """
    tokens = tokens_of(text)
    parsed = outline(tokens)
    names = _aliases(parsed.code)
    functions = [host for each in parsed.functions if (host := _host_function(each, names)) is not None]
    spelled = [function.name for function in functions]
    return [function for function in functions if spelled.count(function.name) == 1]


def read_functions(path: Path) -> list[HostFunction]:
    """Read the functions that ``FunctionsPlan`` has written to a file."""
    return [
        HostFunction(
            stored["name"],
            tuple(Parameter(**each) for each in stored["parameters"]),
            tuple(stored["results"]),
            stored["result_spelling"],
        )
        for stored in json.loads(path.read_text())
    ]


def lines_of(file: Path, preprocessed: str) -> str:
    """Return the lines that come from one file in a preprocessed text, found by the text's line markers."""
    found, is_inside = [], False
    for line in preprocessed.splitlines():
        if mark := _LINE_MARK.match(line):
            is_inside = Path(mark[1]) == file
        elif is_inside:
            found.append(line)
    return "\n".join(found)


def names_in_module(functions: Sequence[HostFunction]) -> dict[str, str]:
    """Map each function's full name to its name in a module. Functions that share a name keep their namespaces."""
    bare = [function.bare_name for function in functions]
    return {
        function.name: function.bare_name if bare.count(function.bare_name) == 1 else function.name.replace("::", "_")
        for function in functions
    }


def alias_letter(position: int) -> str:
    """Return the letter that a schema uses for an argument's memory, given the argument's position."""
    return chr(ord("a") + position) if position < 26 else f"a{position}"


def _host_function(function: Function, aliases: dict[str, str]) -> HostFunction | None:
    head = with_angles_apart(function.head)
    words = {token.text for token in head}
    if function.is_member or "template" in words or "operator" in words or words & _OF_DEVICES:
        return None
    head = without_brackets(head)
    bracket = next((i for i, token in enumerate(head) if token.text == "(" and i and head[i - 1].kind == "word"), None)
    if bracket is None or (end := closing(head, bracket)) is None:
        return None
    name = head[bracket - 1].text
    if bracket > 1 and head[bracket - 2].text == "::":
        return None  # a member function defined outside its class
    result = _results(head[: bracket - 1], aliases)
    parameters = [_parameter(part, i, aliases) for i, part in enumerate(split(head[bracket + 1 : end]))]
    known = [each for each in parameters if each is not None]
    if result is None or len(known) != len(parameters):
        return None
    if not any("Tensor" in type_ for type_ in (*result, *(each.type for each in known))):
        return None
    spelling = spell([token for token in head[: bracket - 1] if token.text not in _NO_TYPE])
    return HostFunction(f"{function.namespace}{name}", tuple(known), result, _without_attributes(spelling))


def _without_attributes(spelling: str) -> str:
    return re.sub(r"\[\[.*?\]\]", "", spelling).strip()


def _results(tokens: Sequence[Token], aliases: dict[str, str]) -> tuple[str, ...] | None:
    inside = _arguments_of(tokens, ("tuple", "pair"))
    parts = split(inside) if inside is not None else [list(tokens)]
    types = [_type(part, aliases) for part in parts]
    if any(type_ is None for type_ in types):
        return None
    return tuple(type_ for type_ in types if type_)


def _parameter(part: Sequence[Token], position: int, aliases: dict[str, str]) -> Parameter | None:
    texts = [token.text for token in part]
    default = ""
    if "=" in texts:
        cut = texts.index("=")
        part, default = part[:cut], spell(part[cut + 1 :])
    if not part:
        return None
    name = f"arg{position}"
    # the name is a word after the type: `unsigned n` has one, `unsigned` does not
    if len(part) > 1 and part[-1].kind == "word" and part[-2].text != "::" and part[-1].text not in (*_KNOWN, "const"):
        name, part = part[-1].text, part[:-1]
    texts = [token.text for token in part]
    if {"*", "[", "&&"} & set(texts) or texts.count("&") > 1:
        return None
    is_const = part[0].text == "const" or "const" in [token.text for token in part[-2:]]
    is_reference = part[-1].text == "&"
    type_ = _type([token for token in part if token.text != "&"], aliases)
    return Parameter(name, type_, spell(part), is_reference and not is_const, default) if type_ else None


def _type(tokens: Sequence[Token], aliases: dict[str, str]) -> str | None:
    """Return the schema's name for a C++ type: "" for void, None for an unknown type."""
    for wrapper, suffix in (("optional", "?"), *((name, "[]") for name in _LISTS)):
        inside = _arguments_of(tokens, (wrapper,))
        if inside is not None:
            inner = _type(inside, aliases)
            return f"{inner}{suffix}" if inner else None
    if any(token.text in ("<", "*") for token in tokens):
        return None
    named = [token.text for token in tokens if token.kind == "word" and token.text not in _SPECIFIERS]
    if not named:
        return None
    return aliases.get(named[-1], _KNOWN.get(named[-1]))


def _arguments_of(tokens: Sequence[Token], names: Sequence[str]) -> list[Token] | None:
    """Return a type's template arguments, or None if it is not an instance of a template with one of these names."""
    for i, token in enumerate(tokens):
        if token.text == "<" and i:
            end = closing_angle(tokens, i) or len(tokens) - 1
            return list(tokens[i + 1 : end]) if tokens[i - 1].text in names else None
    return None


def _aliases(code: Sequence[Token]) -> dict[str, str]:
    """Return the source's own names for known types: ``using fptr_t = int64_t;``."""
    found: dict[str, str] = {}
    for name, tokens in _definitions(code):
        type_ = _type(tokens, found)
        if type_:
            found[name] = type_
    return found


def _definitions(code: Sequence[Token]) -> Iterator[tuple[str, Sequence[Token]]]:
    for i, token in enumerate(code):
        if token.text not in ("using", "typedef") or token.kind != "word":
            continue
        end = i
        while end < len(code) and code[end].text != ";":
            end += 1
        statement = code[i:end]
        if token.text == "using" and len(statement) > 3 and statement[2].text == "=":
            yield statement[1].text, with_angles_apart(statement[3:])
        elif token.text == "typedef" and len(statement) > 2:
            yield statement[-1].text, with_angles_apart(statement[1:-1])
