"""Install commands in code and documents name packages that exist, and can be pasted into any shell."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tkjit.spec import LIBRARIES

ROOT = Path(__file__).parents[2]
PLACES = ["tkjit", "docs", "benchmarks", "tests", "notebooks", "README.md", "CONTRIBUTING.md", "examples/package"]
KINDS = (".py", ".md", ".h", ".cpp", ".ipynb")
FILES = [
    path
    for place in PLACES
    for path in ([ROOT / place] if (ROOT / place).is_file() else sorted((ROOT / place).rglob("*")))
    if path.suffix in KINDS and path != Path(__file__)
]
TEXTS = {str(path.relative_to(ROOT)): path.read_text() for path in FILES}
EXTRAS = set(
    re.findall(r"^(\w+) = \[", (ROOT / "pyproject.toml").read_text().partition("optional-dep")[2], re.MULTILINE)
)
# the packages that install commands may name, as they are called on PyPI and in Debian
ON_PYPI = {
    *("nvidia-cuda-cccl", "nvidia-cuda-cuobjdump", "ninja", "torch", "cupy-cuda13x", "flashinfer-python"),
    *("apache-tvm-ffi", "libclang", "matplotlib"),
}
IN_DEBIAN = {
    *("g++", "git", "gdb", "binutils", "cmake", "clang", "libclang-rt-dev", "cargo", "golang-go", "pkg-config"),
    *("openssh-server", "nginx-light", "libtrilinos-kokkos-kernels-dev", "libtrilinos-kokkos-dev", "python3-dev"),
    *("libeigen3-dev", "chromium", "libnanoflann-dev", "librange-v3-dev", "libclang-rt-14-dev"),
    *("libgcc-12-dev", "libstdc++-12-dev"),
}


def found(pattern: str) -> list[tuple[str, str]]:
    return [(name, match[1]) for name, text in TEXTS.items() for match in re.finditer(pattern, text)]


def test_extras_exist_and_are_quoted():
    extras = found(r"""(?:tkjit|'\.|"\.)\[([a-z]+)\]""")
    assert len(extras) > 10
    assert [hint for hint in extras if hint[1] not in EXTRAS] == []
    # zsh treats unquoted brackets as a pattern
    bare = [hint for hint in found(r"pip install ((?:tkjit|\.)\[\w+\])") if not hint[0].startswith("tests/")]
    assert bare == []


def test_packages_of_pypi_exist():
    named = found(r"pip install (?:-[\w-]+ )*([a-z][\w-]*)\b(?![\[/])") + found(
        r"pip_install\(\W?([a-z][\w-]*)\b(?!\[)"
    )
    unknown = {hint for hint in named if hint[1] not in ON_PYPI | {"tkjit", "requirements", "library", "nvrtc", "f"}}
    assert unknown == set()


def test_packages_of_debian_exist():
    lists = found(r"apt-get install ((?:--yes )?[a-z][\w+ .-]*[\w+])") + found(r"system_install\(\W([\w+-]+)\W")
    named = {(name, word) for name, words in lists for word in words.split() if word != "--yes"}
    words_of_sentences = {"libgcc", "where", "in", "and", "it", "brings", "makes", "or", "package"}
    assert {hint for hint in named if hint[1] not in IN_DEBIAN | words_of_sentences} == set()


@pytest.mark.parametrize("name", sorted({name for _, name in found(r"headers add ([a-z][\w-]+)")}))
def test_header_libraries_can_be_added(name):
    assert name in LIBRARIES and not LIBRARIES[name].package
