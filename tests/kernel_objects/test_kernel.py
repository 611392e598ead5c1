"""Kernels without compilation: repr, variants, rendered texts and reference."""

import inspect
import pydoc

import pytest

import tkjit
from tkjit import ArgumentError, In, InOut, Kernel, Out, Scalar, SpecError, Tensor, registry
from tkjit.kernel_objects import find_used

SOURCE = "template <class T> __global__ void scale(const __grid_constant__ Globals g) {}\n"
OPTIONS = {"entry": "scale<T>", "grid": 1, "block": 32, "variants": {"T": ("float32", "bfloat16")}}


@tkjit.kernel(SOURCE, **OPTIONS)
def scale(
    x: In[Tensor, "T", "N"],
    bias: In[Tensor, "T", "N"] | None = None,
    alpha: float = 2.0,
    *,
    count: Scalar[int, "uint32_t"] = 3,
    exact: bool = False,
    y: Out[Tensor, "T", "N"] = None,
) -> Tensor:
    """Scale a tensor.

    Slowly.
    """
    return x * alpha


def test_repr_shows_the_signature():
    assert repr(scale) == (
        "<tkjit kernel scale(x: Tensor, bias: Tensor | None = None, alpha: float = 2.0, *, "
        "count: int = 3, exact: bool = False, y: Tensor = None, out=None, stream=None)>"
    )
    assert repr(tkjit.find("axpy")) == "<tkjit kernel axpy(x: Tensor, y: Tensor, alpha: float = 1.0, *, stream=None)>"


def test_help_shows_signature_and_docstring():
    text = pydoc.plain(pydoc.render_doc(scale))
    assert "scale(x: Tensor, bias: Tensor | None = None, alpha: float = 2.0" in text
    assert "Scale a tensor." in text and "Slowly." in text
    assert "x : (N,) float32, bfloat16 or float16" in pydoc.plain(pydoc.render_doc(tkjit.find("axpy")))


def test_signature():
    parameters = scale.signature.parameters
    assert list(parameters) == ["x", "bias", "alpha", "count", "exact", "y", "out", "stream"]
    kinds = [parameter.kind for parameter in parameters.values()]
    assert kinds == [inspect.Parameter.POSITIONAL_OR_KEYWORD] * 3 + [inspect.Parameter.KEYWORD_ONLY] * 5
    defaults = [parameter.default for parameter in parameters.values()]
    assert defaults == [inspect.Parameter.empty, None, 2.0, 3, False, None, None, None]
    assert parameters["count"].annotation == "int"
    assert inspect.signature(scale) == scale.signature


def test_output_can_come_first_and_is_keyword_only():
    @tkjit.kernel(SOURCE, **OPTIONS)
    def f(y: Out[Tensor, "T", "N"], x: In[Tensor, "T", "N"]) -> Tensor: ...

    assert list(f.signature.parameters) == ["x", "y", "out", "stream"]
    assert f.signature.parameters["y"].kind is inspect.Parameter.KEYWORD_ONLY


def test_optional_field_can_come_before_a_required_one():
    @tkjit.kernel(SOURCE, **OPTIONS)
    def f(bias: In[Tensor, "T", "N"] | None, x: In[Tensor, "T", "N"]): ...

    assert list(f.signature.parameters) == ["bias", "x", "stream"]
    assert f.signature.parameters["bias"].default is inspect.Parameter.empty
    assert "bias" in pydoc.render_doc(f)
    assert "bias: Tensor | None, x: Tensor" in repr(f)


def test_name_and_docstring():
    assert scale.name == scale.__name__ == "scale"
    assert scale.__doc__.splitlines()[1:] == ["", "Scale a tensor.", "", "Slowly."]


def test_variants():
    assert [str(variant) for variant in scale.variants] == ["T=float32", "T=bfloat16"]
    assert [str(variant) for variant in tkjit.find("gemm").variants] == ["T=float32", "T=bfloat16", "T=float16"]


