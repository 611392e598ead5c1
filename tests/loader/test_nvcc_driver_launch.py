"""Launches of kernels that NVRTC compiles, with a fake driver that prints its calls."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import tkjit
from tkjit import InOut, Tensor
from tkjit.compile.targets import gpu_target
from tkjit.spec import Variant

pytestmark = pytest.mark.nvcc
HOPPER = gpu_target("90a")
DRIVER = Path(__file__).parents[1] / "support/driver/libcuda.c"

SCALE = "__global__ void scale(float* x, float factor, int n) { if (threadIdx.x < n) x[threadIdx.x] *= factor; }"

# runs in its own process, because a process looks for the driver once; it finds one that is already loaded
PROGRAM = """
import ctypes, os, sys
if os.environ["DRIVER"]:
    ctypes.CDLL(os.environ["DRIVER"])
from ctypes import c_char_p, c_double, c_int32, c_int64, c_void_p
from pathlib import Path

from tkjit.config import Settings
from tkjit.loader import loader_for

class Arg(ctypes.Structure):
    _fields_ = [("data", c_int64), ("extents", c_int64 * 8), ("strides", c_int64 * 8),
                ("rank", c_int32), ("dtype", c_int32), ("present", c_int32)]

launcher = c_void_p(loader_for(Settings.from_environment()).open_launcher(Path(sys.argv[1])))
function = c_void_p.from_address(launcher.value).value
call = ctypes.CFUNCTYPE(c_char_p, c_void_p, c_void_p, c_int32, c_void_p)(function)
extent, device, stream = map(int, sys.argv[2:5])
bits = ctypes.cast(ctypes.pointer(c_double(2.5)), ctypes.POINTER(c_int64)).contents.value
tensor = Arg(data=0x7000, rank=1, present=1)
tensor.extents[0] = extent
given = (Arg * 3)(tensor, Arg(data=bits, present=1), Arg(data=7, present=1))

def launch():
    error = call(launcher, given, device, c_void_p(stream))
    print("error", error.decode() if error else None, flush=True)

for _ in range(int(os.environ.get("LAUNCHES", "1"))):
    launch()
if "FORK" in os.environ:
    child = os.fork()
    if child == 0:
        launch()
        os._exit(0)
    os.waitpid(child, 0)
