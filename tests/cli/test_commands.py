"""``python -m tkjit``: output, builds and exit codes."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import tkjit
from tkjit.cli import main
from tkjit.compile.targets import cpu_target

pytestmark = pytest.mark.compiles
SPEC = """
import tkjit
from tkjit import InOut, Tensor

@tkjit.kernel("{source}", entry="f<T>", grid=1, block="N", variants={{"T": ("float32", "bfloat16", "int32")}})
def {name}(x: InOut[Tensor, "T", "N"]) -> Tensor:
    '''Adds one.

    In place.
    '''
"""
SOURCE = "template <class T> __global__ void f(Globals g) {{ g.x[threadIdx.x] += T(1){end} }}"


@pytest.fixture
def own_kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two kernels: ``good_one``, and ``bad_one``, which does not compile."""
    directory = tmp_path / "kernels"
    directory.mkdir()
    for name, end in (("good_one", ";"), ("bad_one", "")):
        (directory / f"{name}.py").write_text(SPEC.format(name=name, source=f"{name}.cu"))
        (directory / f"{name}.cu").write_text(SOURCE.format(end=end) + f"  // {tmp_path}\n")
    monkeypatch.setenv("TKJIT_KERNEL_PATH", str(directory))
    return directory


def built(root: Path, name: str) -> list[str]:
    texts = [path.with_name("launcher.cu").read_text() for path in root.glob(f"v1/*/cpu-*/{name}-*/*/manifest.json")]
    return sorted(text.splitlines()[0] for text in texts)


def test_list_prints_names_and_summaries(capsys, own_kernels):
    assert main(["list"]) == 0
    ready, *others = capsys.readouterr().out.split("\n\n")  # kernels whose headers are missing are listed separately
    listed = dict(line.split(maxsplit=1) for line in ready.splitlines())
    assert list(listed) == sorted(listed) and {"axpy", "bad_one", "gemm", "all_reduce"} <= set(listed)
    assert ("tk_gemm" in listed) == (not others)
    assert listed["axpy"] == "Computes alpha * x + y in place."
    assert listed["good_one"] == "Adds one."


def test_show_prints_the_spec_and_rendered_text(capsys):
    assert main(["show", "gemm"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("gemm(a: Tensor, b: Tensor, *, c: Tensor = None, out=None, stream=None)\n")
    for fact in (
        '  a: In[Tensor, "T", "M", "K"]',
        "entry: gemm<T>",
        "grid: Launch<T>::blocks(M, N, SPLITS)",
        "block: Launch<T>::threads",
    ):
        assert fact in printed.splitlines()
    assert "variants: T in float32, bfloat16, float16" in printed
    rendered = tkjit.find("gemm").render()
    assert rendered.glue in printed and rendered.launcher in printed


def test_show_renders_another_variant(capsys):
    assert main(["show", "axpy", "--types", "bfloat16"]) == 0
    assert tkjit.find("axpy").render(T="bfloat16").launcher in capsys.readouterr().out
    assert main(["show", "axpy", "--types", "int7"]) == 1
    assert capsys.readouterr().err.startswith("tkjit: axpy has no variant T=int7; it has T=float32; T=bfloat16")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--sass"], "gemm: this machine has no GPU; choose an architecture, for example --arch 90a"),
        (["--ptx", "--arch", "cpu"], "gemm: code for the CPU has no PTX, SASS or registers to show; use --arch 90a"),
        (["--resources", "--arch", "90a", "--types", "int8"], "gemm has no variant T=int8"),
    ],
)
def test_show_rejects_code_that_it_cannot_show(options, message, capsys, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert main(["show", "gemm", *options]) == 1
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("command", ["show", "warmup"])
def test_unknown_kernel_is_reported(capsys, command):
    assert main([command, "gem"]) == 1
    printed = capsys.readouterr()
    assert printed.err == "tkjit: no kernel is named 'gem'; did you mean gemm or tk_gemm?\n"
    assert printed.out == ""


def test_warmup_builds_the_named_kernel(capsys, own_kernels, session_cache):
    tkjit.load("good_one").operator  # noqa: B018  builds the runtime and the operators
    assert main(["warmup", "good_one", "--device", "cpu", "--types", "float32,int32", "--jobs", "1"]) == 0
    printed = capsys.readouterr()
    *lines, summary = printed.out.splitlines()
    shown = re.compile(r"(?P<what>.*\S) +(?P<state>ready|\d+\.\d s)(  compiler \d+\.\d MiB)?")
    matches = [shown.fullmatch(line) for line in lines]
    assert all(matches), lines
    what = [match["what"] for match in matches]
    assert what[0] == "the runtime (once per environment)"
    variants = [f"good_one (T={dtype}) for {cpu_target().name}" for dtype in ("float32", "int32")]
    modules = ["the module of operators (once per environment)", "the glue of good_one"]
    assert sorted(what[1:]) == sorted([*modules, *variants])
    assert {match["state"] for match in matches if "good_one" in match["what"]} != {"ready"}
    assert summary.startswith("5 ready (3 from the cache), 0 failed, ")
    assert "\x1b" not in printed.out and "\r" not in printed.out
    assert printed.err == ""
    assert built(session_cache, "good_one") == [
        "// Launcher of good_one for T=float32, rendered by tkjit.",
        "// Launcher of good_one for T=int32, rendered by tkjit.",
    ]


def test_warmup_continues_after_a_failure(capsys, own_kernels, session_cache):
    for path in own_kernels.glob("*.cu"):
        path.write_text(path.read_text() + "// once more\n")
    before = len(built(session_cache, "good_one"))
    arguments = ["warmup", "bad_one", "good_one", "--device", "cpu", "--types", "float32", "--jobs", "2"]
    assert main(arguments) == 1
    printed = capsys.readouterr()
    lines = printed.out.splitlines()
    assert lines[-1].startswith("5 ready (3 from the cache), 1 failed, ")
    assert next(line for line in lines if "failed" in line).split()[0] == "bad_one"
    assert f"{own_kernels / 'bad_one.cu'}:1:" in printed.err and "reproduce:" in printed.err
    assert len(built(session_cache, "good_one")) == before + 1
    assert not built(session_cache, "bad_one")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--types", "float33"], "tkjit: --types: unknown dtype float33; expected one of bool, uint8"),
        (["--jobs", "0"], "tkjit: --jobs must be at least 1"),
        (["--arch", "hopper"], "tkjit: 'hopper' is not a GPU architecture; expected for example 80, 90a or sm_100a"),
    ],
)
def test_invalid_warmup_options_are_rejected(capsys, arguments, message):
    assert main(["warmup", "axpy", *arguments]) == 1
    assert capsys.readouterr().err.startswith(message)