def test_reference_takes_the_arguments_of_a_call():
    assert scale.reference(3, alpha=5.0) == 15.0
    assert scale.reference(3, y=None, count=1) == 6.0
    with pytest.raises(ArgumentError, match="scale: the reference takes x, bias, alpha, count, exact, got 6 arguments"):
        scale.reference(1, 2, 3, 4, 5, 6)


def test_positional_arguments_of_the_reference_skip_outputs():
    @tkjit.kernel(SOURCE, entry="scale<float>", grid=1, block=32)
    def scaled(x: In[Tensor, "float32", "N"], y: Out[Tensor, "float32", "N"], alpha: float) -> Tensor:
        return x * alpha

    assert scaled.reference(3, 2.0) == 6.0
    import torch

    x, y = torch.ones(3), torch.zeros(3)
    assert tkjit.find("axpy").reference(x, y, 2.0) is y
    assert y.tolist() == [2, 2, 2]
    torch.testing.assert_close(tkjit.find("softmax").reference(x), torch.full((3,), 1 / 3))
    torch.testing.assert_close(tkjit.find("gemm").reference(torch.eye(3), torch.eye(3)), torch.eye(3))


def test_kernel_without_a_reference():
    @tkjit.kernel(SOURCE, **OPTIONS)
    def f(x: In[Tensor, "T", "N"]): ...

    with pytest.raises(SpecError, match=r"f has no reference: the body of its function is empty"):
        f.reference  # noqa: B018


def test_overloads_form_one_kernel():
    @tkjit.kernel(SOURCE, **OPTIONS)
    def add(x: In[Tensor, "T", "N"], alpha: float): ...

    first = add

    @add.overload(SOURCE, **{**OPTIONS, "variants": {"T": ("int32",)}})
    def add(x: In[Tensor, "T", "N"], y: InOut[Tensor, "T", "N"]) -> Tensor:
        """The second overload."""

    assert isinstance(add, Kernel) and len(add.specs) == 2 and len(first.specs) == 1
    assert [str(variant) for variant in add.variants] == ["T=float32", "T=bfloat16", "T=int32"]
    assert repr(add).count("add(") == 2 and " | " in repr(add)
    assert "using T = int32_t;" in add.render(overload=1).launcher
    assert "overload_1" in add.render().glue


def test_overload_with_another_name_is_rejected():
    with pytest.raises(SpecError, match=r"share one name, got scale, other"):

        @scale.overload(SOURCE, **OPTIONS)
        def other(x: In[Tensor, "T", "N"]): ...


def test_rendering_uses_the_first_options_and_compiles_nothing(cache):
    rendered = scale.render()
    assert "for T=float32" in rendered.launcher and "using T = float;" in rendered.launcher
    assert rendered == scale.render(T="float32")
    assert "using T = __nv_bfloat16;" in scale.render(T="bfloat16").launcher
    assert scale.render(T="bfloat16").glue == rendered.glue
    assert str(rendered) == f"{rendered.glue}\n{rendered.launcher}"
    assert not cache.exists()


@pytest.mark.parametrize("values", [{"T": "float64"}, {"T": "floaty"}, {"D": 64}, {"T": "float32", "D": 64}])
def test_rendering_an_unknown_variant(values):
    with pytest.raises(SpecError) as caught:
        scale.render(**values)
    variant = ", ".join(f"{name}={value}" for name, value in {"T": "float32", **values}.items())
    assert str(caught.value) == f"scale has no variant {variant}; it has T=float32; T=bfloat16"


@pytest.fixture
def two_sources(tmp_path):
    (tmp_path / "new.cu").write_text("// new\n")
    (tmp_path / "old.cu").write_text("// old\n")

    @tkjit.kernel(archs={"90a": tmp_path / "new.cu", "80": tmp_path / "old.cu"}, **OPTIONS)
    def scale(x: In[Tensor, "T", "N"]): ...

    return scale


