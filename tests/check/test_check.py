"""`tkjit.testing`, its plugin and `python -m tkjit check`: selection of calls, and results."""

from __future__ import annotations

import json
import re
import shutil
import threading
import time
from pathlib import Path

import pytest
import torch
from support.caches import write_compiler
from support.checked import CLEAN, F32, RACY, found
from support.sampling import sample

import tkjit
from tkjit import In, InOut, Out, Tensor
from tkjit.check.child_process import ORDERS, Run
from tkjit.check.results import differences
from tkjit.cli import main
from tkjit.cli.check import _what_was_compared
from tkjit.testing import check

pytestmark = pytest.mark.compiles
pytest_plugins = ["pytester"]


def test_check_takes_the_arguments_of_a_call():
    @tkjit.kernel(
        "__global__ void scale(Globals g) { g.y[threadIdx.x] = g.x[g.index[threadIdx.x]]; }",
        entry="scale",
        grid=1,
        block="N",
    )
    def scale(x: In[Tensor, F32, "N"], index: In[Tensor, "int32", "N"], y: Out[Tensor, F32, "N"]) -> Tensor:
        return x[index.long()]

    x = torch.randn(8)
    assert check(scale, x, torch.arange(8, dtype=torch.int32)).launches == 2 + len(ORDERS)
    (memory,) = found(scale, x, torch.arange(1, 9, dtype=torch.int32), modes=["memory"])
    assert "right after x, which has 32 bytes" in memory.text and memory.here.thread == (7, 0, 0)
    with pytest.raises(tkjit.ArgumentError, match="scale: no overload takes these arguments: missing index"):
        check(scale, x)


def test_a_call_is_checked_with_the_overload_that_takes_it():
    source = "__global__ void f(Globals g) { g.y[threadIdx.x] = g.x[threadIdx.x MORE]; }"

    @tkjit.kernel(source.replace("MORE", "+ 1"), entry="f", grid=1, block="N")
    def f(x: In[Tensor, "int32", "N"], y: Out[Tensor, "int32", "N"]) -> Tensor: ...

    @f.overload(source.replace("MORE", ""), entry="f", grid=1, block="N")
    def f(x: In[Tensor, F32, "N"], y: Out[Tensor, F32, "N"]) -> Tensor: ...

    assert check(f, torch.randn(8)).findings == []
    (memory,) = found(f, torch.ones(8, dtype=torch.int32), modes=["memory"])
    assert "right after x" in memory.text
    with pytest.raises(tkjit.ArgumentError, match=r"no overload takes these arguments: .*float64.*float64"):
        check(f, torch.ones(8, dtype=torch.float64))


def test_a_call_may_have_a_list():
    @tkjit.kernel(
        "__global__ void f(Globals g) { g.y[threadIdx.x] = g.xs[0][threadIdx.x]; }", entry="f", grid=1, block="N"
    )
    def f(xs: In[list[Tensor], F32, "N"], y: Out[Tensor, F32, "N"]) -> Tensor:
        return xs[0].clone()

    assert check(f, [torch.randn(8), torch.randn(8)]).findings == []


def doubled(reference, **options):
    source = "__global__ void doubled(Globals g) { if (threadIdx.x < N) g.y[threadIdx.x] = 2 * g.x[threadIdx.x]; }"

    @tkjit.kernel(source.replace("N", "g.y.numel()"), entry="doubled", grid=1, block=512, **options)
    def doubled(x: In[Tensor, F32, "N"], y: Out[Tensor, F32, "N"]) -> Tensor:
        return reference(x)

    return doubled


def test_a_failing_reference_is_a_finding():
    (result,) = found(doubled(lambda x: 2 * x.view(-1, 256).flatten()), dims={"N": 300})
    assert result.kind == "result"
    assert "the reference fails: RuntimeError: shape '[-1, 256]' is invalid" in result.text
    assert "check chose the sizes; pass others with --dim N=1024, or limit them with constraints=" in result.text


def test_a_reference_that_returns_nothing_is_a_finding():
    (result,) = found(doubled(lambda x: None), dims={"N": 5})
    assert result.text.startswith("the reference returns NoneType for y; return a tensor from the function's body")


