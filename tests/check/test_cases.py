"""The calls that the checker generates have valid sizes and values."""

import pytest
import torch

import tkjit
from tkjit import In, InOut, Out, ParallelTensor, Scalar, Strided, Tensor
from tkjit.check.arguments import pack, tensors_in_order, unpack
from tkjit.check.cases import case_of_call, cases_of
from tkjit.cli.check import untried
from tkjit.errors import SpecError
from tkjit.spec import variants_of

F32 = "float32"
SOURCE = "__global__ void f(Globals g) {}"


def cases(kernel, given=None, seed=0, types=()):
    (spec,) = kernel.specs
    return cases_of(spec, variants_of(spec, types)[0], given or {}, seed)


def test_sizes_are_ordinary_one_prime_larger_than_a_block_and_long():
    found = cases(tkjit.find("axpy"))
    assert [case.arguments["x"].shape[0] for case in found] == [64, 1, 53, 300, 1031]
    assert [case.name for case in found] == ["N=64", "N=1", "N=53", "N=300", "N=1031"]
    for case in found:
        assert case.arguments["alpha"] == 1.0 and case.arguments["x"].dtype == torch.float32
        assert not torch.equal(case.arguments["x"], torch.zeros_like(case.arguments["x"]))


def test_dims_that_may_differ_have_different_extents():
    ordinary, *_ = cases(tkjit.find("gemm"))
    m, k, n = *ordinary.arguments["a"].shape, ordinary.arguments["b"].shape[1]
    assert len({m, k, n}) == 3 and ordinary.arguments["c"].shape == (m, n)


def test_outputs_are_filled_with_nan():
    for case in cases(tkjit.find("gemm")):
        assert bool(case.arguments["c"].isnan().all())


def test_strides_that_choose_a_variant():
    for spec in tkjit.find("matmul").specs:
        for variant in variants_of(spec, ["float32"]):
            chosen = dict(variant.values)
            for case in cases_of(spec, variant, {}, 0):
                a, b = case.arguments["a"], case.arguments["b"]
                assert (a.stride(-1) != 1, b.stride(-1) != 1) == (chosen["TA"], chosen["TB"])
                assert a.stride(-1 - chosen["TA"]) == 1 and b.stride(-1 - chosen["TB"]) == 1


def test_leading_dims():
    shapes = [tuple(case.arguments["x"].shape) for case in cases(tkjit.find("softmax"))]
    assert [len(shape) for shape in shapes] == [1, 2, 2, 3, 2, 2]
    assert shapes[-2:] == [(1, 1031), (1031, 1)]


def test_one_dim_at_a_time_is_long():
    """A loop over tiles in a block runs several times, even if the sizes that are large in all dims are too slow."""
    shapes = [(*case.arguments["a"].shape, case.arguments["b"].shape[1]) for case in cases(tkjit.find("gemm"))]
    assert shapes[-3:] == [(1031, 1, 1), (1, 1031, 1), (1, 1, 1031)]


def test_a_tensor_of_any_shape_gets_sizes():
    """With ``"..."`` alone, the last dim gets the size of an ordinary dim; one case is a tensor without dims."""

    @tkjit.kernel(SOURCE, entry="f", grid=1, block=1)
    def f(x: In[Tensor, F32, "..."], y: Out[Tensor, F32, "..."]) -> Tensor: ...

    found = cases(f)
    assert [tuple(case.arguments["x"].shape) for case in found] == [
        (64,),
        (1, 1),
        (3, 53),
        (2, 2, 300),
        (2, 3, 2, 37),
        (),
        (1031,),
    ]
    assert all(bool(case.arguments["y"].isnan().all()) for case in found)
    assert found[-2].name == "leading ()"


