"""Exports in Go and Rust, tested by the tools of both languages (``make test-export`` installs Debian's)."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
import torch

import tkjit

pytestmark = pytest.mark.languages
HERE = Path(__file__).parent
EXAMPLES = HERE.parents[1] / "examples"
UNDER_STRESS = {"GOGC": "1", "GODEBUG": "cgocheck=2", "GOFLAGS": "-mod=mod", "GOPROXY": "off"}


def run(command: list[str], directory: Path, **environment: str) -> str:
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, env={**os.environ, **environment})
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def go() -> str:
    if found := shutil.which("go"):
        return found
    pytest.skip("no Go; install it: apt-get install golang-go")


@pytest.fixture(scope="module")
def cargo() -> str:
    if found := shutil.which("cargo"):
        return found
    pytest.skip("no Rust; install it: apt-get install cargo")


def test_go(go, zoo_directory, tmp_path):
    module = Path(shutil.copytree(zoo_directory, tmp_path / "zoo", symlinks=True))
    assert run([str(Path(go).with_name("gofmt")), "-l", "."], module) == ""
    run([go, "vet", "."], module)
    shutil.copy(HERE / "languages/zoo_test.go", module)
    run([go, "test", "-race", "-count=3", "."], module, **UNDER_STRESS)


def test_example_in_go(go, tmp_path):
    """A package on top of an export, as a user would write one."""
    shutil.copytree(EXAMPLES / "go", tmp_path / "go")
    kernels = ["gemm", "softmax", "relu"]
    path = os.pathsep.join([str(EXAMPLES / "go/kernels"), os.environ.get("TKJIT_KERNEL_PATH", "")]).rstrip(os.pathsep)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TKJIT_KERNEL_PATH", path)
        tkjit.export(*kernels, name="layers", output=tmp_path / "go/layers", languages=["go"], types=["float32"])
    run([go, "vet", "./..."], tmp_path / "go")
    run([go, "test", "-race", "./..."], tmp_path / "go", **UNDER_STRESS)


@pytest.mark.slow
def test_libtorch_tensors_in_go(go, zoo_directory, tmp_path):
    module = Path(shutil.copytree(zoo_directory, tmp_path / "zoo", symlinks=True))
    for name in ("libtorch_test.go", "libtorch_helper.go", "libtorch_helper.cc"):
        shutil.copy(HERE / "languages" / name, module)
    root = Path(torch.__file__).parent
    abi = f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}"
    include = f"-I{root}/include -I{root}/include/torch/csrc/api/include"
    environment = {
        **UNDER_STRESS,
        "CGO_CXXFLAGS": f"-std=c++20 -O0 {abi} {include}",
        "CGO_LDFLAGS": f"-L{root}/lib -ltorch -ltorch_cpu -lc10 -Wl,-rpath,{root}/lib",
    }
    run([go, "test", "-tags", "libtorch", "-run", "Torch", "."], module, **environment)


def test_reserved_names_compile_in_every_language(go, cargo, tmp_path):
    """Each language compiles a kernel whatever its name, its parameters and its docstring are."""
    from support.hostile import ALL

    output = tkjit.export(*ALL, name="hostile", output=tmp_path / "hostile", languages=["cpp", "go", "rust"])
    run([go, "vet", "."], output)
    assert run([str(Path(go).with_name("gofmt")), "-l", "."], output) == ""
    run([cargo, "build", "--offline"], output, RUSTFLAGS="-D warnings")
    for source, compiler in (("hostile.h", "gcc -std=c99 -pedantic -x c"), ("hostile.hpp", "g++ -std=c++17 -x c++")):
        strict = ["-Wall", "-Wextra", "-Werror", "-fsyntax-only"]
        run([*compiler.split(), *strict, f"include/{source}"], output)


def test_rust(cargo, zoo_directory, tmp_path):
    crate = Path(shutil.copytree(zoo_directory, tmp_path / "zoo", symlinks=True))
    (crate / "tests").mkdir()
    shutil.copy(HERE / "languages/zoo.rs", crate / "tests")
    run([cargo, "test", "--offline"], crate, RUSTFLAGS="-D warnings")