def test_rendering_for_an_architecture(two_sources):
    assert '#line 1 "new.cu"\n// new\n' in two_sources.render(arch="90a").launcher
    assert '#line 1 "old.cu"\n// old\n' in two_sources.render(arch="86").launcher
    assert two_sources.render() == two_sources.render(arch="90a")


@pytest.mark.parametrize("arch", ["75", "cpu", "sm_75", "hopper"])
def test_rendering_for_an_architecture_without_a_source(two_sources, arch):
    with pytest.raises(SpecError, match="scale has no source for"):
        two_sources.render(arch=arch)


@pytest.mark.parametrize("thing", [3, None, print])
def test_load_rejects_other_objects(thing):
    with pytest.raises(SpecError, match=r"is not a kernel; expected a name, a tkjit.Kernel or a tkjit.Spec"):
        tkjit.load(thing)


def test_kernel_of_another_process_is_found():
    assert find_used("axpy", f"{registry.SPEC_MODULES}.axpy") is tkjit.find("axpy")
    assert find_used("scale", __name__) is scale


@pytest.mark.parametrize(
    "name, module, message",
    [
        ("scale", "__main__", "scale was defined in a script or a notebook; put it in a module"),
        ("scale", "no.such.module", "scale was defined in no.such.module, which cannot be imported"),
        ("OPTIONS", __name__, f"{__name__} defines no kernel OPTIONS"),
        ("nothing", __name__, f"{__name__} defines no kernel nothing"),
    ],
)
def test_missing_kernel_of_another_process(name, module, message):
    with pytest.raises(SpecError) as caught:
        find_used(name, module)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("name", tkjit.__all__)
def test_public_names_have_docstrings(name):
    thing = getattr(tkjit, name)
    assert thing.__doc__ and not thing.__doc__.startswith(f"{name}(")


def test_dir_shows_what_users_call():
    assert dir(tkjit) == tkjit.__all__
    shown = {name for name in dir(scale) if not name.startswith("_")}
    assert shown == {
        *("name", "operator", "overload", "prepare", "reference", "render", "schema", "signature", "specs"),
        *("symbol", "variants", "warm_up"),
    }


def test_mistakes_in_the_decorator():
    def f(x: In[Tensor, "float32", "N"]): ...

    with pytest.raises(
        SpecError,
        match=r"f: tkjit\.kernel has no option 'shared_mem'; did you mean shared_memory\?; it has entry, grid",
    ):
        tkjit.kernel(SOURCE, **OPTIONS, shared_mem=3)(f)
    with pytest.raises(SpecError, match="f: entry= is missing"):
        tkjit.kernel(SOURCE, grid=1, block=1)(f)
    with pytest.raises(SpecError, match=r"@tkjit\.kernel needs arguments"):
        tkjit.kernel(f)
    with pytest.raises(SpecError, match="scale has no overload 4; it has 1, counted from 0"):
        scale.render(overload=4)


@pytest.mark.parametrize("arch", ["hopper", "sm90", "9", "sm_"])
def test_unknown_architecture_of_a_source(arch):
    def f(x: In[Tensor, "float32", "N"]): ...

    with pytest.raises(SpecError, match=r"f: archs\['.*'\] is not an architecture"):
        tkjit.kernel(archs={arch: SOURCE}, **OPTIONS)(f)


def test_single_value_counts_as_a_list():
    def f(x: In[Tensor, "T", "N"]): ...

    options = {**OPTIONS, "variants": {"T": "float32"}, "grid": [1, "N"]}
    spec = tkjit.kernel(SOURCE, **options, flags="-O1 -g", libraries="m", include_dirs="include")(f).specs[0]
    assert spec.flags == ("-O1", "-g") and spec.libraries == ("m",) and len(spec.include_dirs) == 1
    assert spec.type_variants == {"T": ("float32",)} and list(map(str, spec.grid)) == ["1", "N"]
