"""Reads the launches in a source's host code, as text: the instances of kernels, and the shapes of launches.

The text is not compiled, so inactive ``#if`` branches also count; they often contain Python bindings. Template
arguments are followed through the functions that pass them on.
"""

from __future__ import annotations

from collections.abc import Iterable

from tkjit.importer.contexts import Context, close_over, contexts_of, is_shape, name_of
from tkjit.importer.host_functions import end_of_statement, host_of, mark
from tkjit.importer.launch_arguments import arguments_of, names_of, without_outer_brackets
from tkjit.importer.macros import HostText
from tkjit.importer.model import Launch, Part
from tkjit.importer.shapes import integers_of
from tkjit.source.lexer import Token, closing, opening_angle, tokens_of
from tkjit.source.scopes import outline
from tkjit.source.tokens import closing_angle, replace_names, spell, split, with_angles_apart, words

_PARTS = ("grid", "block", "shared_memory")
# Maps the number of arguments of ThunderKittens' LaunchConfig to their meanings. An empty string marks an argument that
# the importer ignores: the stream, and the fifth of six arguments, which is a larger cluster that a launch may not get.
_CONFIGURED = {5: (*_PARTS, "", "cluster"), 6: (*_PARTS, "", "", "cluster")}


def launches_of(text: str | HostText) -> list[Launch]:
    """Find the launches and explicit instantiations whose template arguments are known, each instance once.

    Examples
    --------
    >>> found = launches_of('''
    ... template <int D> void run(float* x, int n) { scale<D><<<(n + 255) / 256, 256>>>(x, n); }
    ... int main() { run<64>(nullptr, 0); run<128>(nullptr, 0); }
    ... ''')
    >>> [(launch.entry, dict(launch.parts)["grid"].text, launch.arguments) for launch in found]
    [('scale<64>', '(n + 255) / 256', ('x', 'n')), ('scale<128>', '(n + 255) / 256', ('x', 'n'))]
    """
    source = HostText(text) if isinstance(text, str) else text
    code = outline(with_angles_apart(tokens_of(source.text)))
    hosts = [host for function in code.functions if (host := host_of(function)) is not None]
    found: dict[str, Launch] = {}
    instantiations = list(_instantiations(code.code))
    for context in contexts_of(hosts, instantiations):
        for launch in _launches_in(context, source):
            found.setdefault(f"{launch.config} {launch.struct} {launch.entry}", launch)
    launchers = {host.name for host in hosts if not host.is_kernel}
    for entry in (spell(entry) for entry in instantiations if name_of(entry) not in launchers):
        found.setdefault(f"  {entry}", Launch(entry))
    return list(found.values())


# ---- launches


def _launches_in(context: Context, source: HostText) -> Iterable[Launch]:
    body = context.host.body
    for i, token in enumerate(body):
        launch = None
        if token.text == "<<<" and token.kind == "mark":
            launch = _launch(context, i, source)
        elif token.text == "launch_kernel" and i + 1 < len(body) and body[i + 1].text == "<":
            launch = _configured_launch(context, i + 1, source)
        elif token.text == "cudaLaunchKernelEx" and i + 1 < len(body) and body[i + 1].text == "(":
            launch = _by_the_runtime(context, i + 1, source)
        if launch is not None and not words(tokens_of(launch.entry)) & set(context.host.template):
            yield launch


def _launch(context: Context, mark: int, source: HostText) -> Launch | None:
    body = context.host.body
    start, end = _callee(body, mark), _end_of_configuration(body, mark)
    if start is None or end is None or end + 1 >= len(body):
        return None
    last = closing(body, end + 1)
    if last is None:
        return None
    given = split(body[end + 2 : last])
    arguments = names_of(given)
    parts = _parts(zip(_PARTS, split(body[mark + 1 : end]), strict=False), context, mark, arguments)
    entry = _function(close_over(body[start:mark], context, mark)[0])
    return Launch(
        spell(_folded(entry)),
        parts,
        arguments,
        **arguments_of(given, context, mark),
        text=" ".join(source.text[body[start].start : body[last].end].split()),
        line=source.line_of(body[mark].start),
        host=_host_around(context),
    )


