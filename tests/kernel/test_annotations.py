"""A name without quotes in an annotation: in a script Python finds it, and not tkjit."""

import subprocess
import sys

import pytest

SCRIPT = """
import sys, tkjit
from tkjit import In, Out, Tensor

@tkjit.kernel("__global__ void f(const __grid_constant__ Globals g) {{}}", entry="f", grid=1, block=1)
def f(x: In[Tensor, {dtype}, {dim}], y: Out[Tensor, "float32", "N"]): ...

assert sys.excepthook is sys.__excepthook__
{after}
"""


def run(dtype: str = '"float32"', dim: str = '"N"', after: str = "") -> str:
    script = SCRIPT.format(dtype=dtype, dim=dim, after=after)
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert bool(ended.returncode) == bool(ended.stderr)
    return ended.stderr


@pytest.mark.parametrize(
    ("mistake", "said"),
    [
        ({"dim": "N"}, 'a spec has dims as text: "N", "cdiv(N, 256)"'),
        ({"dtype": "float32"}, 'a spec has dtypes as text: "float32"'),
        ({"dtype": "fp32"}, 'a spec has dtypes as text: "float32"'),
    ],
)
def test_it_is_named_behind_pythons_words(mistake, said):
    printed = run(**mistake)
    assert "NameError" in printed or "SpecError" in printed  # Python 3.14 leaves it to tkjit
    assert printed.rstrip().endswith(said)


def test_other_errors_are_pythons_alone():
    assert run() == ""
    assert run(dim="something").rstrip().splitlines()[-1].startswith(("NameError", "tkjit.errors.SpecError"))
    assert run(after="N").rstrip().splitlines()[-1] == "NameError: name 'N' is not defined"
    inner = 'make = tkjit.kernel("a.cu", entry="f")\ndef other(): N\nother()'
    assert run(after=inner).rstrip().splitlines()[-1] == "NameError: name 'N' is not defined"