@pytest.mark.parametrize(
    ("returned", "text"), [((), "0 of 2"), (lambda x: (x,), "1 of 2"), (lambda x: [x, x], "list for y")]
)
def test_a_reference_with_too_few_results_is_a_finding(returned, text):
    @tkjit.kernel("__global__ void f(Globals g) { g.y[0] = 0; g.z[0] = 0; }", entry="f", grid=1, block=1)
    def f(x: In[Tensor, F32, 1], y: Out[Tensor, F32, 1], z: Out[Tensor, F32, 1]) -> tuple[Tensor, Tensor]:
        return returned(x) if callable(returned) else returned

    assert f"the reference returns {text}" in found(f)[0].text


def test_a_reference_with_another_shape_is_a_finding():
    (result,) = found(doubled(lambda x: 2 * x[:1]), dims={"N": 5})
    assert (
        result.text == "the shape of y is [5] in the spec, but [1] in the reference (the function's body); "
        "change the dims in the annotation, or what the body returns"
    )


def advanced(reference, **options):
    body = "const int i = threadIdx.x; if (i >= g.x.numel()) return; g.x[i] += 1; g.seen[i] = 3;"

    @tkjit.kernel(f"__global__ void advanced(Globals g) {{ {body} }}", entry="advanced", grid=1, block=512, **options)
    def advanced(x: InOut[Tensor, F32, "N"], seen: InOut[Tensor, F32, "N"]):
        return reference(x, seen)

    return advanced


@pytest.mark.parametrize(
    ("reference", "text"),
    [
        (lambda x, seen: (x.add_(1), seen.fill_(3)), ""),
        (
            lambda x, seen: (x.add_(2), seen.fill_(3)),
            r"x\[0\] is .*, but the reference .* gives .*; 5 elements differ$",
        ),
        (lambda x, seen: x + 1, r"the reference has not changed x, as x.add_\(1\) would"),
    ],
)
def test_in_place_changes_are_compared(reference, text):
    if text:
        assert re.search(text, found(advanced(reference), dims={"N": 5})[0].text)
    else:
        assert check(advanced(reference), dims={"N": 5}).findings == []
    assert check(advanced(reference, unchecked="x seen"), dims={"N": 5}).findings == []


@pytest.mark.slow
def test_an_unchecked_result_is_not_compared_even_if_it_is_returned():
    @tkjit.kernel("__global__ void f(Globals g) { g.x[0] = 1; }", entry="f", grid=1, block=1, unchecked="x")
    def f(x: InOut[Tensor, F32, 1]) -> Tensor:
        return x + 7

    assert check(f).findings == []
    assert _what_was_compared(f.specs) == "; unchecked= leaves no result to compare with the reference"


def test_the_tolerance_of_the_spec_applies_to_the_reference():
    assert check(doubled(lambda x: 2.001 * x, tolerance=0.01), dims={"N": 5}).findings == []
    assert [finding.kind for finding in found(doubled(lambda x: 2.001 * x), dims={"N": 5})] == ["result"]


def test_the_tolerance_of_the_spec_does_not_apply_between_two_orders():
    spec = doubled(lambda x: 2 * x, tolerance=0.1).specs[0]
    forward, reverse = {"y": torch.tensor([100.0, 1, 2])}, {"y": torch.tensor([100.0, 4, 2])}
    assert [finding["kind"] for finding in differences(spec, forward, reverse, "reverse")] == ["order"]
    assert [finding["kind"] for finding in differences(spec, {"y": forward["y"]}, reverse, None)] == []
    rows = {"y": torch.tensor([[100.0, 100.0], [1, 2]])}, {"y": torch.tensor([[100.0, 100.0], [1.5, 2]])}
    assert [finding["kind"] for finding in differences(spec, *rows, None)] == ["result"]


def test_a_source_that_a_call_rejects_is_rejected():
    source = "__global__ void f(Globals g) { g.x[threadIdx.x] = 1; g.y[threadIdx.x] = 1; }"

    @tkjit.kernel(source, entry="f", grid=1, block="N")
    def f(x: In[Tensor, F32, "N"], y: Out[Tensor, F32, "N"]) -> Tensor: ...

    with pytest.raises(tkjit.SpecError, match=r"the kernel writes to \.x, but x is In"):
        check(f)


