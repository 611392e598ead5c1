"""Extensions ahead of time: ``TKJIT_RECORD``, ``warmup``, ``bundle`` and ``why``."""

from __future__ import annotations

from pathlib import Path

import pytest

from tkjit.cli import main
from tkjit.errors import CacheError
from tkjit.extensions.record import Loaded, read_extensions, record_extension
from tkjit.extensions.sources import CUDA_SYMBOLS, Extension, Source

KERNEL = """
#include <torch/extension.h>
__global__ void twice_kernel(const float* x, float* y, int n) {
    if (threadIdx.x < n) y[threadIdx.x] = 2 * x[threadIdx.x];
}
torch::Tensor twice(torch::Tensor x) {
    auto y = torch::empty_like(x);
    twice_kernel<<<1, 32>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.numel());
    return y;
}
"""


def extension(**changes: object) -> Extension:
    sources = (Source("main.cpp", None, "int a;"), CUDA_SYMBOLS, Source("k.cu", Path("/src"), '#include "k.cu"\n'))
    options = {"archs": ("90a",), "cuda_flags": ("-O3",), "include_dirs": (Path("/include"),), **changes}
    return Extension("mine", sources, **options)  # type: ignore[arg-type]


def test_record_lists_what_was_loaded(tmp_path):
    path = tmp_path / "record"
    listed = [Loaded(extension()), Loaded(extension(archs=("cpu",))), Loaded(extension(), is_python_module=False)]
    for loaded in [*listed, listed[0]]:
        record_extension(path, loaded)
    assert read_extensions(path) == listed
    assert str(CUDA_SYMBOLS.directory) not in path.read_text(), "tkjit's directory differs between machines"


@pytest.mark.parametrize("line", ['{"extension": {}}', '{"extension": 3}', "{"])
def test_invalid_record_is_reported(tmp_path, line):
    path = tmp_path / "record"
    path.write_text(line)
    with pytest.raises(CacheError, match="record:1 is not a line that"):
        read_extensions(path)


@pytest.mark.compiles
@pytest.mark.slow  # compiles an extension twice
def test_recorded_run_works_on_a_machine_that_must_not_compile(tmp_path, fresh, monkeypatch, capsys):
    source, record, bundle = tmp_path / "twice.cu", tmp_path / "record", tmp_path / "bundle"
    source.write_text(KERNEL)
    code = (
        "import torch\nfrom tkjit import cpp_extension\n"
        f"print(cpp_extension.load('ahead', [{str(source)!r}]).twice(torch.ones(2)).tolist())"
    )
    assert fresh.run(code, TKJIT_RECORD=str(record)) == "[2.0, 2.0]\n"
    assert main(["why", "--from-file", str(record)]) == 0
    assert capsys.readouterr().out.count("hit ") == 4  # the functions, two objects, the module
    assert main(["bundle", "--from-file", str(record), "-o", str(bundle)]) == 0
    assert "5 ready (5 from the cache), 0 failed" in capsys.readouterr().out  # these four, and the runtime
    empty = {"TKJIT_CACHE": str(tmp_path / "empty"), "TKJIT_JIT": "0"}
    assert fresh.run(code, TKJIT_CACHE_READONLY=str(bundle), **empty) == "[2.0, 2.0]\n"
    failed = fresh.start(code, **empty).wait()
    assert "twice.cu of the extension ahead is not in the cache" in failed.stderr

    monkeypatch.setenv("TKJIT_CACHE", str(tmp_path / "another"))
    source.write_text(KERNEL.replace("2 * x", "y_ * x"))
    assert main(["warmup", "--from-file", str(record)]) == 1
    assert "y_" in (printed := capsys.readouterr().err) and "was not declared" in printed
    source.unlink()
    for command in ("warmup", "why"):
        assert main([command, "--from-file", str(record)]) == 1
        output = capsys.readouterr()
        assert f"cannot read {source}: No such file" in output.out + output.err
