"""Replaces ``__CUDA_ARCH__`` in a CUDA source.

nvcc compiles a source twice. It defines the macro when it compiles for a device, and leaves it undefined when it
compiles for the host. A host compiler sees the source once, so tkjit assigns each place to the device or the host:

* The body of a ``__global__`` or ``__device__`` function belongs to the device. So does a ``__device__`` lambda, even
  in a host function.
* The body of any other function belongs to the host.
* A function for both (``__host__ __device__``, or ``constexpr``) is compiled once, for the device, because a simulator
  runs device code. If its text depends on the macro, the host must not run it: ``require_device`` throws there.
* A condition around functions, macros and constants belongs to whichever side uses these. If host and device code both
  use them, nvcc would give each its own value, so tkjit rejects the condition.

For the device, the name becomes ``TKJIT_SIM_CUDA_ARCH``, which ``tkjit/sim/detail/compiler.h`` defines. In directives
for the host, it becomes the undefined name ``TKJIT_SIM_NO_CUDA_ARCH``. A source whose headers use the macro is
preprocessed first (``host_branches.py``). In other sources, and in extensions, ``tkjit/sim/cuda_runtime.h`` poisons any
remaining ``__CUDA_ARCH__``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass, field

from tkjit.source.lexer import Edit, Token, macro_body, macros
from tkjit.source.regions import KEYWORDS, Region, device_words, region_at, regions_of
from tkjit.source.scopes import Outline, outline, without_brackets
from tkjit.system.fork_safe import cached_property

ARCH = "__CUDA_ARCH__"
REFUSAL = "the architecture has one value here:"  # does not contain __CUDA_ARCH__, because that name is poisoned
_NAMES = {"device": "TKJIT_SIM_CUDA_ARCH", "host": "TKJIT_SIM_NO_CUDA_ARCH"}
_GUARD = " ::tkjit::sim::require_device();"
_CONDITIONS = frozenset(["if", "ifdef", "ifndef", "elif", "elifdef", "elifndef"])
_MAY_HAVE = _CONDITIONS | {"define", "undef"}


@dataclass
class Unit:
    """Something outside of functions that declares names: a condition with its branches, a macro, or a constant."""

    names: set[str]
    words: set[str]
    start: int
    end: int
    directive: Token | None = None  # the first directive that uses __CUDA_ARCH__
    has_device: bool = False
    has_host: bool = False
    kind: str = ""  # "device" or "host", or "refused" if both use the unit


@dataclass
class Chain:
    """An ``#if`` with its ``#elif`` branches."""

    conditions: list[Token]
    end: int = 1 << 62

    @property
    def start(self) -> int:
        return self.conditions[0].start

    def words(self) -> set[str]:
        return {token.text for condition in self.conditions for token in condition.inner if token.kind == "word"}


@dataclass
class Source:
    """The parts of a source that determine which of its text is for the device and which is for the host."""

    tokens: list[Token]
    outline: Outline
    regions: list[Region]
    units: list[Unit] = field(default_factory=list)

    @cached_property
    def words(self) -> dict[Region, set[str]]:
        """The words of each region, including its directives but excluding the lambdas in it."""
        found: dict[Region, set[str]] = {region: set() for region in self.regions}
        for token in self.tokens:
            region = region_at(self.regions, token.start)
            if region is not None:
                found[region] |= {word.text for word in (token, *token.inner) if word.kind == "word"} - {region.name}
        return found

    def with_directives(self) -> Iterator[Unit]:
        yield from (unit for unit in self.units if unit.directive is not None)


