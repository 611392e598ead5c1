"""Warm starts: an unchanged kernel loads without running its spec file."""

import os
import time
from pathlib import Path

import pytest
from support.sampling import sample
from support.waiting import wait_until

pytestmark = pytest.mark.compiles
SOURCE = """
#include "value.h"
__global__ void fill(float* x) {
    x[0] = VALUE;
#ifdef MORE
    x[0] += 1;
#endif
}
"""
SPEC = """
import tkjit
from tkjit import InOut, Tensor

@tkjit.kernel("fill.cu", entry="fill", args=True, grid=1, block=1)
def fill(x: InOut[Tensor, "float32", "N"]) -> Tensor:
    return x.fill_(7)
"""
# prints the result of a call, and whether the spec file was run
CALL = """
import torch, tkjit
from tkjit import registry
run, ran = registry._run, []
registry._run = lambda *file: ran.append(file) or run(*file)
print(tkjit.load("fill")(torch.zeros(1)).item())
print(bool(ran))
"""


@pytest.fixture
def fill(cache_with_runtime, tmp_path, monkeypatch) -> Path:
    """The directory of a kernel that writes a value from a header."""
    directory = tmp_path / "kernels"
    directory.mkdir()
    (directory / "fill.py").write_text(SPEC)
    (directory / "fill.cu").write_text(SOURCE)
    (directory / "value.h").write_text("#define VALUE 1\n")
    monkeypatch.setenv("TKJIT_KERNEL_PATH", str(directory))
    return directory


@pytest.fixture
def call(fresh):
    """Calls the kernel in a new process; returns the result, and whether the spec file was run."""

    def run(code: str = CALL) -> tuple[float, bool]:
        value, ran = fresh.run(code).split()
        return float(value), ran == "True"

    return run


@pytest.fixture
def remembered(fill, call) -> Path:
    """Returns the directory of ``fill``, once a process has used the warm record of an earlier process."""
    time.sleep(0.1)  # files that were just written are not recorded
    assert call() == (1, True)
    time.sleep(0.1)

    def is_remembered() -> bool:
        value, ran = call()
        assert value == 1
        return not ran

    wait_until(is_remembered, 20)
    return fill


def test_an_unchanged_spec_file_is_not_run(remembered, call):
    assert call() == (1, False)


def rewrite(path: Path, old: str, new: str) -> None:
    path.write_text(path.read_text().replace(old, new))


def edit_the_header(directory: Path) -> None:
    rewrite(directory / "value.h", "1", "2")


def edit_the_source(directory: Path) -> None:
    rewrite(directory / "fill.cu", "VALUE;", "VALUE + 1;")


def edit_the_spec(directory: Path) -> None:
    rewrite(directory / "fill.py", "args=True", 'args=True, flags="-DMORE"')


def point_the_spec_elsewhere(directory: Path) -> None:
    (directory / "other.cu").write_text(SOURCE.replace("VALUE;", "2;"))
    rewrite(directory / "fill.py", "fill.cu", "other.cu")


def hide_the_spec(directory: Path) -> None:
    first = directory / "first"
    first.mkdir()
    for name in ("fill.py", "fill.cu", "value.h"):
        (first / name).write_text((directory / name).read_text())
    edit_the_header(first)
    os.environ["TKJIT_KERNEL_PATH"] = f"{first}:{directory}"


@pytest.mark.parametrize(
    "change",
    [
        edit_the_header,
        pytest.param(edit_the_source, marks=pytest.mark.slow),
        pytest.param(edit_the_spec, marks=pytest.mark.slow),
        pytest.param(point_the_spec_elsewhere, marks=pytest.mark.slow),
        pytest.param(hide_the_spec, marks=pytest.mark.slow),
    ],
)
def test_a_change_is_noticed(remembered, call, change, monkeypatch):
    monkeypatch.setenv("TKJIT_KERNEL_PATH", str(remembered))
    change(remembered)
    assert call() == (2, True)


RECORDED_AT_ONCE = "from tkjit.cache import fingerprints; fingerprints.SETTLED_NS = -(1 << 62)\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settled", "glue_is_there"),
    [
        ("", False),
        (RECORDED_AT_ONCE, True),
        pytest.param("", True, marks=pytest.mark.slow),
        pytest.param(RECORDED_AT_ONCE, False, marks=pytest.mark.slow),
    ],
)
def test_an_edit_while_the_first_process_runs_is_noticed_by_the_next(fill, call, settled, glue_is_there):
    """The first process built the old source, and its warm record must say so, even if it is written after the edit."""
    source = fill / "fill.cu"
    if glue_is_there:
        rewrite(source, "VALUE;", "VALUE + 8;")
        assert call() == (9, True)
        source.write_text(SOURCE)
    time.sleep(0.1)
    edit = f"open({str(source)!r}, 'w').write({SOURCE.replace('VALUE;', 'VALUE + 1;')!r})\n"
    assert call(settled + CALL.replace("print(bool", f"{edit}print(bool")) == (1, True)
    for _ in range(3):
        assert call()[0] == 2
        time.sleep(0.1)


