"""Decides from the names in a source, before anything is compiled, whether it needs torch's own headers."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple

from tkjit.compile.flags import INCLUDE, STAND_INS
from tkjit.compile.includes import closure
from tkjit.system import files
from tkjit.torch_headers.operators import operators_by_name

TORCH_STAND_INS = STAND_INS / "torch"
# torch's own headers that need nothing of its C++ ABI, so they compile with the stand-ins
# (tests/torch_headers/test_nvcc_headers.py compiles each); the headers of operators are written for each source
USABLE_DIRECTORIES = ("torch/headeronly/", "torch/csrc/stable/", "torch/csrc/inductor/aoti_torch/c/")
USABLE_HEADERS = frozenset(
    """
    ATen/AccumulateType.h ATen/CollapseDims.h ATen/Config.h ATen/Dispatch.h ATen/Dispatch_v2.h ATen/NumericUtils.h
    ATen/OpMathType.h ATen/ceil_div.h ATen/core/PhiloxRNGEngine.h ATen/core/Reduction.h ATen/core/enum_tag.h
    ATen/cuda/ApplyGridUtils.cuh ATen/cuda/AsmUtils.cuh ATen/cuda/Atomic.cuh ATen/cuda/CUDAApplyUtils.cuh
    ATen/cuda/DeviceUtils.cuh ATen/cuda/NumericLimits.cuh ATen/cuda/PhiloxCudaState.h ATen/cuda/PhiloxUtils.cuh
    ATen/cuda/cub_definitions.cuh ATen/cuda/detail/IndexUtils.cuh ATen/cuda/detail/IntegerDivider.cuh
    ATen/cuda/detail/KernelUtils.h ATen/cuda/detail/PhiloxCudaStateRaw.cuh ATen/cuda/detail/TensorInfo.cuh
    ATen/cuda/detail/UnpackRaw.cuh ATen/detail/FunctionTraits.h ATen/div_rtn.h ATen/native/SharedReduceOps.h
    ATen/native/cuda/DeviceSqrt.cuh ATen/native/cuda/KernelUtils.cuh ATen/native/cuda/block_reduce.cuh
    c10/core/MemoryFormat.h c10/core/ScalarType.h c10/cuda/CUDAMathCompat.h c10/macros/Export.h c10/macros/Macros.h
    c10/macros/cmake_macros.h c10/util/BFloat16-inl.h c10/util/BFloat16-math.h c10/util/BFloat16.h c10/util/C++17.h
    c10/util/Deprecated.h c10/util/Float4_e2m1fn_x2.h c10/util/Float8_e4m3fn-inl.h c10/util/Float8_e4m3fn.h
    c10/util/Float8_e4m3fnuz-inl.h c10/util/Float8_e4m3fnuz.h c10/util/Float8_e5m2-inl.h c10/util/Float8_e5m2.h
    c10/util/Float8_e5m2fnuz-inl.h c10/util/Float8_e5m2fnuz.h c10/util/Float8_e8m0fnu-inl.h
    c10/util/Float8_e8m0fnu.h c10/util/Half-inl.h c10/util/Half.h c10/util/Metaprogramming.h c10/util/TypeList.h
    c10/util/TypeSafeSignMath.h c10/util/TypeTraits.h c10/util/Unroll.h c10/util/accumulate.h c10/util/bit_cast.h
    c10/util/bits.h c10/util/complex.h c10/util/complex_math.h
    c10/util/floating_point_utils.h c10/util/irange.h c10/util/llvmMathExtras.h c10/util/qint32.h c10/util/qint8.h
    c10/util/quint2x4.h c10/util/quint4x2.h c10/util/quint8.h
    """.split()
)

_WORD = re.compile(r"[A-Za-z_]\w*")
_OF_TORCH = re.compile(r"(?:torch|ATen|c10|caffe2|THC|pybind11)/[\w./+-]+")
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"]+)[>"]', re.MULTILINE)
_NAMESPACES = ("at", "torch", "c10", "caffe2", "py", "pybind11")
_ALIAS = re.compile(rf"\bnamespace\s+(\w+)\s*=\s*(?:::\s*)?(?:{'|'.join(_NAMESPACES)})\b")
_MACRO = re.compile(r"(?<![\w:.])(?:TORCH|AT|C10|THO|THP|STD_TORCH|PYBIND11)_[A-Z0-9_]+\b")
_MEMBER = re.compile(r"(?:\.|->)\s*([A-Za-z_]\w*)\s*\(")
_DECLARED = re.compile(
    r"(?:\b(?:struct|class|enum|union|namespace|using|typename)\s+|(?<![\w:.>~])(?=[A-Za-z_]\w*\s*\())([A-Za-z_]\w*)"
)
_DEFINED = re.compile(r"#[ \t]*define[ \t]+(\w+)(?:\(([^)]*)\))?")
_LACKING = re.compile(r"\b(?:torch\s*::|\w+\s*\.)\s*(class_)\s*<")  # the stand-ins have only pybind11's class_
MENTIONS_TORCH = re.compile(r"\b(?:torch|c10|ATen|Tensor|pybind11)\b|\bat::")  # skips headers such as Eigen's 7 MB
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_LITERAL = re.compile(r'(?<!include )"(?:[^"\\\n]|\\.)*"')
_MARK = re.compile(r'^# \d+ "([^"]*)"(?: (1))?')  # the preprocessor's mark: a file, and 1 if its text begins here


class Text(NamedTuple):
    """A user's code, and the headers of torch that it includes."""

    code: str
    headers: frozenset[str]


