"""Reads the launches in a source's host code, as text: the instances of kernels, and the shapes of launches.

The text is not compiled, so inactive ``#if`` branches count too: they often contain Python bindings. A template's
arguments are followed through the functions that pass them on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tkjit.importer.host_functions import Host, end_of_statement, host_of, mark
from tkjit.importer.model import Launch, Part
from tkjit.importer.tokens import closing_angle, replace_names, spell, split, with_angles_apart, words
from tkjit.source.lexer import Token, closing, opening_angle, tokens_of
from tkjit.source.scopes import outline

_PARTS = ("grid", "block", "shared_memory")
# what ThunderKittens' LaunchConfig is made of: a stream is among it, and, of six, a cluster that it may not get
_CONFIGURED = {5: (*_PARTS, "", "cluster"), 6: (*_PARTS, "", "", "cluster")}
_MAX_CONTEXTS = 64
_MAX_DEPTH = 8


@dataclass(frozen=True)
class _Context:
    """One way in which a function is reached: what its template parameters and its parameters stand for."""

    host: Host
    types: Mapping[str, Sequence[Token]] = field(default_factory=dict)
    values: Mapping[str, Sequence[Token]] = field(default_factory=dict)


def launches_of(text: str) -> list[Launch]:
    """Every launch and explicit instantiation in a source whose template arguments are known, each instance once.

    Examples
    --------
    >>> found = launches_of('''
    ... template <int D> void run(float* x, int n) { scale<D><<<(n + 255) / 256, 256>>>(x, n); }
    ... int main() { run<64>(nullptr, 0); run<128>(nullptr, 0); }
    ... ''')
    >>> [(launch.entry, dict(launch.parts)["grid"].text, launch.arguments) for launch in found]
    [('scale<64>', '(n + 255) / 256', ('x', 'n')), ('scale<128>', '(n + 255) / 256', ('x', 'n'))]
    """
    code = outline(with_angles_apart(tokens_of(text)))
    hosts = [host for function in code.functions if (host := host_of(function)) is not None]
    found: dict[str, Launch] = {}
    for context in _contexts(hosts):
        for launch in _launches_in(context, text):
            found.setdefault(f"{launch.config} {launch.struct} {launch.entry}", launch)
    for entry in _instantiations(code.code):
        found.setdefault(f"  {entry}", Launch(entry))
    return list(found.values())


# ---- how a function is reached


def _contexts(hosts: list[Host]) -> list[_Context]:
    """A function's ways in: from each call in the source, or from elsewhere where there is none."""
    named = {host.name for host in hosts}
    calls: dict[str, list[tuple[Host, list[Token], list[Token]]]] = {}
    for host in hosts:
        for name, template, arguments in _calls(host.body, named - {host.name}):
            calls.setdefault(name, []).append((host, template, arguments))

    def reach(host: Host, depth: int) -> list[_Context]:
        found: list[_Context] = []
        for caller, template, arguments in calls.get(host.name, ()):
            given, taken = split(template), split(arguments)
            if depth == 0 or len(given) < len(host.template):
                continue  # deduced, or defaulted: nobody says it
            if len(taken) > len(host.parameters):
                continue
            for context in reach(caller, depth - 1):
                types = {name: _close_over(part, context)[0] for name, part in zip(host.template, given, strict=False)}
                values = {
                    name: _close_over(part, context)[0] for name, part in zip(host.parameters, taken, strict=False)
                }
                found.append(_Context(host, types, values))
                if len(found) == _MAX_CONTEXTS:
                    return found
        return found if found or host.template else [_Context(host)]

    return [context for host in hosts for context in reach(host, _MAX_DEPTH)]


def _calls(body: list[Token], names: set[str]) -> Iterable[tuple[str, list[Token], list[Token]]]:
    """Calls of some functions: their names, template arguments and arguments."""
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
            yield token.text, template, body[bracket + 1 : closing(body, bracket)]


