"""Bindings of an empty function by other libraries: three float32 tensors and a float, for one type of device.

Each is written as in its own documentation, built with -O2 or better, and raises an error if it is not available.
``Checks`` lists what a call checks in addition to getting tensors and a number. tkjit checks each tensor's dtype,
device, contiguity, dimensions and extents (all three must agree), handles gradients and views, and takes keywords.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Sequence
from functools import cache, partial
from importlib import import_module
from importlib.machinery import ExtensionFileLoader, ModuleSpec
from importlib.util import module_from_spec
from pathlib import Path
from typing import Any

import ninja
import torch

from tkjit.compile.toolchain import Toolchain
from tkjit.config import Settings
from tkjit.errors import ToolchainError
from tkjit.headers import find_root
from tkjit.spec import LIBRARIES

Function = Callable[..., object]


def tvm_ffi(device: str) -> Function:
    """Checks: nothing."""
    cpp = import_module("tvm_ffi.cpp")
    _put_ninja_on_path()
    name = f"nothing_tvm_ffi_{device}"
    source = f"void {name}(tvm::ffi::TensorView x, tvm::ffi::TensorView y, tvm::ffi::TensorView z, double alpha) {{}}"
    with tempfile.TemporaryDirectory() as directory:
        module = cpp.load_inline(name, cpp_sources=source, functions=[name], build_directory=directory)
    function: Function = module[name]
    return function


def nanobind(device: str) -> Function:
    """Checks: dtype, device, contiguity and number of dimensions."""
    package = Path(import_module("nanobind").source_dir()).parent
    source = """
#include <nanobind/ndarray.h>
#include "nb_combined.cpp"  // nanobind's library, which its CMake functions would compile

template <typename T>
using vector = nanobind::ndarray<T, nanobind::ndim<1>, nanobind::device::DEVICE, nanobind::c_contig>;

NB_MODULE(TORCH_EXTENSION_NAME, module) {
    // noconvert, because a conversion would copy a tensor of another dtype or layout, even the output z
    module.def("nothing", [](vector<const float> x, vector<const float> y, vector<float> z, float alpha) {},
               nanobind::arg().noconvert(), nanobind::arg().noconvert(), nanobind::arg().noconvert(), nanobind::arg());
}
"""
    flags = ["-O3", "-fvisibility=hidden", "-fno-strict-aliasing", "-DNDEBUG", "-DNB_COMPACT_ASSERTIONS"]
    paths = [str(package / path) for path in ("src", "include", "ext/robin_map/include")]
    module = _load_inline("nothing_nanobind", device, source, extra_cflags=flags, extra_include_paths=paths)
    function: Function = module.nothing
    return function


def pybind11(device: str) -> Function:
    """Checks: nothing; this is torch's own caster of ``at::Tensor``."""
    source = """
#include <torch/extension.h>

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {
    module.def("nothing", [](const at::Tensor& x, const at::Tensor& y, at::Tensor z, double alpha) {});
}
"""
    function: Function = _load_inline("nothing_pybind11", device, source).nothing
    return function


@cache
def torch_op_packet(device: str) -> Any:
    """Checks: that the tensors' device has an implementation. Chooses the overload at each call."""
    source = """
#include <torch/library.h>

void nothing(const at::Tensor& x, const at::Tensor& y, const at::Tensor& z, double alpha) {}

TORCH_LIBRARY(TORCH_EXTENSION_NAME, library) {
    library.def("nothing(Tensor x, Tensor y, Tensor(a!) z, float alpha) -> ()");
}
TORCH_LIBRARY_IMPL(TORCH_EXTENSION_NAME, KEY, library) { library.impl("nothing", nothing); }
"""
    _load_inline("nothing_torch_op", device, source, is_python_module=False)
    return getattr(torch.ops, f"nothing_torch_op_{device}").nothing


def torch_op(device: str) -> Function:
    """Checks: the same as the packet, but the overload is chosen beforehand."""
    function: Function = torch_op_packet(device).default
    return function


def ctypes_function(device: str) -> Function:
    """Checks: nothing; takes ``x.data_ptr()``."""
    source = 'extern "C" void nothing(const float* x, const float* y, float* z, float alpha) {}'
    with tempfile.TemporaryDirectory() as directory:
        library = Path(directory, "nothing.so")
        _compile([_toolchain(directory).cxx.path, "-O2"], source, library)
        function = ctypes.CDLL(str(library)).nothing
    function.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_float]
    function.restype = None
    return function


def torch_add(device: str) -> Function:
    """Checks: everything that torch checks. Also computes the sums; on a GPU that is a kernel launch."""
    return torch.add


# The peers below launch an empty kernel of one block on the current stream, which is the default stream.


