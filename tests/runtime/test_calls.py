"""Further guarantees of calls: threads, references, outputs, warnings and errors."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import sysconfig
import threading
import time
import warnings
from pathlib import Path

import pytest
import torch
from support.define import define
from support.memory import resident_bytes

import tkjit
from tkjit import In, InOut, Out, Scalar, Tensor

pytestmark = pytest.mark.compiles


F32 = "float32"


@tkjit.kernel(
    "inline void nothing(tkjit::gl<float> x, tkjit::gl<float> y, float a) {}", entry="nothing", host=True, args=True
)
def nothing(x: In[Tensor, F32, "N"], y: InOut[Tensor, F32, "N"], a: float = 1.0) -> Tensor: ...


@tkjit.kernel("__global__ void f(Globals g) { g.y[threadIdx.x] = g.x[threadIdx.x] + 1; }", entry="f", grid=1, block="N")
def one_more(x: In[Tensor, F32, "N"], y: Out[Tensor, F32, "N"]) -> Tensor: ...


# ---- threads


def test_eight_threads_call_one_kernel():
    loaded = tkjit.load(one_more)
    loaded(torch.zeros(4))
    failures, start = [], threading.Barrier(8)

    def work(number: int) -> None:
        x = torch.full((4,), float(number))
        start.wait()
        try:
            for i in range(2000):
                if i % 7 == 0:
                    with pytest.raises(tkjit.ShapeError):
                        loaded(x, out=torch.zeros(3))
                assert loaded(x).tolist() == [number + 1] * 4
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_direct_call_and_operator_release_the_gil():
    @tkjit.kernel(
        "#include <unistd.h>\n__global__ void wait(Globals g) { usleep(1000000); g.x[0] = 1; }",
        entry="wait",
        grid=1,
        block=1,
    )
    def wait(x: InOut[Tensor, F32, 1]) -> Tensor: ...

    wait.operator  # noqa: B018  compiles everything first
    counted, done = [0], threading.Event()

    def count() -> None:
        while not done.is_set():
            counted[0] += 1
            time.sleep(0.001)

    x = torch.zeros(1)
    wait(x)
    for call in (wait, wait.operator.default):
        done.clear()
        thread = threading.Thread(target=count)
        thread.start()
        time.sleep(0.05)
        before = counted[0]
        call(x)
        during = counted[0] - before
        done.set()
        thread.join()
        assert during > 300, "the GIL was held"


@pytest.mark.skipif(
    not sysconfig.get_config_var("Py_GIL_DISABLED"), reason="runs on a free-threaded Python (3.13t or newer)"
)
def test_free_threaded_python():
    test_eight_threads_call_one_kernel()
    assert not sys._is_gil_enabled(), "a module switched the GIL on"


@tkjit.kernel(
    "__global__ void spin(Globals g) {"
    " volatile int64_t n = g.rounds; for (int64_t i = 0; i < n; ++i) {} g.x[0] += 1; }",
    entry="spin",
    grid=1,
    block=1,
)
def spin(x: InOut[Tensor, "int32", 1], rounds: Scalar[int, "int64_t"]) -> Tensor: ...


def test_other_threads_run_during_a_kernel():
    x = torch.zeros(1, dtype=torch.int32)
    spin(x, 1)
    start = time.monotonic()
    spin(x, 10_000_000)
    rounds = int(10_000_000 * 0.3 / max(time.monotonic() - start, 1e-4))  # about 0.3 s
    ticks, stop = [], threading.Event()

    def tick() -> None:
        while not stop.wait(0.005):
            ticks.append(time.monotonic())

    thread = threading.Thread(target=tick)
    thread.start()
    start = time.monotonic()
    spin(x, rounds)
    end = time.monotonic()
    stop.set()
    thread.join()
    assert end - start > 0.05
    assert sum(start < at < end for at in ticks) >= 5


def test_eight_threads_make_the_first_call_at_once():
    kernel = define(
        "template <class T> __global__ void add(Globals g) { g.x[threadIdx.x] += T(g.step); }",
        '(x: InOut[Tensor, "T", "N"], step: int) -> Tensor',
        entry="add<T>",
        grid=1,
        block="N",
        variants={"T": ("int32", "float32")},
    )
    loaded = tkjit.load(kernel)
    barrier = threading.Barrier(8)
    wrong: list[object] = []

    def work(number: int) -> None:
        dtype = torch.int32 if number % 2 else torch.float32
        x = torch.zeros(16, dtype=dtype)
        barrier.wait()
        try:
            for step in range(200):
                (loaded if number < 4 else kernel)(x, step + number)
        except Exception as error:
            wrong.append(error)
        if x.tolist() != [200 * 199 / 2 + 200 * number] * 16:
            wrong.append((number, x))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


# ---- references


@pytest.mark.slow  # a million calls
def test_a_million_calls_leak_nothing():
    """Makes valid and invalid calls, and compares the memory of the process and the reference counts."""
    loaded = tkjit.load(nothing)
    x, y, short = torch.zeros(8), torch.zeros(8), torch.zeros(3)
    bad = [((x,), {}), ((x, short), {}), ((x, y, "a"), {}), ((x, y), {"b": 1}), ((x.double(), y), {}), ((x, [y]), {})]

    def calls(count: int) -> None:
        for i in range(count // 10):
            for _ in range(9):
                loaded(x, y, a=2.0)
            args, kwargs = bad[i % len(bad)]
            try:
                loaded(*args, **kwargs)
            except tkjit.TkjitError:
                pass
            else:
                raise AssertionError(args)

    calls(50_000)
    gc.collect()
    before, objects = resident_bytes(), [sys.getrefcount(one) for one in (x, y, short, None, loaded)]
    calls(1_000_000)
    gc.collect()
    # leaking an object of 16 bytes per call would add 16 MB
    assert resident_bytes() - before < 8 << 20
    after = [sys.getrefcount(one) for one in (x, y, short, None, loaded)]
    assert all(abs(a - b) < 1000 for a, b in zip(after, objects, strict=True)), (objects, after)


@pytest.mark.slow
def test_outputs_lists_and_operators_leak_nothing():
    @tkjit.kernel("inline void sum(Globals g) { for (auto x : g.xs) g.y[0] += x[0]; }", entry="sum", host=True)
    def total(xs: In[list[Tensor], F32, "N"], names: list[str], y: Out[Tensor, F32, 1]) -> Tensor: ...

    x = torch.ones(2)
    loaded, softmax = tkjit.load(total), tkjit.load("softmax")
    names = ["a" * 100]

    def calls(count: int) -> None:
        for _ in range(count):
            loaded([x, x], names)
            softmax.operator(x)
            with pytest.raises(tkjit.TkjitError):
                loaded([x, names], names)
            with pytest.raises(tkjit.TkjitError):
                softmax.operator(x.double())

    calls(300)
    gc.collect()
    before, counts = resident_bytes(), [sys.getrefcount(one) for one in (x, names, names[0])]
    calls(20_000)
    gc.collect()
    assert [sys.getrefcount(one) for one in (x, names, names[0])] == counts
    assert resident_bytes() - before < 6 << 20


# ---- outputs


def test_outputs_behave_like_torchs_own():
    y = tkjit.load(one_more)(torch.zeros(4))
    y.resize_(100)
    assert y.shape == (100,) and y.untyped_storage().resizable()
    assert y._base is None and not y.requires_grad and y.is_leaf


# ---- deprecated signatures


@tkjit.kernel("__global__ void f(Globals g) { g.x[0] += g.by; }", entry="f", grid=1, block=1)
def add_in_place(x: InOut[Tensor, F32, "N"], *, by: float) -> Tensor: ...


@add_in_place.overload(
    "__global__ void f(Globals g) { g.x[0] += g.by; }", entry="f", grid=1, block=1, deprecated="pass by= by name"
)
def add_in_place(x: InOut[Tensor, F32, "N"], by: float) -> Tensor: ...


def test_deprecated_signature_warns_at_the_calling_line():
    x = torch.zeros(1)
    fresh = tkjit.Kernel(*add_in_place.specs)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fresh(x, by=1.0)
        with pytest.raises(DeprecationWarning):
            tkjit.load(fresh)(x, 1.0)
        assert x.item() == 1, "nothing is launched if the warning is an error"
    fresh = tkjit.Kernel(*add_in_place.specs)  # its first call goes through Python code of tkjit
    with pytest.warns(
        DeprecationWarning, match="add_in_place: this signature is deprecated; pass by= by name"
    ) as caught:
        fresh(x, 1.0)
        tkjit.load(fresh)(x, 1.0)
        with torch.profiler.profile():  # this call goes through the operator
            fresh(x, 1.0)
    assert [warning.filename for warning in caught] == [__file__] * 3
    assert x.item() == 4


def test_hidden_deprecation_warning_is_shown_later():
    x = torch.zeros(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        add_in_place(x, 1.0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for _ in range(3):
            add_in_place(x, 1.0)  # shown once for each line by default
        add_in_place(x, 1.0)
    assert len(caught) == 2


@pytest.mark.slow
def test_script_shows_a_deprecation_warning(python):
    code = """