def _close_over(tokens: Sequence[Token], context: _Context, kept: Iterable[str] = ()) -> tuple[list[Token], bool]:
    """Tokens without the names of the function around them, and whether some of its numbers went in."""
    host = context.host
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
    borrowed = borrowed or any(not _is_shape(outer[name]) for name in words(found) & outer.keys())
    brought = {name: _bracket(value) for name, value in outer.items()}
    return replace_names(found, {**brought, **{name: list(value) for name, value in context.types.items()}}), borrowed


def _is_shape(tokens: Sequence[Token]) -> bool:
    return bool(tokens) and tokens[0].text == "dim3"


def _bracket(tokens: Sequence[Token]) -> list[Token]:
    """In brackets where it stands within something larger."""
    is_call = len(tokens) > 2 and tokens[0].kind == "word" and closing(list(tokens), 1) == len(tokens) - 1
    if len(tokens) == 1 or is_call or any(token.text in ("{", "<") for token in tokens):
        return list(tokens)
    return [mark("("), *tokens, mark(")")]


# ---- launches


def _launches_in(context: _Context, text: str) -> Iterable[Launch]:
    body = context.host.body
    for i, token in enumerate(body):
        launch = None
        if token.text == "<<<" and token.kind == "mark":
            launch = _launch(context, i, text)
        elif token.text == "launch_kernel" and i + 1 < len(body) and body[i + 1].text == "<":
            launch = _configured_launch(context, i + 1, text)
        elif token.text == "cudaLaunchKernelEx" and i + 1 < len(body) and body[i + 1].text == "(":
            launch = _by_the_runtime(context, i + 1, text)
        if launch is not None and not words(tokens_of(launch.entry)) & set(context.host.template):
            yield launch


def _launch(context: _Context, mark: int, text: str) -> Launch | None:
    body = context.host.body
    start, end = _callee(body, mark), _end_of_configuration(body, mark)
    if start is None or end is None or end + 1 >= len(body):
        return None
    last = closing(body, end + 1)
    if last is None:
        return None
    arguments = _names(split(body[end + 2 : last]))
    parts = _parts(zip(_PARTS, split(body[mark + 1 : end]), strict=False), context, arguments)
    entry = _close_over(body[start:mark], context)[0]
    return Launch(
        spell(entry),
        parts,
        arguments,
        text=" ".join(text[body[start].start : body[last].end].split()),
        line=text.count("\n", 0, body[mark].start) + 1,
    )


def _configured_launch(context: _Context, angle: int, text: str) -> Launch | None:
    """``launch_kernel<config, globals, kernel>(G)``."""
    body = context.host.body
    end = closing_angle(body, angle)
    given = split(body[angle + 1 : end]) if end is not None else []
    if end is None or len(given) != 3 or body[end + 1].text != "(":
        return None
    config, struct, entry = (spell(_close_over(part, context)[0]) for part in given)
    last = closing(body, end + 1) or end
    said = " ".join(text[body[angle - 1].start : body[last].end].split())
    line = text.count("\n", 0, body[angle].start) + 1
    return Launch(entry, config=config, struct=struct, text=said, line=line)


def _by_the_runtime(context: _Context, bracket: int, text: str) -> Launch | None:
    """``cudaLaunchKernelEx(&config, kernel<T>, x, n)``: its configuration is known where it is a ``LaunchConfig``."""
    body = context.host.body
    last = closing(body, bracket)
    given = split(body[bracket + 1 : last]) if last is not None else []
    if last is None or len(given) < 2 or _callee(given[1], len(given[1])) != 0:
        return None
    arguments = _names(given[2:])
    return Launch(
        spell(_close_over(given[1], context)[0]),
        _parts(_launch_config(body[:bracket], given[0]), context, arguments),
        arguments,
        text=" ".join(text[body[bracket - 1].start : body[last].end].split()),
        line=text.count("\n", 0, body[bracket].start) + 1,
    )


