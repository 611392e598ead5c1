"""setuptools builds a package with an extension into one wheel for every version of torch and Python."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from textwrap import dedent

import abi3info
import pytest
import setuptools
import torch

from tkjit.errors import ArgumentError
from tkjit.extensions.build_ext import BuildExtension, CUDAExtension
from tkjit.extensions.pyproject import add_extensions
from tkjit.extensions.stable_abi import unstable_symbols, versions_of_c_functions

pytestmark = pytest.mark.compiles

SETUP = """
from setuptools import setup
from tkjit.cpp_extension import BuildExtension, CppExtension
setup(
    name="scaling",
    version="1.0",
    packages=["scaling"],
    ext_modules=[
        CppExtension(
            "scaling._C",
            ["csrc/scale.cpp", "csrc/operators.cpp"],
            include_dirs=["csrc"],
            define_macros=[("TIMES", "2"), ("TITLE", '"scales it"')],
            libraries=["c10", "torch_python"],
            extra_compile_args={"cxx": ["-O1"]},
        )
    ],
    cmdclass={"build_ext": BuildExtension},
)
"""
SCALE = """
#include <torch/extension.h>
#include "scale.h"

struct Scaler {
    double factor;
    at::Tensor apply(const at::Tensor& x) const { return x * factor; }
};
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    m.def("scale", &scale, py::arg("x"), py::arg("times") = TIMES);
    m.def("title", [] { return std::string(TITLE); });
    m.def("sizes", [](const at::Tensor& x) { return x.sizes().vec(); });
    py::class_<Scaler>(m, "Scaler").def(py::init<double>()).def("apply", &Scaler::apply);
}
"""
HEADER = """
#pragma once
#include <torch/extension.h>
at::Tensor scale(const at::Tensor& x, double times);
"""
OPERATORS = """
#include "scale.h"
at::Tensor scale(const at::Tensor& x, double times) {
    TORCH_CHECK(x.dim() == 1, "x: expected 1 dim, got ", x.dim());
    return at::mul(x, times);
}
TORCH_LIBRARY(scaling, m) { m.def("scale(Tensor x, float times) -> Tensor"); }
TORCH_LIBRARY_IMPL(scaling, CPU, m) { m.impl("scale", &scale); }
"""


def package(directory: Path, changed: Mapping[str, str] | None = None) -> Path:
    """Write a package's files, with some of them changed."""
    files = {
        "setup.py": SETUP,
        "scaling/__init__.py": "import torch\nfrom scaling._C import *\n",
        "csrc/scale.cpp": SCALE,
        "csrc/scale.h": HEADER,
        "csrc/operators.cpp": OPERATORS,
        **(changed or {}),
    }
    for name, text in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return directory


def pip_wheel(directory: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "-q", "-w", "dist", "."]
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """A directory with the files of the built wheel."""
    directory = package(tmp_path_factory.mktemp("package"))
    run = pip_wheel(directory)
    assert run.returncode == 0, run.stdout + run.stderr
    (wheel,) = (directory / "dist").iterdir()
    assert wheel.name.startswith("scaling-1.0-cp310-abi3-linux_")
    zipfile.ZipFile(wheel).extractall(directory / "installed")
    return directory / "installed"


def run_without_tkjit(directory: Path, code: str) -> subprocess.CompletedProcess[str]:
    preamble = f"import sys; sys.modules['tkjit'] = None; sys.path.insert(0, {str(directory)!r})\n"
    command = [sys.executable, "-c", preamble + dedent(code)]
    return subprocess.run(command, cwd="/", capture_output=True, text=True, check=False)


def test_wheel_runs_without_tkjit(installed):
    run = run_without_tkjit(
        installed,
        """
        import torch, scaling
        x = torch.arange(3.0)
        print(scaling.scale(x).tolist(), scaling.sizes(x), scaling.Scaler(0.5).apply(x).tolist())
        print(torch.ops.scaling.scale(x, 3.0).tolist(), scaling.title())
        try:
            scaling.scale(x[None])
        except RuntimeError as error:
            print(error)
        """,
    )
    assert run.stdout.splitlines() == [
        "[0.0, 2.0, 4.0] [3] [0.0, 0.5, 1.0]",
        "[0.0, 3.0, 6.0] scales it",
        "x: expected 1 dim, got 2",
    ], run.stderr


def test_wheel_needs_only_the_stable_abis(installed):
    (module,) = (installed / "scaling").glob("*.so")
    assert module.name == "_C.abi3.so"
    assert [*unstable_symbols(module)] == []
    listed = subprocess.run(
        ["nm", "-D", "--undefined-only", str(module)], capture_output=True, text=True, check=True
    ).stdout
    needed = {line.split()[-1] for line in listed.splitlines()}
    of_python = {name for name in needed if name.startswith(("Py", "_Py"))}
    stable = {
        symbol.name
        for symbol, entry in {**abi3info.FUNCTIONS, **abi3info.DATAS}.items()
        if (entry.added.major, entry.added.minor) <= (3, 10)
    }
    assert of_python
    assert of_python <= stable
    assert not {name for name in needed if "pybind11" in name}
    linked = subprocess.run(["readelf", "-d", str(module)], capture_output=True, text=True, check=True).stdout
    assert "libtorch_python" not in linked
    assert "libc10" not in linked


