"""Specs generated from parsed kernels: launches, variants, dims and directions."""

from __future__ import annotations

from dataclasses import replace

import pytest

import tkjit
from tkjit import SpecError
from tkjit.importer.describe import Place, spec_file
from tkjit.importer.model import Found, Instance, Launch, Part, Type
from tkjit.importer.shapes import shape_of
from tkjit.importer.variants import merge_instances
from tkjit.spec import Spec
from tkjit.spec.plain import is_plain

INT, FLOAT = Type("number", "int"), Type("number", "float")
PLACE = Place("source.cu", "source")


def gl(element: str = "float", *extents: int) -> Type:
    return Type("layout", "gl", element, extents=(1,) * (4 - len(extents)) + extents)


def pointer(element: str = "float", *, const: bool = False) -> Type:
    return Type("pointer", f"{element} *", element, is_const=const)


def launched(entry: str, grid: str = "1", block: str = "32", arguments: tuple[str, ...] = (), **options) -> Launch:
    parts = (("grid", Part(grid, compiles=True)), ("block", Part(block, compiles=True)))
    return Launch(entry, parts, arguments, text=f"{entry}<<<...>>>(...)", line=7, **options)


def instance(entry: str = "k", struct: str = "globals", trailing=(), **parameters: Type) -> Instance:
    return Instance(
        entry,
        entry.split("<")[0],
        struct=struct,
        parameters=tuple(parameters.items()),
        trailing=tuple(trailing),
        launch=launched(entry),
    )


def written(*instances: Instance, place: Place = PLACE):
    return spec_file(Found(instances, ()), place)


def kernels(*instances: Instance, place: Place = PLACE) -> dict[str, Spec]:
    """The specs that the written text defines."""
    text = written(*instances, place=place).text
    assert is_plain(text), text
    scope: dict = {}
    exec(compile(text, "imported.py", "exec", dont_inherit=True), scope)
    return {name: value.specs[0] for name, value in scope.items() if isinstance(value, tkjit.Kernel)}


def one(*instances: Instance, place: Place = PLACE) -> Spec:
    (spec,) = kernels(*instances, place=place).values()
    return spec


def dims(spec: Spec, name: str) -> list[str]:
    return [str(dim) for field in spec.fields if field.name == name for dim in field.dims]


# ---- parameters


def test_plain_arguments_become_parameters():
    spec = one(
        replace(instance(struct=""), parameters=(("a", pointer()), ("b", pointer("int", const=True)), ("n", INT)))
    )
    assert spec.args and spec.struct is None
    assert [(f.name, f.direction, f.dtype) for f in spec.fields] == [
        ("a", "inout", "float32"),
        ("b", "in", "int32"),
        ("n", "scalar", "int"),
    ]
    assert dims(spec, "a") == ["a_size"] and dims(spec, "b") == ["b_size"]
    assert spec.returns == ("a",)


@pytest.mark.parametrize(
    ("extents", "expected"),
    [
        ((1, 1, -1, -1), ["x_rows", "x_cols"]),
        ((-1, -1, -1, 64), ["x_batch", "x_depth", "x_rows", "64"]),
        ((1, -1, 1, 64), ["x_depth", "1", "64"]),
        ((1, 1, 1, 1), ["1"]),
        ((1, 1, 1, -1), ["x_cols"]),
    ],
)
def test_static_extents_are_integers_and_ones_on_the_left_are_dropped(extents, expected):
    assert dims(one(instance(x=gl("float", *extents))), "x") == expected


def test_a_dim_does_not_get_the_name_of_a_parameter():
    assert dims(one(instance(x=gl("float", -1, -1), x_rows=INT)), "x") == ["x_rows_", "x_cols"]


@pytest.mark.parametrize("name", ["o", "y", "C", "out_grad", "dst", "k_out", "d"])
def test_outputs_are_recognized_by_name(name):
    found = written(instance(x=gl("float", -1), **{name: gl("float", -1)}))
    assert f"{name}: InOut[" in found.text and "x: In[" in found.text
    assert any(f"{name} is assumed to be written, judging by the name" in line for line in found.undecided)


def test_an_output_with_fixed_extents_is_allocated():
    spec = one(instance(x=gl("float", -1), o=gl("float", 16, 16)))
    assert [f.direction for f in spec.fields] == ["in", "out"] and spec.returns == ("o",)


