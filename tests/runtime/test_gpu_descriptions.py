"""Structs by value, arrays, and variants by a name, on a GPU: results as in the simulator."""

import pytest
import torch
from support.named_variants import combine
from support.struct_values import blend, filter_row, place

import tkjit

pytestmark = pytest.mark.gpu

CALLS = {
    "an enumerator and a type": (combine, {"mode": "ops::Mode::multiply", "policy": "Tile<32>"}),
    "structs as arguments": (blend, {"p": (2.0, [1, 2, 3, 4], 5, True, 7), "shift": (1, 2, 3), "pair": (9, 4)}),
    "vector types in a rendered struct": (place, {"origin": (1, 2, 3, 4), "extent": (1, 2, 3)}),
    "arrays in the source's own struct": (filter_row, {"taps": [1, 0, 2], "order": [5, 1]}),
}


@pytest.mark.parametrize("name", CALLS)
def test_it_agrees_with_the_simulator(gpu, name):
    kernel, given = CALLS[name]
    x = torch.randn(64)
    loaded = tkjit.load(kernel)
    torch.testing.assert_close(loaded(x.to(gpu), **given).cpu(), loaded(x, **given))
