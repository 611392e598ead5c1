"""The generated glue: unique names, and checks in the order in which values become known."""

import re
import sys
from pathlib import Path

import pytest
from support.rendered import declared_twice

import tkjit
from tkjit import Align, In, InOut, Out, Scalar, Tensor
from tkjit.render.text import field_text
from tkjit.spec import CType, spec_of_function
from tkjit.spec.signature import signature_text

SOURCE = "__global__ void scale(Globals g) {}"
F32 = "float32"
OPTIONS = {"entry": "scale", "grid": 1, "block": 32}


def glue(function, **options) -> str:
    return tkjit.kernel(SOURCE, **{**OPTIONS, **options})(function).render().glue


def test_declared_twice_finds_a_second_declaration():
    assert declared_twice("int f() {\n    int64_t a = 1, b = 2;\n    double b = 0;\n}\n") == ["b"]
    assert declared_twice("int f() {\n    int64_t a = 1;\n}\nint g() {\n    int64_t a = 1;\n}\n") == []


@pytest.mark.parametrize("name", ["call", "given", "i", "list_value", "shape", "Int", "v_x", "launcher"])
def test_argument_may_have_a_name_that_the_glue_uses(name):
    space = {"In": In[Tensor, F32, "N"], "__name__": __name__}
    exec(compile(f"def f(x: In, {name}: float): ...", __file__, "exec", dont_inherit=True), space)
    text = glue(space["f"])
    assert f"double v_{name} = 0;" in text
    assert f'!read(call, "{name}", given_{name}, v_{name})' in text
    assert declared_twice(text) == []


PACKAGE = Path(tkjit.__file__).parent


def with_includes(header: Path) -> set[Path]:
    """A header of tkjit, and the headers that it includes."""
    names = re.findall(r'#include ["<]([\w./]+)[">]', header.read_text())
    included = {path for name in names for path in (header.parent / name, PACKAGE / "include" / name) if path.exists()}
    return {header}.union(*map(with_includes, included))


def test_headers_use_no_name_that_is_made_for_a_user():
    """The headers that glue and launchers include use no name that starts like the names made from a user's names."""
    headers = with_includes(PACKAGE / "runtime" / "glue_parallel.h") | {*PACKAGE.glob("include/tkjit/*.h")}
    assert PACKAGE / "runtime" / "table.h" in headers
    text = "\n".join(path.read_text() for path in headers)
    ours = set(re.findall(r"[A-Za-z_]\w*", re.sub(r"//.*", "", text)))
    made = "(v|given|arg)_|(shape|object|list|item|parallel|option|default|dim_\\d+)_of_"
    assert not {word for word in ours if re.match(made, word)}


@pytest.mark.parametrize("name", ["shape_of_y", "object_of_y", "dim_0_of_x", "option_of_D", "v_x"])
def test_names_made_from_other_names_do_not_collide(name):
    code = f"def f(x: X, w: W, {name}: float, D: int, y: Y): ..."
    space = {"X": In[Tensor, F32, "2 * N"], "W": In[Tensor, F32, "N", "D"], "Y": Out[Tensor, F32, "N"]}
    exec(compile(code, __file__, "exec", dont_inherit=True), space)
    text = glue(space["f"], variants={"D": (64, 128)})
    assert declared_twice(text) == []


def test_derived_dims_come_after_those_they_are_computed_from():
    def f(x: In[Tensor, F32, "N"], y: Out[Tensor, F32, "A", "N"]): ...

    text = glue(f, dims={"A": "B + C", "B": "C * 2", "C": "cdiv(N, 4)", "unused": "N"})
    positions = [text.index(f"const Int v_{name} = ") for name in "CBA"]
    assert positions == sorted(positions)
    assert positions[-1] < text.index("shape_of_y.compute")
    assert "unused" not in text


def test_constant_output_dim_is_evaluated():
    def f(x: In[Tensor, F32, "N"], y: Out[Tensor, F32, "64 // 2"]): ...

    assert 'shape_of_y.compute(call, "output y", Leading{}, {32})' in glue(f)


def test_required_tensors_are_read_before_optional_ones():
    def f(bias: In[Tensor, F32, "N"] | None = None, *, x: In[Tensor, F32, "M", "N"]): ...

    text = glue(f)
    assert text.index('read(call, "x"') < text.index('read(call, "bias"')
    assert text.index("v_N = v_x.sizes[1];") < text.index("v_bias.sizes[0] != v_N")
    assert "same_device(call, v_bias, v_x)" in text


