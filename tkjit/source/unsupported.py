"""Explains why a CUDA source cannot run on the CPU, after a C++ compiler has rejected it.

A search before compilation would report false reasons, such as an ``asm`` in an unused template or inactive branch. So
a reason counts only if the compiler's log contains the same line or the same name.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import NamedTuple

from tkjit.source.adapt import adapt
from tkjit.source.cuda_arch import ARCH, REFUSAL
from tkjit.source.lexer import Token, closing, macro_body, macros, tokens_of

# For each prefix of a PTX instruction, the header and the function that also run on the CPU; the longest prefix that
# fits applies. A function without a header is CUDA's own. An empty function means that nothing runs on both.
_WRAPPERS = {
    "mma.sync": ("mma.cuh", "tkjit::mma_m16n8k16"),
    "ldmatrix": ("ldmatrix.cuh", "tkjit::ldmatrix_x4"),
    "stmatrix": ("stmatrix.cuh", "tkjit::stmatrix_x4"),
    "cp.async": ("cp_async.cuh", "tkjit::cp_async_16"),
    "cp.async.commit_group": ("cp_async.cuh", "tkjit::cp_async_commit"),
    "cp.async.wait": ("cp_async.cuh", "tkjit::cp_async_wait"),
    "cp.async.mbarrier.arrive": ("mbarrier.cuh", "tkjit::mbarrier_arrive_after_cp_async"),
    "cp.async.bulk": ("bulk_copy.cuh", "tkjit::bulk_copy_to_shared"),
    "cp.async.bulk.global": ("bulk_copy.cuh", "tkjit::bulk_store_to_global"),
    "cp.async.bulk.commit_group": ("bulk_copy.cuh", "tkjit::bulk_store_commit"),
    "cp.async.bulk.wait_group": ("bulk_copy.cuh", "tkjit::bulk_store_wait"),
    "cp.async.bulk.tensor": ("", ""),
    "cp.async.bulk.prefetch": ("", ""),
    "fence.proxy.async": ("bulk_copy.cuh", "tkjit::fence_async_proxy"),
    "fence.mbarrier_init": ("mbarrier.cuh", "tkjit::fence_mbarrier_init"),
    "mbarrier.init": ("mbarrier.cuh", "tkjit::mbarrier_init"),
    "mbarrier.inval": ("mbarrier.cuh", "tkjit::mbarrier_invalidate"),
    "mbarrier.arrive": ("mbarrier.cuh", "tkjit::mbarrier_arrive"),
    "mbarrier.arrive.expect_tx": ("mbarrier.cuh", "tkjit::mbarrier_arrive_expect_bytes"),
    "mbarrier.expect_tx": ("mbarrier.cuh", "tkjit::mbarrier_expect_bytes"),
    "mbarrier.test_wait": ("mbarrier.cuh", "tkjit::mbarrier_test"),
    "mbarrier.try_wait": ("mbarrier.cuh", "tkjit::mbarrier_wait"),
    "bar.sync": ("named_barrier.cuh", "tkjit::named_barrier_sync"),
    "bar.arrive": ("named_barrier.cuh", "tkjit::named_barrier_arrive"),
    "barrier.sync": ("named_barrier.cuh", "tkjit::named_barrier_sync"),
    "barrier.arrive": ("named_barrier.cuh", "tkjit::named_barrier_arrive"),
    "setmaxnreg.inc": ("registers.cuh", "tkjit::increase_registers"),
    "setmaxnreg.dec": ("registers.cuh", "tkjit::decrease_registers"),
    "bar.warp.sync": ("", "__syncwarp"),
    "shfl.sync": ("", "__shfl_sync"),
    "vote.sync": ("", "__ballot_sync"),
    "redux.sync": ("", "__reduce_add_sync"),
    "ld.global.nc": ("", "__ldg"),
    "membar": ("", "__threadfence"),
    "nanosleep": ("", "__nanosleep"),
}

# names of the language and its libraries that the simulator does not have
_UNKNOWN = {
    r"this_cluster|cluster_group|cluster_dim\w*|map_shared_rank": "clusters of blocks",
    r"cudaTextureObject_t|cudaSurfaceObject_t|tex[123]D\w*|surf[123]D\w*": "textures and surfaces",
    r"[su]4|b1|bmma\w*|experimental": "sub-byte types of nvcuda::wmma",
    r"cudaGraph\w+|cudaStreamBeginCapture": "CUDA graphs",
    r"cudaIpc\w+|cudaMemPool\w+": "memory of several processes",
    r"cudaStreamFireAndForget|cudaStreamTailLaunch": "dynamic parallelism",
}
# headers of libraries that come with a toolkit
_LIBRARIES = re.compile(
    r"(?:cub|thrust|cutlass|cute|cuda|nv|nvtx3|cooperative_groups)/"
    r"|(?:cuda|curand|cublas|cufft|cusparse|cusolver|cudnn|cupti|nvToolsExt|nvrtc|nvml|nccl|mma)\w*\.h$"
)
# matches an error and the source line that g++ prints below it
_LAUNCH_IN_HEADER = re.compile(r"^([^\s:][^:\n]*):(\d+):\d+: error: [^\n]*\n[^\n]*\|[^\n]*<<<", re.MULTILINE)
_ELSEWHERE = 'give another source for the CPU with cpu="name.cpp" in the spec'
# matches a rejection by source/cuda_arch.py; _ARCH_ASKED below matches a use of the poisoned name
_ARCH_REFUSED = re.compile(
    rf"^([^\s:][^:\n]*):(\d+):[^\n]*(?:#error|static assertion failed:) {REFUSAL} ([^\n]*?)(?: //|$)", re.MULTILINE
)
# g++ 12 crashes on a launch in a lambda if the kernel's template argument is a constant of the enclosing lambda
_LAUNCH_DEFECT = re.compile(r"host_launch\.h:\d+:\d+: internal compiler error")
_ARCH_ASKED = re.compile(
    rf'^([^\s:][^:\n]*):(\d+):[^\n]*error: attempt to use (?:a poisoned identifier|poisoned "{ARCH}")', re.MULTILINE
)
# directories whose headers compilers treat as system headers
_SYSTEM = re.compile(r"/usr/(?:local/)?include/|.*/(?:lib|lib64)/(?:gcc|clang)/|.*/include/c\+\+/")
_ASM_ERROR = re.compile(r"^([^\s:][^:\n]*):(\d+):[^\n]*(?:Error: |'asm'|‘asm’)[^\n]*", re.MULTILINE)  # noqa: RUF001


class Asm(NamedTuple):
    """An ``asm`` statement: its lines, and the first word of each of its instructions."""

    first_line: int
    last_line: int
    mnemonics: tuple[str, ...]


def why_not_on_the_cpu(source: str, name: str, log: str) -> str:
    """Name the line of a source that needs a feature which the simulator lacks; empty if the log shows no such line.

    Parameters
    ----------
    name : str
        The source's name in ``#line`` directives, and so in the log. The message begins with it.
    log : str
        The compiler's output.

    Examples
    --------
    >>> why_not_on_the_cpu('asm("bar.sync 1, 64;");', "a.cu", "a.cu:1: Error: no such instruction: `bar.sync 1,64'")
    'a.cu:1 has bar.sync in an asm; tkjit::named_barrier_sync from <tkjit/named_barrier.cuh> runs on CPU and GPU'
    """
    tokens = tokens_of(source)
    return (
        _arch_reason(name, log)
        or _asm_reason(source, tokens, name, log)
        or _name_reason(source, tokens, name, log)
        or _launch_reason(source, name, log)
    )


def _arch_reason(name: str, log: str) -> str:
    """Explain a use of ``__CUDA_ARCH__`` that has no single value when the source is compiled only once."""
    refused = _ARCH_REFUSED.search(log)
    if refused:
        use = f"depends on {ARCH} in code that nvcc compiles twice and the simulator once: {refused[3]}"
        return f"{name if _is_file(refused[1], name) else refused[1]}:{refused[2]} {use}; {_ELSEWHERE}"
    asked = next((error for error in _ARCH_ASKED.finditer(log) if not _SYSTEM.match(error[1])), None)
    if asked is None:
        return ""
    if _is_file(asked[1], name):
        return f"{name}:{asked[2]} uses {ARCH} in host code, where it is not defined"
    return (
        f"{asked[1]}:{asked[2]} uses {ARCH}, which the simulator supports in a kernel's source but not in its headers; "
        f"move that code into the source, or {_ELSEWHERE}"
    )


def retry_flags(log: str, system: Collection[str] = ()) -> tuple[str, ...]:
    """Return flags with which the simulator's compiler may accept a source that it has rejected, if there are any.

    Parameters
    ----------
    system : collection of str
        Directories whose headers may use ``__CUDA_ARCH__``, unlike the source's own headers.

    Examples
    --------
    >>> retry_flags("sim/detail/host_launch.h:119:19: internal compiler error: in gimplify_var_or_parm_decl")
    ('-DTKJIT_SIM_LAUNCHES_BY_CALL',)
    """
    asked = ("-DTKJIT_SIM_SYSTEM_ASKS_ARCH",) if _only_system_asks(log, system) else ()
    return (*asked, "-DTKJIT_SIM_LAUNCHES_BY_CALL") if _LAUNCH_DEFECT.search(log) else asked


def _only_system_asks(log: str, system: Collection[str]) -> bool:
    """Whether a log complains about ``__CUDA_ARCH__`` in system headers alone, where it can stay undefined.

    >>> _only_system_asks('/usr/include/fmt/base.h:9:13: error: attempt to use poisoned "__CUDA_ARCH__"', ())
    True
    >>> _only_system_asks('helper.cuh:9:13: error: attempt to use poisoned "__CUDA_ARCH__"', ())
    False
    """
    files = [error[1] for error in _ARCH_ASKED.finditer(log)]
    prefixes = tuple(f"{directory.rstrip('/')}/" for directory in system)
    return bool(files) and all(_SYSTEM.match(file) or file.startswith(prefixes) for file in files)


def _asm_reason(source: str, tokens: list[Token], name: str, log: str) -> str:
    errors = [(match[1], int(match[2])) for match in _ASM_ERROR.finditer(log)]
    if not errors:
        return ""
    own_lines = [line for file, line in errors if _is_file(file, name)]
    statements = list(_asm_statements(source, tokens))
    for asm in statements:
        if any(asm.first_line <= line <= asm.last_line for line in own_lines):
            return f"{name}:{asm.first_line} {_of_mnemonics(asm.mnemonics)}"
    # If an asm is in a macro, the log has the line that uses the macro, and may contain the instruction.
    for asm in statements:
        if any(re.search(rf"[`‘']\s*{re.escape(word)}", log) for word in asm.mnemonics):  # noqa: RUF001
            return f"{name}:{asm.first_line} {_of_mnemonics(asm.mnemonics)}"
    file, line = errors[0]
    if _is_file(file, name) and statements:
        return f"{name}:{statements[0].first_line} {_of_mnemonics(statements[0].mnemonics)}"
    return f"{file}:{line} has an asm of PTX; {_ELSEWHERE}"


def _is_file(file: str, name: str) -> bool:
    return file.rsplit("/", 1)[-1] == name.rsplit("/", 1)[-1]


def _asm_statements(source: str, tokens: list[Token]) -> Iterator[Asm]:
    code = [token for token in tokens if token.kind != "directive"]
    for sequence in [code, *map(macro_body, macros(tokens))]:
        for i, token in enumerate(sequence):
            if token.kind != "word" or token.text not in ("asm", "__asm__", "__asm"):
                continue
            start = i + 1
            while start < len(sequence) and sequence[start].kind == "word":  # volatile
                start += 1
            if start == len(sequence) or sequence[start].text != "(":
                continue
            end = closing(sequence, start) or len(sequence) - 1
            strings = []
            for part in sequence[start + 1 : end]:
                if part.kind != "string":
                    break  # operands follow, or a macro with unknown text
                strings.append(part.text)
            yield Asm(
                source.count("\n", 0, token.start) + 1,
                source.count("\n", 0, sequence[end].start) + 1,
                mnemonics_of("".join(map(_content, strings))),
            )


def _content(string: str) -> str:
    """Return the contents of a string literal, with the escapes that separate instructions resolved."""
    raw = re.match(r'\w*R"([^(]*)\((.*)\)\1"', string, re.DOTALL)
    return raw[2] if raw else re.sub(r"\\[nt]", "\n", string[string.index('"') + 1 : -1])


def mnemonics_of(ptx: str) -> tuple[str, ...]:
    """Return the first word of each instruction in a piece of PTX.

    >>> mnemonics_of("{ .reg .pred p; @!p bra.uni DONE; DONE: mov.u32 %0, %%laneid; }")
    ('bra.uni', 'mov.u32')
    """
    words = []
    for statement in re.split(r"[;{}]", re.sub(r"//[^\n]*|/\*.*?\*/", "", ptx, flags=re.DOTALL)):
        match = re.match(r"\s*(?:[\w$%]+:(?!:)\s*)*(?:@!?[\w%]+\s+)?([a-z][\w.:]*)", statement)
        # braces within an instruction contain its operands
        if match and not re.match(r"\s*[,\]]", statement):
            words.append(match[1])
    return tuple(words)


def _of_mnemonics(mnemonics: tuple[str, ...]) -> str:
    for mnemonic in mnemonics:
        fitting = [prefix for prefix in _WRAPPERS if mnemonic.startswith(prefix)]
        header, function = _WRAPPERS[max(fitting, key=len)] if fitting else ("", "")
        if function:
            replacement = f"{function} from <tkjit/{header}>" if header else f"CUDA's {function}"
            return f"has {mnemonic} in an asm; {replacement} runs on CPU and GPU"
    found = f"{mnemonics[0]} in an asm, for which tkjit has no wrapper" if mnemonics else "an asm of PTX"
    return f"has {found}; {_ELSEWHERE}"


def _name_reason(source: str, tokens: list[Token], name: str, log: str) -> str:
    """Find a name or a header that the log complains about and that the simulator lacks."""
    for token in tokens:
        line = source.count("\n", 0, token.start) + 1
        if token.kind == "directive" and token.text == "include":
            header = source[token.start : token.end].split("include", 1)[1].strip(' \t<>"')
            if _LIBRARIES.match(header) and f"{header}: No such file" in log:
                return f"{name}:{line} includes <{header}>, which the simulator has no stand-in for; {_ELSEWHERE}"
        for word in (token, *token.inner):
            if word.kind != "word":
                continue
            lacking = next((what for names, what in _UNKNOWN.items() if re.fullmatch(names, word.text)), None)
            if lacking and re.search(rf"[‘'`:]{word.text}\b", log):  # noqa: RUF001
                return f"{name}:{line} needs {lacking}, which the simulator does not have; {_ELSEWHERE}"
    return ""


def _launch_reason(source: str, name: str, log: str) -> str:
    """Find a launch that was not rewritten for a host compiler, because of its form or because it is in a header."""
    adapted = adapt(source)
    for token in [token for outer in tokens_of(adapted) for token in (outer, *outer.inner)]:
        line = adapted.count("\n", 0, token.start) + 1
        if token.kind == "mark" and token.text == "<<<" and f"{name.rsplit('/', 1)[-1]}:{line}:" in log:
            return f"{name}:{line} launches with <<<...>>> in a form that tkjit cannot parse; {_ELSEWHERE}"
    header = _LAUNCH_IN_HEADER.search(log)
    if header is None or _is_file(header[1], name):
        return ""
    return f"{header[1]}:{header[2]} launches with <<<...>>>, which tkjit supports in the source but not in its headers"
