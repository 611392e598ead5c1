"""Compiles sources whose headers have to be adapted: preprocesses them, adapts the whole text, and compiles that.

If only the source itself has to be adapted, rendering does that, and none of the code here runs.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from tkjit.compile.flags import INCLUDE, PACKAGE, SIMULATOR, TRANSLATED, Flags
from tkjit.system import files

if TYPE_CHECKING:
    from tkjit.compile.compiler import Step

TRANSLATOR = (
    *sorted((PACKAGE / "ptx").glob("*.py")),
    *(
        PACKAGE / "source" / f"{name}.py"
        for name in ("asm", "host_branches", "keywords", "launches", "lexer", "preprocessed", "shared_memory")
    ),
)
_PREPROCESSED, _FOR_HOST = "preprocessed.ii", "preprocessed_for_host.ii"
# Matches the headers of tkjit, the simulator and the standard library (names without a suffix, and C's headers).
_OWN_HEADERS = re.compile(
    r"tkjit/.*|(?:cub|thrust)/.*|cuda\w*\.h|cuda/\w+|mma\.h|cooperative_groups\S*|device_launch_parameters\.h|library_types\.h|\w+"
    r"|(?:assert|float|inttypes|limits|math|stdbool|stddef|stdint|stdio|stdlib|string|time)\.h"
)
# Matches headers whose operands have to be in the block's window, the memory in which the simulator places a block's
# shared memory (sim/detail/window.h). A static __shared__ variable is in it only if its declaration was translated.
_IN_WINDOW = re.compile(r"tkjit/(?:tensor_map|wgmma)\.cuh|cuda/(?:barrier|pipeline|ptx)")
# Matches code for clusters, whose blocks access static variables in each other's windows.
_OF_CLUSTERS = re.compile(r"\b(?:this_cluster|cluster_group|__cluster\w*)\b")
_DYNAMIC_SHARED = re.compile(r"\bextern\b[^;{}]*?\b__shared__\b")
# Matches torch's headers. They test __CUDA_ARCH__ to detect the host (tkjit/torch/simulated.h), but need no adapting.
_OF_TORCH = re.compile(r"(?:torch|ATen|c10|caffe2)/")
# The only torch header that does need adapting, because it launches kernels.
_LAUNCHES = "ATen/cuda/CUDAApplyUtils.cuh"
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^">]+)[">]', re.MULTILINE)


def may_be_needed(text: str) -> bool:
    """Return whether a source has inline PTX or clusters, or includes headers that may have to be adapted."""
    names = _INCLUDE.findall(text)
    return (
        "asm" in text
        or "cluster" in text
        or any(not _OWN_HEADERS.fullmatch(name) or _IN_WINDOW.fullmatch(name) for name in names)
    )


def is_needed(text: str, flags: Flags) -> bool:
    """Return whether a source has inline PTX or clusters, or includes a header that has to be adapted.

    Headers of tkjit and the system never have to be adapted, but some of tkjit's headers need static variables to be in
    the block's window.
    """
    if not may_be_needed(text):
        return False
    from tkjit.source.preprocessed import needs_adapting

    if needs_adapting(text, is_header=False) or _OF_CLUSTERS.search(text):
        return True
    has_static = needs_window = False
    for is_header, content in _with_headers(text, flags):
        if is_header and (needs_adapting(content, is_header=True) or _OF_CLUSTERS.search(content)):
            return True
        if _LAUNCHES in content:
            return True
        has_static |= "__shared__" in _DYNAMIC_SHARED.sub("", content)
        needs_window |= any(map(_IN_WINDOW.fullmatch, _INCLUDE.findall(content)))
        if has_static and needs_window:
            return True
    return False


def _with_headers(text: str, flags: Flags) -> Iterator[tuple[bool, str]]:
    """Yield the text of a source and of each user header that it may include, with whether the text is a header."""
    searched = [path for path in flags.include_dirs if path != SIMULATOR and not path.is_relative_to(INCLUDE)]
    waiting: list[tuple[str, Path | None]] = [(text, None)]
    seen: set[Path] = set()
    while waiting:
        content, directory = waiting.pop()
        yield directory is not None, content
        for name in _INCLUDE.findall(content):
            if _OF_TORCH.match(name):
                continue
            places = [*([directory] if directory else []), *searched]
            path = next((path for each in places if (path := (each / name).resolve()).is_file()), None)
            if path is not None and path not in seen:
                seen.add(path)
                waiting.append((path.read_text(encoding="utf-8", errors="replace"), path.parent))


def _headers_ask_for_arch(text: str, flags: Flags) -> bool:
    return any(is_header and "__CUDA_ARCH__" in content for is_header, content in _with_headers(text, flags))


@cache
def digest() -> str:
    """Return a digest of the translator's code. Keys need it, because the rendered text lacks the translation."""
    return hashlib.sha256(b"\0".join(files.read(path) for path in TRANSLATOR)).hexdigest()[:16]


