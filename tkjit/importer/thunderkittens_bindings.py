"""Reads ThunderKittens' older bindings: ``bind_kernel<kernel>(m, "name", &globals::x, ...)``, and ``bind_function``."""

from __future__ import annotations

import re
from dataclasses import replace

from tkjit.importer.model import Launch
from tkjit.source.lexer import tokens_of
from tkjit.source.tokens import spell

# matched in spelled tokens, which contain no comments
_BINDING = re.compile(r'\bbind_(kernel|function)\s*<([^;"]*?)>\s*\(\s*\w+\s*,\s*"(\w+)"')


def with_bindings(launches: list[Launch], source: str) -> list[Launch]:
    """Set ``bound`` in the launches of kernels that the source binds, and add a launch for each other binding.

    The launch for a bound host function has that function as its entry.
    """
    known = list(launches)
    for kind, entry, name in _BINDING.findall(spell(tokens_of(source))):
        entry = entry.strip()
        fitting = [i for i, launch in enumerate(known) if _squeezed(launch.entry) == _squeezed(entry)]
        if not fitting:
            known.append(Launch(entry, bound=name, is_host=kind == "function"))
        for i in fitting:
            known[i] = replace(known[i], bound=name)
    return known


def _squeezed(entry: str) -> str:
    return re.sub(r"\s+", "", entry).removeprefix("::")