def _host_around(context: Context) -> str:
    """Return the enclosing function's name; empty for ``main`` and for a template."""
    host = context.host
    return "" if host.template or host.name == "main" else host.name


def _configured_launch(context: Context, angle: int, source: HostText) -> Launch | None:
    """Read ``launch_kernel<config, globals, kernel>(G)``."""
    body = context.host.body
    end = closing_angle(body, angle)
    given = split(body[angle + 1 : end]) if end is not None else []
    if end is None or len(given) != 3 or body[end + 1].text != "(":
        return None
    config, struct, entry = (spell(close_over(part, context, angle)[0]) for part in given)
    last = closing(body, end + 1) or end
    as_written = " ".join(source.text[body[angle - 1].start : body[last].end].split())
    line = source.line_of(body[angle].start)
    return Launch(entry, config=config, struct=struct, text=as_written, line=line)


def _by_the_runtime(context: Context, bracket: int, source: HostText) -> Launch | None:
    """Read ``cudaLaunchKernelEx(&config, kernel<T>, x, n)``.

    The configuration is known only if it is a ``LaunchConfig``.
    """
    body = context.host.body
    last = closing(body, bracket)
    given = split(body[bracket + 1 : last]) if last is not None else []
    if last is None or len(given) < 2 or _callee(given[1], len(given[1])) != 0:
        return None
    arguments = names_of(given[2:])
    return Launch(
        spell(_folded(close_over(given[1], context, bracket)[0])),
        _parts(_launch_config(body[:bracket], given[0]), context, bracket, arguments),
        arguments,
        **arguments_of(given[2:], context, bracket),
        text=" ".join(source.text[body[bracket - 1].start : body[last].end].split()),
        line=source.line_of(body[bracket].start),
        host=_host_around(context),
    )


def _launch_config(body: list[Token], name: list[Token]) -> Iterable[tuple[str, list[Token]]]:
    """Read ThunderKittens' ``LaunchConfig<cluster, pdl> name(grid, block, shared_memory, stream, cluster);``.

    A larger, preferred cluster may come before the cluster. It is ignored, because a launch may not get it.
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
    written: Iterable[tuple[str, list[Token]]], context: Context, index: int, arguments: tuple[str, ...]
) -> tuple[tuple[str, Part], ...]:
    shapes = {name: value for name, value in context.host.scopes.names_at(index).values.items() if is_shape(value)}
    found = []
    for what, tokens in written:
        if what:
            closed, borrowed = close_over(tokens, context, index, arguments)
            as_written = spell(replace_names(replace_names(tokens, shapes), context.types))
            found.append((what, Part(without_outer_brackets(closed), borrowed, as_written=as_written)))
    return tuple(found)


def _function(entry: list[Token]) -> list[Token]:
    """Return the function to which a local pointer points: ``&k<2>`` gives ``k<2>``."""
    while len(entry) > 2 and entry[0].text == "(" and closing(entry, 0) == len(entry) - 1:
        entry = entry[1:-1]
    return entry[1:] if entry and entry[0].text == "&" else entry


def _folded(entry: list[Token]) -> list[Token]:
    """Evaluate an entry's template arguments that are constant expressions: ``k<(64) / 4>`` becomes ``k<16>``."""
    angle = next((i for i, token in enumerate(entry) if token.text == "<"), None)
    end = closing_angle(entry, angle) if angle is not None else None
    if angle is None or end is None:
        return entry
    parts = split(entry[angle + 1 : end])
    found: list[Token] = []
    for part in parts:
        number = integers_of(spell(part), ()) if len(part) > 1 else None
        found += [*([mark(",")] if found else []), *(part if number is None else tokens_of(number))]
    return [*entry[: angle + 1], *found, *entry[end:]]


def _callee(body: list[Token], mark: int) -> int | None:
    """Return the index of the first token of ``ns::kernel<T>`` before ``<<<``; None for any other expression."""
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


def _instantiations(code: list[Token]) -> Iterable[list[Token]]:
    """Read explicit instantiations: ``template __global__ void scale<float>(float*, int);``."""
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
                    yield statement[start : close + 1]
                break