import torch, tkjit
from tkjit import InOut, Tensor
@tkjit.kernel("inline void f(float* x, float by) { *x += by; }", entry="f", host=True, args=True,
              deprecated="pass by= by name")
def add_in_place(x: InOut[Tensor, "float32", "N"], by: float) -> None: ...
import sys; sys.stderr = sys.stdout
add_in_place(torch.zeros(1), 1.0)
"""
    assert "DeprecationWarning: add_in_place: this signature is deprecated; pass by= by name" in python(code)


# ---- errors


def test_launch_error_has_the_launch_shape():
    @tkjit.kernel(
        "#include <cassert>\n__global__ void f(Globals g) { assert(g.x[0] > 0); }",
        entry="f",
        grid=(2, 3),
        block=(4, 5),
        shared_memory=64,
    )
    def positive(x: InOut[Tensor, F32, "N"]) -> Tensor: ...

    positive(torch.ones(1))
    with pytest.raises(tkjit.LaunchError, match=r"^positive: .*; grid \(2, 3, 1\), block \(4, 5, 1\), 64 bytes"):
        positive(torch.zeros(1))
    positive(torch.ones(1))
    with pytest.raises(tkjit.LaunchError, match=r"^positive: .*grid \(2, 3, 1\)"):
        positive.operator(torch.zeros(1))


def test_exception_in_a_kernel_becomes_a_launch_error():
    @tkjit.kernel(
        '#include <stdexcept>\ninline void f(Globals g) { if (g.kind) throw std::out_of_range("row 7"); throw 7; }',
        entry="f",
        host=True,
    )
    def throws(x: InOut[Tensor, F32, "N"], kind: int) -> Tensor: ...

    for call in (throws, throws.operator.default):
        with pytest.raises(tkjit.LaunchError, match=r"^throws: C\+\+ exception: row 7$"):
            call(torch.zeros(1), 1)
        with pytest.raises(tkjit.LaunchError, match=r"^throws: C\+\+ exception of a type that is not std::exception$"):
            call(torch.zeros(1), 0)


# ---- ThreadSanitizer


@pytest.mark.slow
def test_parser_and_dispatcher_are_clean_under_thread_sanitizer(tmp_path):
    """A C++ program calls rendered glue from eight threads (``threads/host.cpp``)."""
    library = Path(sysconfig.get_config_var("LIBDIR")) / str(sysconfig.get_config_var("LDLIBRARY"))
    if library.suffix != ".so":
        pytest.skip("this Python has no shared library to link a host with; use one built with --enable-shared")

    @tkjit.kernel("__global__ void f(Globals g) {}", entry="f", grid=1, block=1)
    def threaded_glue(x: In[Tensor, "int32", "N"], y: InOut[Tensor, F32, "N"], factor: int) -> Tensor: ...

    @threaded_glue.overload("__global__ void f(Globals g) {}", entry="f", grid=1, block=1)
    def threaded_glue(x: In[Tensor, F32, "N"], y: InOut[Tensor, F32, "N"], factor: float = 1.0) -> Tensor: ...

    (tmp_path / "glue.cpp").write_text(threaded_glue.render().glue)
    package, here = Path(tkjit.__file__).parent, Path(__file__).parent
    sources = [str(tmp_path / "glue.cpp"), str(here / "threads" / "host.cpp")]
    includes = [f"-I{path}" for path in (package / "runtime", package / "include", sysconfig.get_path("include"))]
    flags = ["-std=c++20", "-O1", "-g", "-fsanitize=thread", "-DTORCH_EXTENSION_NAME=threaded_glue", "-pthread"]
    linked = [str(library), f"-Wl,-rpath,{library.parent}", "-o", str(tmp_path / "host")]
    subprocess.run(["g++", *flags, *includes, *sources, *linked], check=True)
    environ = {**os.environ, "PYTHONHOME": sys.base_prefix, "TSAN_OPTIONS": "halt_on_error=0 exitcode=66"}
    done = subprocess.run([str(tmp_path / "host")], env=environ, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr[:4000]
    assert done.stdout.startswith("0 failures, ") and "WARNING: ThreadSanitizer" not in done.stderr
