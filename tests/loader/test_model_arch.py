"""The GPU architecture that the simulator models: the source that it compiles, and ``__CUDA_ARCH__``."""

from __future__ import annotations

import pytest
import torch

import tkjit
from tkjit import Out, Tensor
from tkjit.cli import main

pytestmark = pytest.mark.compiles
SOURCE = "__global__ void which(Globals g) {{ g.y[0] = {value}; }}"
ASKS = "__CUDA_ARCH__"
FEATURE = "\n#ifdef __CUDA_ARCH_FEAT_SM90_ALL\n1\n#else\n0\n#endif\n"


def value_of(**sources: str) -> int:
    options = {
        "archs": {
            arch.removeprefix("sm_"): SOURCE.format(value=text) for arch, text in sources.items() if arch != "common"
        }
    }
    common = SOURCE.format(value=sources["common"]) if "common" in sources else None

    @tkjit.kernel(common, entry="which", grid=1, block=1, **options)
    def which(device: torch.device = "cpu", *, y: Out[Tensor, "int32", 1]) -> Tensor: ...

    return int(which()[0])


@pytest.mark.parametrize(
    ("asked", "sources", "value"),
    [
        ("", {"common": ASKS}, 900),
        ("80", {"common": ASKS}, 800),
        ("sm_80", {"common": "1", "sm_80": "2"}, 2),
        ("90a", {"common": "1", "sm_90a": "3"}, 3),
        ("86", {"common": "1", "sm_80": "2"}, 2),
        ("", {"common": "1", "sm_90a": "3"}, 1),
        ("80", {"sm_90a": ASKS}, 900),
        ("", {"sm_80": "1", "sm_90a": ASKS}, 900),
        ("", {"common": FEATURE}, 1),
        ("90a", {"common": FEATURE}, 1),
        ("90", {"common": FEATURE}, 0),
        ("90", {"common": ASKS}, 900),
        ("", {"sm_90": FEATURE}, 0),
        ("", {"sm_100a": ASKS}, 1000),
        ("", {"sm_90a": ASKS, "sm_100a": "5"}, 900),
        ("100a", {"sm_90a": "4", "sm_100a": ASKS}, 1000),
        ("103a", {"common": ASKS}, 1030),
    ],
)
def test_the_model_selects_the_source_and_the_macro(session_cache, monkeypatch, asked, sources, value):
    monkeypatch.setenv("TKJIT_MODEL_ARCH", asked)
    assert value_of(**sources) == value


@pytest.mark.parametrize(
    ("asked", "message"), [("120a", "the simulator does not model sm_120a"), ("x", "'x' is not a GPU arch")]
)
def test_an_architecture_that_cannot_be_modelled_is_rejected(session_cache, monkeypatch, asked, message):
    monkeypatch.setenv("TKJIT_MODEL_ARCH", asked)
    with pytest.raises(tkjit.ToolchainError, match=message):
        value_of(common="1")


def test_the_option_sets_the_model_of_a_program(session_cache, tmp_path, capfd, monkeypatch):
    source = tmp_path / "main.cu"
    source.write_text("""#include <cstdio>
__global__ void arch(int* x) { *x = __CUDA_ARCH__; }
int main() { int* x; cudaMalloc(&x, 4); arch<<<1, 1>>>(x); cudaDeviceSynchronize(); printf("%d\\n", *x); }
""")
    monkeypatch.setenv("TKJIT_MODEL_ARCH", "")  # restored after the test: the option sets it for child processes
    assert main(["run", str(source), "--model-arch", "75"]) == 0
    assert capfd.readouterr().out == "750\n"
