"""Linked libraries, hooks at start and exit, and errors before a call."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from bindings.conftest import HEADERS
from support.forking import Server

import tkjit
from tkjit import ArgumentError, ToolchainError
from tkjit.config import environment_with

pytestmark = pytest.mark.compiles

HEADER = """
#pragma once
namespace depot {
int take();      // counts up, in the library
int taken();
void open();
void close();
struct Crate { int id; Crate(); ~Crate(); };
}
"""
LIBRARY = r"""
#include "depot.hpp"
#include <cstdio>
namespace depot {
static int count = 0;
int take() { return ++count; }
int taken() { return count; }
void open() { std::printf("open\n"); std::fflush(stdout); }
void close() { std::printf("close\n"); std::fflush(stdout); }
Crate::Crate() : id(++count) {}
Crate::~Crate() { std::printf("crate %d\n", id); std::fflush(stdout); }
}
"""


@pytest.fixture(scope="module")
def depot(tmp_path_factory) -> Path:
    """A directory with depot.hpp and libdepot.a, a static library with state."""
    directory = tmp_path_factory.mktemp("depot")
    (directory / "depot.hpp").write_text(HEADER)
    (directory / "depot.cpp").write_text(LIBRARY)
    subprocess.run("g++ -O2 -fPIC -c depot.cpp -o depot.o".split(), cwd=directory, check=True)
    subprocess.run("ar rcsD libdepot.a depot.o".split(), cwd=directory, check=True)
    return directory


@pytest.mark.slow
def test_static_library_has_its_state_once(depot):
    library = tkjit.bind("depot.hpp", namespaces="depot", include_dirs=[depot], libraries=[depot / "libdepot.a"])
    assert [library.take(), library.take(), library.taken()] == [1, 2, 2]  # three calls, compiled separately


def test_hooks_run_at_start_and_exit(depot, python):
    code = f"""
import tkjit
library = tkjit.bind("depot.hpp", namespaces="depot", include_dirs=[{str(depot)!r}],
                     libraries=["depot"], flags=["-L{depot}"], start="depot::open", stop="depot::close()")
print("bound", flush=True)
first, second = library.Crate(), library.Crate()
print(first.id, flush=True)
"""
    assert python(code).split("\n") == ["bound", "open", "1", "crate 2", "crate 1", "close", ""]


def test_hooks_are_compiled_with_the_first_call(units):
    text = "inline int level = 0; inline void open() { level = 3; } inline int now() { return level; }"
    library = tkjit.bind(source=f"namespace own {{ {text} }}", namespaces="own", start="own::open", std="c++17")
    assert library.now() == 3
    assert units == [2]


@pytest.mark.slow
def test_source_without_headers_and_headers_without_source():
    library = tkjit.bind(source="namespace own { inline int half(int n) { return n / 2; } }", namespaces="own")
    assert library.half(8) == 4
    std = tkjit.bind("vector", "algorithm", namespaces="std", std="c++20")
    numbers = std.vector("double")(np.array([2.0, 3.0]))
    assert list(numbers) == [2, 3]


@pytest.mark.parametrize(
    ("headers", "options", "error", "text"),
    [
        ([], {}, ArgumentError, "name a header, a directory of headers, or pass source="),
        (["vector"], {"backend": "hip"}, ArgumentError, "backend='hip'; expected one of 'cpp', 'omp', 'cuda'"),
        (["vector"], {"std": "c++11"}, ArgumentError, r"std='c\+\+11'; expected one of"),
        (["vector"], {"include_dirs": ["/nowhere"]}, ToolchainError, "include directory /nowhere does not exist"),
    ],
)
def test_invalid_options_are_rejected(headers, options, error, text):
    with pytest.raises(error, match=text):
        tkjit.bind(*headers, **options)


def test_headers_with_errors_are_reported(tmp_path):
    (tmp_path / "broken.hpp").write_text("namespace a {\nint f(;\n}\n")
    (tmp_path / "empty").mkdir()
    for headers, options, text in [
        (["nowhere.hpp"], {}, "nowhere.hpp"),
        (["broken.hpp"], {"include_dirs": [tmp_path]}, r"broken\.hpp:2"),
        (["vector"], {"namespaces": "vectors"}, "declare nothing in the namespace vectors"),
    ]:
        with pytest.raises(ToolchainError, match=text):
            tkjit.bind(*headers, **options).f  # noqa: B018
    with pytest.raises(ToolchainError, match="no headers in the directory"):
        tkjit.bind(tmp_path / "empty")


def test_missing_library_is_reported():
    library = tkjit.bind("vector", namespaces="std", libraries=["of_nobody"])
    with pytest.raises(ToolchainError, match=r"libraries cannot be linked: .*of_nobody"):
        library.vector(int)()


def test_directory_of_headers_can_be_bound(tmp_path):
    for name in ("one", "two"):
        (tmp_path / f"{name}.hpp").write_text(f"namespace both {{ inline int {name}() {{ return {len(name)}; }} }}\n")
    library = tkjit.bind(tmp_path)
    assert (library.both.one(), library.both.two()) == (3, 3)


def test_edited_header_is_compiled_again(tmp_path, fresh: Server):
    header = tmp_path / "edited.hpp"
    code = f"import tkjit\nprint(tkjit.bind({str(header)!r}, namespaces='e').value())"
    for value in (1, 2):
        header.write_text(f"namespace e {{ inline int value() {{ return {value}; }} }}\n")
        assert fresh.run(code) == f"{value}\n"


def test_compiled_calls_need_no_compiler(tmp_path, fresh: Server):
    header = tmp_path / "kept.hpp"
    header.write_text("namespace k { inline int value(int n) { return n; } }\n")
    code = f"import tkjit\nlibrary = tkjit.bind({str(header)!r}, namespaces='k')\n"
    assert fresh.run(code + "print(library.value(3))") == "3\n"
    assert fresh.run(code + "print(library.value(4))", TKJIT_JIT="0") == "4\n"
    refused = fresh.start(code + "library.value(4.0)", TKJIT_JIT="0").wait()
    assert "k::value(double) is not in the cache" in refused.stderr and "TKJIT_JIT=0" in refused.stderr


COUNTED = """
import tkjit
from tkjit.cache import Cache

