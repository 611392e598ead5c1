"""The rendered texts of three kernels, compared with files."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.golden import compare

import tkjit

GOLDEN = Path(__file__).parent / "golden"
VARIANTS = {"axpy": "bfloat16", "softmax": "float32", "gemm": "float16"}


@pytest.mark.parametrize("file", ["glue.cpp", "launcher.cu"])
@pytest.mark.parametrize("name", VARIANTS)
def test_rendered_text(name, file, request):
    rendered = tkjit.find(name).render(T=VARIANTS[name])
    text = rendered.glue if file == "glue.cpp" else rendered.launcher
    compare(GOLDEN / f"{name}.{file}", text, request)
