"""ThunderKittens' kernels compile from their own sources, for the GPUs that they are written for."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.thunderkittens import CALLED, DIRECTORY, KERNELS, arch_of, arguments, calls

import tkjit
from tkjit import registry
from tkjit.compile.targets import gpu_target
from tkjit.config import Settings
from tkjit.errors import ToolchainError
from tkjit.headers import locate
from tkjit.spec import variants_of
from tkjit.spec.plain import is_plain

pytestmark = pytest.mark.nvcc
CHOICES = [
    pytest.param(spec, variant, id=" ".join(filter(None, (spec.name, f"{number or ''}", str(variant)))))
    for name in KERNELS
    for number, spec in enumerate(tkjit.find(name).specs)
    for variant in variants_of(spec)
]
# read before the tests get their own cache, because `headers add` installs into the user's cache
SETTINGS = Settings.from_environment()


@pytest.fixture
def placed(loader):
    """A function that locates a spec's headers. If they are missing, it skips the test and says how to install them."""

    def place(spec):
        try:
            located = locate(spec, SETTINGS)
        except ToolchainError as error:
            pytest.skip(str(error))
        for library in located.headers:
            # a complete toolkit may include the library
            if library.root is None and not (loader.toolchain.cuda_root / "include" / library.proof).is_file():
                pytest.skip(f"this CUDA toolkit has no {library.proof}: python -m tkjit headers add {library.name}")
        return located

    return place


@pytest.mark.parametrize(("spec", "variant"), CHOICES)
def test_compiles(loader, placed, spec, variant):
    entry = loader.launcher(placed(spec), variant, gpu_target(arch_of(spec)))
    assert entry.manifest["registers"] > 0


@pytest.mark.parametrize("kernel", CALLED)
def test_glue_accepts_the_calls_that_verify_makes_on_a_gpu(placed, kernel, monkeypatch):
    for library in placed(tkjit.find(kernel).specs[0]).headers:
        if library.root:
            monkeypatch.setenv(library.variable, str(library.root))
    for call in calls(kernel):
        *_, struct_values = tkjit.make_globals(kernel, **arguments(call))
        assert set(struct_values) == {field.name for field in call.spec.struct_fields}


def test_every_source_with_a_kernel_has_a_spec(placed):
    root = placed(tkjit.find("tk_gemm").specs[0]).headers[0].root
    named = {source.place for name in KERNELS for spec in tkjit.find(name).specs for _, source in spec.sources}
    sources = {path.relative_to(root).as_posix() for path in (root / "kernels").rglob("*.cu")}
    without = {path for path in sources if f"<thunderkittens>/{path}" not in named}
    assert {Path(path).name for path in without if "/baselines/" not in path} == {"launch.cu"}


@pytest.mark.parametrize("name", KERNELS)
def test_kernel_is_listed_and_uses_only_sources_of_the_library(name):
    kernel = tkjit.find(name)
    assert name in tkjit.kernels()
    assert kernel.__doc__
    if not any(field.is_parallel for field in kernel.specs[0].fields):  # a barrier between devices computes nothing
        assert kernel.reference
    for spec in kernel.specs:
        assert spec.name == name
        for _, source in spec.sources:
            assert source.place.startswith("<thunderkittens>/kernels/")
            assert source.text is None


@pytest.mark.parametrize("path", registry.spec_files(DIRECTORY), ids=lambda path: path.stem)
def test_spec_file_is_plain(path):
    assert is_plain(path.read_text()), "a warm call would run the file"
