"""``bench`` measures kernels beside their peers; here on the CPU."""

from __future__ import annotations

import json

import pytest

import tkjit
from tkjit import In, Out, SpecError, Tensor, bench
from tkjit.cli import main

pytestmark = pytest.mark.compiles
SOURCE = "template <class T> __global__ void twice(Globals g) { g.y[blockIdx.x] = T(2) * g.x[blockIdx.x]; }"
SPEC = f'''
import tkjit
from tkjit import In, Out, Tensor

def absent(x):
    import a_library_that_nobody_has

def broken(x):
    raise ValueError("only for float64\\nand more")

def add(x):
    return x + x

@tkjit.kernel(
    "{SOURCE}",
    entry="twice<T>", grid="N", block=1, variants={{"T": ("float32", "float64")}}, flops="N",
    sizes=[{{"N": 8}}, {{"N": 16, "T": "float64"}}], peers={{"add": add, "absent": absent, "broken": broken}},
)
def twice(x: In[Tensor, "T", "N"], y: Out[Tensor, "T", "N"]) -> Tensor:
    return 2 * x
'''


def double(**options):
    @tkjit.kernel(SOURCE, entry="twice<T>", grid="N", block=1, variants={"T": ("float32", "float64")}, **options)
    def twice(x: In[Tensor, "T", "N"], y: Out[Tensor, "T", "N"]) -> Tensor:
        return 2 * x

    return twice


@pytest.fixture
def spec_file(tmp_path, session_cache, monkeypatch):
    monkeypatch.setenv("TKJIT_KERNEL_PATH", str(tmp_path))
    (tmp_path / "twice.py").write_text(SPEC)


def test_the_reference_is_the_peer_of_a_kernel_without_peers():
    (found,) = bench(double(), {"N": 8}, types=["float32"], device="cpu", rounds=3)
    assert (found.kernel, found.variant, found.case, found.device) == ("twice", "T=float32", "N=8", "cpu")
    assert found.seconds > 0 and found.spread >= 0 and found.moved_bytes == 2 * 8 * 4 and found.flops == 0
    assert found.ratio("reference") == found.peers["reference"] / found.seconds
    assert found.roofline is None and found.share_of_roofline is None and not found.missing


def test_calls_and_peers_of_the_spec(spec_file, capsys):
    assert main(["bench", "twice", "--device", "cpu", "--rounds", "2", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [(one["variant"], one["case"], one["flops"]) for one in found] == [
        ("T=float32", "N=8", 8),
        ("T=float64", "N=8", 8),
        ("T=float64", "N=16", 16),
    ]
    for one in found:
        assert list(one["ratios"]) == ["add"]
        assert one["missing"] == {
            "absent": "not installed: No module named 'a_library_that_nobody_has'",
            "broken": "ValueError: only for float64",
        }


def test_a_peer_gets_the_defaults_of_arguments_that_a_call_leaves_out():
    def add(x, factor, scale):
        assert (factor, scale) == (2, None)
        return x + x

    @tkjit.kernel(SOURCE, entry="twice<T>", grid="N", block=1, variants={"T": ("float32",)}, peers={"add": add})
    def twice(
        x: In[Tensor, "T", "N"],
        factor: int = 2,
        scale: float | None = None,
        *,
        y: Out[Tensor, "T", "N"],
    ) -> Tensor: ...

    (found,) = bench(twice, {"N": 4}, device="cpu", rounds=1)
    assert "add" in found.peers


def test_operations_may_depend_on_leading_dims():
    @tkjit.kernel(
        "__global__ void twice(Globals g) { g.y[blockIdx.x] = 2 * g.x[blockIdx.x]; }",
        entry="twice",
        grid="x.numel",
        block=1,
        flops="x.rows * N + x.numel",
    )
    def twice(x: In[Tensor, "float32", "... N"], y: Out[Tensor, "float32", "... N"]) -> Tensor:
        return 2 * x

    (found,) = bench(twice, {"...": (2, 3), "N": 4}, device="cpu", rounds=1)
    assert found.flops == 3 * 4 + 2 * 3 * 4


def test_the_table_and_the_plot_have_all_combinations_of_extents(spec_file, capsys, tmp_path):
    plot = tmp_path / "twice.svg"
    words = ["bench", "twice", "--device", "cpu", "--rounds", "1", "--types", "float32", "--dim", "N=4,5"]
    assert main([*words, "--plot", str(plot)]) == 0
    assert "<!-- N=5 -->" in plot.read_text()
    out, err = capsys.readouterr()
    heading, *rows = out.splitlines()
    assert heading.split() == ["call", "time", "spread", "speed", "of", "roofline", "add", "(ratio)"]
    assert [row.split("  ")[0] for row in rows] == ["twice(T=float32, N=4)", "twice(T=float32, N=5)"]
    assert all("FLOP/s" in row for row in rows)
    assert "absent was not measured: not installed" in err and "these times say nothing about a GPU" in err


def test_an_error_in_one_kernel_does_not_stop_the_others(spec_file, capsys):
    assert main(["bench", "gemm", "twice", "--device", "cpu", "--rounds", "1", "--dim", "N=4"]) == 1
    out, err = capsys.readouterr()
    assert "tkjit: gemm has no variant for N=4; a call sets M, K, N" in err and "twice(T=float64, N=4)" in out


@pytest.mark.parametrize(
    ("options", "sizes", "message"),
    [
        ({}, (), "twice has no sizes=; give the extents of a call, such as --dim N=4096"),
        ({}, {"K": 3, "N": 4}, "twice has no dim or number K"),
        ({}, {"N": 4.0}, "twice: N=4.0 is not an extent"),
        ({}, {"T": "float16", "N": 4}, "twice has no variant for T=float16, N=4"),
        ({"constraints": "N % 8 == 0"}, {"N": 4}, "twice: the constraint N % 8 == 0 does not hold"),
    ],
)
def test_wrong_sizes_are_rejected(options, sizes, message):
    with pytest.raises(tkjit.TkjitError, match=f"^{message.replace('%', '.')}"):
        bench(double(**options), sizes, device="cpu")


def test_a_kernel_without_a_reference_cannot_be_compared_with_inductor():
    @tkjit.kernel(SOURCE, entry="twice<T>", grid="N", block=1, variants={"T": ("float32",)})
    def twice(x: In[Tensor, "T", "N"], y: Out[Tensor, "T", "N"]) -> Tensor: ...

    with pytest.raises(SpecError, match=r"twice has no reference for torch\.compile"):
        bench(twice, {"N": 8}, device="cpu", inductor=True)


def test_parallel_kernels_are_rejected():
    with pytest.raises(SpecError, match="all_reduce is a kernel over several devices, which cannot be measured"):
        bench("all_reduce", {"N": 8})


def test_operations_in_terms_of_unknown_names_are_rejected():
    with pytest.raises(SpecError, match=r"twice: flops: undefined dim Q in 'N \* Q'; defined are N"):
        double(flops="N * Q")


@pytest.mark.parametrize(
    ("peers", "message"),
    [
        ({"other": "torch.add"}, "peers is .*; expected a function for each name"),
        ({"other": lambda q: q}, "the peer other takes q, which the kernel does not"),
    ],
)
def test_wrong_peers_are_rejected(peers, message):
    with pytest.raises(SpecError, match=message):
        double(peers=peers)