def architecture(tokens: list[Token], used_by_host: Set[str] = frozenset()) -> list[Edit]:
    """Define ``__CUDA_ARCH__`` only at the places where nvcc would.

    Parameters
    ----------
    used_by_host : set of str
        The names from the source that host code outside the source uses.
    """
    found = outline(tokens)
    source = Source(tokens, found, regions_of(tokens, found))
    device = device_words(tokens)
    source.units = [*_units_of_chains(source, device), *_units_of_macros(tokens), *_units_of_constants(source, device)]
    _decide(source, used_by_host)
    refused = {
        unit.directive.start: "host and device code both use what it selects"
        for unit in source.with_directives()
        if unit.directive and unit.kind == "refused"
    }
    guards, misused = _functions_for_both(source, used_by_host)
    refused |= misused
    edits = guards
    for token in tokens:
        if token.start in refused:
            edits.append(_refusal(token, refused[token.start]))
        elif token.kind != "directive" or token.text in _MAY_HAVE:
            edits += [_rename(word, source, token) for word in (token, *token.inner) if word.text == ARCH]
    return [edit for edit in edits if edit.text != ARCH]


def _refusal(directive: Token, why: str) -> Edit:
    """Replace a directive's name with ``#error``, and turn the rest of the directive into a comment."""
    return Edit(directive.start, directive.inner[0].start, f"#error {REFUSAL} {why} // ")


def _rename(word: Token, source: Source, outer: Token) -> Edit:
    kind = _kind_at(source, outer)
    if outer.kind != "directive" and kind == "host":
        return Edit(word.start, word.end, ARCH)  # stays undeclared, as in nvcc's host compilation
    return Edit(word.start, word.end, _NAMES[kind])


def _kind_at(source: Source, token: Token) -> str:
    """Return "device" or "host" for a directive or a word."""
    if token.text == "define" and token.kind == "directive":
        own = next((unit for unit in source.units if unit.directive is token), None)
        return "host" if own and own.kind == "host" else "device"
    region = region_at(source.regions, token.start)
    if region is not None:
        return "host" if region.kind == "host" else "device"
    unit = next((unit for unit in source.with_directives() if unit.start <= token.start < unit.end), None)
    if unit is None:
        return "device" if token.kind == "directive" else "host"
    return "host" if unit.kind == "host" else "device"


# ---- code outside of functions that depends on the architecture


def _units_of_chains(source: Source, device: Set[str]) -> Iterator[Unit]:
    for chain in _chains(source.tokens):
        if region_at(source.regions, chain.start) is not None:
            continue
        inside = [region for region in source.regions if chain.start < region.start < chain.end]
        tokens = [token for token in source.tokens if chain.start < token.start < chain.end]
        names = {region.name for region in inside if region.kind != "device"}
        names |= {macro.inner[0].text for macro in macros(tokens) if macro.inner}
        for statement in _statements(source, tokens):
            names |= set() if device & {token.text for token in statement} else _declared_names(statement)
        unit = Unit(names - {"", ARCH}, chain.words(), chain.start, chain.end)
        unit.has_device = any(token.text in device for token in tokens)
        unit.has_host = not unit.has_device and any(region.kind == "host" for region in inside)
        unit.directive = next((c for c in chain.conditions if any(word.text == ARCH for word in c.inner)), None)
        yield unit


def _chains(tokens: list[Token]) -> list[Chain]:
    """Return all ``#if`` chains; outer chains come before those that they contain."""
    chains: list[Chain] = []
    not_ended: list[Chain] = []
    for token in tokens:
        if token.kind != "directive":
            continue
        if token.text in ("if", "ifdef", "ifndef"):
            not_ended.append(Chain([token]))
            chains.append(not_ended[-1])
        elif token.text in _CONDITIONS and not_ended:
            not_ended[-1].conditions.append(token)
        elif token.text == "endif" and not_ended:
            not_ended.pop().end = token.end
    return chains


def _units_of_macros(tokens: list[Token]) -> Iterator[Unit]:
    for macro in macros(tokens):
        words = {token.text for token in macro_body(macro)}
        if macro.inner:
            names = {macro.inner[0].text} - {ARCH}
            yield Unit(names, words, macro.start, macro.end, macro if ARCH in words else None)