def test_sizes_satisfy_the_constraints():
    @tkjit.kernel(SOURCE, entry="f", grid=1, block=1, constraints=["N % 8 == 0", "N >= 16", "N != M"])
    def f(x: In[Tensor, F32, "N", "M"], y: Out[Tensor, F32, "cdiv(N, 8)"]) -> Tensor: ...

    found = cases(f)
    assert found
    for case in found:
        n, m = case.arguments["x"].shape
        assert n % 8 == 0 and n >= 16 and n != m and case.arguments["y"].shape == (n // 8,)


def test_constraints_that_no_size_satisfies_are_an_error():
    @tkjit.kernel(SOURCE, entry="f", grid=1, block=1, constraints="N == N + 1")
    def f(x: InOut[Tensor, F32, "N"]) -> Tensor: ...

    with pytest.raises(SpecError, match=r"f: found no sizes for which N == N \+ 1; pass some, such as --dim N=128"):
        cases(f)


def test_an_integer_gets_the_extent_of_the_dim_with_its_name():
    @tkjit.kernel(SOURCE, entry="f", grid=1, block=1, constraints="k <= N")
    def f(x: InOut[Tensor, F32, "N"], n: int, k: Scalar[int, "uint32_t"], on: bool) -> Tensor: ...

    for case in cases(f):
        assert case.arguments["n"] == case.arguments["x"].shape[0]
        assert 0 < case.arguments["k"] <= case.arguments["x"].shape[0] and case.arguments["on"] is True


def test_integers_are_valid_indices_of_any_dim():
    @tkjit.kernel(SOURCE, entry="f", grid=1, block=1)
    def histogram(
        x: In[Tensor, "int32", "N"], y: Out[Tensor, "int32", "256"], total: Out[Tensor, "int32", "1"]
    ) -> tuple[Tensor, Tensor]: ...

    largest = {case.name: int(case.arguments["x"].max()) for case in cases(histogram)}
    assert largest["N=1"] == 0 and 32 < largest["N=64"] < 64 and 128 < largest["N=300"] < 256


def test_integers_are_valid_indices_of_computed_and_derived_dims():
    @tkjit.kernel(SOURCE, entry="f", grid=1, block=1, dims={"K": "N // 4"})
    def f(i: In[Tensor, "int32", "N"], k: int = 8, *, y: Out[Tensor, F32, "k"], z: Out[Tensor, F32, "K"]): ...

    for case in cases(f, {"N": 100}):
        assert 3 < int(case.arguments["i"].max()) < 8
    for case in cases(f, {"N": 100, "k": 90}):
        assert 12 < int(case.arguments["i"].max()) < 25


def test_the_caller_can_choose_dims_and_numbers():
    (only,) = cases(tkjit.find("axpy"), {"N": 1000, "alpha": 2.5})
    assert only.arguments["x"].shape == (1000,) and only.arguments["alpha"] == 2.5
    with pytest.raises(SpecError, match="axpy has no dim or number K"):
        cases(tkjit.find("axpy"), {"K": 3})


def test_the_seed_determines_the_values():
    first, again, other = (cases(tkjit.find("axpy"), seed=seed)[0].arguments["x"] for seed in (1, 1, 2))
    assert torch.equal(first, again) and not torch.equal(first, other)


def test_lists_optional_tensors_and_integers():
    @tkjit.kernel(SOURCE, entry="f", grid=1, block=1)
    def f(
        xs: In[list[Tensor], F32, "N"],
        index: In[Tensor, "int32", "N"],
        b: In[Tensor, F32, "N"] | None,
        y: Out[Tensor, F32, "N"],
    ) -> Tensor: ...

    found = cases(f)
    assert {case.arguments["b"] is None for case in found} == {True, False}
    for case in found:
        n = case.arguments["xs"][0].shape[0]
        assert len(case.arguments["xs"]) == 3 and bool((case.arguments["index"] < max(n, 1)).all())


def test_a_value_that_cannot_be_generated_is_an_error():
    @tkjit.kernel(SOURCE, entry="f", host=True)
    def f(x: InOut[Tensor, F32, "N"], weights: dict[str, float]) -> Tensor: ...

    with pytest.raises(SpecError, match=r"check cannot generate weights, a dict\[str, float\]; pass the arguments"):
        cases(f)


def with_examples(**options):
    @tkjit.kernel(SOURCE, entry="f", grid=1, block=1, variants={"D": (64, 128)}, **options)
    def f(x: In[Tensor, F32, "... N", "D"], y: InOut[Tensor, "int32", "N"]) -> Tensor: ...

    return f


def test_the_examples_of_a_spec_are_its_cases():
    found = cases(with_examples(examples=[{"N": 3, "...": (2, 5)}, {"N": 4, "D": 128}, {"N": 5, "D": 64}]))
    assert [tuple(case.arguments["x"].shape) for case in found] == [(2, 5, 3, 64), (5, 64)]


def test_integers_that_constraints_limit_differ_and_others_are_named(tmp_path, capsys):
    def pointers(**options):
        @tkjit.kernel(SOURCE, entry="f", grid=1, block=1, args=True, fields="x n step", **options)
        def f(x: InOut[Tensor, F32, "X"], n: int, step: int) -> Tensor: ...

        return f

    free, limited = pointers(), pointers(constraints="(n - 1) * step < X")
    assert {(case.arguments["n"], case.arguments["step"]) for case in cases(free)} == {(1, 1)}
    assert (2, 3) in {(case.arguments["n"], case.arguments["step"]) for case in cases(limited)}
    assert untried(free.specs, {"n": 3}).startswith("; only 1 was tried for step: ")
    assert untried(limited.specs, {}) == untried(pointers(examples={"X": 9, "n": 2, "step": 4}).specs, {}) == ""


def test_a_strided_vector_has_gaps_unless_its_spec_forbids_them():
    def strided(**options):
        @tkjit.kernel(SOURCE, entry="f", grid=1, block=1, **options)
        def f(x: InOut[Strided, F32, "N"]) -> Tensor: ...

        return f

    assert {case.arguments["x"].stride(0) for case in cases(strided()) if len(case.arguments["x"]) > 1} == {2}
    of_ones = cases(strided(constraints="x.stride(0) == 1"))
    assert {case.arguments["x"].stride(0) for case in of_ones} == {1}


@pytest.mark.parametrize(
    "constraint, rows_first",
    [
        ("x.stride(1) == 1", True),
        ("x.stride(0) == 1", False),
        ("x.stride(-2) % 8 == 0", True),
        ("x.stride(0) == N", True),
        ("x.stride(1) >= 8 * M", False),
    ],
)
def test_strides_meet_the_constraints_on_them(constraint, rows_first):
    @tkjit.kernel(SOURCE, entry="f", grid=1, block=1, constraints=constraint)
    def f(x: In[Strided, F32, "M", "N"], y: Out[Tensor, F32, "M"]) -> Tensor: ...

    rows, cols = cases(f)[0].arguments["x"].stride()
    assert (rows > cols) == rows_first


def test_an_example_omits_optional_tensors():
    def optional(examples):
        @tkjit.kernel(SOURCE, entry="f", grid=1, block=1, examples=examples)
        def f(x: In[Tensor, F32, "N"], y: InOut[Tensor, F32, "N"], bias: In[Tensor, F32, "N"] | None = None): ...

        return f

    without, given = cases(optional([{"N": 3, "bias": None}, {"N": 3}]))
    assert without.name == "N=3, no bias" and without.arguments["bias"] is None
    assert given.name == "N=3" and given.arguments["bias"].shape == (3,)
    with pytest.raises(SpecError, match="f: examples= omits x, which is not optional"):
        optional({"N": 3, "x": None})


def test_zeroed_and_prepare_change_the_arguments():
    def halved(arguments):
        arguments["y"][0] = 7
        return {"x": torch.rand_like(arguments["x"])}

    first, again = (cases(with_examples(zeroed="y", prepare=halved, examples={"N": 3}))[0] for _ in range(2))
    assert first.arguments["y"].tolist() == [7, 0, 0]
    assert torch.equal(first.arguments["x"], again.arguments["x"]) and first.arguments["x"].min() >= 0


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"examples": {"M": 3}}, "examples= sets M, which is neither a dim nor a number"),
        ({"examples": {"D": 64}}, "an example in examples= does not set N"),
        ({"examples": {"N": 3, "D": 128}}, "no example in examples= is for {'D': 64}"),
        (
            {"examples": {"N": 3}, "prepare": lambda arguments: {"z": 1}},
            "prepare= returns z, which the kernel does not take",
        ),
        ({"examples": {"N": 3}, "prepare": lambda arguments: arguments["z"]}, "prepare= fails: KeyError: 'z'"),
    ],
)
def test_wrong_examples_and_preparations_are_errors(options, text):
    with pytest.raises(SpecError, match=text):
        cases(with_examples(**options))


