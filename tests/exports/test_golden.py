"""The texts of an export, which read as if written by hand, compared with files."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.golden import compare

import tkjit
from tkjit.compile.targets import Target
from tkjit.exports.c_header import render_header
from tkjit.exports.cpp_wrapper import render_wrapper
from tkjit.exports.go_package import render_go
from tkjit.exports.model import Export
from tkjit.exports.packaging import render_packaging, render_readme
from tkjit.exports.python_functions import Copies
from tkjit.exports.rust_crate import render_rust
from tkjit.render.exported import Code, ExportedFunction, render_library
from tkjit.render.torch_binding import BINDINGS, render_binding
from tkjit.render.torch_python import render_package

GOLDEN = Path(__file__).parent / "golden"
EXPORT = Export(
    "layers",
    tuple(tkjit.find(name).specs for name in ("axpy", "softmax")),
    (Target("cpu", "x86-64-v3"), Target("90a")),
    types=("float32",),
)


def library() -> str:
    functions = []
    for signature in EXPORT.signatures:
        variants = EXPORT.variants(signature.spec)
        code = [
            [
                Code(f"layers_code_{i}" if is_kept else "", f"{signature.name} for {target.name}", target.is_cpu)
                for i, target in enumerate(EXPORT.targets)
            ]
            for _, is_kept in variants
        ]
        functions.append(ExportedFunction(signature, [variant for variant, _ in variants], code))
    return render_library("layers", functions, [target.name for target in EXPORT.targets], "axpy=7")


def texts() -> dict[str, str]:
    header, _ = render_header(EXPORT)
    go, rust = render_go(EXPORT), render_rust(EXPORT, "axpy=7")
    softmax = EXPORT.signatures[1].spec
    gradients = {"softmax": Copies({}).gradient("softmax", softmax.backward.function)}
    return {
        "layers.h": header,
        "layers.hpp": render_wrapper(EXPORT),
        "layers.cpp": library(),
        "kernels.go": go["kernels.go"],
        "kernels.rs": rust["src/kernels.rs"],
        "ffi.rs": rust["src/ffi.rs"],
        "README.md": render_readme(EXPORT, ("c", "cpp", "go", "rust")),
        "layers.pc": render_packaging(EXPORT)["lib/pkgconfig/layers.pc"],
        **{
            f"torch_binding_{binding}.cpp": render_binding("layers", EXPORT.signatures, binding, ["cpu", "cuda"])
            for binding in BINDINGS
        },
        "torch_package.py.txt": render_package("layers", EXPORT.signatures, gradients),
    }


TEXTS = texts()


@pytest.mark.parametrize("name", TEXTS)
def test_rendered_text(name, request):
    compare(GOLDEN / name, TEXTS[name], request)
