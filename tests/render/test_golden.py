"""The rendered texts of three kernels, held as files."""

from __future__ import annotations

import difflib
from pathlib import Path

import pytest

import tkjit

GOLDEN = Path(__file__).parent / "golden"
VARIANTS = {"axpy": "bfloat16", "softmax": "float32", "gemm": "float16"}


@pytest.mark.parametrize("file", ["glue.cpp", "launcher.cu"])
@pytest.mark.parametrize("name", VARIANTS)
def test_rendered_text(name, file, request):
    rendered = tkjit.find(name).render(T=VARIANTS[name])
    text = rendered.glue if file == "glue.cpp" else rendered.launcher
    golden = GOLDEN / f"{name}.{file}"
    if request.config.getoption("--update-golden"):
        golden.write_text(text)
    expected = golden.read_text() if golden.exists() else ""
    if text != expected:
        lines = (t.splitlines(keepends=True) for t in (expected, text))
        diff = "".join(difflib.unified_diff(*lines, f"tests/render/golden/{golden.name}", "rendered now"))
        pytest.fail(f"{diff}\nIf this is what should be rendered, `make golden` updates the files.", pytrace=False)