def test_a_lone_output_is_inout_because_a_call_needs_a_device():
    assert [f.direction for f in one(instance(o=gl("float", 16))).fields] == ["inout"]


def test_reserved_names_get_an_underscore():
    spec = one(instance(**{"in": gl("float", -1), "out": gl("float", -1)}))
    assert [(f.name, f.member) for f in spec.fields] == [("in_", "in"), ("out_", "out")]
    plain = one(replace(instance(struct=""), parameters=(("out", pointer()), ("stream", INT))))
    assert [(f.name, f.member) for f in plain.fields] == [("out_", ""), ("stream_", "")]


def test_layouts_in_a_nested_struct_become_parameters():
    pair = Type("struct", "cgl", members=(("real", gl("float", -1)), ("imag", gl("float", -1))))
    spec = one(instance(x=pair, o=gl("float", -1)))
    assert [(f.name, f.member) for f in spec.fields] == [("x_real", "x.real"), ("x_imag", "x.imag"), ("o", "")]


def test_a_parallel_layout_computes_the_device_index():
    parallel = Type("parallel", "pgl", "__nv_bfloat16", extents=(-1, -1, -1, -1), num_devices=8)
    spec = one(instance(tensor=parallel, dev_idx=INT, n=INT))
    assert spec.is_parallel and spec.num_devices == 8
    assert [name for name, _ in spec.computed] == ["dev_idx"] and spec.order == ("tensor", "dev_idx", "n")


def test_every_number_type_has_an_annotation():
    types = ["int", "float", "bool", "double", "unsigned int", "long", "unsigned long", "long long", "char"]
    numbers = {f"v{i}": Type("number", name) for i, name in enumerate(types)}
    spec = one(instance(x=gl("float", -1), **numbers))
    expected = "int float bool double uint32_t int64_t size_t int64_t int8_t".split()
    assert [f.dtype for f in spec.fields[1:]] == expected


def test_every_element_type_has_a_dtype():
    types = {
        "float": "float32", "double": "float64", "__half": "float16", "__nv_bfloat16": "bfloat16",
        "__nv_fp8_e4m3": "float8_e4m3fn", "__nv_fp8_e5m2": "float8_e5m2", "bool": "bool", "unsigned char": "uint8",
        "signed char": "int8", "short": "int16", "unsigned short": "uint16", "int": "int32", "unsigned int": "uint32",
        "long": "int64", "unsigned long": "uint64",
    }  # fmt: skip
    spec = one(instance(**{f"x{i}": gl(name, -1) for i, name in enumerate(types)}))
    assert [f.dtype for f in spec.fields] == list(types.values())


def test_arguments_after_the_struct_get_their_own_names():
    spec = one(instance(x=gl("float", -1), n=INT, trailing=[("n", INT), ("m", INT)]))
    assert spec.trailing == ("n_trailing", "m") and spec.order == ("x", "n", "n_trailing", "m")


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"x": gl("float4", -1)}, "the elements of x are float4, for which tkjit has no dtype"),
        ({"x": gl("float", -1), "lock": Type("other", "int[4]")}, r"lock is int\[4\], which no parameter of a spec"),
        ({"x": gl("float", -1), "out": INT}, "a number named out cannot be a parameter"),
        ({"n": INT}, "no parameter is a tensor"),
        (
            {"x": Type("struct", "a", members=(("n", INT),))},
            r"x\.n is int; in a nested struct a spec can only describe layouts",
        ),
        (
            {"x": Type("parallel", "pgl", "int", extents=(-1,) * 4, num_devices=2)},
            "globals has a parallel layout but no dev_idx",
        ),
    ],
)
def test_a_parameter_that_no_spec_can_describe_is_reported(parameters, said):
    with pytest.raises(SpecError, match=f"source: no kernel can be described: k: {said}"):
        written(instance(**parameters))


def test_a_kernel_that_cannot_be_described_does_not_affect_others():
    found = written(instance("a", x=gl("float4", -1)), instance("b", x=gl("float", -1)))
    assert "def b(" in found.text and "def a(" not in found.text
    assert any(line.startswith("a: the elements of x are float4") for line in found.undecided)