def _launch_config(body: list[Token], name: list[Token]) -> Iterable[tuple[str, list[Token]]]:
    """``LaunchConfig<cluster, pdl> name(grid, block, shared_memory, stream, cluster);``, of ThunderKittens' headers.

    Before the cluster there may be a larger one, which a launch may do without.
    """
    for i, token in enumerate(body[:-1]):
        angle = opening_angle(body, i - 1) if i and body[i - 1].text == ">" else None
        if len(name) != 1 or token.text != name[0].text or body[i + 1].text not in ("(", "{") or not angle:
            continue
        end = closing(body, i + 1)
        if body[angle - 1].text == "LaunchConfig" and end is not None:
            given = split(body[i + 2 : end])
            yield from zip(_CONFIGURED.get(len(given), _PARTS), given, strict=False)
            yield from zip(("", "pdl"), split(body[angle + 1 : i - 1]), strict=False)
            return


def _parts(
    said: Iterable[tuple[str, list[Token]]], context: _Context, arguments: tuple[str, ...]
) -> tuple[tuple[str, Part], ...]:
    shapes = {name: value for name, value in context.host.values.items() if _is_shape(value)}
    found = []
    for what, tokens in said:
        if what:
            closed, borrowed = _close_over(tokens, context, arguments)
            by_a_person = spell(replace_names(replace_names(tokens, shapes), context.types))
            found.append((what, Part(_without_outer_brackets(closed), borrowed, said=by_a_person)))
    return tuple(found)


def _names(given: list[list[Token]]) -> tuple[str, ...]:
    """Arguments that are names; an empty text for any other."""
    return tuple(part[0].text if len(part) == 1 and part[0].kind == "word" else "" for part in given)


def _without_outer_brackets(tokens: list[Token]) -> str:
    while len(tokens) > 2 and tokens[0].text == "(" and closing(tokens, 0) == len(tokens) - 1:
        tokens = tokens[1:-1]
    return spell(tokens)


def _callee(body: list[Token], mark: int) -> int | None:
    """The index at which ``ns::kernel<T>`` begins, before ``<<<``; None for a pointer."""
    i: int | None = mark
    while i is not None and i > 0:
        if body[i - 1].text in (">", ">>", ">>>"):
            i = opening_angle(body, i - 1)
            if i is None or i == 0:
                return None
        if body[i - 1].kind != "word":
            return None
        i -= 1
        if i == 0 or body[i - 1].text != "::":
            return i
        i -= 1
        if i > 0 and body[i - 1].kind != "word" and body[i - 1].text not in (">", ">>"):
            return i
    return i


def _end_of_configuration(body: list[Token], mark: int) -> int | None:
    depth = 0
    for i in range(mark + 1, len(body)):
        text = body[i].text
        depth += (text in ("(", "[", "{")) - (text in (")", "]", "}"))
        if depth < 0 or (text == ";" and depth == 0):
            return None
        if text == ">>>" and depth == 0 and i + 1 < len(body) and body[i + 1].text == "(":
            return i
    return None


def _instantiations(code: list[Token]) -> Iterable[str]:
    """``template __global__ void scale<float>(float*, int);``."""
    for i, token in enumerate(code):
        if token.text != "template" or i + 1 >= len(code) or code[i + 1].text == "<":
            continue
        if i and code[i - 1].text not in (";", "}", "{"):
            continue  # a.template f<T>()
        end = end_of_statement(code, i)
        statement = code[i + 1 : end]
        names = [j for j, t in enumerate(statement) if t.text == "<" and j and statement[j - 1].kind == "word"]
        for angle in names:
            close = closing_angle(statement, angle)
            if close is not None and close + 1 < len(statement) and statement[close + 1].text == "(":
                start = _callee(statement, close + 1)
                if start is not None:
                    yield spell(statement[start : close + 1])
                break