def test_inputs_are_not_changed():
    @tkjit.kernel("__global__ void f(Globals g) { g.x[threadIdx.x] = 7; }", entry="f", grid=1, block="N")
    def f(x: InOut[Tensor, F32, "N"]) -> Tensor: ...

    x = torch.ones(4)
    check(f, x)
    assert x.tolist() == [1, 1, 1, 1]


# ---- the command line


@pytest.fixture
def kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    directory = tmp_path / "kernels"
    directory.mkdir()
    for name, source in (("good", CLEAN), ("racy", RACY)):
        (directory / f"{name}.py").write_text(
            "import tkjit\nfrom tkjit import In, Out, Tensor\n\n"
            f'@tkjit.kernel("{name}.cu", entry="reverse", grid=1, block=128)\n'
            f'def {name}(x: In[Tensor, "float32", 128], y: Out[Tensor, "float32", 128]) -> Tensor: ...\n'
        )
        (directory / f"{name}.cu").write_text(source)
    monkeypatch.setenv("TKJIT_KERNEL_PATH", str(directory))
    return directory


@pytest.mark.slow
def test_the_exit_code_shows_whether_anything_was_found(kernels, capsys):
    assert main(["check", "good", "--race"]) == 0
    printed = capsys.readouterr()
    assert printed.out == "" and printed.err == "good: race: nothing found in 3 launches\n"
    assert main(["check", "good", "--order"]) == 0
    assert capsys.readouterr().err.endswith(
        "nothing found in 5 launches; "
        "there is no reference to compare the results with: write it as the function's body\n"
    )
    assert main(["check", "racy", "--race"]) == 1
    printed = capsys.readouterr()
    assert re.search(rf"write by thread \(\d+, 0, 0\) of block \(0, 0, 0\) at {kernels / 'racy.cu'}:3", printed.out)
    assert f"at {kernels / 'racy.cu'}:4" in printed.out and "found with racy for cpu-" in printed.out
    assert main(["check", "nobody"]) == 1 and "no kernel" in capsys.readouterr().err


def test_findings_as_json(kernels, capsys):
    assert main(["check", "racy", "--race", "--init", "--json"]) == 1
    printed = json.loads(capsys.readouterr().out)
    assert {finding["kind"] for finding in printed["findings"]} == {"race", "uninitialized"} and printed[
        "launches"
    ] == 3
    race = next(finding for finding in printed["findings"] if finding["kind"] == "race")
    assert race["here"].keys() == {"access", "file", "line", "block", "thread", "callers"}
    assert race["here"]["file"].endswith("racy.cu")


def test_a_file_selects_its_kernels(tmp_path, capsys):
    (tmp_path / "plus.py").write_text(
        """
import tkjit
from tkjit import InOut, Tensor
SOURCE = "__global__ void f(Globals g) { if (threadIdx.x < g.x.numel()) g.x[threadIdx.x] += 1; }"
@tkjit.kernel(SOURCE, entry="f", grid=1, block=1024)
def plus(x: InOut[Tensor, "float32", "N"]) -> Tensor:
    return x.add_(1)
"""
    )
    file = str(tmp_path / "plus.py")
    assert main(["check", file, "--order"]) == 1
    printed = capsys.readouterr()
    assert printed.err.endswith("1 found in 25 launches\n  calls: N=64; N=1; N=53; N=300; N=1031\n")
    assert "x[1024] is " in printed.out and printed.out.endswith(", N=1031\n")
    assert main(["show", file]) == 0 and "struct Globals" in capsys.readouterr().out
    assert main(["diff", file]) == 0 and "plus for cpu" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("parameters", "options", "text"),
    [
        ('x: In[Tensor, "float32", "N"]', "", "the results match the reference"),
        (
            'x: In[Tensor, "float32", "N"]',
            ", backward=lambda grad_y, x: grad_y",
            "the results match the reference; verify compares the gradients",
        ),
        (
            'x: In[Tensor, "float32", "N"], rng: Generator',
            "",
            "it draws random numbers, so its results were not compared",
        ),
    ],
)
def test_the_last_line_states_what_was_compared(tmp_path, capsys, parameters, options, text):
    (tmp_path / "plus.py").write_text(
        f"""
import tkjit
from tkjit import Generator, In, Out, Tensor
SOURCE = "__global__ void f(Globals g) {{ if (threadIdx.x < g.x.numel()) g.y[threadIdx.x] = g.x[threadIdx.x] + 1; }}"
@tkjit.kernel(SOURCE, entry="f", grid=1, block=1024{options})
def plus({parameters}, *, y: Out[Tensor, "float32", "N"]) -> Tensor:
    return x + 1
"""
    )
    assert main(["check", str(tmp_path / "plus.py"), "--order", "--dim", "N=5"]) == 0
    assert f"launches; {text}" in capsys.readouterr().err


