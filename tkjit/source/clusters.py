"""Finds kernels that are declared with ``__cluster_dims__``.

A host compiler has no attribute for it, so the simulator keeps a list of such kernels.
"""

from __future__ import annotations

from tkjit.source.lexer import Edit, Token, closing
from tkjit.source.scopes import outline

_DIMS = "__cluster_dims__"


def declared_clusters(text: str, tokens: list[Token]) -> list[Edit]:
    """Move each kernel's ``__cluster_dims__`` from its head to a variable after its body.

    Templates keep theirs, which the simulator accepts only for clusters of one block.
    """
    edits = []
    for number, function in enumerate(outline(tokens).functions):
        head = function.head
        words = [token.text for token in head]
        if _DIMS not in words or "__global__" not in words or words[0] == "template":
            continue
        at = words.index(_DIMS)
        end = closing(head, at + 1)
        name = _name(words)
        if end is None or name is None:
            continue
        dims = text[head[at + 2].start : head[end].start]
        edits.append(Edit(head[at].start, head[end].end, ""))
        declared = f" static const ::tkjit::sim::DeclaredCluster tkjit_cluster_{number}({name}, dim3({dims}));"
        edits.append(Edit(function.end + 1, function.end + 1, declared))
    return edits


def _name(words: list[str]) -> str | None:
    """Return the name of a function: the word before the first bracket that follows no attribute."""
    depth = 0
    for i, word in enumerate(words):
        if word == "(" and depth == 0 and not words[i - 1].startswith("__"):
            return words[i - 1]
        depth += (word == "(") - (word == ")")
    return None
