"""Explains errors in a kernel's source in terms of its spec, both before compilation and from a compiler's log."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tkjit.compile.nvrtc import EXTRA
from tkjit.errors import CompileError, SpecError, TkjitError, ToolchainError
from tkjit.spec import LIBRARIES, HeaderLibrary, Source, Spec
from tkjit.spec.expr import EXTENTS
from tkjit.system.install import pip_install

# Matches CUDA headers that the packages of a torch installation lack. It is applied to the message
# that device_code.py derives from NVRTC's error.
_CUDA_HEADER = re.compile(r"it includes (?P<header>(?:crt|nv|cuda)/\S+|cooperative_groups\.h|mma\.h),")
_TORCH_IS_MISSING = re.compile(r"fatal error: (?:torch|ATen|c10)/[\w/.]+: No such file")


def check_source(spec: Spec, source: Source) -> None:
    """Reject a source that contains a mistake that compilers do not report.

    Raises
    ------
    SpecError
        If there is such a mistake. The message contains its line.
    """
    from tkjit.source.lint import Passed, find_mistake

    if spec.host or spec.config:
        return
    layouts = [] if spec.struct or spec.args else [f for f in spec.tensors if not f.is_list and not f.is_parallel]
    passed = Passed(
        [f.name for f in layouts],
        [f.name for f in layouts if f.direction == "in"],
        spec.taken if spec.args else (),
        bool(spec.struct) or spec.shared_memory is not None,  # a struct that the source defines may set its size
    )
    if (mistake := find_mistake(source.read(), spec.entry, passed)) is not None:
        line, text = mistake
        raise SpecError(f"{spec.name}: {source.place}:{line}: {text}")


def explain(error: CompileError, spec: Spec, source: Source, what: str, *, on_cpu: bool) -> TkjitError:
    """Add to a compiler's error an explanation of what is probably wrong in the spec or the source.

    Parameters
    ----------
    what : str
        The kernel, its variant and its target, for the message.
    on_cpu : bool
        Whether the source was compiled for the simulator.
    """
    from tkjit.source.excerpt import with_excerpt

    if reason := missing_headers(spec.headers, error.log):
        return ToolchainError(f"{what}: {reason}\n{error}")
    text = source.read()
    if on_cpu:
        from tkjit.source.unsupported import why_not_on_the_cpu

        if reason := why_not_on_the_cpu(text, str(source.path or source.name), error.log):
            return ToolchainError(f"{spec.name} cannot run on the CPU: {reason}\n{error}")
    reason = _why_not_compiled(spec, text, error.log)
    return error.about(
        with_excerpt(error.summary, text, (str(source.path), source.name)),
        because=f"{spec.name}: {reason}" if reason else "",
    )


def missing_headers(headers: Iterable[HeaderLibrary], log: str) -> str:
    """Return a message about the library whose headers the compiler did not find; empty if it found all headers."""
    roots = {library.name: library.root for library in headers}
    if _TORCH_IS_MISSING.search(log) and "torch" not in roots:
        return 'its source includes torch\'s headers; add headers="torch" to the spec'
    for library in LIBRARIES.values():
        if library.package or not _is_missing(library.proof.removeprefix("include/"), log):
            continue
        install = f"python -m tkjit headers add {library.name}"
        if library.name not in roots:
            in_spec = f'add headers="{library.name}" to the spec and install them: {install}'
            return f"its source includes headers of {library.name}; {in_spec}"
        if roots[library.name] is None:  # the library is a part of the toolkit
            return f"the toolkit lacks the headers of {library.name}; install them: {install}"
    if match := _CUDA_HEADER.search(log):
        return f"NVRTC's CUDA headers lack {match['header']}; install the complete headers: {pip_install(EXTRA)}"
    return ""


def _is_missing(header: str, log: str) -> bool:
    """Return whether g++, nvcc or NVRTC reports that a header is missing."""
    return any(
        text in log for text in (f" {header}: No such file", f'open source file "{header}"', f"includes {header},")
    )


def _why_not_compiled(spec: Spec, text: str, log: str) -> str:
    """Explain a wrong entry or an undeclared name. Return "" if the compiler's own error is more helpful."""
    from tkjit.source.entries import why_not_the_entry
    from tkjit.source.members import why_no_member

    if spec.host or spec.struct or spec.trailing:
        return ""
    reason = why_not_the_entry(text, spec.entry, takes_arguments=spec.args, passed=spec.taken, log=log)
    # put a tensor first, because the message shows the extents of the first member as an example
    tensor = next((f.name for f in spec.tensors if f.name in spec.order), "")
    members = [*filter(None, [tensor]), *(name for name in spec.order if name != tensor)]
    return reason or why_no_member(text, spec.entry, () if spec.args else members, _extents(spec), log)


def _extents(spec: Spec) -> dict[str, str]:
    """Map each dim to the expression with which a kernel reads it: a field, a tensor's member, or empty if none."""
    found = {dim: f"g.{dim}" if any(f.name == dim for f in spec.fields) else "" for dim in spec.dim_names}
    for f in spec.tensors:
        first = f"g.{f.name}[0]" if f.is_list else f"g.{f.name}"
        for from_end, dim in enumerate(reversed(f.dims)):
            member = f"extent({len(f.dims) - 1 - from_end})" if f.is_strided else f"{EXTENTS[3 - from_end]}()"
            if found.get(dim.text) == "":
                found[dim.text] = f"{first}.{member}"
    return found