def test_repeated_dim_of_a_tensor_is_checked():
    def f(x: In[Tensor, F32, "N", "N"]): ...

    assert "v_N = v_x.sizes[0];" in glue(f) and "v_x.sizes[1] != v_N" in glue(f)


def test_alignment_constraints_and_bounds_are_checked():
    def f(x: InOut[Tensor, F32, "N", Align(16)], n: Scalar[int, "uint8_t"] = 3): ...

    text = glue(f, constraints=["N % 8 == 0"])
    assert "aligned(call, v_x, 16)" in text
    assert 'read(call, "n", given_n, v_n, 0, 255)' in text
    assert 'satisfied(call, Int(v_N) % 8 == 0, "N % 8 == 0", {{"N", v_N}})' in text


def test_variants_are_numbered_by_position():
    def f(x: In[Tensor, "T", "N"], w: In[Tensor, "W", "D"]): ...

    text = glue(f, variants={"T": (F32, "int8"), "W": ("int8", F32, "bool"), "D": (64, 128)})
    assert "launcher(call, 0, (v_T * 3 + v_W) * 2 + option_of_D, v_x)" in text
    assert "case TKJIT_BOOL: v_W = 2; break;" in text
    assert "case 128: option_of_D = 1; break;" in text
    assert 'constexpr Contents contents{"f", overloads, signatures, kinds, numbers, 1, 12};' in text


def test_variants_of_the_second_overload_follow_those_of_the_first():
    @tkjit.kernel(SOURCE, variants={"T": (F32, "int8")}, **OPTIONS)
    def f(x: In[Tensor, "T", "N"]): ...

    first = f

    @first.overload(SOURCE, variants={"T": ("bool",)}, **OPTIONS)
    def f(x: In[Tensor, "T", "N"], n: int): ...

    text = f.render().glue
    assert "launcher(call, 0, v_T, v_x)" in text and "launcher(call, 1, 2 + v_T, v_x)" in text
    assert 'constexpr Contents contents{"f", overloads, signatures, kinds, numbers, 2, 3};' in text


def test_user_texts_become_valid_literals():
    def f(x: In[Tensor, F32, "N"]): ...

    text = glue(f, constraints=["N %  8==0"])
    assert '"N %  8==0"' in text


@pytest.mark.parametrize("name", ["axpy", "softmax", "gemm"])
def test_rendered_texts_contain_no_paths_or_versions(name):
    import torch

    kernel = tkjit.find(name)
    for variant in kernel.variants:
        rendered = kernel.render(**dict(variant.values))
        for text in rendered:
            for secret in (
                sys.prefix,
                str(kernel.specs[0].sources[0][1].path.parent),
                "/home",
                "/root",
                "/tmp",
                "/usr",
            ):
                assert secret not in text
            assert tkjit.__version__ not in text and torch.__version__ not in text
            assert sys.version.split()[0] not in text and "python3" not in text
            assert not re.search(r"\b20\d\d-\d\d", text)


def test_rendering_is_the_same_in_every_process(python):
    code = "import tkjit\nfor n in ('axpy', 'softmax', 'gemm'): print(tkjit.find(n).render())"
    rendered = "".join(f"{tkjit.find(name).render()}\n" for name in ("axpy", "softmax", "gemm"))
    assert python(code) == rendered


def test_field_text_is_what_the_author_wrote():
    def f(
        x: In[Tensor, "T", "... N", Align(16)],
        y: InOut[Tensor, F32, "2 * N", 64] | None = None,
        z: In[Tensor, "bfloat16", "N", CType("gl<bf16, 1, 1, 1, -1>")] = None,
        a: float = 1.0,
        b: Scalar[int, "uint32_t"] = 3,
        *,
        c: bool = True,
        o: Out[Tensor, "T", "N"],
    ): ...

    spec = spec_of_function(f, SOURCE, variants={"T": (F32,)}, **OPTIONS)
    assert [field_text(field) for field in spec.fields] == [
        'x: In[Tensor, "T", "...", "N", Align(16)]',
        'y: InOut[Tensor, "float32", "2 * N", 64] | None',
        'z: In[Tensor, "bfloat16", "N", CType("gl<bf16, 1, 1, 1, -1>")] | None',
        "a: float = 1.0",
        'b: Scalar[int, "uint32_t"] = 3',
        "c: bool = True",
        'o: Out[Tensor, "T", "N"]',
    ]
    assert signature_text(spec) == (
        "f(x: Tensor, y: Tensor | None = None, z: Tensor | None = None, a: float = 1.0, b: int = 3, *, "
        "c: bool = True, o: Tensor = None, out=None, stream=None)"
    )
