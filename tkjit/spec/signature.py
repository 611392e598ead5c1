"""The signature of a spec's call, as an ``inspect.Signature`` and as text."""

from __future__ import annotations

import inspect
from collections.abc import Sequence

from tkjit.spec.model import MISSING, Field
from tkjit.spec.spec import Spec


def python_type(field: Field) -> str:
    """Return the type that a caller passes: ``Tensor``, ``list[Tensor]``, ``int``, ``str``, ``torch.dtype``."""
    if field.is_parallel:
        return "ParallelTensor"
    if field.is_tensor:
        item = "Tensor | None" if field.has_optional_items else "Tensor"
        return f"list[{item}]" if field.is_list else item
    if field.value_type is not None:
        return field.value_type.text
    return "int" if field.is_integer else "bool" if field.dtype == "bool" else "float"


def signature_of(spec: Spec) -> inspect.Signature:
    """Return a call's signature, including ``stream``, and ``out`` if there are outputs."""
    keyword_only = inspect.Parameter.KEYWORD_ONLY
    listed = []
    for f in sorted(spec.given, key=lambda f: f.keyword_only):
        is_output = f.direction == "out"
        default = None if is_output else inspect.Parameter.empty if f.default is MISSING else f.default
        annotation = f"{python_type(f)} | None" if f.optional or is_output else python_type(f)
        kind = keyword_only if f.keyword_only else inspect.Parameter.POSITIONAL_OR_KEYWORD
        listed.append(inspect.Parameter(f.name, kind, default=default, annotation=annotation))
    if spec.outputs:
        annotation = "Tensor | tuple[Tensor, ...] | None"
        listed.append(inspect.Parameter("out", keyword_only, default=None, annotation=annotation))
    if spec.is_parallel:
        listed.append(inspect.Parameter("club", keyword_only, default=None, annotation="Club | None"))
    listed.append(inspect.Parameter("stream", keyword_only, default=None, annotation="object"))
    return inspect.Signature(listed)


def signature_text(spec: Spec) -> str:
    """Return the call's signature as text: ``axpy(x: Tensor, y: Tensor, alpha: float = 1.0)``."""
    positional = [_short_text(f) for f in spec.given if not f.keyword_only]
    keywords = [_short_text(f) for f in spec.given if f.keyword_only]
    if spec.outputs:
        keywords.append("out=None")
    parts = [*positional, "*", *keywords, *(["club=None"] if spec.is_parallel else []), "stream=None"]
    return f"{spec.name}({', '.join(parts)})"


def _short_text(field: Field) -> str:
    """Return a parameter as a signature shows it."""
    if field.direction == "out":
        return f"{field.name}: Tensor = None"
    kind = python_type(field)
    text = f"{field.name}: {kind} | None" if field.optional else f"{field.name}: {kind}"
    return text if field.default is MISSING else f"{text} = {field.default!r}"


def join_options(options: Sequence[str]) -> str:
    """Join options as in ``a, b or c``."""
    return options[0] if len(options) == 1 else f"{', '.join(options[:-1])} or {options[-1]}"
