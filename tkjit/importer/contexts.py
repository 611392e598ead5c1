"""Follows calls between a source's host functions, and substitutes the arguments of each call."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tkjit.importer.host_functions import Host, mark
from tkjit.source.lexer import Token, closing
from tkjit.source.tokens import closing_angle, replace_names, split, words

_MAX_CONTEXTS = 4096  # only recursive sources have more
_MAX_DEPTH = 8


@dataclass(frozen=True)
class Context:
    """One way to reach a function: the values of its template parameters and of its parameters."""

    host: Host
    types: Mapping[str, Sequence[Token]] = field(default_factory=dict)
    values: Mapping[str, Sequence[Token]] = field(default_factory=dict)


def contexts_of(hosts: list[Host], entries: Iterable[list[Token]]) -> list[Context]:
    """Return the contexts of each function: one for each chain of calls that reaches it, and for each instantiation.

    A function that the source never calls has one context without values, unless it is a template.

    Parameters
    ----------
    entries : iterable of list of Token
        The source's explicit instantiations.
    """
    instantiated: dict[str, list[list[list[Token]]]] = {}
    for entry in entries:
        angle = next(i for i, token in enumerate(entry) if token.text == "<")
        instantiated.setdefault(name_of(entry), []).append(split(entry[angle + 1 : -1]))
    named = {host.name for host in hosts}
    calls: dict[str, list[tuple[Host, int, list[Token], list[Token]]]] = {}
    for host in hosts:
        for name, index, template, arguments in _calls(host.body, named - {host.name}):
            calls.setdefault(name, []).append((host, index, template, arguments))

    def reach(host: Host, depth: int) -> list[Context]:
        found: list[Context] = []
        for caller, index, template, arguments in calls.get(host.name, ()):
            given, taken = split(template), split(arguments)
            if depth == 0:
                continue
            if len(taken) > len(host.parameters):
                continue
            for context in reach(caller, depth - 1):
                types, values = (
                    {name: close_over(part, context, index)[0] for name, part in zip(names, parts, strict=False)}
                    for names, parts in ((host.template, given), (host.parameters, taken))
                )
                found.append(Context(host, {**host.defaults, **types}, values))
                if len(found) == _MAX_CONTEXTS:
                    return found
        for given in instantiated.get(host.name, ()):
            found.append(Context(host, {**host.defaults, **dict(zip(host.template, given, strict=False))}))
        return found if found or host.template else [Context(host)]

    return [context for host in hosts for context in reach(host, _MAX_DEPTH)]


def name_of(entry: list[Token]) -> str:
    """Return the function's name in an instance: ``n::scale<2>`` gives ``scale``."""
    return next(entry[i - 1].text for i, token in enumerate(entry) if token.text == "<")


def _calls(body: list[Token], names: set[str]) -> Iterable[tuple[str, int, list[Token], list[Token]]]:
    """Yield the calls of these functions: the name, index, template arguments and arguments of each call."""
    for i, token in enumerate(body):
        if token.kind != "word" or token.text not in names:
            continue
        template: list[Token] = []
        bracket = i + 1
        if bracket < len(body) and body[bracket].text == "<":
            end = closing_angle(body, bracket)
            if end is None:
                continue
            template, bracket = body[bracket + 1 : end], end + 1
        if bracket < len(body) and body[bracket].text == "(":
            yield token.text, i, template, body[bracket + 1 : closing(body, bracket)]


def close_over(
    tokens: Sequence[Token], context: Context, index: int, kept: Iterable[str] = ()
) -> tuple[list[Token], bool]:
    """Replace the local names in an expression at an index of the function's body by their values.

    Also return whether the result contains numbers that only the enclosing function knows. Names in ``kept`` are not
    replaced.
    """
    host = context.host.scopes.names_at(index)
    kept = set(kept)
    found, borrowed = list(tokens), False
    for _ in range(_MAX_DEPTH):
        values = {name: value for name, value in host.values.items() if name not in kept}
        used = words(found) & (host.types.keys() | values.keys())
        if not used:
            break
        borrowed = borrowed or any(name in values and not words(values[name]) for name in used)
        found = replace_names(found, {**host.types, **{name: _bracket(value) for name, value in values.items()}})
    outer = {name: value for name, value in context.values.items() if name not in kept and name not in host.values}
    borrowed = borrowed or any(not is_shape(outer[name]) for name in words(found) & outer.keys())
    brought = {name: _bracket(value) for name, value in outer.items()}
    closed = replace_names(found, {**brought, **{name: list(value) for name, value in context.types.items()}})
    return _with_components(closed), borrowed


def _with_components(tokens: list[Token]) -> list[Token]:
    """Evaluate members of ``dim3``: ``dim3(256).x`` becomes ``256``."""
    found: list[Token] = []
    i = 0
    while i < len(tokens):
        end = closing(tokens, i + 1) if tokens[i].text == "dim3" and i + 1 < len(tokens) else None
        if end is not None and end + 2 < len(tokens) and tokens[end + 1].text == "." and tokens[end + 2].text in "xyz":
            extents = [*split(tokens[i + 2 : end]), *([Token("number", "1", 0, 0)] for _ in range(3))]
            found += _bracket(extents["xyz".index(tokens[end + 2].text)])
            i = end + 3
        else:
            found.append(tokens[i])
            i += 1
    return found


def is_shape(tokens: Sequence[Token]) -> bool:
    """Whether an expression is a ``dim3``."""
    return bool(tokens) and tokens[0].text == "dim3"


def _bracket(tokens: Sequence[Token]) -> list[Token]:
    """Add brackets, unless the tokens are safe to insert into a larger expression."""
    bracket = next((i for i, token in enumerate(tokens) if token.text == "("), 0)
    is_name = all(token.kind == "word" or token.text in ("::", ".") for token in tokens[:bracket])
    is_call = bracket > 0 and is_name and closing(list(tokens), bracket) == len(tokens) - 1
    if len(tokens) == 1 or is_call or any(token.text in ("{", "<") for token in tokens):
        return list(tokens)
    return [mark("("), *tokens, mark(")")]