def first_lacking(texts: Iterable[Text]) -> str:
    """Return the first header or name of torch that the sources use but the stand-ins lack, or an empty string."""
    texts = [Text(_LITERAL.sub('""', text.code), text.headers) for text in texts]
    for text in texts:
        for header in sorted(text.headers):
            if not _is_usable(header):
                return header
        if found := _LACKING.search(text.code):
            return found[1]
    declared = {name for text in texts for name in _DECLARED.findall(text.code)}
    defined = [each for text in texts for each in _DEFINED.findall(text.code)]
    declared |= {name for _, parameters in defined for name in _WORD.findall(parameters)}
    macros = _names_of_stand_ins() | {"TORCH_EXTENSION_NAME"} | {name for name, _ in defined}
    known = _names_of_stand_ins() | operators_by_name().keys() | declared
    qualified = _qualified([*_NAMESPACES, *(name for text in texts for name in _ALIAS.findall(text.code))])
    for text in texts:
        for found in qualified.finditer(text.code):
            for name in _WORD.findall(found[1]):
                if name not in known:
                    return str(name)
        for name in _MACRO.findall(text.code):
            if name not in macros:
                return str(name)
        for name in _MEMBER.findall(text.code):
            if name in _members_of_torch() and name not in known:
                return str(name)
    return ""


def _qualified(namespaces: Iterable[str]) -> re.Pattern[str]:
    """Return a pattern that matches the names after one of these namespaces."""
    return re.compile(rf"(?<![\w:])(?:{'|'.join(dict.fromkeys(namespaces))})((?:\s*::\s*[A-Za-z_]\w*)+)")


def torch_has(name: str) -> bool:
    """Whether torch has this header, or mentions this name in one of its headers."""
    if "/" in name:
        return any((directory / name).is_file() for directory in (torch_include(), _frontend_include()))
    word = re.compile(rf"\b{re.escape(name.removeprefix('k'))}\b")  # macros make kFloat from Float
    # Debian's torch links to directories elsewhere; ops has a file for each operator
    for directory, _, files_there in os.walk(torch_include(), followlinks=True):
        headers = [Path(directory, file) for file in files_there if file.endswith((".h", ".cuh"))]
        if Path(directory).name != "ops" and any(word.search(_content(path)) for path in headers):
            return True
    return False