def test_a_dim_that_is_a_multiple_of_a_tile_gets_one_tile_and_several():
    @tkjit.kernel(SOURCE, entry="f", grid=1, block=1, constraints=["N % 64 == 0", "M % 96 == 0"])
    def f(x: InOut[Tensor, F32, "M", "N"]) -> Tensor: ...

    (spec,) = f.specs
    found = cases_of(spec, variants_of(spec)[0], {}, 0, {False: 1 << 19, True: 1 << 19})
    assert [tuple(case.arguments["x"].shape) for case in found] == [
        (192, 192),
        (96, 64),
        (96, 320),
        (288, 128),
        (672, 64),
        (96, 448),
    ]


def test_each_device_gets_its_own_tensors_but_they_share_a_large_input(monkeypatch):
    @tkjit.kernel(SOURCE, entry="f", grid=1, block=1, num_devices=3)
    def f(x: In[Tensor, F32, 64], big: In[Tensor, F32, 256], y: InOut[ParallelTensor, F32, "N"]) -> None: ...

    monkeypatch.setattr("tkjit.check.cases._LARGE", 100)
    case = cases(f)[0]
    assert len({id(part) for part in case.arguments["x"]}) == 3 == len(case.arguments["y"])
    assert len({id(part) for part in case.arguments["big"]}) == 1