def test_second_library_with_the_same_operator_is_an_import_error(installed, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    (module,) = (installed / "scaling").glob("*.so")
    (other / module.name).write_bytes(module.read_bytes())
    run = run_without_tkjit(
        installed,
        f"""
        import torch, scaling
        sys.path.insert(0, {str(other)!r})
        try:
            import _C
        except ImportError as error:
            print("ImportError:", error)
        print(torch.ops.scaling.scale(torch.ones(1), 3.0).tolist())
        """,
    )
    lines = run.stdout.splitlines()
    assert lines[0].startswith("ImportError: it cannot register its operators: "), run.stderr
    assert "scaling" in lines[0]
    assert lines[-1] == "[3.0]", "the first library's operators stay"


def test_import_error_names_an_old_torch(installed, tmp_path):
    stub = tmp_path / "stub.c"
    stub.write_text("unsigned long aoti_torch_abi_version(void) { return 2ul << 56 | 9ul << 48; }\n")
    subprocess.run(["gcc", "-shared", "-fPIC", str(stub), "-o", str(tmp_path / "old.so")], check=True)
    code = f"import ctypes; ctypes.CDLL({str(tmp_path / 'old.so')!r}, mode=ctypes.RTLD_GLOBAL)\nimport scaling"
    run = run_without_tkjit(installed, code)
    assert "ImportError: this extension needs torch 2.11 or later, but this is torch 2.9" in run.stderr


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"csrc/operators.cpp": OPERATORS + "\n\nauto* of(at::Tensor& x) { return x.unsafeGetTensorImpl(); }\n"},
            "csrc/operators.cpp:11: unsafeGetTensorImpl is not in torch's stable ABI",
        ),
        pytest.param(
            {"csrc/operators.cpp": OPERATORS.replace("float times) ->", "int times) ->")},
            "the function of scaling::scale takes (Tensor, float), but its schema declares (Tensor, int)",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            {"csrc/operators.cpp": OPERATORS + "PyObject* first(PyObject* x) { return PyTuple_GET_ITEM(x, 0); }\n"},
            "operators.cpp:9",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            {"csrc/operators.cpp": OPERATORS + 'extern "C" int torch_of_tomorrow();\nint f = torch_of_tomorrow();\n'},
            "outside the stable ABI of torch 2.11: torch_of_tomorrow",
            marks=pytest.mark.slow,
        ),
        ({"setup.py": SETUP.replace("csrc/scale.cpp", "csrc/missing.cpp")}, "csrc/missing.cpp: there is no such file"),
        ({"setup.py": SETUP.replace('{"cxx"', '{"gcc"')}, "extra_compile_args has ['gcc']; expected 'cxx' and 'nvcc'"),
    ],
)
def test_build_errors(tmp_path, monkeypatch, changed, message):
    monkeypatch.delenv("TORCH_CUDA_ARCH_LIST", raising=False)
    run = pip_wheel(package(tmp_path, changed))
    assert run.returncode
    assert message in run.stdout + run.stderr


@pytest.mark.slow
def test_wheel_with_kernels_needs_architectures(tmp_path, monkeypatch):
    if torch.cuda.is_available():
        pytest.skip("needs a machine without a GPU, because a build uses the architecture of a GPU if there is one")
    monkeypatch.delenv("TORCH_CUDA_ARCH_LIST", raising=False)
    setup = SETUP.replace("CppExtension", "CUDAExtension").replace('"csrc/scale.cpp", ', '"csrc/scale.cu", ')
    directory = package(tmp_path, {"setup.py": setup})
    (directory / "csrc/scale.cu").write_text(SCALE)
    run = pip_wheel(directory)
    assert "TORCH_CUDA_ARCH_LIST='8.0;9.0a'" in run.stdout + run.stderr


def test_c_functions_have_a_torch_version():
    versions = versions_of_c_functions()
    assert versions["aoti_torch_get_dim"] == (0, 0)
    assert versions["torch_new_list_reserve_size"] == (2, 10)
    assert versions["torch_from_blob"] == (2, 11)


def test_dlink_libraries_are_rejected():
    with pytest.raises(ArgumentError, match="dlink_libraries"):
        CUDAExtension("a", ["a.cu"], dlink=True, dlink_libraries=["b"])


def test_pyproject_describes_an_extension(tmp_path, monkeypatch):
    package(tmp_path)
    (tmp_path / "pyproject.toml").write_text(
        dedent(
            """
            [project]
            name = "scaling"
            version = "1.0"

            [[tool.tkjit.extension]]
            name = "scaling._C"
            sources = ["csrc/*.cpp"]
            include-dirs = ["csrc"]
            define-macros = {TIMES = 2}
            cxx-flags = ["-O1"]
            """
        )
    )
    monkeypatch.chdir(tmp_path)
    distribution = setuptools.Distribution({"name": "scaling"})
    add_extensions(distribution)
    add_extensions(distribution)
    (extension,) = distribution.ext_modules
    assert extension.name == "scaling._C"
    assert extension.sources == ["csrc/operators.cpp", "csrc/scale.cpp"]
    assert (extension.include_dirs, extension.define_macros) == (["csrc"], [("TIMES", "2")])
    assert (extension.cxx_flags, extension.nvcc_flags) == (("-O1",), ())
    assert distribution.cmdclass["build_ext"] is BuildExtension


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ('name = "a"\nsources = ["csrc/*.cpp"]\nflags = []', r"unknown key flags in .*; expected .*'cxx-flags'"),
        ('name = "a"', "needs a name and sources"),
        ('name = "a"\nsources = ["*.cpp"]', r"no file matches \*.cpp"),
    ],
)
def test_mistakes_in_pyproject_are_reported(tmp_path, monkeypatch, table, message):
    package(tmp_path)
    (tmp_path / "pyproject.toml").write_text(f"[[tool.tkjit.extension]]\n{table}\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ArgumentError, match=message):
        add_extensions(setuptools.Distribution())


def test_other_projects_are_left_alone(tmp_path, monkeypatch):
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'other'\n")
    monkeypatch.chdir(tmp_path)
    distribution = setuptools.Distribution()
    add_extensions(distribution)
    assert not distribution.ext_modules
