"""Finds whether each function of a CUDA source is for the device, the host, or both."""

from __future__ import annotations

from collections.abc import Iterator, Set
from typing import NamedTuple

from tkjit.source.lexer import Token, closing, macro_body, macros
from tkjit.source.scopes import Function, Outline

DEVICE_WORDS = frozenset(["__global__", "__device__"])
KEYWORDS = frozenset(
    "alignas auto bool char char8_t char16_t char32_t class const consteval constexpr constinit decltype double enum "
    "explicit extern false float friend if inline int long mutable namespace noexcept operator private protected "
    "public register requires return short signed sizeof static struct template this thread_local true typedef "
    "typename union unsigned using virtual void volatile wchar_t final override defined".split()
)
_WITH_BRACKETS = frozenset(
    "alignas __align__ __attribute__ __launch_bounds__ __declspec decltype noexcept requires explicit sizeof "
    "__cluster_dims__ __maxnreg__".split()
)
# words that may follow a function's parameters
_AFTER_PARAMETERS = frozenset("const volatile noexcept override final mutable requires try".split())


class Region(NamedTuple):
    """A function, or a device lambda in a function.

    Parameters
    ----------
    start, body, end : int
        The positions at which its head begins, its body begins, and its body ends.
    kind : str
        ``device``, ``host``, or ``both``: ``__host__ __device__``, or ``constexpr``.
    name : str
    head : frozenset of str
        The words before its body.
    is_clear : bool
        False for a function that counts as the host's although its head has an unknown word, which may be a header's
        macro for ``__device__``.
    is_member : bool
        Whether it is a class's member, also if it is defined outside of the class: ``void S::f() {}``.
    """

    start: int
    body: int
    end: int
    kind: str
    name: str
    head: frozenset[str]
    is_clear: bool
    is_member: bool


def regions_of(tokens: list[Token], found: Outline) -> list[Region]:
    """Find the functions of a source, and the device lambdas in host functions.

    >>> from tkjit.source.lexer import tokens_of
    >>> from tkjit.source.scopes import outline
    >>> tokens = tokens_of("__device__ int f() { } int g() { [] __host__ __device__ { }(); }")
    >>> [(region.name, region.kind) for region in regions_of(tokens, outline(tokens))]
    [('f', 'device'), ('g', 'host'), ('', 'both')]
    """
    device, host = device_words(tokens), _specifiers(tokens, frozenset(["__host__"]))
    own_macros = {macro.inner[0].text for macro in macros(tokens) if macro.inner}
    regions = []
    for function in found.functions:
        region = _region(function, device, host, own_macros)
        regions.append(region)
        if region.kind == "host":
            regions += _lambdas(function.body, device, host)
    return regions


def region_at(regions: list[Region], place: int) -> Region | None:
    """Return the innermost region around a position, or None."""
    around = [region for region in regions if region.start <= place < region.end]
    return max(around, key=lambda region: region.start, default=None)


def device_words(tokens: list[Token]) -> frozenset[str]:
    """Return the words that mark device functions: CUDA's, and the source's macros that contain them."""
    return _specifiers(tokens, DEVICE_WORDS)


def _specifiers(tokens: list[Token], words: frozenset[str]) -> frozenset[str]:
    known = set(words)
    bodies = [(macro.inner[0].text, macro_body(macro)) for macro in macros(tokens) if macro.inner]
    short = [(name, {t.text for t in body}) for name, body in bodies if all(t.text != "{" for t in body)]
    before = 0
    while before != len(known):
        before = len(known)
        known |= {name for name, body in short if body & known}
    return frozenset(known)


def _region(function: Function, device: Set[str], host: Set[str], own_macros: Set[str]) -> Region:
    head = frozenset(token.text for token in function.head if token.kind == "word")
    if head & device:
        kind = "both" if head & host else "device"
    else:
        kind = "both" if head & {"constexpr", "consteval"} else "host"  # as with --expt-relaxed-constexpr
    start = function.head[0].start if function.head else function.start
    name = _name(function.head)
    is_clear = kind != "host" or not _has_unknown_specifier(function.head, name, own_macros)
    texts = [token.text for token in function.head]
    is_member = function.is_member or (name in texts and texts[max(texts.index(name) - 1, 0)] == "::")
    return Region(start, function.start, function.end, kind, name, head, is_clear, is_member)


def _name(head: list[Token]) -> str:
    """Return a function's name, which is the word before its parameters."""
    for i in range(1, len(head)):
        word = head[i - 1]
        is_name = word.kind == "word" and word.text not in _WITH_BRACKETS | {"operator"}
        if head[i].text == "(" and is_name and not _is_specifier(head, i):
            return word.text
    return ""


def _is_specifier(head: list[Token], bracket: int) -> bool:
    """Whether a word with brackets is a specifier, which it is if a declaration follows it: ``MACRO(1) void f()``."""
    end = closing(head, bracket)
    following = head[end + 1] if end is not None and end + 1 < len(head) else None
    return following is not None and following.kind == "word" and following.text not in _AFTER_PARAMETERS


def _has_unknown_specifier(head: list[Token], name: str, own_macros: Set[str]) -> bool:
    """Whether a head has an unknown word that may be a header's macro for ``__device__``: ``HOST_DEVICE float f()``."""
    for word, following in zip(head, head[1:], strict=False):
        if word.text == name and following.text == "(":
            return False
        known = word.text in KEYWORDS or word.text.startswith("__") or word.text in own_macros
        if word.kind != "word" or known:
            continue
        if following.text == "(":
            return True
        if following.kind == "word" and (following.text != name or (word.text.isupper() and len(word.text) > 1)):
            return True
    return False


def _lambdas(body: list[Token], device: Set[str], host: Set[str]) -> Iterator[Region]:
    """Yield the lambdas and the members of local classes in a host function that are compiled for devices."""
    for i, token in enumerate(body):
        if token.kind != "word" or token.text not in device:
            continue
        j = i
        while j < len(body) and body[j].text not in (";", "{", "}"):
            end = closing(body, j) if body[j].text in ("(", "[") else None
            j = (end if end is not None else j) + 1
        end = closing(body, j) if j < len(body) and body[j].text == "{" else None
        if end is not None:
            near = frozenset(word.text for word in body[max(i - 2, 0) : j])
            kind = "both" if near & host else "device"
            yield Region(token.start, body[j].end, body[end].start, kind, "", near, is_clear=True, is_member=False)