def translated(line: list[str], source: Path, text: str, flags: Flags, included: Iterable[str] = ()) -> list[Step]:
    """Return the steps that replace the command ``[..., "-x", "c++", source, ...]``, which compiles a C++ source.

    Parameters
    ----------
    text : str
        The user's source. Whether it is also preprocessed for the host depends on its headers.
    included : iterable of str
        Flags that include a precompiled header. The preprocessed text then names the header instead of containing it.
    """
    staging = source.parent
    preprocessed, for_host = staging / _PREPROCESSED, staging / _FOR_HOST
    at = line.index("-x")
    depfile = line.index("-MF")
    compile_flags = [flag for flag in line[1 : min(at, depfile - 1)] if not flag.startswith("-Wl,")]
    ptx = [*TRANSLATED, "-include", str(SIMULATOR / "ptx" / "ptx.h")]
    preprocess = [line[0], *ptx, *compile_flags, "-E", "-x", "c++", str(source)]
    dependencies = Path(line[depfile + 1])
    of_host = dependencies.with_suffix(".host.d")  # the dependencies of the text for the host
    compile_command = [
        *line[: depfile - 1],
        *line[depfile + 2 : at],
        "-x",
        "c++-cpp-output",
        str(preprocessed),
        *line[at + 3 :],
    ]

    def adapt() -> None:
        from tkjit.source.preprocessed import adapt_preprocessed

        files.write(preprocessed, adapt_preprocessed(_text(preprocessed), str(PACKAGE)))

    def take_host_branches() -> None:
        from tkjit.source.host_branches import with_host_branches, without_annotations

        merged = with_host_branches(_text(preprocessed), _text(for_host))
        files.write(preprocessed, without_annotations(merged))
        files.write(dependencies, joined_rules(map(_text, (dependencies, of_host))))
        for path in (for_host, of_host):
            path.unlink()

    if not _headers_ask_for_arch(text, flags):
        preprocess[1:1] = [*included, "-fpch-preprocess"] if included else []
        return [
            [*preprocess, "-MD", "-MF", str(dependencies), "-o", str(preprocessed)],
            adapt,
            compile_command,
            preprocessed.unlink,
        ]
    preprocess.insert(1, "-DTKJIT_SIM_KEEPS_ANNOTATIONS")
    both: list[Step] = [
        [*preprocess, "-MD", "-MF", str(dependencies), "-o", str(preprocessed)],
        [*preprocess, "-DTKJIT_SIM_FOR_HOST", "-MD", "-MF", str(of_host), "-o", str(for_host)],
    ]
    return [*both, take_host_branches, adapt, compile_command, preprocessed.unlink]


def joined_rules(rules: Iterable[str]) -> str:
    """Merge several make rules into one rule with all their dependencies.

    >>> joined_rules(["a.o: a.cu a.h\\n", "b.o: b.cu\\n"])
    'program: a.cu a.h b.cu\\n'
    """
    return "program:" + "".join(rule.partition(":")[2].rstrip("\n") for rule in rules) + "\n"


def _text(path: Path) -> str:
    return files.read(path).decode(errors="replace")


def repair(log: str, staging: Path) -> bool:
    """Add the keywords that the compiler misses in the adapted text. Return whether the text has changed."""
    from tkjit.source.keywords import repaired

    preprocessed = staging / _PREPROCESSED
    if not preprocessed.exists():
        return False
    text = repaired(_text(preprocessed), log)
    if text is None:
        return False
    files.write(preprocessed, text)
    return True
