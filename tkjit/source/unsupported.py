"""Explains why a CUDA source cannot run on the CPU, after a C++ compiler has rejected it.

A search before compilation would report false reasons, such as a texture in an unused template or inactive branch. So
a reason counts only if the compiler's log contains the same line or the same name.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from tkjit.source.adapt import adapt
from tkjit.source.cuda_arch import ARCH, REFUSAL
from tkjit.source.lexer import Token, tokens_of

# names of the language and its libraries that the simulator does not have
_UNKNOWN = {
    r"cudaTextureObject_t|cudaSurfaceObject_t|tex[123]D\w*|surf[123]D\w*": "textures and surfaces",
    r"[su]4|b1|bmma\w*|(?:nvcuda::)?wmma::experimental": "sub-byte types of nvcuda::wmma",
    r"cudaGraph\w+|cudaStreamBeginCapture": "CUDA graphs",
    r"cudaIpc\w+|cudaMemPool\w+": "memory of several processes",
    r"cudaStreamFireAndForget|cudaStreamTailLaunch": "dynamic parallelism",
}
# headers of libraries that come with a toolkit
_LIBRARIES = re.compile(
    r"(?:cub|thrust|cutlass|cute|cuda|nv|nvtx3|cooperative_groups)/"
    r"|(?:cuda|curand|cublas|cufft|cusparse|cusolver|cudnn|cupti|nvToolsExt|nvrtc|nvml|nccl|mma)\w*\.h$"
)
_ELSEWHERE = 'give another source for the CPU with cpu="name.cpp" in the spec'
# matches a rejection by source/cuda_arch.py; _ARCH_ASKED below matches a use of the poisoned name
_ARCH_REFUSED = re.compile(
    rf"^([^\s:][^:\n]*):(\d+):[^\n]*(?:#error|static assertion failed:) {REFUSAL} ([^\n]*?)(?: //|$)", re.MULTILINE
)
# g++ 12 crashes on a launch in a lambda if the kernel's template argument is a constant of the enclosing lambda
_ERROR = re.compile(r"^.*\berror: .*", re.MULTILINE)
_LAUNCH_DEFECT = re.compile(r"host_launch\.h:\d+:\d+: internal compiler error")
_ARCH_ASKED = re.compile(
    rf"""^([^\s:][^:\n]*):(\d+):[^\n]*error: attempt to use (?:a poisoned identifier|poisoned .{ARCH})""",
    re.MULTILINE,
)
# directories whose headers compilers treat as system headers
_SYSTEM = re.compile(r"/usr/(?:local/)?include/|.*/(?:lib|lib64)/(?:gcc|clang)/|.*/include/c\+\+/")


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
    >>> why_not_on_the_cpu("cudaGraph_t g;", "a.cu", "a.cu:1: 'cudaGraph_t' is no type").split("; ")[0]
    'a.cu:1 needs CUDA graphs, which the simulator does not have'
    """
    tokens = tokens_of(source)
    return (
        _arch_reason(name, log)
        or _cluster_reason(name, log)
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


def _cluster_reason(name: str, log: str) -> str:
    """Explain a rejection by ``__cluster_dims__`` in sim/detail/language.h."""
    if "static assertion failed: the simulator supports __cluster_dims__ only" not in log:
        return ""
    place = re.search(rf"(?:^|[\s/]){re.escape(name.rsplit('/', 1)[-1])}:(\d+):", log)
    where = f"{name}:{place[1]}" if place else name
    return (
        f"{where} declares the cluster of a kernel in a header, or of a template with an unnamed parameter, which the "
        "simulator does not support; "
        "set it with cluster= in the spec, or with a launch attribute in host code"
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
    >>> retry_flags("a.cuh:5:7: error: declaration of 'using X = X<int>' changes meaning of 'X' [-fpermissive]")
    ('-fpermissive',)
    >>> retry_flags("a.cuh:5:1: error: inlining failed in call to 'always_inline' 'int f(int)': function not inlinable")
    ('-DTKJIT_SIM_INLINES_BY_CHOICE',)
    """
    if (errors := _ERROR.findall(log)) and all("changes meaning of" in error for error in errors):
        return ("-fpermissive",)  # nvcc accepts them; this flag also allows other mistakes, but there are none
    if errors and all("inlining failed in call to" in error for error in errors):
        # for nvcc, __forceinline__ is only a request, so such functions may call each other
        return ("-DTKJIT_SIM_INLINES_BY_CHOICE",)
    asked = ("-DTKJIT_SIM_SYSTEM_ASKS_ARCH",) if _only_system_asks(log, system) else ()
    return (*asked, "-DTKJIT_SIM_LAUNCHES_BY_CALL") if _LAUNCH_DEFECT.search(log) else asked


def _only_system_asks(log: str, system: Collection[str]) -> bool:
    """Whether a log complains about ``__CUDA_ARCH__`` in system headers alone, where it can stay undefined.

    >>> _only_system_asks('/usr/include/fmt/base.h:9:13: error: attempt to use poisoned "__CUDA_ARCH__"', ())
    True
    >>> _only_system_asks("/usr/include/fmt/base.h:9:13: error: attempt to use poisoned '__CUDA_ARCH__'", ())  # g++ 16
    True
    >>> _only_system_asks('helper.cuh:9:13: error: attempt to use poisoned "__CUDA_ARCH__"', ())
    False
    """
    files = [error[1] for error in _ARCH_ASKED.finditer(log)]
    prefixes = tuple(f"{directory.rstrip('/')}/" for directory in system)
    return bool(files) and all(_SYSTEM.match(file) or file.startswith(prefixes) for file in files)


def _is_file(file: str, name: str) -> bool:
    return file.rsplit("/", 1)[-1] == name.rsplit("/", 1)[-1]


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
            spelled = (word.text, _qualified(source, word))
            lacking = next(
                (what for names, what in _UNKNOWN.items() if any(re.fullmatch(names, one) for one in spelled)), None
            )
            if lacking and re.search(rf"[‘'`:]{word.text}\b", log):  # noqa: RUF001
                return f"{name}:{line} needs {lacking}, which the simulator does not have; {_ELSEWHERE}"
    return ""


def _qualified(source: str, word: Token) -> str:
    """Return a word with the namespaces before it."""
    start = word.start
    while match := re.search(r"\w+::$", source[max(0, start - 80) : start]):
        start -= len(match[0])
    return source[start : word.end]


def _launch_reason(source: str, name: str, log: str) -> str:
    """Find a launch that was not rewritten for a host compiler because of its form."""
    adapted = adapt(source)
    for token in [token for outer in tokens_of(adapted) for token in (outer, *outer.inner)]:
        line = adapted.count("\n", 0, token.start) + 1
        if token.kind == "mark" and token.text == "<<<" and f"{name.rsplit('/', 1)[-1]}:{line}:" in log:
            return f"{name}:{line} launches with <<<...>>> in a form that tkjit cannot parse; {_ELSEWHERE}"
    return ""