"""


@pytest.fixture(scope="module")
def driver(tmp_path_factory) -> Path:
    directory = tmp_path_factory.mktemp("driver")
    library = directory / "libcuda.so.1"
    command = ["gcc", "-shared", "-fPIC", "-w", "-Wl,-soname,libcuda.so.1", str(DRIVER), "-o", str(library)]
    subprocess.run(command, check=True)
    return library


def scale(**options) -> tkjit.Kernel:
    options = {"grid": "cdiv(N, 128)", "block": 128, **options}

    @tkjit.kernel(SCALE, entry="scale", args=True, compiler="nvrtc", **options)
    def scale(x: InOut[Tensor, "float32", "N"], factor: float, n: int) -> None: ...

    return scale


@pytest.fixture(scope="module")
def launcher(loader) -> Path:
    return loader.launcher(scale().specs[0], Variant(), HOPPER).shared_object


@pytest.fixture
def run(fresh):
    """Launch, and return the lines of the driver's calls and of the launch's results."""

    def launch(
        driver: Path | None, launcher: Path, *, extent: int = 300, device: int = 0, **environment: str
    ) -> list[str]:
        environment = {"DRIVER": str(driver or ""), "DRIVER_PARAMETERS": "8,4,4", **environment}
        return fresh.run(PROGRAM, launcher, extent, device, 0x5000, **environment).splitlines()

    return launch


def test_a_launch_makes_these_driver_calls(driver, launcher, run):
    assert run(driver, launcher) == [
        "cuInit 0",
        "cuThreadExchangeStreamCaptureMode 2",
        "cuLibraryLoadData a cubin 0 0",
        "cuLibraryGetKernel 0x11 _Z5scalePffi",
        "cuThreadExchangeStreamCaptureMode 0",
        "cuDevicePrimaryCtxRetain 100",
        "cuCtxPushCurrent 0x1064",
        "parameters 0070000000000000 00002040 07000000",
        "cuLaunchKernelEx 3,1,1 128,1,1 0 0x5000 0x22 (nil)",
        "cuCtxPopCurrent 1",
        "error None",
    ]


def test_the_cubin_is_loaded_once(driver, launcher, run):
    lines = run(driver, launcher, LAUNCHES="3")
    assert lines.count("cuLibraryLoadData a cubin 0 0") == lines.count("cuDevicePrimaryCtxRetain 100") == 1
    assert lines.count("cuLaunchKernelEx 3,1,1 128,1,1 0 0x5000 0x22 (nil)") == lines.count("error None") == 3


def test_a_current_context_of_the_device_is_used(driver, launcher, run):
    lines = run(driver, launcher, device=1, DRIVER_CONTEXT="1", LAUNCHES="2")
    about_contexts = [line for line in lines if line.startswith(("cuCtx", "cuDevicePrimary"))]
    assert about_contexts == 2 * ["cuCtxGetDevice 101"] and lines[-1] == "error None"


def test_the_primary_context_is_recognized_from_the_second_launch_on(driver, launcher, run):
    lines = run(driver, launcher, device=1, DRIVER_PRIMARY="1", LAUNCHES="3")
    about_contexts = [line for line in lines if line.startswith(("cuCtx", "cuDevicePrimary"))]
    assert about_contexts == ["cuCtxGetDevice 101", "cuDevicePrimaryCtxRetain 101"]
    assert lines.count("error None") == 3


def test_the_device_of_a_context_that_is_not_primary_is_queried_each_time(driver, launcher, run):
    lines = run(driver, launcher, device=1, DRIVER_CONTEXT="1", DRIVER_PRIMARY="1", LAUNCHES="3")
    assert lines.count("cuCtxGetDevice 101") == lines.count("error None") == 3
    assert lines.count("cuDevicePrimaryCtxRetain 101") == 1 and not any("Push" in line for line in lines)


def test_a_launch_succeeds_if_the_primary_context_cannot_be_retained(driver, launcher, run):
    refused = {"DRIVER_PRIMARY": "1", "DRIVER_FAILS": "cuDevicePrimaryCtxRetain=2"}
    lines = run(driver, launcher, device=1, LAUNCHES="2", **refused)
    assert lines.count("cuCtxGetDevice 101") == lines.count("error None") == 2
    assert lines.count("cuThreadExchangeStreamCaptureMode 2") == lines.count("cuThreadExchangeStreamCaptureMode 0")


def test_the_primary_context_of_another_device_is_not_used(driver, launcher, run):
    lines = run(driver, launcher, device=2, DRIVER_PRIMARY="1", LAUNCHES="2")
    assert lines.count("cuCtxPushCurrent 0x1066") == lines.count("cuCtxPopCurrent 1") == 2
    assert lines.count("cuDevicePrimaryCtxRetain 102") == 1


def test_a_current_context_of_another_device_is_replaced_during_the_launch(driver, launcher, run):
    lines = run(driver, launcher, device=2, DRIVER_CONTEXT="1")
    assert "cuCtxPushCurrent 0x1066" in lines and "cuCtxPopCurrent 1" in lines


def test_an_empty_grid_needs_no_driver(launcher, run):
    assert run(None, launcher, extent=0) == ["error None"]


def test_a_missing_driver_is_reported(launcher, run):
    (error,) = run(None, launcher)
    assert error.startswith("error there is no CUDA driver: libcuda.so.1: cannot open shared object file")
    assert error.endswith("; grid (3, 1, 1), block (128, 1, 1), 0 bytes of dynamic shared memory")


@pytest.mark.parametrize(
    "fails, text",
    {
        "cuInit=100": "cuInit: as the test says (CUDA_ERROR_OF_THE_TEST); grid (3, 1, 1)",
        "cuLibraryLoadData=209": "cuLibraryLoadData: as the test says",
        "cuLibraryGetKernel=500": "cuLibraryGetKernel: as the test says",
        "cuDeviceGet=101": "cuDeviceGet: as the test says",
        "cuCtxGetCurrent=3": "cuCtxGetCurrent: as the test says",
        "cuDevicePrimaryCtxRetain=2": "cuDevicePrimaryCtxRetain: as the test says",
        "cuCtxPushCurrent=1": "cuCtxPushCurrent: as the test says",
        "cuLaunchKernelEx=1": "launch: as the test says (CUDA_ERROR_OF_THE_TEST); grid",
        "cuLaunchKernelEx=700": "the device is lost to this process, which must be restarted; this launch",
    }.items(),
)  # fmt: skip
def test_an_error_of_the_driver_is_reported(driver, launcher, fails, text, run):
    lines = run(driver, launcher, DRIVER_FAILS=fails)
    assert text in lines[-1]
    pushed = [line for line in lines if line.startswith("cuCtxPushCurrent")]
    assert len([line for line in lines if line.startswith("cuCtxPopCurrent")]) == (
        0 if "Push" in fails else len(pushed)
    )


def test_a_failed_load_is_tried_again_and_the_capture_mode_is_restored(driver, launcher, run):
    lines = run(driver, launcher, DRIVER_FAILS="cuLibraryLoadData=2", LAUNCHES="2")
    assert lines.count("cuLibraryLoadData a cubin 0 0") == 2
    assert lines.count("cuThreadExchangeStreamCaptureMode 2") == lines.count("cuThreadExchangeStreamCaptureMode 0") == 2


def test_a_driver_that_is_too_old_is_reported(driver, launcher, run):
    error = run(driver, launcher, DRIVER_VERSION="12080")[-1]
    assert "compiled for CUDA 13.0, but the driver supports CUDA 12.8: update the driver" in error
    assert run(driver, launcher, DRIVER_VERSION="13020")[-1] == "error None"


def test_a_launch_in_a_forked_child_is_an_error(driver, launcher, run):
    lines = run(driver, launcher, FORK="1")
    assert lines.count("error None") == 1
    assert lines[-1].startswith("error CUDA was used before this process was forked") and "spawn" in lines[-1]


def test_a_synchronous_launch_waits_unless_the_stream_is_captured(driver, launcher, run):
    assert "cuStreamSynchronize 0x5000" in run(driver, launcher, TKJIT_SYNC="1")
    assert "cuStreamSynchronize 0x5000" not in run(driver, launcher, TKJIT_SYNC="1", DRIVER_CAPTURES="1")
    lines = run(driver, launcher, TKJIT_SYNC="1", DRIVER_FAILS="cuStreamSynchronize=700")
    assert lines[-1].startswith("error kernel: as the test says") and "an earlier one" not in lines[-1]


@pytest.mark.parametrize(
    "options, attributes",
    [
        ({"cluster": 16, "pdl": True}, ["attribute 4 16 1 1", "attribute 6 1 0 0"]),
        ({"cooperative": True}, ["attribute 2 1 0 0"]),
    ],
)
def test_launch_attributes_are_passed(driver, loader, options, attributes, run):
    kernel = scale(shared_memory=100000, grid=32, **options)
    lines = run(driver, loader.launcher(kernel.specs[0], Variant(), HOPPER).shared_object, LAUNCHES="2")
    assert lines.count("cuKernelSetAttribute 8 100000 0x22 100") == 1  # dynamic shared memory, once per device
    assert ("cuKernelSetAttribute 14 1 0x22 100" in lines) == ("cluster" in options)  # more than 8 blocks
    assert [line for line in lines if line.startswith("attribute")] == 2 * attributes
    assert lines.count("cuLaunchKernelEx 32,1,1 128,1,1 100000 0x5000 0x22 (nil)") == lines.count("error None") == 2


def test_a_grid_that_is_too_large_is_reported(driver, launcher, run):
    lines = run(driver, launcher, extent=2**40)
    assert lines[-1].startswith("error grid x is 8589934592; the limit is 2147483647")
