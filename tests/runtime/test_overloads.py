"""How a call chooses its variant and its overload."""

import pytest
import torch
from support.define import define, floats

import tkjit
from tkjit import In, Out, ShapeError, Tensor

pytestmark = pytest.mark.compiles


def test_variants_by_type_and_by_integer():
    kernel = define(
        """
        template <class T, int D, int mode> __global__ void fill(Globals g) {
            static_assert(std::is_same_v<typename decltype(g.x)::dtype, T>);
            static_assert(decltype(g.x){}.cols() == D);
            g.x(blockIdx.x, threadIdx.x) = T(sizeof(T) * 100 + D * 10 + mode);
        }
        """,
        '(x: InOut[Tensor, "T", "N", "D"], mode: int = 1) -> Tensor',
        entry="fill<T, D, mode>",
        grid="N",
        block="D",
        variants={"T": ("int32", "float64"), "D": (2, 3), "mode": (1, 4)},
    )
    assert len(kernel.variants) == 8
    assert kernel(torch.zeros(2, 3, dtype=torch.int32)).tolist() == [[431] * 3] * 2
    assert kernel(torch.zeros(1, 2, dtype=torch.float64), mode=4).tolist() == [[824.0] * 2]
    with pytest.raises(ShapeError, match=r"feature_\d+: the constraint D is 2 or 3 does not hold \(D=4\)"):
        kernel(torch.zeros(1, 4, dtype=torch.int32))
    with pytest.raises(ShapeError, match=r"feature_\d+: the constraint mode is 1 or 4 does not hold \(mode=2\)"):
        kernel(torch.zeros(1, 2, dtype=torch.int32), 2)


TENSOR_SUM = "__global__ void sum(Globals g) { g.z[threadIdx.x] = g.x[threadIdx.x] + g.y[threadIdx.x]; }"
SCALAR_SUM = "__global__ void sum(Globals g) { g.z[threadIdx.x] = g.x[threadIdx.x] + g.y; }"


@tkjit.kernel(TENSOR_SUM, entry="sum", grid=1, block="N")
def plus(
    x: In[Tensor, "float32", "N"], y: In[Tensor, "float32", "N"], *, z: Out[Tensor, "float32", "N"] = None
) -> Tensor: ...


@plus.overload(SCALAR_SUM, entry="sum", grid=1, block="N")
def plus(x: In[Tensor, "float32", "N"], y: float, *, z: Out[Tensor, "float32", "N"] = None) -> Tensor: ...


def test_argument_types_choose_the_overload():
    assert plus(floats(1, 2), floats(3, 4)).tolist() == [4, 6]
    assert plus(floats(1, 2), 10.0).tolist() == [11, 12]
    assert plus(floats(1, 2), y=10).tolist() == [11, 12]
    assert plus(floats(1, 2), floats(0, 1)).tolist() == [1, 3]


def test_error_lists_why_each_overload_was_rejected():
    with pytest.raises(tkjit.ArgumentError) as raised:
        plus(floats(1, 2), "three")
    assert str(raised.value) == (
        "plus: no overload takes these arguments:\n"
        "  plus(x: Tensor, y: Tensor, *, z: Tensor = None, out=None, stream=None)\n"
        "    plus: y is 'three' (str); expected a torch.Tensor\n"
        "  plus(x: Tensor, y: float, *, z: Tensor = None, out=None, stream=None)\n"
        "    plus: y is 'three' (str); expected a float"
    )


def test_failure_of_the_chosen_overload_is_not_hidden_by_the_others():
    trap = "__global__ void f(Globals g) { __trap(); }"
    first = define(trap, '(x: InOut[Tensor, "float32", "N"])', entry="f", grid=1, block=1)
    name = first.name
    scope = {name: getattr(tkjit, name) for name in tkjit.__all__}
    exec(f'def {name}(x: InOut[Tensor, "float32", "M"]): ...', scope)
    both = first.overload("__global__ void f(Globals g) { g.x[0] = 9; }", entry="f", grid=1, block=1)(scope[name])
    x = torch.zeros(1)
    with pytest.raises(tkjit.LaunchError):
        both(x)
    assert x.item() == 0