def test_the_arguments_of_a_given_call_are_used_unchanged():
    (spec,) = tkjit.find("axpy").specs
    x, y = torch.ones(5), torch.zeros(5)
    case = case_of_call(spec, {"x": x, "y": y})
    assert case.arguments["x"] is x and case.arguments["alpha"] == 1.0
    with pytest.raises(tkjit.ShapeError):
        case_of_call(spec, {"x": x, "y": torch.zeros(6)})


# ---- the arguments as bytes, for the checked process


def test_arguments_are_packed_and_written_tensors_unpacked():
    (spec,) = tkjit.find("gemm").specs
    case = cases(tkjit.find("gemm"), {"M": 3, "N": 5, "K": 7})[0]
    packed = pack(spec, case.arguments)
    tensors = list(tensors_in_order(spec, case.arguments))
    assert [name for name, _ in tensors] == ["a", "b", "sums", "finished", "c"]
    header = 176  # bytes before each argument's name and data
    assert len(packed) == sum(header + len(name) + tensor.nbytes for name, tensor in tensors)
    after = b"".join(
        bytes(tensor.reshape(-1).view(torch.uint8).tolist()) for _, tensor in tensors_in_order(spec, case.arguments)
    )
    returned = unpack(spec, case.arguments, after[: -3 * 5 * 4] + torch.ones(15).numpy().tobytes())
    assert returned.keys() == {"c"} and torch.equal(returned["c"], torch.ones(3, 5))


def test_an_integer_for_a_float_is_packed_as_a_float():
    (spec,) = tkjit.find("axpy").specs
    case = cases(tkjit.find("axpy"), {"N": 1, "alpha": 2})[0]
    import struct

    assert pack(spec, case.arguments).endswith(struct.pack("<d", 2.0))
