"""Runs the examples of docs/howto/migrating.md that use the other systems."""

import pytest
from support.migrating import named, run

pytestmark = pytest.mark.gpu
PEERS = {
    "CuPy's `RawKernel`": "cupy",
    "Numba's `@cuda.jit`": "numba",
    "Triton": "triton",
    "NVIDIA Warp": "warp",
    "FlashInfer's JIT": "flashinfer",
}
PACKAGES = {"cupy": "cupy-cuda13x", "flashinfer": "flashinfer-python", "numba": "numba-cuda[cu13]", "warp": "warp-lang"}


@pytest.mark.parametrize("example", named(before=True))
def test_before(gpu, example, tmp_path):
    if example.section in PEERS:
        peer = PEERS[example.section]
        pytest.importorskip(peer, reason=f"pip install {PACKAGES.get(peer, peer)} to run this")
    run(example, tmp_path, gpu)
