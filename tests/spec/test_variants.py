"""Variants: all combinations of options, in the index order of the glue."""

import pytest
from support.specs import changed, spec_of

from tkjit.spec import Field, Source, Variant, variants_of
from tkjit.spec.expr import Expr
from tkjit.spec.variants import chooses

FIELDS = (
    Field("x", "in", "T", dims=(Expr("N"), Expr("D"))),
    Field("w", "in", "W", dims=(Expr("D"),)),
    Field("b", "in", "int8", dims=(Expr("D"),)),
)
SPEC = spec_of(
    name="f",
    entry="f<T, W, D>",
    fields=FIELDS,
    order=("x", "w", "b"),
    sources=(("", Source(text="{}")),),
    variants=(("T", ("float32", "bfloat16")), ("W", ("int8", "float32")), ("D", (64, 128))),
    grid=(Expr("1"),),
    block=(Expr("1"),),
)


def test_the_last_name_varies_fastest():
    assert [str(variant) for variant in variants_of(SPEC)] == [
        "T=float32, W=int8, D=64",
        "T=float32, W=int8, D=128",
        "T=float32, W=float32, D=64",
        "T=float32, W=float32, D=128",
        "T=bfloat16, W=int8, D=64",
        "T=bfloat16, W=int8, D=128",
        "T=bfloat16, W=float32, D=64",
        "T=bfloat16, W=float32, D=128",
    ]


@pytest.mark.parametrize(
    "types, kept",
    [
        ([], 8),
        (["float32"], 2),
        (["float32", "int8"], 4),
        (["bfloat16"], 0),  # W is never bfloat16
        (["float64"], 0),
        (iter(["float32", "int8", "bfloat16"]), 8),
    ],
)
def test_selection_of_variants_by_dtype(types, kept):
    assert len(variants_of(SPEC, types)) == kept


def test_variant_determines_the_dtype_of_each_field():
    variant = variants_of(SPEC)[5]
    assert [variant.dtype_of(f).name for f in FIELDS] == ["bfloat16", "int8", "int8"]


def test_spec_without_variants_has_a_single_empty_variant():
    assert variants_of(changed(SPEC, fields=(FIELDS[2],), order=("b",), variants=())) == (Variant(),)
    assert str(Variant()) == ""


def test_type_and_integer_variants():
    assert SPEC.type_variants == {"T": ("float32", "bfloat16"), "W": ("int8", "float32")}
    assert SPEC.integer_variants == {"D": (64, 128)}
    assert SPEC.dtypes_of(FIELDS[0]) == ("float32", "bfloat16")
    assert SPEC.dtypes_of(FIELDS[2]) == ("int8",)


@pytest.mark.parametrize(
    ("sizes", "chosen"),
    [
        ({"N": 8}, ["D=64, WIDE=0", "D=128, WIDE=0"]),
        ({"N": 9, "D": 64}, ["D=64, WIDE=1"]),
        ({"N": 9, "WIDE": 0}, []),
        ({}, ["D=64, WIDE=0", "D=64, WIDE=1", "D=128, WIDE=0", "D=128, WIDE=1"]),
    ],
)
def test_sizes_choose_variants_also_by_computed_dims(sizes, chosen):
    spec = changed(
        SPEC,
        fields=(Field("x", "in", "float32", dims=(Expr("N"), Expr("D"))),),
        order=("x",),
        derived=(("WIDE", Expr("N > 8")),),
        variants=(("D", (64, 128)), ("WIDE", (0, 1))),
        entry="f<D, WIDE>",
    )
    assert [str(variant) for variant in variants_of(spec) if chooses(spec, variant, sizes)] == chosen
