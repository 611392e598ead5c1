"""The choice of sources that are preprocessed before they are adapted, and the translator's part of their keys."""

from __future__ import annotations

from pathlib import Path

import pytest

from tkjit.compile.flags import Flags
from tkjit.loader import translation


def test_a_source_or_header_with_asm_is_preprocessed(tmp_path: Path):
    (tmp_path / "outer.h").write_text('#include "inner.h"\n')
    inner = tmp_path / "inner.h"
    inner.write_text("inline int f() { return 1; }\n")
    flags = Flags((), (f"-I{tmp_path}",))
    source = '#include "outer.h"\n'
    assert not translation.is_needed(source, flags)
    asks = "#ifdef __CUDA_ARCH__\n#endif\n"
    for text in (
        'inline void f() { asm("trap;"); }',
        "void g() { f<<<1, 2>>>(); }",
        "extern __shared__ int x[];",
        asks,
    ):
        inner.write_text(text)
        assert translation.is_needed(source, flags), text
    assert translation.is_needed('__device__ void f() { asm volatile("trap;"); }', Flags(()))


@pytest.mark.parametrize(
    ("shared", "expected"),
    [
        ("__shared__ float x[2];", True),
        ("extern __shared__ float x[];", False),
        ("extern __align__(16) __shared__ int x[];", False),
    ],
)
def test_a_source_whose_static_tiles_must_be_in_the_window_is_preprocessed(shared, expected):
    source = f"#include <tkjit/tensor_map.cuh>\n__global__ void f() {{ {shared} }}\n"
    assert translation.is_needed(source, Flags(())) is expected


def test_torchs_headers_are_ignored(tmp_path: Path):
    (tmp_path / "c10").mkdir()
    (tmp_path / "c10" / "Half.h").write_text("#ifdef __CUDA_ARCH__\n#endif\n")
    assert not translation.is_needed("#include <c10/Half.h>\n", Flags((), (f"-I{tmp_path}",)))


@pytest.mark.parametrize(
    "text, expected",
    [
        ("#include <cuda_bf16.h>\n#include <vector>\n#include <tkjit/gl.h>\n", False),
        ('#include "mine.cuh"\n', True),
        ("#include <cutlass/cutlass.h>\n", True),
    ],
)
def test_sources_with_only_known_headers_need_no_further_search(text, expected):
    assert translation.may_be_needed(text) is expected


def test_the_digest_changes_with_the_translator(tmp_path, monkeypatch):
    before = translation.digest()
    copy = tmp_path / "moves.py"
    copy.write_text("# another")
    monkeypatch.setattr(translation, "TRANSLATOR", (*translation.TRANSLATOR, copy))
    translation.digest.cache_clear()
    try:
        assert translation.digest() != before
    finally:
        translation.digest.cache_clear()


def test_a_command_becomes_steps_with_the_same_flags(tmp_path: Path):
    source = tmp_path / "launcher.cu"
    line = ["g++", "-O2", "-MD", "-MF", "deps.d", "-x", "c++", str(source), "-o", "out.so", "-x", "none", "sim.o"]
    preprocess, adapt, compiled, clean = translation.translated(line, source, "", Flags(()))
    assert isinstance(preprocess, list) and isinstance(compiled, list) and callable(adapt) and callable(clean)
    assert preprocess[:2] == ["g++", "-DTKJIT_SIM_TRANSLATES"] and preprocess[-2:] == [
        "-o",
        str(tmp_path / "preprocessed.ii"),
    ]
    assert {"-O2", "-E", "deps.d", str(source)} <= set(preprocess) and "sim.o" not in preprocess
    assert compiled == ["g++", "-O2", "-x", "c++-cpp-output", str(tmp_path / "preprocessed.ii"), *line[8:]]


def test_a_source_whose_headers_test_the_architecture_is_preprocessed_twice(tmp_path: Path):
    (tmp_path / "asks.h").write_text("#ifdef __CUDA_ARCH__\n#endif\n")
    line = ["g++", "-MD", "-MF", "deps.d", "-x", "c++", "launcher.cu", "-o", "out.so"]
    flags = Flags((), (f"-I{tmp_path}",))
    steps = translation.translated(line, tmp_path / "launcher.cu", '#include "asks.h"\n', flags)
    device, host = [step for step in steps[:2] if isinstance(step, list)]
    assert "deps.d" in device and "deps.host.d" in host
    assert "-DTKJIT_SIM_FOR_HOST" in host and "-DTKJIT_SIM_FOR_HOST" not in device
    assert "-DTKJIT_SIM_KEEPS_ANNOTATIONS" in device and "-DTKJIT_SIM_KEEPS_ANNOTATIONS" in host
