"""Rejects calls of host functions in device code, as nvcc does; a host compiler would accept them.

If the source alone proves the error, the call becomes a compile error with nvcc's wording. If a header may declare
another function of that name, the source's function instead throws when a kernel calls it (``require_host``).
"""

from __future__ import annotations

import re

from tkjit.source.lexer import Edit, Token, macros, opening
from tkjit.source.regions import Region, device_words, region_at, regions_of
from tkjit.source.scopes import outline

_GUARD = " ::tkjit::sim::require_host();"
# after one of these, a name with parentheses is a call and not a declaration
_BEFORE = frozenset("; { } ( , = + - / % ! < ? : [ ~ | ^ && || return else".split())
# headers that do not declare functions with a source's own names
_KNOWN_HEADERS = re.compile(
    r"<(?:[a-z_]+|[a-z]+\.h|cuda_\w+\.h|cooperative_groups(?:/\w+)?\.h|(?:tkjit|cuda)/[\w./]+)>"
)
# functions of CUDA and the C library: a function with such a name in the source may be another overload
_LIBRARY = re.compile(
    r"(?:__|atomic|make_|cuda|tex|surf|mem|str|h2|is|f?print)\w*|clock(?:64)?|malloc|free|assert|swap"
    r"|(?:min|max|l{0,2}abs|div|rand|fabs|fmin|fmax|fma|fmod|fdim|fdivide|pow|powi|sqrt|r?cbrt|rsqrt|r?hypot|exp|exp2|exp10"
    r"|expm1|log|log2|log10|log1p|logb|ilogb|l?gamma|tgamma|lgamma|erf\w*|a?(?:sin|cos|tan)h?|atan2|sincos|(?:sin|cos|sincos)pi"
    r"|floor|ceil|trunc|l{0,2}r(?:ound|int)|nearbyint|copysign|signbit|nextafter|nan|modf|frexp|ldexp|scalbl?n|remainder"
    r"|remquo|normcdf\w*|r?norm(?:[34]d)?|j[01n]|y[01n]|cyl_bessel_i[01]|saturate|u?l{0,2}(?:min|max))[fl]?"
)
_NOT_EVALUATED = frozenset(["decltype", "sizeof", "noexcept", "alignof", "typeid"])


def host_calls(tokens: list[Token]) -> list[Edit]:
    """Reject calls of host functions in device code.

    >>> from tkjit.source.lexer import apply_edits, tokens_of
    >>> text = "int f() { return 1; } __host__ __device__ int g() { return f(); }"
    >>> apply_edits(text, host_calls(tokens_of(text)))
    'int f() { ::tkjit::sim::require_host(); return 1; } __host__ __device__ int g() { return f(); }'
    """
    found = outline(tokens)
    regions = regions_of(tokens, found)
    # a function under an #if may be the simulator's version of a device function
    inside = _in_conditions(tokens)
    host_names = {r.name for r in regions if _is_the_hosts(r) and r.name not in inside}
    certain = _certain(tokens, regions) if host_names and _is_whole(tokens) else set()
    called: set[str] = set()
    errors: dict[str, list[Edit]] = {}
    for i, token in enumerate(found.code):
        region = region_at(regions, token.start) if token.kind == "word" and token.text in host_names else None
        if region is None or region.kind == "host":
            continue
        called.add(token.text)
        if not _is_call(found.code, i) or token.start < region.body:
            certain.discard(token.text)  # a parameter, a variable or a member may also have this name
        elif region.kind == "device":  # in a function for both, nvcc only warns
            errors.setdefault(token.text, []).append(_error(token, region))
    guards = [Edit(r.body, r.body, _GUARD) for r in regions if _is_the_hosts(r) and r.name in called & host_names]
    return guards + [edit for name, edits in errors.items() if name in certain for edit in edits]


def _is_the_hosts(region: Region) -> bool:
    is_free = not region.is_member and region.name not in ("", "main")
    return region.kind == "host" and region.is_clear and is_free


def _is_call(code: list[Token], i: int) -> bool:
    """Whether a name is called and not declared: ``(int)f(1)`` is a call, ``decltype(x) f(1)`` is a declaration."""
    before = opening(code, i - 1) if code[i - 1].text == ")" else None
    may_be = code[i - 1].text in _BEFORE or (
        before is not None and code[before - 1].text not in ("decltype", "alignas")
    )
    return may_be and i + 1 < len(code) and code[i + 1].text == "(" and _is_evaluated(code, i)


def _is_evaluated(code: list[Token], i: int) -> bool:
    """Whether a name is in code that runs: not within ``decltype(f(1))``, for example."""
    depth = 0
    for k in range(i - 1, 0, -1):
        depth += (code[k].text == "(") - (code[k].text == ")")
        if code[k].text == ";" or (depth > 0 and code[k - 1].text in _NOT_EVALUATED):
            return code[k].text == ";"
    return True


def _error(call: Token, region: Region) -> Edit:
    around = f" ({region.name})" if region.name else ""
    text = (
        f"calling a __host__ function({call.text}) from device code{around} is not allowed: write __device__ before it"
    )
    return Edit(call.start, call.start, f'_Pragma("GCC error \\"{text}\\"") ')


def _certain(tokens: list[Token], regions: list[Region]) -> set[str]:
    """Return the names that refer to a host function wherever the source uses them."""
    device = device_words(tokens)
    names = {r.name for r in regions} - {r.name for r in regions if not _is_the_hosts(r)}
    names -= {token.text for macro in macros(tokens) for token in macro.inner}
    names = {name for name in names if not _LIBRARY.fullmatch(name)}
    statement: list[Token] = []
    for token in tokens:
        if token.kind == "directive" or region_at(regions, token.start) is not None:
            continue
        if token.text not in (";", "{", "}"):
            statement.append(token)
            continue
        words = {word.text for word in statement if word.kind == "word"}
        # drop names that a device declaration or a using-declaration may redefine, and names of variables and types
        if {"using", "namespace"} <= words:
            return set()
        if words & (device | {"using", "friend"}):
            names -= words
        followers = zip(statement, [*statement[1:], token], strict=False)
        names -= {word.text for word, following in followers if following.text != "("}
        statement = []
    return names


def _in_conditions(tokens: list[Token]) -> set[str]:
    """Return the words between each ``#if`` and its ``#endif``, where a name may have another meaning."""
    depth = 0
    words = set()
    for token in tokens:
        if token.kind == "directive":
            depth += token.text in ("if", "ifdef", "ifndef")
            depth -= token.text == "endif"
        elif depth > 0 and token.kind == "word":
            words.add(token.text)
    return words


def _is_whole(tokens: list[Token]) -> bool:
    """Whether no included header can declare a function with one of the source's names."""
    included = ("".join(t.text for t in token.inner) for token in tokens if token.text == "include" and token.inner)
    return all(_KNOWN_HEADERS.fullmatch(header) for header in included)
