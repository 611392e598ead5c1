"""Loading: what cold calls compile, what warm calls skip, and the search for kernels."""

import ctypes
import gc
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from types import ModuleType

import pytest
import torch
from support.caches import entries
from support.memory import resident_bytes

import tkjit
from tkjit import In, InOut, Out, Tensor
from tkjit.cli import main

pytestmark = pytest.mark.compiles
CHECKOUT = Path(__file__).resolve().parents[2]

CALL_WITHOUT_A_PROCESS = """
import sys, torch

def refuse(event, arguments):
    if event in ("subprocess.Popen", "os.posix_spawn", "os.fork", "os.forkpty", "os.system", "os.exec"):
        raise RuntimeError(f"{event} {arguments}")

sys.addaudithook(refuse)
before = set(sys.modules)
import tkjit
x, y = torch.ones(3), torch.ones(3)
print(tkjit.load("axpy")(x, y, 2.0).tolist())
watched = ("torch.utils.cpp_extension", "jinja2", "filelock", "ninja", "setuptools", "rich", "subprocess")
print(*[name for name in watched if name in set(sys.modules) - before])
print(tkjit.__file__)
"""


def test_after_a_warmup_a_fresh_process_compiles_nothing(cache_with_runtime, operators, python):
    operators(cache_with_runtime)
    assert main(["warmup", "axpy", "--device", "cpu", "--types", "float32"]) == 0
    built = entries(cache_with_runtime)
    assert {path.parent.parent.name.split("-")[0] for path in built} == {"runtime", "operators", "glue", "cpu"}
    result, imported, _ = python(CALL_WITHOUT_A_PROCESS).split("\n")[:3]
    assert result == "[3.0, 3.0, 3.0]"
    assert imported == ""
    assert entries(cache_with_runtime) == built


def test_the_audit_hook_detects_a_build(cache_with_runtime):
    """This shows that the test above would fail if a fresh process compiled something."""
    done = subprocess.run([sys.executable, "-c", CALL_WITHOUT_A_PROCESS], capture_output=True, text=True)
    assert done.returncode != 0
    assert "subprocess.Popen" in done.stderr or "os.posix_spawn" in done.stderr


@pytest.mark.slow
def test_load_inline_builds_the_runtime_and_glue_parses_a_call(cache, monkeypatch):
    from torch.utils import cpp_extension

    made: list[tuple[str, Path, ModuleType]] = []
    load_inline = cpp_extension.load_inline

    def recorded(name, *arguments, **keywords):
        assert Path(keywords["build_directory"]).is_relative_to(cache)
        module = load_inline(name, *arguments, **keywords)
        made.append((name, Path(keywords["build_directory"]), module))
        return module

    monkeypatch.setattr(cpp_extension, "load_inline", recorded)

    @tkjit.kernel("__global__ void f(Globals g) { g.x[0] = 3; }", entry="f", grid=1, block=1)
    def traced(x: InOut[Tensor, "float32", "N"]) -> Tensor: ...

    loaded = tkjit.load(traced)
    assert loaded(torch.zeros(1)).item() == 3
    ((name, staging, runtime),) = made
    assert "runtime" in name and type(loaded).__mro__.index(runtime.Dispatcher) > 0
    (glue,) = (referent for referent in gc.get_referents(loaded) if isinstance(referent, ModuleType))
    assert "glue" in glue.__name__
    # the first word after the object's header is the function that the interpreter calls
    function = ctypes.c_size_t.from_address(id(loaded) + object.__basicsize__).value
    mapped = [line.split(maxsplit=5) for line in Path("/proc/self/maps").read_text().splitlines()]
    spans = {tuple(int(end, 16) for end in line[0].split("-")): line[5] for line in mapped if len(line) == 6}
    (path,) = [path for (start, end), path in spans.items() if start <= function < end]
    assert Path(path).name == f"{glue.__name__}.so"
    assert Path(path).is_relative_to(cache)
    assert not staging.exists()


