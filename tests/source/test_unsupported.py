"""Unsupported constructs are explained, but only at places that the compiler's log names."""

from pathlib import Path

import pytest

import tkjit
from tkjit.source.unsupported import _WRAPPERS, mnemonics_of, why_not_on_the_cpu

ASM = 'void f() {\n    asm volatile(\n        "OP %0;"\n        : "=r"(x));\n}\n'


def gas(line: int, instruction: str) -> str:
    return f"a.cu: Assembler messages:\na.cu:{line}: Error: no such instruction: `{instruction} %eax'\n"


@pytest.mark.parametrize(
    "mnemonic, function, header",
    [
        ("mma.sync.aligned.m16n8k16", "mma_m16n8k16", "mma.cuh"),
        ("ldmatrix.sync", "ldmatrix_x4", "ldmatrix.cuh"),
        ("stmatrix.sync", "stmatrix_x4", "stmatrix.cuh"),
        ("cp.async.cg.shared.global", "cp_async_16", "cp_async.cuh"),
        ("cp.async.commit_group", "cp_async_commit", "cp_async.cuh"),
        ("cp.async.bulk.shared::cluster.global", "bulk_copy_to_shared", "bulk_copy.cuh"),
        ("cp.async.bulk.global.shared", "bulk_store_to_global", "bulk_copy.cuh"),
        ("mbarrier.init.shared.b64", "mbarrier_init", "mbarrier.cuh"),
        ("bar.sync", "named_barrier_sync", "named_barrier.cuh"),
        ("barrier.sync.aligned", "named_barrier_sync", "named_barrier.cuh"),
        ("setmaxnreg.inc.sync", "increase_registers", "registers.cuh"),
    ],
)
def test_the_wrapper_of_an_instruction_is_named(mnemonic, function, header):
    message = why_not_on_the_cpu(ASM.replace("OP", mnemonic), "dir/a.cu", gas(4, mnemonic))
    assert message.startswith(f"dir/a.cu:2 has {mnemonic}")
    assert message.endswith(f" in an asm; tkjit::{function} from <tkjit/{header}> runs on CPU and GPU")


@pytest.mark.parametrize("header, function", sorted(set(_WRAPPERS.values()) - {("", "")}))
def test_each_wrapper_exists(header, function):
    headers = Path(tkjit.__file__).parent / ("include/tkjit" if header else "sim")
    texts = [path.read_text() for path in headers.rglob("*.*h")]
    name = function.removeprefix("tkjit::").replace("_x4", "_x").replace("__reduce_add_sync", "__reduce_")
    assert any(name in text for text in texts)
    assert not header or (headers / header).is_file()


@pytest.mark.parametrize(
    "mnemonic",
    ["wgmma.mma_async", "tcgen05.ld", "cp.async.bulk.tensor.2d", "barrier.cluster.arrive", "prefetch.global"],
)
def test_an_instruction_without_a_wrapper_is_named(mnemonic):
    message = why_not_on_the_cpu(ASM.replace("OP", mnemonic), "a.cu", gas(3, mnemonic))
    assert message.startswith(f"a.cu:2 has {mnemonic} in an asm, for which tkjit has no wrapper;")
    assert message.endswith('cpu="name.cpp" in the spec')


def test_an_asm_with_impossible_constraints_is_named():
    log = "a.cu: In function 'void f()':\na.cu:2:5: error: impossible constraint in 'asm'\n"
    assert why_not_on_the_cpu(ASM.replace("OP", "bar.sync"), "a.cu", log).startswith("a.cu:2 has bar.sync")


def test_an_asm_in_a_macro_is_found_by_its_instruction():
    source = '#define A asm("bar.arrive 1, 2;")\n#define B asm("ldmatrix.x %0;" : "=r"(x))\nvoid f() { B; }\n'
    assert why_not_on_the_cpu(source, "a.cu", gas(3, "ldmatrix.x")).startswith("a.cu:2 has ldmatrix.x")


def test_an_asm_in_a_header_is_named_by_the_headers_line():
    log = "ptx.cuh:7: Error: no such instruction: `bar.sync 0'"
    assert why_not_on_the_cpu("int x;", "a.cu", log).startswith("ptx.cuh:7 has an asm of PTX; ")


@pytest.mark.parametrize("log", ["a.cu:9:1: error: expected ';'", "", "b.cu:2:1: error: 'tex3D' was not declared"])
def test_constructs_that_the_log_does_not_mention_are_ignored(log):
    source = ASM.replace("OP", "bar.sync") + "// tex3D\ncudaTextureObject_t t;\n#include <cub/grid/grid_queue.cuh>\n"
    assert why_not_on_the_cpu(source, "a.cu", log) == ""


@pytest.mark.parametrize(
    "name, what",
    [("this_cluster", "clusters"), ("tex2D", "textures"), ("bmma_sync", "wmma")],
)
def test_a_name_that_the_simulator_lacks(name, what):
    log = f"a.cu:2:8: error: ‘{name}’ was not declared in this scope"  # noqa: RUF001
    message = why_not_on_the_cpu(f"int x;\nauto y = {name}();\n", "a.cu", log)
    assert message.startswith("a.cu:2 needs ") and what in message


@pytest.mark.parametrize(
    "header, named",
    [("cub/device/device_copy.cuh", True), ("cuda/barrier", True), ("curand_kernel.h", True), ("custom.h", False)],
)
def test_a_header_that_the_simulator_lacks(header, named):
    source = f"// first\n#include <{header}>\n"
    message = why_not_on_the_cpu(source, "a.cu", f"a.cu:2:10: fatal error: {header}: No such file or directory")
    assert message.startswith(f"a.cu:2 includes <{header}>") if named else message == ""


def test_a_launch_that_was_not_rewritten_is_named():
    log = "{}:{}:7: error: expected primary-expression before '<' token\n    3 | f<<<1, 1>>>(x);\n      |  ^\n"
    macro = "#define ONE <<<1, 1>>>\nvoid g() { f ONE(x); }\n"
    assert why_not_on_the_cpu(macro, "a.cu", log.format("a.cu", 1)).startswith(
        "a.cu:1 launches with <<<...>>> in a form"
    )
    assert why_not_on_the_cpu(macro, "a.cu", "a.cu:9:1: error: expected ';'") == ""
    message = why_not_on_the_cpu("int x;", "a.cu", log.format("lib/b.cuh", 3))
    assert message == "lib/b.cuh:3 launches with <<<...>>>, which tkjit supports in the source but not in its headers"


def test_mnemonics_of_a_piece_of_ptx():
    assert mnemonics_of("{\n.reg .pred p;\nsetp.ne.b32 p, %1, 0;\n@p mma.sync {%0, %2}, {%3};\n}") == (
        "setp.ne.b32",
        "mma.sync",
    )
    assert mnemonics_of("") == ()
