"""Sources for each architecture, and the headers, defines, flags and libraries with which they are compiled."""

import subprocess

import pytest
import torch
from support.define import define, floats

import tkjit
from tkjit import InOut, Tensor

pytestmark = pytest.mark.compiles


@pytest.mark.slow
def test_the_simulator_compiles_the_right_source():
    def source(value: int) -> str:
        return f"__global__ void fill(Globals g) {{ g.x[0] = {value}; }}"

    options = {"entry": "fill", "grid": 1, "block": 1}
    signature = '(x: InOut[Tensor, "float32", 1]) -> Tensor'
    own = define(source(1), signature, archs={"90a": source(2), "80": source(3)}, cpu=source(4), **options)
    assert own(torch.zeros(1)).item() == 4
    common = define(source(1), signature, archs={"90a": source(2)}, **options)
    assert common(torch.zeros(1)).item() == 1
    only = define(None, signature, archs={"90a": source(2)}, **options)
    assert only(torch.zeros(1)).item() == 2
    several = define(None, signature, archs={"90a": source(2), "80": source(3)}, **options)
    assert several(torch.zeros(1)).item() == 2
    newer = define(None, signature, archs={"120a": source(2), "121a": source(3)}, **options)
    with pytest.raises(
        tkjit.ToolchainError, match=r"feature_\d+ is written for sm_120a, which the simulator does not model"
    ):
        newer(torch.zeros(1))


def test_relative_include_dirs_and_defines_reach_the_compiler():
    @tkjit.kernel(
        "../support/kernels/shifted.cu",
        entry="shifted",
        grid=1,
        block="N",
        include_dirs=["../support/kernels/include"],
        defines={"STEP": 3},
    )
    def shifted(x: InOut[Tensor, "int32", "N"]) -> Tensor: ...

    assert shifted(torch.tensor([1, 2], dtype=torch.int32)).tolist() == [124, 125]


def test_flags_defines_and_standard_reach_the_compiler():
    kernel = define(
        "__global__ void fill(Globals g) { g.x[0] = FLAGGED * 100 + DEFINED; g.x[1] = __cplusplus > 202002L; }",
        '(x: InOut[Tensor, "int32", 2]) -> Tensor',
        entry="fill",
        grid=1,
        block=1,
        flags=["-DFLAGGED=4", "--use_fast_math"],
        defines={"DEFINED": "(1 + 1)"},
        std="c++23",
    )
    assert kernel(torch.zeros(2, dtype=torch.int32)).tolist() == [402, 1]


# ---- libraries


def test_a_static_library_is_linked_after_the_source(tmp_path):
    (tmp_path / "seven.cpp").write_text('extern "C" int seven() { return 7; }\n')
    build = "g++ -fPIC -c seven.cpp -o seven.o && ar rc libseven.a seven.o"
    subprocess.run(build, shell=True, check=True, cwd=tmp_path)
    kernel = define(
        'extern "C" int seven();\n__global__ void f(Globals g) { g.x[0] = seven(); }',
        '(x: InOut[Tensor, "float32", 1]) -> Tensor',
        entry="f",
        grid=1,
        block=1,
        flags=f"-L{tmp_path}",
        libraries="seven",
    )
    assert kernel(floats(0)).item() == 7


@pytest.mark.slow
def test_a_directory_in_a_define_is_part_of_the_key(tmp_path):
    results = []
    for name in ("one", "another"):
        directory = tmp_path / name
        directory.mkdir()
        (directory / "length.cu").write_text("__global__ void f(Globals g) { g.x[0] = sizeof(HERE) - 1; }\n")
        kernel = define(
            directory / "length.cu",
            '(x: InOut[Tensor, "float32", 1]) -> Tensor',
            entry="f",
            grid=1,
            block=1,
            defines={"HERE": f'"{directory}"'},
        )
        results.append(kernel(floats(0)).item() - len(str(directory)))
    assert results == [0, 0]