def test_sizes_from_the_command_line(capsys):
    assert main(["check", "axpy", "--race", "--types", "float32", "--dim", "N=5", "--arg", "alpha=0.5"]) == 0
    assert "nothing found in 3 launches" in capsys.readouterr().err
    for words, message in ((["--dim", "N"], "'N' is not an assignment"), (["--dim", "K=1"], "no dim or number K")):
        assert main(["check", "axpy", *words]) == 1 and message in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("name", sample(["axpy", "softmax", "gemm"], "softmax"))
def test_the_bundled_kernels_are_clean(name):
    assert check(name).findings == []


# ---- missing tools


@pytest.mark.slow
def test_a_compiler_without_address_sanitizer(kernels, tmp_path, monkeypatch, capsys, cache, cache_with_runtime):
    compiler = tmp_path / "g++"
    write_compiler(
        compiler,
        'case "$*" in *-fsanitize=address*.s*) echo "ld: cannot find -lasan" >&2; exit 1;; esac\n'
        f'exec {shutil.which("g++")} "$@"\n',
    )
    monkeypatch.setenv("CXX", str(compiler))
    assert main(["check", "good", "--memory"]) == 1
    assert re.search(
        r"no AddressSanitizer, which --memory needs; .*: apt-get install libgcc-\d+-dev", capsys.readouterr().err
    )
    assert main(["check", "good", "--race", "--init"]) == 0  # these need only the compiler


def test_a_machine_without_binutils(kernels, tmp_path, monkeypatch, capsys):
    found = shutil.which
    monkeypatch.setattr(shutil, "which", lambda name, **rest: None if name == "addr2line" else found(name, **rest))
    assert main(["check", "racy", "--race"]) == 1
    assert (
        "no addr2line, which check needs to find source lines; install it: apt-get install binutils"
        in capsys.readouterr().err
    )


# ---- the plugin


def test_the_plugin_fails_a_test_with_its_findings(pytester, kernels, monkeypatch):
    pytester.makepyfile("""
        def test_good(check_kernel):
            assert check_kernel("good", modes=["race"]).launches == 3

        def test_racy(check_kernel):
            check_kernel("racy", modes=["race"])
    """)
    result = pytester.runpytest_subprocess("-p", "tkjit.testing", "-p", "no:cacheprovider")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*KernelCheckError: racy: 1 finding*", "*race: nothing orders two accesses to tile*"])


@pytest.mark.slow
def test_an_interrupt_stops_the_launches_of_all_variants(monkeypatch):
    @tkjit.kernel(
        "__global__ void copy(Globals g) { if (threadIdx.x < g.y.numel()) g.y[threadIdx.x] = g.x[threadIdx.x]; }",
        entry="copy",
        grid=1,
        block=512,
        variants={"T": (F32, "int32")},
    )
    def copy(x: In[Tensor, "T", "N"], y: Out[Tensor, "T", "N"]) -> Tensor: ...

    launched, ends = [], threading.Event()

    def run(program, spec, arguments, **options):
        launched.append(arguments["x"].dtype)
        if arguments["x"].dtype == torch.float32:
            ends.set()
            raise KeyboardInterrupt
        assert ends.wait(60)
        time.sleep(0.5)
        return Run([], None)

    monkeypatch.setattr("tkjit.check.checker.run", run)
    with pytest.raises(KeyboardInterrupt):
        check(copy)
    assert launched.count(torch.float32) == 1 and launched.count(torch.int32) <= 2