# ---- the launch


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("132", "132"),
        ("dim3(16, 8)", '"16, 8"'),
        ("(n + 255) / 256", '"(n + 255) // 256"'),
        ("dim3((n + 15) / 16, m, 1)", '"(n + 15) // 16, m, 1"'),
        ("n * sizeof(float)", '"n * 4"'),
        ("(unsigned int)n % 0x20u", '"n % 32"'),
        ("dim3(layout<2, 4>::grid)", 'CExpr("layout<2, 4>::grid")'),
        ("n << 2", 'CExpr("n << 2")'),
        ("010", 'CExpr("010")'),
    ],
)
def test_parts_of_a_launch_are_translated(text, expected):
    assert str(shape_of("block", Part(text, compiles=True), {"n", "m"})) == expected


def test_parts_that_only_host_code_knows_are_not_translated():
    assert shape_of("grid", Part("blocks"), ()) is None
    assert shape_of("grid", Part("4096 / 64", borrowed=True), ()) is None
    assert str(shape_of("grid", Part("n / 64", borrowed=True), {"n"})) == '"n // 64"'
    assert str(shape_of("block", Part("128", borrowed=True), ())) == "128"


def test_a_launch_can_use_the_kernels_integers():
    parameters = (("x", pointer()), ("n", INT))
    launch = launched("k", "(n + 63) / 64", "64", ("device_x", "n"))
    spec = one(replace(instance(struct=""), parameters=parameters, launch=launch))
    assert [str(part) for part in spec.grid] == ["(n + 63) // 64"] and str(spec.block[0]) == "64"


def test_an_unknown_launch_is_a_todo_that_does_not_compile():
    found = written(replace(instance(x=gl("float", -1)), launch=None))
    assert 'grid=CExpr("TODO"),\n    block=CExpr("TODO"),' in found.text
    assert "    # TODO: grid: the source does not launch it\n" in found.text
    assert "k: grid: the source does not launch it" in found.undecided
    assert one(replace(instance(x=gl("float", -1)), launch=None)).grid.text == "TODO"


def test_a_launch_that_only_host_code_knows_is_quoted():
    launch = Launch(
        "k", (("grid", Part("a", as_written="dim3(blocks)")), ("block", Part("32"))), text="k<<<g, 32>>>(x)", line=9
    )
    found = written(replace(instance(x=gl("float", -1)), launch=launch))
    assert "# TODO: grid: the source has dim3(blocks)" in found.text and "# TODO: line 9: k<<<g, 32>>>(x)" in found.text


def test_a_struct_can_set_its_own_launch():
    own = frozenset({"grid", "block", "dynamic_shared_memory"})
    text = written(replace(instance(x=gl("float", -1)), own=own)).text
    assert not any(f"{what}=" in text for what in ("grid", "block", "shared_memory"))
    assert "block=32" in written(replace(instance(x=gl("float", -1)), own=frozenset({"grid"}))).text


def test_a_config_is_an_option_of_the_spec():
    launch = Launch("n::kernel", config="n::config", struct="n::globals", text="launch_kernel<...>(g)")
    given = Instance("n::kernel", "n::kernel", struct="n::globals", parameters=(("x", gl("float", -1)),), launch=launch)
    spec = one(given)
    assert (spec.name, spec.entry, spec.struct, spec.config) == ("n", "n::kernel", "n::globals", "n::config")


def test_the_place_of_the_source_sets_the_options():
    place = Place("../a/source.cu", "source", ("thunderkittens",), ("../include", "b"), (("N", "3"),))
    spec = one(instance(x=gl("float", -1)), place=place)
    assert [library.name for library in spec.headers] == ["thunderkittens"]
    assert [path.name for path in spec.include_dirs] == ["include", "b"] and spec.defines == (("N", "3"),)
    text = written(instance(x=gl("float", -1)), place=replace(place, source="<thunderkittens>/source.cu")).text
    assert "headers=" not in text, "the source's path names it"


def test_kernels_get_distinct_names():
    given = [instance(name, x=gl("float", -1)) for name in ("a::kernel", "b::kernel", "kernel", "scale", "n::scale")]
    assert list(kernels(*given)) == ["a", "b", "source", "scale", "scale_2"]


def test_long_lines_are_wrapped():
    names = {f"a_rather_long_name_{i}": gl("float", -1, -1, -1, -1) for i in range(2)}
    assert all(len(line) <= 120 for line in written(instance(**names)).text.splitlines())
    assert len(one(instance(**names)).fields) == 2