def test_an_edited_header_rebuilds_and_a_touched_one_does_not(tmp_path, cache_with_runtime):
    header = tmp_path / "value.h"
    (tmp_path / "fill.cu").write_text('#include "value.h"\n__global__ void f(Globals g) { g.x[0] = VALUE; }\n')

    @tkjit.kernel(tmp_path / "fill.cu", entry="f", grid=1, block=1)
    def with_header(x: InOut[Tensor, "float32", "N"]) -> Tensor: ...

    def call(value: int | None = None) -> tuple[float, int]:
        if value is not None:
            header.write_text(f"#define VALUE {value}\n")
        before = entries(cache_with_runtime)
        fresh = tkjit.load(tkjit.Kernel(*with_header.specs))
        return fresh(torch.zeros(1)).item(), len(entries(cache_with_runtime) - before)

    assert call(1) == (1, 2)  # the glue and the launcher
    assert call() == (1, 0)
    os.utime(header, (1, 1))
    assert call() == (1, 0)
    header.unlink()
    assert call(1) == (1, 0)  # a new file with the same content
    assert call(2) == (2, 1)
    assert call(1) == (1, 0)  # the first entry is still there


@pytest.mark.slow
def test_a_moved_checkout_keeps_its_builds(cache_with_runtime, tmp_path, monkeypatch, python):
    for name in ("first", "second"):
        for part in ("tkjit", "kernel_sources"):
            shutil.copytree(CHECKOUT / part, tmp_path / name / part, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "first"))
    call = 'import torch, tkjit; print(tkjit.load("axpy")(torch.ones(1), torch.ones(1)).item(), tkjit.__file__)'
    assert python(call).split() == ["2.0", str(tmp_path / "first/tkjit/__init__.py")]
    built = entries(cache_with_runtime)
    assert len(built) == 3  # one of them is the runtime, which another checkout built
    shutil.rmtree(tmp_path / "first")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "second"))
    assert python(CALL_WITHOUT_A_PROCESS).split("\n")[2] == str(tmp_path / "second/tkjit/__init__.py")
    assert entries(cache_with_runtime) == built


