"""What is wrong with a kernel's source, in the words of its spec: before it is compiled, and by a compiler's log."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tkjit.compile.nvrtc import EXTRA
from tkjit.errors import CompileError, SpecError, TkjitError, ToolchainError
from tkjit.spec import LIBRARIES, HeaderLibrary, Source, Spec
from tkjit.spec.expr import EXTENTS
from tkjit.system.install import pip_install

# of the parts that torch's wheels of CUDA do not have, as device_code.py names what NVRTC did not find
_OF_CUDAS = re.compile(r"it includes (?P<header>(?:crt|nv|cuda)/\S+|cooperative_groups\.h|mma\.h),")
_TORCH_IS_MISSING = re.compile(r"fatal error: (?:torch|ATen|c10)/[\w/.]+: No such file")


def check_source(spec: Spec, source: Source) -> None:
    """Refuse what compilers take, and what cannot be meant.

    Raises
    ------
    SpecError
        With the line.
    """
    from tkjit.source.silent import Passed, silent_mistake

    if spec.host or spec.config:
        return
    own = [] if spec.struct or spec.args else [f for f in spec.tensors if not f.is_list and not f.is_parallel]
    passed = Passed(
        [f.name for f in own],
        [f.name for f in own if f.direction == "in"],
        spec.taken if spec.args else (),
        bool(spec.struct) or spec.shared_memory is not None,  # a struct of the source's own may say it
    )
    if (mistake := silent_mistake(source.read(), spec.entry, passed)) is not None:
        line, text = mistake
        raise SpecError(f"{spec.name}: {source.place}:{line}: {text}")


def explain(error: CompileError, spec: Spec, source: Source, what: str, *, on_cpu: bool) -> TkjitError:
    """A compiler's error, with what the spec or the source probably meant.

    Parameters
    ----------
    what : str
        The kernel, its variant and its target, for the text.
    on_cpu : bool
        Whether it was compiled for the simulator.
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
    """The library whose headers a compiler has not found, and what brings them; empty if it has found all."""
    roots = {library.name: library.root for library in headers}
    if _TORCH_IS_MISSING.search(log) and "torch" not in roots:
        return 'its source includes torch\'s headers: headers="torch"'
    for library in LIBRARIES.values():
        if library.package or not _is_missing(library.proof.removeprefix("include/"), log):
            continue
        install = f"python -m tkjit headers add {library.name}"
        if library.name not in roots:
            in_spec = f'headers="{library.name}" in the spec, and {install} installs them'
            return f"its source includes headers of {library.name}: {in_spec}"
        if roots[library.name] is None:  # it belongs to the toolkit
            return f"the toolkit lacks the headers of {library.name}: {install}"
    if match := _OF_CUDAS.search(log):
        return f"its NVRTC lacks {match['header']}, a header of CUDA: {pip_install(EXTRA)} brings all of them"
    return ""


def _is_missing(header: str, log: str) -> bool:
    """Whether a compiler has not found a header: g++, nvcc and NVRTC."""
    return any(
        said in log for said in (f" {header}: No such file", f'open source file "{header}"', f"includes {header},")
    )


def _why_not_compiled(spec: Spec, text: str, log: str) -> str:
    """What an entry, or a name that is not declared, should have been; empty if the compiler says it best."""
    from tkjit.source.entries import why_not_the_entry
    from tkjit.source.members import why_no_member

    if spec.host or spec.struct or spec.behind:
        return ""
    reason = why_not_the_entry(text, spec.entry, takes_arguments=spec.args, passed=spec.taken, log=log)
    tensor = next((f.name for f in spec.tensors if f.name in spec.order), "")  # whose extents are told
    members = [*filter(None, [tensor]), *(name for name in spec.order if name != tensor)]
    return reason or why_no_member(text, spec.entry, () if spec.args else members, _extents(spec), log)


def _extents(spec: Spec) -> dict[str, str]:
    """How a kernel asks for each dim: a field of its name, or a tensor's member; empty where nothing has it."""
    found = {dim: f"g.{dim}" if any(f.name == dim for f in spec.fields) else "" for dim in spec.dim_names}
    for f in spec.tensors:
        first = f"g.{f.name}[0]" if f.is_list else f"g.{f.name}"
        for from_end, dim in enumerate(reversed(f.dims)):
            member = f"extent({len(f.dims) - 1 - from_end})" if f.is_strided else f"{EXTENTS[3 - from_end]}()"
            if found.get(dim.text) == "":
                found[dim.text] = f"{first}.{member}"
    return found