found, lookup = [], Cache.lookup
def counted(*args, **options):
    entry = lookup(*args, **options)
    found.extend([entry.directory.name] if entry is not None else [])
    return entry
Cache.lookup = counted

tree = tkjit.bind("garden.hpp", namespaces="garden", include_dirs=[{headers!r}]).Tree("oak")
assert (tree.name, tree.get_name(), tree.next(), tree.number) == ("oak", "oak", 4, 4)
print(len(found))
"""


@pytest.mark.slow
def test_next_process_reads_no_headers(tmp_path):
    """Everything has a warm record, even calls whose shared object has gained hard links since it was written."""
    environment = environment_with(TKJIT_CACHE=str(tmp_path / "cache"))
    for _ in range(2):
        code = COUNTED.format(headers=str(HEADERS))
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
        assert (done.stdout, done.stderr) == ("0\n", "")


WAITING = """
#include <atomic>
#include <chrono>
#include <thread>
namespace waiting {
inline std::atomic<int> reached{0};
inline void reach(int number) { reached = number; }
inline int wait_for(int number) {
    for (int i = 0; i < 10000 && reached < number; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return reached;
}
}
"""


@pytest.mark.slow
def test_short_call_can_wait_for_another_thread():
    waiting = tkjit.bind(source=WAITING, namespaces="waiting")
    waiting.reach(0)
    for _ in range(300):
        assert waiting.wait_for(0) == 0
    go_on = threading.Event()
    thread = threading.Thread(target=lambda: (go_on.wait(), waiting.reach(1)))
    thread.start()
    go_on.set()
    assert waiting.wait_for(1) == 1
    thread.join()


def test_calls_from_several_threads(garden):
    results = []
    threads = [threading.Thread(target=lambda n=n: results.append(garden.twice(float(n)))) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == [2.0 * n for n in range(8)]


@pytest.mark.slow
def test_cache_may_be_removed_between_calls(depot, tmp_path, python):
    code = f"""
import os, shutil, tkjit
library = tkjit.bind("depot.hpp", namespaces="depot", include_dirs=[{str(depot)!r}],
                     libraries=[{str(depot / "libdepot.a")!r}])
print(library.take(), flush=True)
shutil.rmtree(os.environ["TKJIT_CACHE"])
print(library.taken(), library.take(), flush=True)
child = os.fork()
if child == 0:
    print(library.Crate().id, flush=True)
    os._exit(0)
os.waitpid(child, 0)
"""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TKJIT_CACHE", str(tmp_path / "cache"))
        printed = python(code).split("\n")
    assert printed[:2] == ["1", "1 2"]
    assert "3" in printed  # a forked child uses what was compiled, and can compile


def test_missing_libclang_is_reported(tmp_path, python):
    code = """
import sys
sys.modules["clang"] = sys.modules["clang.cindex"] = None
import tkjit
try:
    tkjit.bind("cstring", namespaces="std").strlen
except tkjit.ToolchainError as error:
    print(error)
"""
    assert "libclang is not installed; install it: " in python(code)


def test_bindings_do_not_import_torch(python):
    code = """
import sys, tkjit
std = tkjit.bind("vector", namespaces="std")
print(len(std.vector(int)(3)), "torch" in sys.modules)
"""
    assert python(code) == "3 False\n"


@pytest.mark.slow  # compiles Thrust's headers
@pytest.mark.nvcc
def test_cuda_backend():
    """Compiles for sm_90a, and calls the functions that run on the host."""
    library = tkjit.bind(
        source="""
#include <vector>
namespace gpu {
__global__ void increment(int* values) { values[threadIdx.x] += 1; }
inline bool launch(int* values, int count) {
    increment<<<1, count>>>(values);
    return cudaGetLastError() == cudaSuccess;
}
inline int half(int number) { return number / 2; }
}
""",
        namespaces="gpu",
        backend="cuda",
        arch="90a",
    )
    assert library.half(9) == 4
    import torch

    if not torch.cuda.is_available():
        assert library.launch(None, 1) is False
    with pytest.raises(ToolchainError, match="'9x' is not a GPU architecture"):
        tkjit.bind("vector", backend="cuda", arch="9x")
    with pytest.raises(ArgumentError, match="arch='90a' is for GPUs, but backend='cpp' uses none"):
        tkjit.bind("vector", arch="90a")


@pytest.mark.slow  # precompiles several headers
def test_total_size_of_precompiled_headers_is_limited(tmp_path, monkeypatch, fresh):
    monkeypatch.setenv("TKJIT_CACHE", str(tmp_path))
    code = "import tkjit; print(tkjit.bind(source='inline int {0}() {{ return 1; }}').{0}())"
    for name in ("one", "two"):
        assert fresh.run(code.format(name), TKJIT_CACHE=str(tmp_path)) == "1\n"
    assert len(list(tmp_path.rglob("*.gch"))) == 2
    limited = "from tkjit.bindings import prepared; prepared.MOST_PRECOMPILED_BYTES = 1\n" + code.format("three")
    assert fresh.run(limited, TKJIT_CACHE=str(tmp_path)) == "1\n"
    assert len(list(tmp_path.rglob("*.gch"))) == 1
    assert fresh.run(code.format("one"), TKJIT_CACHE=str(tmp_path)) == "1\n"  # the calls are still in the cache
