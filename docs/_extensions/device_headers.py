"""Lists the functions and types of the headers for kernels, with the comments that describe them."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

_ROW = re.compile(r"^\| `#include <tkjit/([\w.]+)>` \| ([^|]*) \|", re.MULTILINE)
_SIMULATOR = re.compile(r"^#ifdef TKJIT_SIM\n.*?^#(?:else|elif [^\n]*|endif)\n", re.MULTILINE | re.DOTALL)
_DETAIL = re.compile(r"^namespace detail \{.*?^\}[^\n]*\n", re.MULTILINE | re.DOTALL)
_SPECIFIERS = re.compile(r"\b(?:inline|__device__|__host__|__forceinline__|constexpr) | TKJIT_\w+_SITE\b")
_WIDTH = 110


def public_names(page: str) -> dict[str, set[str]]:
    """Return the names in the tables of ``device-api.md``, by header."""
    found: dict[str, set[str]] = {}
    for header, names in _ROW.findall(page):
        found.setdefault(header, set()).update(re.findall(r"`(\w+)`", names))
    return {header: names for header, names in found.items() if names and header.endswith(".cuh")}


def device_functions(include: Path, public: Mapping[str, set[str]]) -> Iterator[str]:
    """Yield Markdown with a section for each header: its introduction, and the declarations of its public names."""
    for header, names in sorted(public.items()):
        text = (include / header).read_text()
        yield from (f"## `<tkjit/{header}>`", "", *_introduction(text), "")
        if declared := list(_declarations(text, names)):
            yield from ("```cuda", *declared[:-1], "```", "")


def _introduction(text: str) -> Iterator[str]:
    """Yield a header's first comment as Markdown, with its example as a block of code."""
    comment = re.match(r"(?://.*\n)+", text)
    is_code = False
    for line in (comment[0] if comment else "").splitlines():
        content = line[3:]
        if content and content.startswith("    ") != is_code:
            is_code = not is_code
            yield "```cuda" if is_code else "```"
        yield content[4:] if is_code else content
    if is_code:
        yield "```"


def _declarations(text: str, names: set[str]) -> Iterator[str]:
    """Yield each public declaration after its comment, from the code for GPUs.

    A comment with indented lines contains the declarations itself, because a macro makes them or they are long.
    """
    comment: list[str] = []
    parts: list[str] = []
    for line in _DETAIL.sub("", _SIMULATOR.sub("", text)).splitlines():
        if line.startswith("///"):
            comment.append(line[3:].removeprefix(" "))
        elif own := [part.removeprefix("    ") for part in comment if part.startswith("    ")]:
            yield from _wrapped(part for part in comment if not part.startswith("    "))
            yield from (*own, "")
            comment = []
        elif comment:
            parts.append(line.strip())
            if "{" in line or line.endswith(";"):
                declaration = _SPECIFIERS.sub("", re.sub(r"\s*(?:\{.*|;)$", "", " ".join(parts)))
                declaration = declaration.replace("TKJIT_MMA_WRAPPER", "void")
                if names & set(re.findall(r"\w+(?=\()|\w+$|\w+(?= = )", declaration)):
                    yield from _wrapped(comment)
                    yield from textwrap.wrap(f"{declaration};", _WIDTH, subsequent_indent="    ")
                    yield ""
                comment, parts = [], []


def _wrapped(comment: Iterable[str]) -> Iterator[str]:
    text = " ".join(line.strip() for line in comment)
    yield from textwrap.wrap(text, _WIDTH, initial_indent="// ", subsequent_indent="// ")