@pytest.mark.slow
def test_a_wheel_contains_the_bundled_kernels(tmp_path, monkeypatch, python):
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path / "dist")]
    done = subprocess.run(build, cwd=CHECKOUT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    monkeypatch.chdir(tmp_path)
    printed = python(
        "import torch, tkjit; from tkjit import registry; print(*tkjit.kernels());"
        'print(registry.bundled_directory()); print(tkjit.load("axpy")(torch.ones(1), torch.ones(1)).item())'
    )
    names, directory, result = printed.splitlines()
    assert {"axpy", "gemm", "softmax"} <= set(names.split())
    assert directory == str(tmp_path / "site/tkjit/kernel_sources")
    assert result == "2.0"


@tkjit.kernel(
    "__global__ void f(Globals g) { g.y[0] = g.x[0]; g.z[0] = g.x[0]; }",
    entry="f",
    grid=1,
    block=1,
    constraints="n < 3",
)
def many_calls(
    x: In[Tensor, "float32", "N"],
    n: int = 1,
    *,
    y: Out[Tensor, "float32", "N"] = None,
    z: Out[Tensor, "float32", "N"] = None,
) -> tuple[Tensor, Tensor]: ...


def test_memory_does_not_grow_over_many_calls():
    loaded = tkjit.load(many_calls)
    x, out = torch.ones(4), (torch.empty(4), torch.empty(4))
    bad = [((x.double(),), {}), ((x,), {"n": "1"}), ((x, 5), {}), ((x,), {"m": 1}), ((), {}), ((x,), {"out": (x, 1)})]

    def calls(rounds: int) -> None:
        for _ in range(rounds):
            loaded(x)
            loaded(x, n=2)
            loaded(x, out=out)
            loaded(x, y=out[0])
            for arguments, keywords in bad:
                try:
                    loaded(*arguments, **keywords)
                except tkjit.TkjitError:
                    continue
                raise AssertionError(arguments)

    calls(500)
    gc.collect()  # objects of other tests
    before = resident_bytes()
    references = [sys.getrefcount(one) for one in (x, None, *out)]
    calls(10_000)  # 100,000 calls, of which 60,000 are rejected
    gc.collect()
    assert resident_bytes() - before < 1 << 20
    after = [sys.getrefcount(one) for one in (x, None, *out)]
    # other code also changes the count of None; one reference lost in each round would be 10,000
    assert max(abs(a - b) for a, b in zip(after, references, strict=True)) < 1000


def test_load_notices_an_edited_source(tmp_path, monkeypatch):
    source = "__global__ void mine(float* x) {{ x[0] = {}; }}\n"
    (tmp_path / "mine.cu").write_text(source.format(1))
    (tmp_path / "mine.py").write_text(
        "import tkjit\nfrom tkjit import InOut, Tensor\n"
        '@tkjit.kernel("mine.cu", entry="mine", args=True, grid=1, block=1)\n'
        'def mine(x: InOut[Tensor, "float32", "N"]) -> Tensor: ...\n'
    )
    monkeypatch.setenv("TKJIT_KERNEL_PATH", str(tmp_path))
    first = tkjit.load("mine")
    assert first(torch.zeros(1)).item() == 1
    assert tkjit.load("mine") is first
    (tmp_path / "mine.cu").write_text(source.format(22))
    assert tkjit.load("mine")(torch.zeros(1)).item() == 22
    assert first(torch.zeros(1)).item() == 1, "a loaded kernel does not change"


def test_a_source_next_to_a_notebook_is_found(tmp_path, monkeypatch):
    (tmp_path / "beside.cu").write_text("__global__ void beside(float* x) { x[0] = 3; }\n")
    monkeypatch.chdir(tmp_path)
    scope = {name: getattr(tkjit, name) for name in tkjit.__all__}
    code = 'def beside(x: InOut[Tensor, "float32", "N"]) -> Tensor: ...'
    exec(compile(code, "/tmp/ipykernel_1234/5678.py", "exec"), scope)
    kernel = tkjit.kernel("beside.cu", entry="beside", args=True, grid=1, block=1)(scope["beside"])
    assert kernel(torch.zeros(1)).item() == 3


def test_a_kernel_that_does_not_compile_is_compiled_once(monkeypatch):
    from tkjit.compile import compiler

    compiled = []
    compile_it = compiler.compile_binary
    monkeypatch.setattr(
        compiler, "compile_binary", lambda unit, *rest: (compiled.append(unit.file), compile_it(unit, *rest))[1]
    )

    @tkjit.kernel("__global__ void once(float* x) { x[0] = ; }", entry="once", args=True, grid=1, block=1)
    def once(x: InOut[Tensor, "float32", "N"]) -> None: ...

    with pytest.raises(tkjit.CompileError, match=r"inline\.cu:1:"):
        once(torch.zeros(1))
    assert compiled.count("launcher.cu") == 1


def test_tkjit_sync_reaches_every_launcher(fresh, filled, cache):
    """The launcher gets the setting even on the CPU, where a launch waits anyway."""
    code = (
        "import ctypes, torch, tkjit\n"
        "axpy = tkjit.load('axpy')\n"
        "axpy(torch.ones(3), torch.ones(3))\n"
        "paths = [one.entry.shared_object for one in axpy._opened]\n"
        "(launcher,) = [path for path in paths if path.name == 'launcher.so']\n"
        "print(ctypes.c_int32.in_dll(ctypes.CDLL(str(launcher)), 'tkjit_synchronous').value)\n"
    )
    assert [fresh.run(code, TKJIT_SYNC=value, TKJIT_CACHE=str(filled)) for value in ("1", "0")] == ["1\n", "0\n"]
