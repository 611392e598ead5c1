"""Formats the name and the warmup command of a variant for messages."""

from __future__ import annotations

from tkjit.compile.targets import Target
from tkjit.registry import full_name
from tkjit.spec import Spec, Variant


def describe(spec: Spec, variant: Variant, target: Target) -> str:
    """Return the name of a variant for messages: ``gemm (T=float32) for sm_90a``."""
    return f"{spec.name}{f' ({variant})' if variant.values else ''} for {target.name}"


def warmup_command(spec: Spec, variant: Variant | None = None, target: Target | None = None) -> str:
    """Return the command that builds a variant ahead of time or, without a variant (as for glue), the whole kernel."""
    if spec.module == "__main__" or not spec.module:
        return "call it once without TKJIT_JIT=0 (warmup cannot find a kernel that a script or a notebook defines)"
    if (name := full_name(spec.name, spec.module)) is None:
        return "python -m tkjit warmup --record used.jsonl -- COMMAND, and then warmup --from-file used.jsonl"
    words = ["python -m tkjit warmup", name]
    if target is not None:
        words.append("--device cpu" if target.is_cpu else f"--arch {target.arch}")
    types = [str(value) for name, value in variant.values if name in spec.type_variants] if variant else []
    if types:
        words.append(f"--types {','.join(dict.fromkeys(types))}")
    return " ".join(words)