def test_doctor_finds_everything(capsys, session_cache):
    tkjit.load("axpy")
    code = main(["doctor"])
    printed = capsys.readouterr().out
    lines = {line.split()[1]: line for line in printed.splitlines()}
    names = "Python Python.h torch ninja C++ nvcc NVRTC GPU driver sanitizer binutils gdb cache"
    assert set(lines) == set(names.split())
    assert code == (1 if "MISSING" in printed else 0)
    for what in ("Python", "Python.h", "torch", "ninja", "C++", "cache"):
        assert lines[what].split()[0] == "ok", lines[what]
    assert shutil.which("g++") in lines["C++"] and str(session_cache) in lines["cache"]
    assert int(lines["cache"].split(",")[-1].split()[0]) >= 1


def test_doctor_lists_the_tools_that_the_checker_lacks(capsys, monkeypatch):
    found = shutil.which
    monkeypatch.setattr(
        shutil, "which", lambda name, **rest: found(name, **rest) if name not in ("addr2line", "gdb") else None
    )
    monkeypatch.setattr("tkjit.cli.doctor.address_sanitizer", lambda cxx: None)
    assert main(["doctor"]) == 0
    lines = {line.split()[1]: line for line in capsys.readouterr().out.splitlines()}
    assert re.search(r"none +sanitizer +check --memory needs it; apt-get install libgcc-\d+-dev$", lines["sanitizer"])
    assert lines["binutils"].endswith("check needs it to print line numbers; apt-get install binutils")
    assert lines["gdb"].endswith("debug needs it; apt-get install gdb")


def test_doctor_reports_a_missing_compiler(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    assert main(["doctor"]) == 1
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "MISSING" in line]
    assert line.split() == "MISSING C++ no C++ compiler; install one: apt-get install g++".split()


def test_doctor_reports_an_unwritable_cache(capsys, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TKJIT_CACHE", str(tmp_path / "file" / "cache"))
    assert main(["doctor"]) == 1
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "MISSING" in line]
    assert line.split()[1] == "cache" and "set TKJIT_CACHE to a writable directory" in line


def test_doctor_contacts_the_remote_cache(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("TKJIT_CACHE_REMOTE", f"file://{tmp_path}")
    monkeypatch.setenv("TKJIT_CACHE_REMOTE_UNSIGNED", "1")
    for url, state, text in (
        (f"file://{tmp_path}", "ok", "read and write"),
        ("http://127.0.0.1:1/kernels", "MISSING", "http://127.0.0.1:1/kernels does not answer: "),
        ("gopher://host", "MISSING", "Protocol not known: gopher"),
    ):
        monkeypatch.setenv("TKJIT_CACHE_REMOTE", url)
        main(["doctor"])
        (line,) = [line for line in capsys.readouterr().out.splitlines() if "remote cache" in line]
        assert line.split()[0] == state and text in line


def test_doctor_creates_nothing(capsys, cache):
    assert main(["doctor"]) == 0 or "MISSING" in capsys.readouterr().out
    assert not [path for path in cache.rglob("*") if path.name != "tools.json" and path.is_file()]


def test_demo_prints_times_and_the_expected_result():
    done = subprocess.run([sys.executable, "-m", "tkjit", "demo"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "gemm on cpu" in done.stdout and "right" in done.stdout and "WRONG" not in done.stdout
    for measured in ("load", "first call", "warm load", "call"):
        assert measured in done.stdout
    assert done.stderr == ""


def test_cache_dir_prints_the_directory_and_creates_nothing(capsys, cache, monkeypatch):
    assert main(["cache", "dir"]) == 0
    assert capsys.readouterr().out == f"{cache}\n"
    assert not cache.exists()
    monkeypatch.delenv("TKJIT_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    assert main(["cache", "dir"]) == 0
    assert capsys.readouterr().out == f"{cache / 'tkjit'}\n"


@pytest.mark.slow
def test_exit_codes_of_the_process(own_kernels):
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, "-m", "tkjit", *arguments], capture_output=True, text=True)

    assert run().returncode == 2
    unknown = run("frobnicate")
    assert unknown.returncode == 2 and "frobnicate" in unknown.stderr
    failed = run("show", "gem")
    assert failed.returncode == 1 and "Traceback" not in failed.stderr
    listed = run("list")
    assert listed.returncode == 0 and listed.stderr == ""