def bare_loop(device: str) -> Function:
    """Checks: nothing. The lower bound, with no Python between launches. Takes their number and ``x.data_ptr()``."""
    source = """
__global__ void empty(const float* x, const float* y, float* z, float alpha) {}

extern "C" int launch(int times, const float* x, const float* y, float* z, float alpha) {
    for (int i = 0; i < times; ++i) empty<<<1, 256>>>(x, y, z, alpha);
    return cudaGetLastError();
}
"""
    with tempfile.TemporaryDirectory() as directory:
        tools = _toolchain(directory)
        nvcc: list[str | Path] = [tools.nvcc.path, "-O3", "-arch=native", "-cudart=static", f"-ccbin={tools.cxx.path}"]
        library = Path(directory, "launch.so")
        _compile([*nvcc, f"-L{tools.cuda_root / 'lib'}", "-x", "cu", "-Xcompiler"], source, library)
        function = ctypes.CDLL(str(library)).launch
    function.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_float]
    if error := function(1, None, None, None, 1.0):
        raise RuntimeError(f"cudaError_t {error}: a failing launch is not a lower bound")
    return function


def triton(device: str) -> Any:
    """Checks: dtype and alignment, which select the compiled variant."""
    return import_module("triton").jit(_empty_in_triton)


def _empty_in_triton(x, y, z, alpha):  # type: ignore[no-untyped-def]
    pass


def cupy(device: str) -> Function:
    """Checks: nothing; takes ``x.data_ptr()``, and passes a Python float as a double."""
    source = 'extern "C" __global__ void empty(const float* x, const float* y, float* z, double alpha) {}'
    function: Function = import_module("cupy").RawKernel(source, "empty")
    return function


def _load_inline(name: str, device: str, source: str, **options: object) -> Any:
    """Call torch's ``load_inline`` without implicit headers; the device is part of names that must be unique."""
    from torch.utils import cpp_extension

    _put_ninja_on_path()
    name = f"{name}_{device}"
    source = source.replace("DEVICE", device).replace("KEY", device.upper())
    merged = {"extra_cflags": ["-O2"], "no_implicit_headers": True, **options}
    with tempfile.TemporaryDirectory() as directory:
        return cpp_extension.load_inline(name, source, build_directory=directory, **merged)  # type: ignore[no-untyped-call]


@cache
def _put_ninja_on_path() -> None:
    os.environ["PATH"] = os.pathsep.join([ninja.BIN_DIR, str(Path(sys.executable).parent), os.environ["PATH"]])


def _toolchain(directory: str) -> Toolchain:
    return Toolchain(Settings.from_environment(), Path(directory, "tools.json"))


def _compile(command: Sequence[str | Path], source: str, library: Path) -> None:
    file = library.with_suffix(".cpp")
    file.write_text(source)
    subprocess.run([*command, "-fPIC", "-shared", file, "-o", library], check=True)


def pyutils(device: str) -> Function:
    """ThunderKittens' own binding. Checks: contiguity and device type, through attributes in Python.

    The binding rejects CPU tensors, so the tensors here report a GPU through a class attribute, which is faster to read
    than torch's. The function is a host function that does nothing, bound with ``bind_function``.
    """
    settings = Settings.from_environment()
    try:
        root = find_root(LIBRARIES["thunderkittens"], settings)
    except ToolchainError as error:
        raise ModuleNotFoundError(str(error), name="ThunderKittens") from None
    assert root is not None  # find_root returns None only for libraries of a toolkit
    source = """
#include <chrono>
#include "kittens.cuh"
#include "pyutils/pyutils.cuh"
using namespace kittens;
struct nothing_globals { gl<float, 1, 1, 1, -1> x, y, z; float alpha; };
void nothing(nothing_globals) {}
PYBIND11_MODULE(nothing_pyutils, m) {
    py::bind_function<nothing>(m, "nothing", &nothing_globals::x, &nothing_globals::y, &nothing_globals::z,
                               &nothing_globals::alpha);
}
"""
    directory = Path(tempfile.mkdtemp())
    (directory / "nothing.cu").write_text(source)
    paths = [root / "include", Path(torch.__file__).parent / "include", sysconfig.get_path("include")]
    toolchain = Toolchain(settings, directory / "tools.json")
    command = [
        str(toolchain.nvcc.path),
        "-std=c++20",
        "-O3",
        "-gencode=arch=compute_90a,code=sm_90a",
        "-DKITTENS_HOPPER",
        "-shared",
    ]
    command += ["-Xcompiler=-fPIC", "--expt-relaxed-constexpr", "--expt-extended-lambda"]
    command += [f"-L{toolchain.cuda_root / 'lib'}", *(f"-I{path}" for path in paths)]
    library = directory / f"nothing_pyutils{sysconfig.get_config_var('EXT_SUFFIX')}"
    subprocess.run([*command, str(directory / "nothing.cu"), "-o", str(library)], check=True, capture_output=True)
    loader = ExtensionFileLoader("nothing_pyutils", str(library))
    module = module_from_spec(ModuleSpec("nothing_pyutils", loader, origin=str(library)))
    loader.exec_module(module)

    class OnGpu:
        type = "cuda"

    class Tensor(torch.Tensor):
        device = OnGpu()  # type: ignore[assignment]
        __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    vectors = [torch.randn(8).as_subclass(Tensor) for _ in range(3)]
    return partial(module.nothing, *vectors, 1.0)
