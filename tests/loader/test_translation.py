"""Which sources are preprocessed before they are adapted, and what is in their keys."""

from __future__ import annotations

from pathlib import Path

import pytest

from tkjit.compile.flags import Flags
from tkjit.loader import translation


def test_a_source_or_a_header_with_asm_is(tmp_path: Path):
    (tmp_path / "outer.h").write_text('#include "inner.h"\n')
    inner = tmp_path / "inner.h"
    inner.write_text("inline int f() { return 1; }\n")
    flags = Flags((), (f"-I{tmp_path}",))
    source = '#include "outer.h"\n'
    assert not translation.is_needed(source, flags)
    for text in ('inline void f() { asm("trap;"); }', "void g() { f<<<1, 2>>>(); }", "extern __shared__ int x[];"):
        inner.write_text(text)
        assert translation.is_needed(source, flags), text
    assert translation.is_needed('__device__ void f() { asm volatile("trap;"); }', Flags(()))


@pytest.mark.parametrize(
    "text, expected",
    [
        ("#include <cuda_bf16.h>\n#include <vector>\n#include <tkjit/gl.h>\n", False),
        ('#include "mine.cuh"\n', True),
        ("#include <cub/cub.cuh>\n", True),
    ],
)
def test_most_sources_are_looked_at_no_further(text, expected):
    assert translation.may_be_needed(text) is expected


def test_the_digest_follows_the_translator(tmp_path, monkeypatch):
    before = translation.digest()
    copy = tmp_path / "moves.py"
    copy.write_text("# another")
    monkeypatch.setattr(translation, "_TRANSLATOR", (*translation._TRANSLATOR, copy))
    translation.digest.cache_clear()
    try:
        assert translation.digest() != before
    finally:
        translation.digest.cache_clear()


def test_a_command_becomes_steps_of_the_same_flags(tmp_path: Path):
    source = tmp_path / "launcher.cu"
    line = ["g++", "-O2", "-MD", "-MF", "deps.d", "-x", "c++", str(source), "-o", "out.so", "-x", "none", "sim.o"]
    preprocess, adapt, compiled, clean = translation.translated(line, source)
    assert isinstance(preprocess, list) and isinstance(compiled, list) and callable(adapt) and callable(clean)
    assert preprocess[:2] == ["g++", "-DTKJIT_SIM_TRANSLATES"] and preprocess[-2:] == [
        "-o",
        str(tmp_path / "preprocessed.ii"),
    ]
    assert {"-O2", "-E", "deps.d", str(source)} <= set(preprocess) and "sim.o" not in preprocess
    assert compiled == ["g++", "-O2", "-x", "c++-cpp-output", str(tmp_path / "preprocessed.ii"), *line[8:]]
