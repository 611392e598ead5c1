"""``python -m tkjit verify``: right kernels pass, wrong kernels are reported, and a crash affects no other kernel."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
import torch
from support.waiting import wait_until

import tkjit
from tkjit import In, Out, Scratch, Tensor, testing
from tkjit.cli import main
from tkjit.kernel_objects import Kernel
from tkjit.loader.warm_start import pack, unpack
from tkjit.system.start_time import start_time
from tkjit.verify import Outcome

pytestmark = pytest.mark.compiles
HEAD = """
import tkjit
from tkjit import In, Out, Scratch, Tensor, kernel
"""
ONE = '''
@kernel(
    """
    {more}
    __global__ void {name}(Globals g) {{
        const int i = blockIdx.x * blockDim.x + threadIdx.x, n = g.x.numel();
        {body}
    }}
    """,
    entry="{name}", grid="cdiv(N, 64) + 1", block=64, {options}
)
def {name}(x: In[Tensor, "float32", "N"], y: Out[Tensor, "float32", "N"]) -> Tensor:
    return 2 * x
'''
BODIES = {
    "right": "if (i < n) g.y[i] = 2 * g.x[i];",
    "one_off": "if (i < n) g.y[i] = i == 40 ? 1.5f * g.x[i] : 2 * g.x[i];",
    "unwritten": "if (i < n - 1) g.y[i] = 2 * g.x[i];",
    "outside": "if (i <= n) g.y.raw_ptr[i] = i < n ? 2 * g.x[i] : 1;",
    "reads_outside": "if (i < n) g.y[i] = 2 * g.x[i] + 0 * g.x.raw_ptr[i + 1];",
    "writes_input": "if (i < n) { g.y[i] = 2 * g.x[i]; ((float*)g.x.raw_ptr)[i] = 0; }",
    "dies": "if (n == 53) raise(SIGKILL); if (i < n) g.y[i] = 2 * g.x[i];",
    "hangs": "while (n == 53) usleep(1000); if (i < n) g.y[i] = 2 * g.x[i];",
}
MORE = {"dies": "#include <signal.h>", "hangs": "#include <unistd.h>"}


@pytest.fixture
def directory(tmp_path, session_cache, monkeypatch):
    """A directory of kernels, each in its own spec file."""
    monkeypatch.setenv("TKJIT_KERNEL_PATH", str(tmp_path))
    for name, body in BODIES.items():
        text = ONE.format(name=name, body=body, more=MORE.get(name, ""), options="")
        (tmp_path / f"{name}.py").write_text(HEAD + text)
    return tmp_path


def verified(capsys, *words: str) -> tuple[int, list[dict]]:
    status = main(["verify", *words, "--json"])
    return status, json.loads(capsys.readouterr().out)


def test_a_right_kernel_passes(directory, capsys):
    assert main(["verify", "right"]) == 0
    out, err = capsys.readouterr()
    table = out.splitlines()
    assert table[0].split() == ["call", "result", "error", "allowed", "compilers", "call"]
    assert [line.split()[:2] for line in table[1:]] == [[f"right(N={n})", "right"] for n in (64, 1, 53, 300, 1031)]
    assert "right(N=53)" not in err and "5 of 5 calls are right on cpu; 0 not verified" in err


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        pytest.param("one_off", r"y: \[40\] is ", marks=pytest.mark.slow),
        pytest.param("unwritten", r"y: \[63\] is nan, but ", marks=pytest.mark.slow),
        ("outside", "y: written out of bounds: element 64, of [64]"),
        pytest.param("reads_outside", r"y: \[63\] is nan", marks=pytest.mark.slow),
        ("writes_input", "x: the kernel has written to this input"),
    ],
)
def test_a_wrong_kernel_is_reported(directory, capsys, name, problem):
    status, (outcome,) = verified(capsys, name, "--dim", "N=64")
    assert status == 1 and not outcome["is_right"]
    assert problem.replace("\\", "") in outcome["problems"][0]


@pytest.mark.slow
def test_a_call_that_crashes_or_hangs_is_reported_and_the_later_calls_are_made(directory, capsys):
    assert verified(capsys, "hangs", "--dim", "N=64")[0] == 0  # compiles the kernel
    status, outcomes = verified(capsys, "dies", "hangs", "right", "--timeout", "15")
    assert status == 1
    assert {outcome["kernel"] for outcome in outcomes if outcome["is_right"]} == {"dies", "hangs", "right"}
    wrong = {outcome["kernel"]: outcome for outcome in outcomes if not outcome["is_right"]}
    assert wrong.keys() == {"dies", "hangs"} and all(outcome["case"] == "N=53" for outcome in wrong.values())
    assert wrong["dies"]["problems"] == ["its process ended with signal 9"]
    assert wrong["hangs"]["problems"] == ["it did not end within 15 s"]
    assert len(outcomes) == 3 * 5


def test_a_kernel_that_cannot_be_verified_is_reported_with_the_reason(directory, tmp_path, capsys):
    text = ONE.format(name="bare", body="", more="", options="").replace("return 2 * x", "...")
    (tmp_path / "bare.py").write_text(HEAD + text)
    status, (outcome,) = verified(capsys, "bare")
    assert status == 1 and "bare has no reference" in outcome["refused"] and not outcome["problems"]
    status, outcomes = verified(capsys, "right", "--model-arch", "120a")
    assert status == 1 and all("does not model sm_120a" in one["refused"] for one in outcomes)
    assert main(["verify", "unknown"]) == 1
    assert "no kernel is named 'unknown'" in capsys.readouterr().err
    if not torch.cuda.is_available():
        assert main(["verify", "right", "--device", "cuda"]) == 1
        assert "there is no GPU here; --device cpu runs kernels in the simulator" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--timeout", "nan"], "timeout is nan s; expected a finite number above 0"),
        pytest.param(["--dim", "N=2.5"], "right: N=2.5 is not an extent", marks=pytest.mark.slow),
        pytest.param(["--dim", "N=-5"], "right: N=-5 is not an extent", marks=pytest.mark.slow),
        pytest.param(["--dim", "M=5"], "right has no dim or number M", marks=pytest.mark.slow),
        (["--arg", "T=float16"], "right has no dim or number T"),
    ],
)
def test_wrong_options_are_rejected(directory, capsys, words, text):
    assert main(["verify", "right", *words]) == 1
    out, err = capsys.readouterr()
    assert text in out + err


@pytest.mark.slow
def test_a_large_size_and_a_variant_can_be_chosen():
    (outcome,) = testing.verify("gemm", dims={"T": "bfloat16", "M": 1024, "K": 1024, "N": 8})
    assert outcome.variant == "T=bfloat16"


def test_a_result_that_the_reference_does_not_return_is_wrong(directory, tmp_path, capsys):
    text = ONE.format(name="half", body=BODIES["right"], more="", options="")
    (tmp_path / "half.py").write_text(HEAD + text.replace("return 2 * x", "x = 2 * x"))
    status, (outcome,) = verified(capsys, "half", "--dim", "N=3")
    assert status == 1 and outcome["problems"] == ["y: the reference returns no result"]


def test_a_number_that_is_not_finite_is_null_in_json():
    outcome = Outcome("unwritten", errors={"y": float("nan"), "z": 0.5})
    assert outcome.as_json()["errors"] == {"y": None, "z": 0.5}


def test_a_kernel_with_dtype_and_device_parameters_is_verified(session_cache):
    source = "template <class T> __global__ void count(Globals g) { g.y[threadIdx.x] = T(threadIdx.x); }"

    @tkjit.kernel(source, entry="count<dtype>", grid=1, block="n", variants={"dtype": ("float32", "int32")})
    def count(n: int, dtype: torch.dtype, device: torch.device = "cpu", *, y: Out[Tensor, "dtype", "n"]) -> Tensor:
        return torch.arange(n, dtype=dtype, device=device)

    assert {outcome.variant for outcome in testing.verify(count)} == {"dtype=float32", "dtype=int32"}


def test_a_required_tensor_that_may_be_none_is_tried_with_and_without_one(session_cache):
    source = "__global__ void add(Globals g) { g.y[0] = g.x[0] + (g.b.raw_ptr ? g.b[0] : 0); }"

    @tkjit.kernel(source, entry="add", grid=1, block=1)
    def add(x: In[Tensor, "int32", 1], b: In[Tensor, "int32", 1] | None, y: Out[Tensor, "int32", 1]) -> Tensor:
        return x if b is None else x + b

    assert {"no b" in outcome.case for outcome in testing.verify(add)} == {True, False}


@pytest.mark.slow
def test_a_reference_gets_no_scratch(session_cache):
    source = "__global__ void twice(Globals g) { g.t[0] = g.x[0]; g.y[0] = 2 * g.t[0]; }"

    @tkjit.kernel(source, entry="twice", grid=1, block=1)
    def twice(x: In[Tensor, "int32", 1], t: Scratch[Tensor, "int32", 1], y: Out[Tensor, "int32", 1]) -> Tensor:
        assert t is None and y is None
        return 2 * x

    assert testing.verify(twice)
    assert testing.check(twice, modes=["memory"]).findings == []


@pytest.mark.parametrize(
    "ending, status",
    [
        (signal.SIGINT, 130),
        pytest.param(signal.SIGTERM, -signal.SIGTERM, marks=pytest.mark.slow),
        pytest.param(signal.SIGKILL, -signal.SIGKILL, marks=pytest.mark.slow),
    ],
)
def test_a_signal_leaves_no_process_behind(directory, ending, status):
    command = [sys.executable, "-m", "tkjit", "verify", "hangs", "--dim", "N=53"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as child:
        wait_until(lambda: any(map(has_loaded_a_kernel, children_of(child.pid))), 120, "the call begins")
        found = children_of(child.pid)
        child.send_signal(ending)
        child.communicate(timeout=60)
    assert child.returncode == status
    wait_until(lambda: all(start_time(pid) is None for pid in found), 5, "the processes end")


def has_loaded_a_kernel(pid: int) -> bool:
    with suppress(OSError):  # the process has ended
        return "/launcher.so" in Path(f"/proc/{pid}/maps").read_text()
    return False


def children_of(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    every = [path.name for path in Path(f"/proc/{pid}/task").iterdir()]
    texts = [Path(f"/proc/{pid}/task/{task}/children").read_text() for task in every]
    return [int(word) for part in (text, *texts) for word in part.split()]


def test_examples_prepare_and_tolerance_are_used(directory, tmp_path, capsys):
    options = 'examples=[{"N": 7}, {"N": 70}], prepare=small, tolerance=0.25'
    prepare = "\ndef small(arguments):\n    return {'x': arguments['x'] * 0 + 3}\n"
    body = "if (i < n) g.y[i] = g.x[i] == 3 ? 7 : 0;"  # off by a sixth
    (tmp_path / "own.py").write_text(HEAD + prepare + ONE.format(name="own", body=body, more="", options=options))
    status, outcomes = verified(capsys, "own")
    assert status == 0
    assert [outcome["case"] for outcome in outcomes] == ["N=7", "N=70"]
    assert all(outcome["errors"]["y"] == pytest.approx(1 / 6) and outcome["tolerance"] == 0.25 for outcome in outcomes)


def test_verify_can_be_called_in_a_test(directory):
    outcomes = testing.verify("right", dims={"N": 10})
    assert [str(outcome) for outcome in outcomes] == ["right(N=10)"] and outcomes[0].in_float64
    with pytest.raises(testing.KernelVerifyError, match=r"one_off: 1 of 1 calls is wrong\none_off\(N=64\): y: \[40\]"):
        testing.verify(tkjit.find("one_off"), dims={"N": 64})


def test_a_kernel_from_a_warm_record_has_its_examples(directory, tmp_path):
    options = 'examples={"N": 7}'
    path = tmp_path / "kept.py"
    path.write_text(HEAD + ONE.format(name="kept", body=BODIES["right"], more="", options=options))
    recorded = Kernel(*unpack(pack(tkjit.find("kept").specs, path)))
    assert not recorded.specs[0].verification.examples
    assert [outcome.case for outcome in testing.verify(recorded)] == ["N=7"]


@pytest.mark.parametrize("name", ["gemm", pytest.param("all_gather", marks=pytest.mark.slow)])
def test_bundled_kernels_of_several_dtypes_and_devices_are_right(session_cache, capsys, name):
    status, outcomes = verified(capsys, name, "--types", "bfloat16")
    assert status == 0 and len(outcomes) >= 3, outcomes
    assert all(outcome["in_float64"] for outcome in outcomes)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"examples": [3]}, "examples= takes dictionaries"),
        ({"examples": {"...": 3}}, "'...' in examples= is 3; expected a tuple"),
        ({"prepare": 3}, "prepare is 3; expected a function"),
        ({"tolerance": "x"}, "tolerance is 'x'; expected a number above 0"),
        ({"tolerance": -1}, "tolerance is -1"),
        ({"zeroed": "y"}, "zeroed= names y, which is not an input that verify could zero"),
        ({"unchecked": "z"}, "unchecked= names z, which the kernel does not write"),
    ],
)
def test_invalid_options_are_rejected(options, text):
    with pytest.raises(tkjit.SpecError, match=text):

        @tkjit.kernel("__global__ void f(Globals g) {}", entry="f", grid=1, block=1, **options)
        def f(y: Out[Tensor, "float32", 3]) -> Tensor: ...


@pytest.mark.slow
def test_a_variant_that_does_not_compile_is_compiled_once(directory, capsys):
    text = ONE.format(name="refused", body="g.y[0] = undeclared;", more="", options="")
    (directory / "refused.py").write_text(HEAD + text)
    assert main(["verify", "refused", "--json"]) == 1
    first, *others = json.loads(capsys.readouterr().out)
    (problem,) = first["problems"]
    assert problem.startswith("CompileError: ") and "undeclared" in problem and "reproduce" not in problem
    assert [outcome["problems"] for outcome in others] == [["does not compile; see N=64"]] * 4


@pytest.mark.slow
def test_a_reference_that_does_not_change_its_argument_is_reported(directory, tmp_path, capsys):
    (tmp_path / "adds.py").write_text(
        HEAD.replace("In,", "InOut,")
        + """
@tkjit.kernel("__global__ void adds(Globals g) { g.x[threadIdx.x] += 1; }", entry="adds", grid=1, block="N")
def adds(x: InOut[Tensor, "float32", "N"]) -> None:
    return x + 1
"""
    )
    status, (outcome,) = verified(capsys, "adds", "--dim", "N=64")
    assert status == 1 and outcome["problems"][0].endswith("; the reference has not changed it, as x.add_(1) would")
