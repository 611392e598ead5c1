"""A launch program and the compiled launch function of the same spec make the same launches."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support.define import define

import tkjit
from tkjit import CompileError
from tkjit.compile.flags import DRIVER, INCLUDE
from tkjit.compile.targets import gpu_target
from tkjit.kernel_objects import kernels
from tkjit.loader.device_code import PROGRAM, open_program
from tkjit.render import render_launcher
from tkjit.render.launcher import why_host_code
from tkjit.spec import Field, Spec, Variant, variants_of

pytestmark = pytest.mark.nvcc
SUPPORT = Path(__file__).parents[1] / "support/driver"
CALLS = 40  # random calls of each case; some have extents and integers that do not fit


@dataclass
class Case:
    name: str
    spec: Spec
    variant: Variant
    parameters: str = ""  # the types of a kernel without a struct


STRUCT = "__global__ void f(const __grid_constant__ Globals g{}) {{}}"


def written(signature: str, trailing: str = "", parameters: str = "", **options: Any) -> tuple[Spec, str]:
    """Return the spec of an empty kernel."""
    types = parameters.split(", ") if parameters else []
    if parameters and not trailing:
        source = f"__global__ void f({', '.join(f'{type} p{i}' for i, type in enumerate(types))}) {{}}"
        options["args"] = True
    else:
        source = STRUCT.format("".join(f", {type} p{i}" for i, type in enumerate(types)))
        options |= {"trailing": trailing} if trailing else {}
    options = {"grid": 1, "block": 32, **options}
    return define(source, signature, entry="f", compiler="nvrtc", **options).specs[0], "" if trailing else parameters


OWN_CASES = {
    "every kind of field": written(
        """(
            x: In[Tensor, "bfloat16", "N"],
            y: InOut[Tensor, "float32", "M", 4],
            strided: In[Strided, "float32", "A", "B", "C"],
            some: In[list[Tensor], "int8", "K"],
            flag: bool,
            n8: Scalar[int, "int8_t"],
            wide: Scalar[int, "uint64_t"],
            factor: Scalar[float, "double"],
            n: int,
            numbers: list[int],
            random: In[Generator, "4"],
            weights: list[float] | None = None,
            maybe: float | None = None,
            other: In[Tensor, "float32", "M"] = None,
        )""",
        trailing="factor, n",
        parameters="double, int",
        grid="cdiv(N, 32), max(min(M, K, 7), 1)",
    ),
    "plain parameters": written(
        """(
            x: In[Tensor, "float32", "M", "N"],
            y: InOut[Tensor, "int64", "... K"],
            n: Scalar[int, "int64_t"],
            small: Scalar[int, "uint16_t"],
            flag: bool,
            alpha: Scalar[float, "double"],
        )""",
        parameters="const float*, int64_t*, int64_t, unsigned short, bool, double, int64_t, int64_t",
        computed={"all": "M * N - n", "few": "K // 2"},
        fields="x y n small flag alpha all few",
        grid="M, N // 4",
    ),
    "expressions": written(
        '(x: In[Strided, "float32", "A", "B"], y: InOut[Tensor, "float32", "... M", "N"], n: int)',
        grid="-(-A // 4) + x.stride(-1) % 5, (1 < A < B <= 1000) + (M == N) + (M != n), y.rows * y.numel",
        block="max(1, min(y.cols, 1024, N * 3))",
        shared_memory="4 * M + cdiv(n, 3)",
        computed={"left": "y.batch * y.depth - n", "right": "B"},
        fields="left x y n right",
    ),
    "a cluster": written('(x: InOut[Tensor, "float32", "N"])', cluster=(2, 3, 1), grid="2 * N, 3", cooperative=True),
    "programmatic launch": written('(x: InOut[Tensor, "float32", "N"])', pdl=True, grid="N // 8"),
}


def bundled() -> Iterator[Case]:
    """Yield the first and last variant of each bundled kernel that a launch program can launch."""
    for name in sorted(kernels()):
        for index, spec in enumerate(tkjit.find(name).specs):
            if why_host_code(spec) or spec.args or not spec.source_for("90a"):
                continue
            variants = variants_of(spec)
            for variant in {str(one): one for one in (variants[0], variants[-1])}.values():
                yield Case(f"{name} {index} {variant}", spec, variant)


def own() -> Iterator[Case]:
    for name, (spec, parameters) in OWN_CASES.items():
        yield Case(name, spec, Variant(), parameters)


def described(field: Field) -> dict[str, Any]:
    """Describe a field for support/driver/compare_launches.py."""
    common = {"optional": field.optional, "rank": len(field.dims), "leading": field.leading}
    if field.draws is not None:
        return {**common, "kind": "random"}
    if field.is_parallel:
        return {**common, "kind": "parallel"}
    if field.is_tensor:
        item = {**common, "kind": "tensor", "optional": field.has_optional_items}
        return (
            {**common, "kind": "list", "max_length": field.max_length, "item": item} if field.is_list else item | common
        )
    if field.value_type is not None and field.value_type.item is not None:
        kind = "real" if field.value_type.item.code == "f" else "integer"
        item = {"kind": kind, "optional": False, "is_bool": False}
        return {**common, "kind": "list", "max_length": field.max_length, "item": item}
    is_real = field.dtype in ("float", "double")
    return {**common, "kind": "real" if is_real else "integer", "is_bool": field.dtype == "bool"}


def launch_function(case: Case, number: int) -> str:
    """Render a case's launch function, with the fake driver's printing in place of the launch."""
    text = render_launcher(case.spec, case.variant, "", "empty.cu")
    text = re.sub(r"^#include <(?!tkjit/source_main).*>\n", "", text, flags=re.MULTILINE)
    text = re.sub(r"^TKJIT_MARK_ENTRY.*\n|^static_assert\(tkjit::takes.*\n", "", text, flags=re.MULTILINE)
    entry = f"tkjit::Entry<{case.parameters}>{{}}, " if case.parameters else ""
    text = re.sub(r"tkjit::launch\(.*?, shape", "tkjit::launch(shape", text)
    text = re.sub(r"(tkjit::launch_with_arguments|tkjit::check_arguments)\(.*?, ", rf"\1({entry}", text)
    text = text.replace(" tkjit_launch(", f" tkjit_launch_{number}(")
    return f"namespace case_{number} {{\n{text}}}\n"


def launches(loader, directory: Path, cases: list[Case]) -> dict[tuple[str, str], dict[str, list[str]]]:
    """Make the random calls of each case, and return what each launch of a call printed."""
    subprocess.run(
        ["gcc", "-shared", "-fPIC", "-w", str(SUPPORT / "libcuda.c"), "-o", str(directory / "libcuda.so.1")], check=True
    )
    text = '#include "recorder.h"\nextern "C" TKJIT_EXPORT void flush_output() { std::fflush(stdout); }\n'
    listed = []
    for number, case in enumerate(cases):
        entry = loader.launcher(case.spec, case.variant, gpu_target("90a"))
        assert entry.shared_object.name == PROGRAM, (case.name, entry.manifest.get("why_nvcc"))
        text += launch_function(case, number)
        program = json.loads(entry.shared_object.read_text())
        ends = [*program["parameters"][1:], program["bytes"]]
        listed.append(
            {
                "name": case.name,
                "function": f"tkjit_launch_{number}",
                "program": str(entry.shared_object),
                "fields": [described(field) for field in case.spec.struct_fields],
                "sizes": ",".join(str(end - start) for start, end in zip(program["parameters"], ends, strict=True)),
                "calls": CALLS,
            }
        )
    (directory / "cases.json").write_text(json.dumps(listed))
    (directory / "functions.cpp").write_text(text)
    functions = directory / "functions.so"
    include = [f"-I{path}" for path in (SUPPORT, DRIVER, INCLUDE)]
    # so that the padding in a struct is zero, as in a launch program
    flags = ["-std=c++20", "-O0", "-w", "-shared", "-fPIC", "-fvisibility=hidden", "-ftrivial-auto-var-init=zero"]
    subprocess.run(["g++", *flags, *include, str(directory / "functions.cpp"), "-o", str(functions)], check=True)
    child = subprocess.run(
        [sys.executable, str(SUPPORT / "compare_launches.py"), str(directory / "cases.json"), str(functions)],
        capture_output=True,
        text=True,
        env={**os.environ, "LD_LIBRARY_PATH": str(directory)},
    )
    assert child.returncode == 0, child.stderr
    found: dict[tuple[str, str], dict[str, list[str]]] = {}
    for part in child.stdout.split("case ")[1:]:
        first, *lines = part.splitlines()
        name, number, who = first.rsplit(" ", 2)
        found.setdefault((name, number), {})[who] = lines
    return found


def check_same(found: dict[tuple[str, str], dict[str, list[str]]]) -> None:
    for call, both in found.items():
        compiled = both["compiled"]
        sizes = (
            [int(size) for size in compiled[0].removeprefix("sizes ").split(",") if size] if len(compiled) > 1 else []
        )
        ours, theirs = seen(both["program"], sizes), [line for line in compiled if not line.startswith("sizes ")]
        assert [*map(str.split, ours)] == [*map(str.split, theirs)], call


def seen(lines: list[str], sizes: list[int]) -> list[str]:
    """Return the lines about the launch itself, without the stream and the padding between parameters."""
    kept = [line for line in lines if line.startswith(("parameters", "attribute", "cuLaunchKernelEx", "error"))]
    for i, line in enumerate(kept):
        if line.startswith("parameters"):
            values = line.split()[1:]
            kept[i] = " ".join(["parameters", *(one[: 2 * size] for one, size in zip(values, sizes, strict=True))])
        elif line.startswith("cuLaunchKernelEx"):
            kept[i] = " ".join(line.split()[:4])
    return kept


def test_launches_are_the_same(loader, tmp_path):
    found = launches(loader, tmp_path, list(own()))
    assert len(found) == len(OWN_CASES) * CALLS
    check_same(found)
    launched = {name for (name, _), both in found.items() if both["compiled"][-1] == "error None"}
    refused = {name for (name, _), both in found.items() if both["compiled"][-1] != "error None"}
    assert launched == set(OWN_CASES) and {"plain parameters", "expressions"} <= refused


@pytest.mark.slow
def test_launches_of_bundled_kernels_are_the_same(loader, tmp_path):
    cases = list(bundled())
    assert len(cases) > 20
    check_same(launches(loader, tmp_path, cases))


CONTRADICTIONS = {
    "another struct": ("struct Own { int a; };\n__global__ void f(const __grid_constant__ Own own) {}", {}),
    "a pointer": ("__global__ void f(float* x) {}", {}),
    "a parameter too many": (STRUCT.format(", int n"), {}),
    "a parameter too few": (STRUCT.format(""), {"trailing": "n"}),
}


@pytest.mark.parametrize("case", CONTRADICTIONS)
def test_an_entry_that_contradicts_the_spec_does_not_compile(loader, case):
    source, options = CONTRADICTIONS[case]
    options = {"entry": "f", "grid": 1, "block": 32, "compiler": "nvrtc", **options}
    spec = define(source, '(x: InOut[Tensor, "float32", "N"], n: int)', **options).specs[0]
    with pytest.raises(CompileError, match="the parameters of f; the spec of "):
        loader.launcher(spec, Variant(), gpu_target("90a"))


# ---- programs that cannot be run


@pytest.fixture(scope="module")
def entry(loader):
    spec, _ = OWN_CASES["every kind of field"]
    return loader.launcher(spec, Variant(), gpu_target("90a"))


WRONG = {
    "an unknown operation": lambda program: program["program"].append(["jump", 0]),
    "it writes outside of the parameters": lambda program: program["program"].append(["store_pointer", 0, 1 << 20]),
    "it uses an argument that a call does not pass": lambda program: program["program"].append(
        ["store_pointer", 99, 0]
    ),
    "it takes more integers than it has": lambda program: program["program"].append(["add"]),
    "it leaves integers on the stack": lambda program: program["program"].append(["number", 1]),
    "an expression in it is too deep": lambda program: program["program"].extend([["number", 1]] * 40),
    "it has no such text": lambda program: program["program"].extend([["number", 1], ["check_blocks", 99]]),
    "it uses a dim that no tensor has": lambda program: program["program"].append(["extent", 0, 8]),
    "it has an integer of an unknown size": lambda program: program["program"].append(["store_integer", 0, 0, 3]),
    "kernel.cubin has changed": lambda program: program.update(cubin="0" * 64),
    "a parameter is outside of the block": lambda program: program.update(parameters=[1 << 20]),
    "symbol": lambda program: program.pop("symbol"),
}


@pytest.mark.parametrize("reason", WRONG)
def test_a_wrong_program_is_refused(loader, entry, tmp_path, reason):
    program = json.loads(entry.shared_object.read_text())
    WRONG[reason](program)
    (tmp_path / PROGRAM).write_text(json.dumps(program))
    (tmp_path / "kernel.cubin").write_bytes((entry.directory / "kernel.cubin").read_bytes())
    with pytest.raises(ImportError, match="jump" if "operation" in reason else reason):
        open_program(tmp_path / PROGRAM, loader.launch_programs, synchronous=False)


def test_a_damaged_program_is_built_again(loader, entry):
    (entry.directory / "kernel.cubin").write_bytes(b"no cubin")
    spec, _ = OWN_CASES["every kind of field"]
    opened = loader.open(loader.launcher_plan(spec, Variant(), gpu_target("90a")))
    assert opened.loaded and (opened.entry.directory / "kernel.cubin").read_bytes().startswith(b"\x7fELF")