# ---- variants


def test_dtypes_of_instances_become_a_variant():
    given = [
        replace(instance(f"scale<{name}>", x=gl(element, -1, -1)), template=("T",))
        for name, element in (("float", "float"), ("bf16", "__nv_bfloat16"))
    ]
    spec = one(*given)
    assert spec.entry == "scale<T>" and spec.struct == "auto"
    assert spec.variants == (("T", ("float32", "bfloat16")),) and spec.fields[0].dtype == "T"


def test_extents_of_instances_become_a_variant_or_multiples_of_it():
    given = [
        instance(f"ns::kernel<layout<{d}>>", x=gl("float", -1, d), sin=gl("float", -1, d // 2), y=gl("float", 4 * d))
        for d in (64, 128)
    ]
    spec = one(*given)
    assert spec.entry == "ns::kernel<layout<D>>" and spec.variants == (("D", (64, 128)),)
    assert dims(spec, "x")[-1] == "D" and dims(spec, "sin")[-1] == "D // 2" and dims(spec, "y") == ["D * 4"]


def test_a_launch_can_use_the_variant():
    given = []
    for d in (64, 128):
        launch = launched(f"k<{d}>", block=f"threads_v<layout<{d}>>")
        given.append(replace(instance(f"k<{d}>", x=gl("float", d)), launch=launch))
    spec = one(*given)
    assert str(spec.block) == "threads_v<layout<D>>"


def test_a_launch_that_does_not_follow_the_variant_is_a_todo():
    given = [
        replace(instance(f"k<{d}>", x=gl("float", d)), launch=launched(f"k<{d}>", block=str(threads)))
        for d, threads in ((64, 32), (128, 96))
    ]
    text = written(*given).text
    assert 'block=CExpr("TODO")' in text and "# TODO: block: the source has 32 or 96" in text


def test_instances_that_a_call_cannot_choose_are_listed():
    given = [instance(f"attend<{d}, {way}>", x=gl("float", -1, d)) for way in ("sum", "product") for d in (64, 128)]
    (found,) = merge_instances(given)
    assert found.instance.entry == "attend<D, sum>" and found.variants == (("D", (64, 128)),)
    assert found.left_out == ("attend<64, product>", "attend<128, product>")
    assert any("there are also attend<64, product>, attend<128, product>" in line for line in written(*given).undecided)


def test_an_argument_chooses_an_integer_or_bool_that_no_tensor_determines():
    given = [
        replace(instance(f"k<{d}, {causal}>", x=gl("float", -1)), template=("THREADS", "causal"))
        for d in (128, 256)
        for causal in ("false", "true")
    ]
    (found,) = merge_instances(given)
    assert found.instance.entry == "k<THREADS, causal>" and found.chosen == ("THREADS", "causal")
    assert found.variants == (("THREADS", (128, 256)), ("causal", (False, True))) and not found.left_out
    spec = one(*given)
    assert [(f.name, f.dtype, f.default) for f in spec.fields[1:]] == [
        ("THREADS", "int", 128),
        ("causal", "bool", False),
    ]


def test_two_template_arguments_become_two_variants():
    given = [
        replace(instance(f"k<{name}, {d}>", x=gl(element, -1, d)), template=("T", "WIDTH"))
        for name, element in (("float", "float"), ("half", "__half"))
        for d in (16, 32)
    ]
    spec = one(*given)
    assert spec.entry == "k<T, WIDTH>" and dict(spec.variants) == {"T": ("float32", "float16"), "WIDTH": (16, 32)}


def test_a_launch_uses_the_name_of_an_integer_in_the_spec():
    launch = launched("k", "n / 2", "1", ("g", "n"))
    spec = one(replace(instance(x=gl("float", -1), n=INT, trailing=[("n", INT)]), launch=launch))
    assert str(spec.grid[0]) == "n_trailing // 2"
    launch = launched("k", "stream / 2", "stream", ("x", "stream"))
    spec = one(replace(instance(struct=""), parameters=(("x", pointer()), ("stream", INT)), launch=launch))
    assert str(spec.grid[0]) == "stream_ // 2" and str(spec.block[0]) == "stream_"