def _units_of_constants(source: Source, device: Set[str]) -> Iterator[Unit]:
    for statement in _statements(source, source.outline.code):
        texts = {token.text for token in statement}
        if texts & {"=", "using", "typedef"} and not texts & device:
            yield Unit(_declared_names(statement), texts, statement[0].start, statement[-1].end)


def _statements(source: Source, tokens: Iterable[Token]) -> Iterator[list[Token]]:
    """Yield the code outside of functions and their heads, split at semicolons and braces."""
    statement: list[Token] = []
    for token in tokens:
        outside = not source.outline.is_local(token) and region_at(source.regions, token.start) is None
        if token.kind != "directive" and outside and token.text not in (";", "{", "}"):
            statement.append(token)
        elif statement and token.kind != "directive":
            yield statement
            statement = []
    if statement:
        yield statement


def _declared_names(statement: list[Token]) -> set[str]:
    """Return the names that a declaration may declare. May return too many, but never too few."""
    names = set()
    words = without_brackets(statement)
    for token, following in zip(words, [*words[1:], Token("mark", ";", 0, 0)], strict=True):
        if token.kind == "word" and following.text in ("=", ";", "[", "(", ",", ":") and token.text not in KEYWORDS:
            names.add(token.text)
        if following.text == "=":
            break
    return names - {ARCH}


# ---- device or host


def _decide(source: Source, used_by_host: Set[str]) -> None:
    for unit in source.with_directives():
        around = (other for other in source.with_directives() if other.start < unit.start and unit.end <= other.end)
        outer = next(around, None)  # the outermost unit decides for all units in it
        is_macro = unit.directive is not None and unit.directive.text == "define"
        unit.kind = outer.kind if outer and not is_macro else _kind_of(source, unit, used_by_host)


def _kind_of(source: Source, unit: Unit, used_by_host: Set[str]) -> str:
    names, for_device, for_host = _closure(source, unit)
    for_host = for_host or bool(names & used_by_host)
    for region, words in source.words.items():
        is_own = unit.start < region.start < unit.end
        if is_own or region.name == "main" or not names & words:
            continue  # tkjit never runs a program's main
        for_host = for_host or region.kind == "host"
        for_device = for_device or region.kind != "host" or not region.is_clear
    return "refused" if for_host and for_device else "host" if for_host else "device"


def _closure(source: Source, unit: Unit) -> tuple[set[str], bool, bool]:
    """Return all names that depend on a unit, whether device functions do, and whether host functions do.

    These functions are the ones in the unit itself, and those under a condition that uses one of the names.
    """
    names, has_device, has_host = set(unit.names), unit.has_device, unit.has_host
    pending = [other for other in source.units if other is not unit]
    while found := [other for other in pending if other.words & names]:
        for other in found:
            names |= other.names
            has_device, has_host = has_device or other.has_device, has_host or other.has_host
        pending = [other for other in pending if other not in found]
    return names, has_device, has_host


def _functions_for_both(source: Source, used_by_host: Set[str]) -> tuple[list[Edit], dict[int, str]]:
    """Return guards for functions for both sides, and the conditions to reject because their side is unknown."""
    names = [_closure(source, unit)[0] for unit in source.with_directives() if unit.kind == "device"]
    dependent = {ARCH}.union(*names)
    host = [words for region, words in source.words.items() if region.kind == "host" and region.name != "main"]
    host_words = set(used_by_host).union(*host)
    guards: list[Edit] = []
    refused: dict[int, str] = {}
    for region, words in source.words.items():
        if region.kind == "device" or not dependent & words:
            continue
        if region.kind == "both":
            guards.append(Edit(region.body, region.body, _GUARD))
        if not region.is_clear:
            why = f"a header's macro may decide whether {region.name} is a device function"
        elif "constexpr" in region.head and region.name in host_words:
            why = f"host and device code may both use {region.name}"
        else:
            continue
        for token in source.tokens:
            inside = token.kind == "directive" and region.start <= token.start < region.end
            if inside and token.text in _CONDITIONS and dependent & {word.text for word in token.inner}:
                refused.setdefault(token.start, why)
    return guards, refused
