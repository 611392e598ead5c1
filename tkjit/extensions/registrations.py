"""The operators that an extension's sources register with torch. A process can register each operator only once."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tkjit.errors import ArgumentError
from tkjit.extensions.schemas import definitions_in
from tkjit.extensions.sources import WITHOUT_OPERATORS, Extension
from tkjit.source.lexer import Token, closing, tokens_of

_BLOCK = re.compile(r"(?:STABLE_)?TORCH_LIBRARY(?P<kind>_FRAGMENT|_IMPL)?(?:_EXPAND)?")
_REGISTER_OPERATORS = "RegisterOperators"
_loaded: dict[tuple[str, ...], Path] = {}  # maps an extension's name and files to its shared object
# maps an operator's name, or a namespace's name followed by "::", to the shared object that registered it
_owners: dict[str, Path] = {}
# maps a shared object that failed to register to its error; loading it again would not run its registrations again
_failed: dict[Path, str] = {}


def registers_operators(extension: Extension) -> bool:
    """Whether a source of an extension has any kind of ``TORCH_LIBRARY`` block, or ``RegisterOperators``."""
    is_left_out = WITHOUT_OPERATORS in (*extension.cflags, *extension.cuda_flags)
    contents = [source.content for source in extension.own_sources]
    return not is_left_out and any(_BLOCK.search(text) or _REGISTER_OPERATORS in text for text in contents)


def check_registrations(extension: Extension, shared_object: Path) -> list[str]:
    """Check, before an extension is loaded, that nothing has registered its operators yet, and return their names.

    Raises
    ------
    ArgumentError
        If an earlier version of the extension is loaded, if another library has already defined one of its operators
        or namespaces, or if this extension has failed to register before.
    """
    if shared_object in _failed:
        raise ArgumentError(_failed[shared_object])
    if not registers_operators(extension):
        return []
    earlier = _loaded.get(_identity(extension))
    if earlier is not None and earlier != shared_object:
        raise ArgumentError(
            f"cpp_extension: an earlier version of {extension.name} has registered its operators in this process, and"
            " torch accepts each operator only once; restart Python to load the edited version"
        )
    names = operators_of(extension)
    for name in names:
        owner = _owners.get(name)
        if owner == shared_object or (not owner and not (schema := _schema_of(name))):
            continue
        what = f"namespace {name[:-2]}" if name.endswith("::") else f"operator {name}"
        by = f", by {owner.parent.name}" if owner else f": {schema}"
        raise ArgumentError(
            f"cpp_extension: {extension.name} defines the {what}, which is already registered{by};"
            " torch accepts it only once in a process"
        )
    return names


def note_registrations(extension: Extension, shared_object: Path, names: list[str]) -> None:
    """Remember the operators that a loaded extension has registered.

    Parameters
    ----------
    names : list of str
        The result of ``check_registrations``.

    Raises
    ------
    ArgumentError
        If torch rejects an operator (the error contains torch's message), or if a function does not match its schema.
        Then all of the extension's operators are withdrawn.
    """
    if text := registration_problem(extension.name, shared_object):
        _failed[shared_object] = text
        raise ArgumentError(text)
    if names:
        _loaded[_identity(extension)] = shared_object
        _owners.update(dict.fromkeys(names, shared_object))


def registration_problem(name: str, shared_object: Path) -> str:
    """Return why an extension's operators cannot be used, and withdraw them; empty if all of them can be used.

    Raises
    ------
    OSError
        If the shared object is not loaded yet and cannot be loaded.
    """
    import torch  # noqa: F401 - loads the library that the extension needs

    library = ctypes.CDLL(str(shared_object))
    if not hasattr(library, "tkjit_registration_error"):  # not compiled with the stand-ins, or registers nothing
        return ""
    reason = _text(library.tkjit_registration_error).strip()
    text = f"cpp_extension: {name} cannot register its operators: {reason}" if reason else ""
    text = text or _disagreement(name, _text(library.tkjit_registered_functions))
    if text:
        library.tkjit_withdraw_registrations()
    return text


def operators_of(extension: Extension) -> list[str]:
    """Return the operators that an extension's sources define, such as ``mine::norm``, and the namespaces (``mine::``).

    Examples
    --------
    >>> from tkjit.extensions.sources import Extension, Source
    >>> text = 'TORCH_LIBRARY(mine, m) { m.def("norm(Tensor x) -> Tensor"); m.def("sum", &sum); }'
    >>> operators_of(Extension("one", (Source("a.cpp", None, text),)))
    ['mine::', 'mine::norm', 'mine::sum']
    """
    found: dict[str, None] = {}
    for source in extension.own_sources:
        tokens = [token for token in tokens_of(source.content) if token.kind != "directive"]
        for kind, space, body in _blocks(tokens):
            space = extension.name if space == "TORCH_EXTENSION_NAME" else space
            found |= {} if kind else {f"{space}::": None}
            names = (text.partition("(")[0].strip() for text in definitions_in(body))
            found.update(dict.fromkeys(name if "::" in name else f"{space}::{name}" for name in names if name))
        found.update(dict.fromkeys(_old_registrations(tokens)))
    return list(found)


def _old_registrations(tokens: list[Token]) -> Iterator[str]:
    """Return the names in ``torch::RegisterOperators("mine::f", &f).op("mine::g", &g)``."""
    if all(token.text != _REGISTER_OPERATORS for token in tokens):
        return
    for word, bracket, text in zip(tokens, tokens[1:], tokens[2:], strict=False):
        if word.text in ("op", _REGISTER_OPERATORS) and bracket.text == "(" and text.kind == "string":
            name = text.text.strip('"').partition("(")[0].strip()
            if "::" in name:
                yield name


def _blocks(tokens: list[Token]) -> Iterator[tuple[str, str, list[Token]]]:
    """Yield each registration block's kind, namespace and body."""
    for i, token in enumerate(tokens):
        block = _BLOCK.fullmatch(token.text) if token.kind == "word" and i + 2 < len(tokens) else None
        end = closing(tokens, i + 1) if block and tokens[i + 1].text == "(" else None
        if block and end is not None and end + 1 < len(tokens) and tokens[end + 1].text == "{":
            yield block["kind"] or "", tokens[i + 2].text, tokens[end + 2 : closing(tokens, end + 1)]


def _identity(extension: Extension) -> tuple[str, ...]:
    return (extension.name, *extension.archs, *(str(source.path or source.name) for source in extension.own_sources))


def _schema_of(operator: str) -> Any:
    """Return torch's schema for an operator (``mine::norm`` or ``mine::norm.out``), or None if it is not registered."""
    import torch

    name, _, overload = operator.partition(".")
    if name.endswith("::"):
        return None  # torch has no way to ask whether a namespace is defined
    schemas = torch._C._jit_get_schemas_for_operator(name)
    return next((schema for schema in schemas if schema.overload_name == overload), None)


def _disagreement(extension: str, functions: str) -> str:
    """Return an error for the first function whose types differ from its registered schema; empty if all agree.

    The dispatcher's C ABI passes untyped bits, so a function with other types would misread them.
    """
    import torch

    for line in functions.splitlines():
        operator, _, text = line.partition(" ")
        schema, own = _schema_of(operator), torch._C.parse_schema(text)
        if schema is None:
            continue
        for part in ("arguments", "returns"):
            declared, actual = (
                [str(each.type).replace("SymInt", "int") for each in getattr(one, part)] for one in (schema, own)
            )
            if declared != actual:
                does = "takes" if part == "arguments" else "returns"
                return (
                    f"cpp_extension: {extension}: the function of {operator} {does} ({', '.join(actual)}), but its"
                    f" schema declares ({', '.join(declared)}): {schema}"
                )
    return ""


def _text(ask: Any) -> str:
    ask.restype = ctypes.c_char_p
    text: bytes = ask()
    return text.decode(errors="replace")
