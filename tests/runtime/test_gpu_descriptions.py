"""Structs by value, arrays, variants by a name, constants and symbols on a GPU, with the results of the simulator."""

import pytest
import torch
from support.named_variants import combine
from support.struct_values import blend, filter_row, place
from support.symbols import convolve, scaled

import tkjit

pytestmark = pytest.mark.gpu

CALLS = {
    "an enumerator and a type": (combine, {"mode": "ops::Mode::multiply", "policy": "Tile<32>"}),
    "structs as arguments": (blend, {"p": (2.0, [1, 2, 3, 4], 5, True, 7), "shift": (1, 2, 3), "pair": (9, 4)}),
    "vector types in a rendered struct": (place, {"origin": (1, 2, 3, 4), "extent": (1, 2, 3)}),
    "arrays in the source's own struct": (filter_row, {"taps": [1, 0, 2], "order": [5, 1]}),
}


@pytest.mark.parametrize("name", CALLS)
def test_results_agree_with_the_simulator(gpu, name):
    kernel, given = CALLS[name]
    x = torch.randn(64)
    loaded = tkjit.load(kernel)
    torch.testing.assert_close(loaded(x.to(gpu), **given).cpu(), loaded(x, **given))


def test_constants_and_symbols(gpu):
    loaded, x = tkjit.load(convolve), torch.randn(70)
    taps, offsets = torch.randn(3), torch.randint(0, 9, (2, 2), dtype=torch.int32)
    y = loaded(x.to(gpu), taps.to(gpu), offsets.to(gpu))
    torch.testing.assert_close(y.cpu(), convolve.reference(x, taps, offsets))
    assert torch.equal(loaded.symbol("taps", device=gpu).cpu(), taps)
    loaded.symbol("counter", device=gpu).zero_()
    loaded(x.to(gpu), taps.to(gpu), offsets.to(gpu))
    assert loaded.symbol("counter", device=gpu).item() == 1


def test_next_launch_reads_a_value_written_to_a_symbol(gpu):
    loaded, x = tkjit.load(scaled), torch.ones(3, device=gpu)
    loaded.symbol("factor", device=gpu).fill_(5.0)
    assert loaded(x).tolist() == [5, 5, 5]
