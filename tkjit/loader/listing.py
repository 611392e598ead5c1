"""Describes the compiled code of a variant: its resources, PTX or SASS."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tkjit.compile.disassembly import sass
from tkjit.compile.resources import resources_text
from tkjit.compile.targets import Target
from tkjit.headers import locate
from tkjit.loader.device_code import CUBIN
from tkjit.loader.loader import Loader
from tkjit.loader.ptx import PtxPlan
from tkjit.spec import Spec, Variant


def listing_of(loader: Loader, spec: Spec, variant: Variant, target: Target, kind: str) -> str:
    """Compile a variant for a GPU if necessary, and return its resources, PTX or SASS.

    Parameters
    ----------
    kind : {"resources", "ptx", "sass"}

    Raises
    ------
    ToolchainError
        If a compiler, or cuobjdump for SASS, is missing.
    CompileError
        If the source does not compile.
    """
    if kind == "ptx":
        chosen = loader.configured(spec, variant, target)
        text: str = loader.open(PtxPlan(loader.env, locate(spec, loader.settings), chosen, target)).loaded
        return text
    entry = loader.launcher(spec, variant, target)
    if kind == "sass":
        return sass_of(loader, entry.shared_object)
    return "\n".join(resource_lines(str(entry.manifest["what"]), entry.manifest))


def sass_of(loader: Loader, launcher: Path) -> str:
    """Return the machine code of the kernel that a launcher launches; see ``compile.disassembly.sass``."""
    cubin = launcher.with_name(CUBIN)  # the device code, if NVRTC compiled it
    return sass(loader.toolchain.cuobjdump, cubin if cubin.exists() else launcher, launcher)


def resource_lines(what: str, manifest: Mapping[str, Any]) -> list[str]:
    """Describe the GPU resources of a build, and of the other kernels in the same file."""
    others = manifest.get("other_kernels", {})
    lines = []
    if own := resources_text(manifest) or ("the kernels of its host function" if others else ""):
        lines.append(f"{what}: {own}{_compiler_text(manifest)}")
    lines += [f"  also in the file: {kernel}: {resources_text(figures)}" for kernel, figures in others.items()]
    return lines


def _compiler_text(manifest: Mapping[str, Any]) -> str:
    """Describe the compiler: ``; by NVRTC 13.0.88``, or the reason why nvcc was used."""
    if "nvrtc" in manifest:
        return f"; by NVRTC {manifest['nvrtc']}"
    return f"; by nvcc, since {manifest['why_nvcc']}" if "why_nvcc" in manifest else ""