def test_a_spec_file_that_is_not_plain_is_run_each_time(fill, call, monkeypatch):
    spec = SPEC.replace("import tkjit\n", "import os\nimport tkjit\n", 1)
    (fill / "fill.py").write_text(spec.replace("args=True", 'args=True, defines={"ADDED": os.environ["MORE"]}'))
    rewrite(fill / "fill.cu", "VALUE;", "VALUE + ADDED;")
    for more in (1, 2, 1, 2, 1):
        monkeypatch.setenv("MORE", str(more))
        time.sleep(0.1)
        assert call() == (1 + more, True)


@pytest.mark.slow  # builds the runtime again
def test_a_warm_start_is_recorded_and_depends_on_the_settings(remembered, call, monkeypatch, tmp_path):
    monkeypatch.setenv("TKJIT_RECORD", str(tmp_path / "used.jsonl"))
    assert call() == (1, False)
    assert "fill" in (tmp_path / "used.jsonl").read_text(), "a warm start also counts as a use"
    monkeypatch.setenv("CPLUS_INCLUDE_PATH", str(tmp_path))
    assert call() == (1, True), "compilers may find other headers"


@pytest.mark.slow
def test_another_variant_can_be_called_after_a_warm_start(fresh, warmed):
    call = "import torch, tkjit\naxpy = tkjit.load('axpy')\nx = torch.ones(1)\nprint(axpy(x, x.clone(), 2.0).item())\n"
    half = call.replace("print(", "print(axpy(x.half(), x.half(), 3.0).item(), ")
    for _ in range(3):
        time.sleep(0.1)
        assert fresh.run(call) == "3.0\n"
    assert fresh.run(half) == "4.0 3.0\n"


@pytest.mark.slow
def test_a_warm_kernel_has_all_attributes(remembered, fresh):
    code = CALL.split("print(", 1)[0] + (
        "kernel = tkjit.load('fill')\n"
        "same = (kernel.signature, kernel.__doc__) == (tkjit.find('fill').signature, tkjit.find('fill').__doc__)\n"
        "print(same, kernel.reference(torch.zeros(1)).item(), kernel.variants)\n"
        "print(kernel.name, kernel.__name__, kernel, hasattr(kernel, 'no'))\n"
    )
    described = "fill fill <tkjit kernel fill(x: Tensor, *, stream=None)> False\n"
    assert fresh.run(code) == f"True 7.0 (Variant(values=(), configuration=()),)\n{described}"


@pytest.mark.slow
def test_load_returns_a_new_object_after_an_edit(remembered, fresh):
    code = CALL.replace(
        "print(bool(ran))",
        "first = tkjit.load('fill')\n"
        f"open({str(remembered / 'value.h')!r}, 'w').write('#define VALUE 5')\n"
        "second = tkjit.load('fill')\n"
        "print(first(torch.zeros(1)).item(), second(torch.zeros(1)).item(), tkjit.load('fill') is second, bool(ran))",
    )
    assert fresh.run(code).split() == ["1.0", "1.0", "5.0", "True", "True"], "the spec file is run after the edit"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("harm", "arch"),
    sample(
        [(harm, arch) for arch in ("runtime", "glue", "cpu-*") for harm in ("cut", "gone")],
        "gone-glue",
        "cut-cpu-*",
        name="-".join,
    ),
)
def test_a_damaged_shared_object_of_a_warm_record_is_rebuilt(remembered, cache_with_runtime, call, arch, harm):
    (module,) = [
        path
        for path in cache_with_runtime.glob(f"v1/*/{arch}/*/[!.]*/*.so")
        if "fill" in str(path) or arch == "runtime"
    ]
    if harm == "cut":
        os.truncate(module, module.stat().st_size // 2)
    else:
        module.unlink()
    assert call()[0] == 1


@pytest.mark.slow
def test_a_flipped_bit_in_the_warm_record_only_costs_time(remembered, cache_with_runtime, call, rng):
    (record,) = cache_with_runtime.glob("v1/*/notes/kernel-fill-*")
    content = record.read_bytes()
    for _ in range(25):
        place = rng.randrange(len(content) - 1)
        flipped = bytearray(content)
        flipped[place] ^= 1 << rng.randrange(8)
        record.write_bytes(bytes(flipped))
        assert call()[0] == 1, place
