"""``make gpu``: shards, report, and resumption after an interruption."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

import pytest
from support.waiting import wait_until

from benchmarks import __main__ as runner
from benchmarks.gpu import __main__ as gpu
from benchmarks.gpu.__main__ import Result, Shard, add_tests, finished, markdown, run, shards

REPORT = """<testsuites><testsuite>
<testcase name="test_a"/>
<testcase name="test_b"><failure message="assert 1 == 2&#10;more"/></testcase>
<testcase name="test_c"><skipped message="no multicast"/></testcase>
<testcase name="test_d"><error message=""/></testcase>
</testsuite></testsuites>"""


def result(**changes: object) -> Result:
    return Result(**{"shard": "one", "commit": "abc", "device": "H100", "command": [], "ended": "ended", **changes})


@pytest.mark.parametrize(("jobs", "sizes"), [(1, [12, 12, 6, 4, 4, 1, 0, 0, 0, 12, 12, 6]), (14, [30, 9, 0, 0, 0, 30])])
def test_every_test_is_in_one_shard_of_a_compiler_and_every_benchmark_too(jobs, sizes, monkeypatch):
    monkeypatch.setattr(gpu, "JOBS", jobs)
    tests = [f"tests/runtime/test_gpu_calls.py::test_{i}" for i in range(30)]
    kernels = [f"tests/kernel_sources/test_gpu_thunderkittens.py::test_agrees[{i}]" for i in range(9)]
    found = shards([*kernels, *tests])
    assert [node for shard in found for node in shard.tests if not shard.compiler] == [*tests, *kernels]
    assert [node for shard in found for node in shard.tests if shard.compiler == "nvcc"] == tests
    assert [len(shard.tests) for shard in found] == sizes
    assert len({shard.name for shard in found}) == len(found)
    assert tuple(shard.benchmark for shard in found if shard.benchmark) == runner.GPU


def test_tests_run_side_by_side_under_the_compiler_of_their_shard(tmp_path: Path):
    command = Shard("one", ("a::b", "a::c"), compiler="nvcc").command(tmp_path, 480)
    assert command[command.index("-n") + 1] == str(min(gpu.JOBS, 2))
    assert command[command.index("--device-compiler") + 1] == "nvcc" and command[-2:] == ["a::b", "a::c"]
    assert "--device-compiler" not in Shard("one", ("a::b",)).command(tmp_path, 480)


def test_a_report_is_counted_with_the_reasons(tmp_path: Path):
    (tmp_path / "one.xml").write_text(REPORT)
    outcome = result()
    add_tests(outcome, tmp_path / "one.xml")
    assert (outcome.passed, outcome.failed, outcome.skipped) == (1, 2, 1) and not outcome.is_good
    assert outcome.failures == ["test_b: assert 1 == 2", "test_d: no message"]


def test_a_shard_that_has_ended_is_not_run_again_until_the_commit_is_another(tmp_path: Path):
    shard = Shard("one", ("tests/runtime/test_gpu_calls.py::test_a",))
    command = shard.command(tmp_path, 480)
    assert finished(shard, tmp_path, "abc") is None
    (tmp_path / "one.json").write_text(json.dumps(asdict(result(passed=3, command=command))))
    assert finished(shard, tmp_path, "abc").passed == 3
    assert finished(shard, tmp_path, "another") is None
    assert finished(Shard("one", (*shard.tests, "tests/a.py::test_b")), tmp_path, "abc") is None  # of more cores
    (tmp_path / "one.json").write_text(json.dumps(asdict(result(ended="killed after 480 s", command=command))))
    assert finished(shard, tmp_path, "abc") is None


def test_a_shard_that_hangs_is_killed_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    child = f"import os, time; open({str(tmp_path / 'child')!r}, 'w').write(str(os.getpid())); time.sleep(60)"
    started = f"import subprocess, sys; print('begun', flush=True); subprocess.run([sys.executable, '-c', {child!r}])"
    sleeping = [sys.executable, "-c", started]
    monkeypatch.setattr(Shard, "command", lambda self, out, seconds: sleeping)
    outcome = run(Shard("one", ("tests/sim/test_gpu_a.py::test_a",)), tmp_path, 1, "abc", "H100")
    assert outcome.ended == "killed after 1 s" and "begun" in outcome.output
    assert json.loads((tmp_path / "one.json").read_text())["ended"] == outcome.ended
    status = Path(f"/proc/{(tmp_path / 'child').read_text()}/stat")
    wait_until(lambda: not status.exists() or b") Z " in status.read_bytes(), what="the end of what the shard started")


def test_tests_that_the_time_did_not_reach_are_not_called_good(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    report = f"open({str(tmp_path / 'one.xml')!r}, 'w').write({REPORT!r})"
    monkeypatch.setattr(Shard, "command", lambda self, out, seconds: [sys.executable, "-c", report])
    tests = tuple(f"tests/sim/test_gpu_a.py::test_{i}" for i in range(6))
    outcome = run(Shard("one", tests), tmp_path, 20, "abc", "H100")
    assert outcome.ended == "2 of 6 tests not run: time ran out" and not outcome.is_good


@pytest.mark.slow
@pytest.mark.compiles
def test_the_time_of_tests_side_by_side_may_be_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    tests = tmp_path / "test_slow.py"
    tests.write_text("import time\ndef test_a(): pass\ndef test_b(): time.sleep(3)\n" + "def test_c(): pass\n")
    shard = Shard("one", tuple(f"{tests}::test_{name}" for name in "abc"))
    options = "-q -n 1 -p no:cacheprovider --session-timeout 1".split()
    command = [sys.executable, "-m", "pytest", *options, f"--junitxml={tmp_path}/one.xml", *shard.tests]
    monkeypatch.setattr(Shard, "command", lambda self, out, seconds: command)
    outcome = run(shard, tmp_path, 60, "abc", "H100")
    assert outcome.ended.endswith("of 3 tests not run: time ran out") and outcome.passed >= 1, outcome.output


def test_a_report_of_an_earlier_run_is_not_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "one.xml").write_text(REPORT)
    monkeypatch.setattr(Shard, "command", lambda self, out, seconds: [sys.executable, "-c", "raise SystemExit(4)"])
    outcome = run(Shard("one", ("tests/sim/test_gpu_a.py::test_a",)), tmp_path, 20, "abc", "H100")
    assert outcome.ended == "exit 4" and (outcome.passed, outcome.failed, outcome.skipped) == (0, 0, 0)


def test_the_report_has_the_device_the_rows_and_the_failures():
    row = {"what": "gemm", "peer": "cuBLAS", "ours": 2.0, "theirs": 4.0, "unit": "us", "limit": None, "ratio": 0.5}
    text = markdown([result(passed=2), result(shard="two", rows=[row], failed=1, failures=["test_a: `x` is wrong"])])
    assert text.startswith("Device: H100; commit abc;")
    assert "| one | 2 | 0 | 0 | 0 | ended |" in text and "| gemm | 2 us | cuBLAS | 4 us | 0.500 |" in text
    assert "* `test_a: 'x' is wrong`" in text


def test_without_a_gpu_nothing_is_started_and_the_reason_is_said(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(gpu, "missing", lambda: (["torch sees no GPU"], ["CuPy is missing"]))
    monkeypatch.setattr(gpu, "collected", lambda: ["tests/sim/test_gpu_a.py::test_a"])
    monkeypatch.setattr(gpu, "run", lambda *arguments: pytest.fail("nothing can run"))
    assert gpu.main(["--out", str(tmp_path / "results")]) == 1
    assert capsys.readouterr().err == "torch sees no GPU\nCuPy is missing\n"
    assert not (tmp_path / "results").exists()