def text_of(content: str, search: Sequence[Path]) -> Text:
    """Return a source with its headers that mention torch, even those that preprocessor conditions would exclude."""
    headers = [_read(str(path), path.stat().st_mtime_ns) for path in closure(content, search, skips_computed=True)]
    code = _COMMENT.sub(" ", "\n".join([content, *filter(MENTIONS_TORCH.search, headers)]))
    return Text(code, frozenset(name for name in _INCLUDE.findall(code) if _OF_TORCH.fullmatch(name)))


def first_use(name: str, sources: Iterable[tuple[Path, str, Sequence[Path]]]) -> str:
    """Return the first line that uses a name outside of comments, as ``file:line``; the first file if no line does.

    Parameters
    ----------
    sources : iterable of (Path, str, sequence of Path)
        The path of each source, its text, and the directories of its headers.
    """
    word = re.compile(rf"(?<!\w){re.escape(name)}(?!\w)")
    sources = list(sources)
    for source, content, search in sources:
        headers = closure(content, search, skips_computed=True)
        texts = [(source, content), *((path, _read(str(path), path.stat().st_mtime_ns)) for path in headers)]
        for path, text in texts:
            code = _COMMENT.sub(lambda comment: "\n" * comment[0].count("\n"), text)
            if found := word.search(code):
                return f"{path}:{code.count(chr(10), 0, found.start()) + 1}"
    return str(sources[0][0])


def text_of_preprocessed(preprocessed: str, own: Sequence[Path]) -> Text:
    """Return the lines of a preprocessed text that come from the user's files, and the headers of torch they include.

    Parameters
    ----------
    own : sequence of Path
        The directories of tkjit's, torch's and the compilers' headers, whose lines are left out.
    """
    beginnings = tuple(f"{directory}/" for directory in own)
    code, headers, is_own = [], set(), False
    for line in preprocessed.splitlines():
        if mark := _MARK.match(line):
            was_own, is_own = is_own, mark[1].startswith(beginnings) or mark[1].startswith("<")
            if mark[2] and not was_own and "/torch/include/" in mark[1]:
                headers.add(mark[1].rpartition("/torch/include/")[2])
        elif not is_own:
            code.append(line)
    return Text("\n".join(code), frozenset(headers))


def _is_usable(header: str) -> bool:
    return (
        header.startswith((*USABLE_DIRECTORIES, "ATen/ops/"))
        or header in USABLE_HEADERS
        or (TORCH_STAND_INS / header).is_file()
    )


@cache
def _names_of_stand_ins() -> frozenset[str]:
    """Return every identifier in the stand-ins, and in the headers of torch that are used with them."""
    torch = torch_include()
    usable = [torch / header for header in USABLE_HEADERS]
    directories = [INCLUDE / "tkjit/torch", TORCH_STAND_INS, *(torch / directory for directory in USABLE_DIRECTORIES)]
    paths = [*usable, *(path for directory in directories for path in directory.rglob("*"))]
    found = {word for path in paths if path.is_file() for word in _WORD.findall(_content(path))}
    return frozenset(found | {f"k{word}" for word in found if word[0].isupper()})  # macros make kFloat from Float


@cache
def _members_of_torch() -> frozenset[str]:
    """Return the names of the member functions of torch's own tensor class."""
    return frozenset(_MEMBER_DECLARED.findall(_content(torch_include() / "ATen/core/TensorBase.h")))


_MEMBER_DECLARED = re.compile(r"^  [^\n/]*?\b(\w+)\([^\n]*(?:const|\{|;)", re.MULTILINE)


def _frontend_include() -> Path:
    return torch_include() / "torch/csrc/api/include"


def torch_include() -> Path:
    """Return the directory of torch's headers."""
    import torch

    return Path(torch.__file__).parent / "include"


def _content(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")


@lru_cache(maxsize=4096)
def _read(path: str, _time_ns: int) -> str:
    return files.read(Path(path), follow=True).decode(errors="replace")
