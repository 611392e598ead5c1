"""Finds kernels that are declared with ``__cluster_dims__``.

A host compiler has no attribute for it, so the simulator keeps a list of such kernels.
"""

from __future__ import annotations

from tkjit.source.entries import kernels_in, template_arguments
from tkjit.source.lexer import Edit, Token, closing
from tkjit.source.scopes import outline
from tkjit.source.tokens import split

_DIMS = "__cluster_dims__"


def declared_clusters(text: str, tokens: list[Token]) -> list[Edit]:
    """Move each kernel's ``__cluster_dims__`` from its head to a variable after its body.

    For a template, its body refers to a variable template instead, so that each instance declares its cluster.
    """
    edits = []
    for number, (kernel, function) in enumerate(kernels_in(text, outline(tokens))):
        head = function.head
        at = next((i for i, token in enumerate(head) if token.text == _DIMS), None)
        end = None if at is None else closing(head, at + 1)
        if at is None or end is None:
            continue
        arguments = template_arguments(kernel.template) if kernel.template else []
        if arguments is None:
            continue
        name, dims = kernel.name.rpartition("::")[2], text[head[at + 2].start : head[end].start]
        edits.append(Edit(head[at].start, head[end].end, ""))
        if kernel.template:
            each = (text[part[0].start : part[-1].end] for part in split(head[at + 2 : end]))
            extents = ", ".join(f"({extent})" for extent in each)
            use = f" (void)&::tkjit::sim::ClusterOf<&{name}<{', '.join(arguments)}>, {extents}>::declared;"
            edits.append(Edit(function.start, function.start, use))
            continue
        declared = f" static const ::tkjit::sim::DeclaredCluster tkjit_cluster_{number}({name}, dim3({dims}));"
        edits.append(Edit(function.end + 1, function.end + 1, declared))
    return edits
