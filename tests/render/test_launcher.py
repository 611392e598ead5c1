"""The generated launcher: struct types, names in grids, and correct line numbers."""

import pytest
from support.rendered import declared_twice, line_directives

import tkjit
from tkjit import CExpr, CType, In, Member, Out, Scalar, SpecError, Tensor

SOURCE = "// the first line\n__global__ void scale(Globals g) {\n}\n"
F32 = "float32"
OPTIONS = {"entry": "scale", "grid": 1, "block": 32}


def launcher(function, source: str = SOURCE, *, variant: dict | None = None, **options) -> str:
    return tkjit.kernel(source, **{**OPTIONS, **options})(function).render(**(variant or {})).launcher


def plain(x: In[Tensor, F32, "N"]): ...


@pytest.mark.parametrize(
    "source", [SOURCE, SOURCE.rstrip("\n"), SOURCE + "\n\n", "// {\n", "int a;\n\n\fint b;\n", "\n"]
)
def test_line_directives_are_correct(source):
    text = launcher(plain, source, variants={})
    (at_source, source_line, name), (after, line_after, own) = line_directives(text)
    lines = text.split("\n")
    assert (source_line, name) == (1, "inline.cu")
    assert lines[at_source - 1] == source.split("\n")[0]
    assert own == "launcher.cu" and line_after == after
    assert lines[after - 1] == "#undef main"


@pytest.mark.parametrize("name", ["axpy", "softmax", "gemm"])
def test_launcher_contains_the_source_line_by_line(name):
    kernel = tkjit.find(name)
    source = kernel.specs[0].sources[0][1].read().rstrip("\n").split("\n")
    for variant in kernel.variants:
        text = kernel.render(**dict(variant.values)).launcher
        (start, first, file), (after, line, own) = line_directives(text)
        assert (first, file, line, own) == (1, f"{name}.cu", after, "launcher.cu")
        assert text.split("\n")[start - 1 : after - 2] == source


def test_file_name_with_quotes_is_escaped(tmp_path):
    path = tmp_path / 'a"b\\c.cu'
    path.write_text(SOURCE)
    text = tkjit.kernel(path, **OPTIONS)(plain).render().launcher
    assert '#line 1 "a\\"b\\\\c.cu"' in text and str(tmp_path) not in text


def test_main_of_the_source_is_renamed():
    text = launcher(plain, "int main() {}\n")
    define, main, undef = (
        text.index(part) for part in ("#include <tkjit/source_main.h>", "int main() {}", "#undef main")
    )
    assert define < main < undef < text.index("tkjit_launch(")


def test_static_extents():
    def f(
        a: In[Tensor, "T", "M", 64, "D"],
        b: In[Tensor, F32, "2 * 8"],
        c: In[Tensor, "int8", "... D"],
        d: In[Tensor, F32, "D", 3] | None = None,
        e: In[Tensor, "bfloat16", "N", CType("gl<bf16, 1, 1, 1, -1>")] = None,
        n: Scalar[int, "uint32_t"] = 3,
        alpha: float | None = None,
    ): ...

    text = launcher(f, variants={"T": ("float16", F32), "D": (64, 128)}, variant={"D": 128})
    members = [
        line.split("  //")[0].strip() for line in text.split("struct Globals {\n")[1].split("};")[0].splitlines()
    ]
    assert members == [
        "tkjit::gl<T, 1, -1, 64, D> a;",
        "tkjit::gl<float, 1, 1, 1, 16> b;",
        "tkjit::gl<int8_t, -1, -1, -1, D> c;",
        "tkjit::gl<float, -1, -1, -1, -1> d;",
        "gl<bf16, 1, 1, 1, -1> e;",
        "uint32_t n;",
        "tkjit::optional<float> alpha;",
    ]
    assert "using T = __half;\nconstexpr int D = 128;\n" in text
    assert "#include <cuda_bf16.h>\n#include <cuda_fp16.h>\n" in text


def test_only_headers_of_used_types_are_included():
    def f(x: In[Tensor, "T", "N"]): ...

    types = (F32, "bfloat16", "float16", "float8_e4m3fn")
    headers = ["", "cuda_bf16.h", "cuda_fp16.h", "cuda_fp8.h"]
    for name, header in zip(types, headers, strict=True):
        text = launcher(f, variants={"T": types}, variant={"T": name})
        assert [h for h in headers[1:] if f"<{h}>" in text] == [header] * bool(header)


def test_arguments_have_the_order_of_the_struct():
    def f(x: In[Tensor, F32, "N"], alpha: float, y: Out[Tensor, F32, "N"]): ...

    text = launcher(f, fields="y x alpha", grid="N")
    for i, name in enumerate(["y", "x", "alpha"]):
        assert f"&arg_{name} = args[{i}]" in text
        assert f".{name} = tkjit::convert<decltype(Globals::{name})>(arg_{name})," in text
    assert "const tkjit::Int v_N = arg_x.extents[0];" in text
    glue = tkjit.kernel(SOURCE, **{**OPTIONS, "fields": "y x alpha"})(f).render().glue
    assert "set(args[0], v_y);" in glue and "set(args[1], v_x);" in glue and "set(args[2], v_alpha);" in glue


def test_derived_dims_come_in_order_and_only_if_used():
    text = launcher(plain, dims={"A": "B + C", "B": "C * 2", "C": "cdiv(N, 4)", "unused": "N"}, grid="A, B")
    positions = [text.index(f"const tkjit::Int v_{name} = ") for name in "NCBA"]
    assert positions == sorted(positions)
    assert positions[-1] < text.index("shape.set_grid(v_A, v_B);")
    assert "unused" not in text


@pytest.mark.parametrize("name", ["shape", "globals", "args", "device", "stream_", "launch", "tkjit"])
def test_dim_may_have_a_name_that_the_launcher_uses(name):
    space = {"In": In[Tensor, F32, name]}
    exec(compile("def f(x: In): ...", __file__, "exec", dont_inherit=True), space)
    text = launcher(space["f"], grid=f"cdiv({name}, 32)")
    assert f"const tkjit::Int v_{name} = arg_x.extents[0];" in text
    assert f"shape.set_grid(cdiv(v_{name}, 32));" in text


def test_extent_and_field_with_similar_names_do_not_collide():
    def f(x: In[Tensor, F32, "M", "N"], rows_of_x: int): ...

    assert declared_twice(launcher(f, grid="x.rows, rows_of_x")) == []


def test_dim_may_have_the_name_of_the_entry():
    def f(x: In[Tensor, F32, "scale"]): ...

    text = launcher(f, grid="cdiv(scale, 32)")
    assert "const tkjit::Int scale = " not in text  # it would hide the kernel that is launched below it


@pytest.mark.parametrize("options", [{}, {"args": True}, {"struct": "globals", "config": "config", "block": None}])
def test_entry_may_have_the_name_of_an_argument_variable(options):
    text = launcher(plain, entry="arg_x", grid="N", **options)
    assert text.index("const auto tkjit_entry = ") < text.index("const TkjitArg &arg_x = args[0];")
    assert "arg_x" not in text.split("tkjit::launch")[-1]


def test_plain_arguments_are_named_if_a_dim_is_read_from_them():
    def f(x: In[Tensor, F32, "N"], y: In[Tensor, F32, "M"], n: int): ...

    assert "const TkjitArg &arg_y = args[1];\n" in launcher(f, args=True, grid="M")
    assert "arg_" not in launcher(f, args=True).split("tkjit_launch(")[1]


def test_extents_of_a_tensor():
    text = launcher(plain, grid="x.batch * x.depth, x.rows, x.cols", block="min(x.numel, 32)")
    for axis, extent in enumerate(["batch", "depth", "rows", "cols"]):
        assert f"const tkjit::Int {extent}_of_x = tkjit::padded_extent(arg_x, {axis});" in text
    assert "const tkjit::Int numel_of_x = tkjit::numel(arg_x);" in text


def test_struct_of_the_source_is_checked():
    def f(x: In[Tensor, F32, "N"], n: int): ...

    text = launcher(f, struct="layout<64>::globals", grid=None, block=None)
    assert "struct Globals" not in text
    assert "std::type_identity<layout<64>::globals>{}" in text
    assert "static_assert(tkjit::has_fields<TkjitGlobals, 2>()," in text
    assert "static_assert(tkjit::holds<decltype(TkjitGlobals::x), float>()," in text
    assert "static_assert(tkjit::holds<decltype(TkjitGlobals::n), int>()," in text
    assert text.index("#undef main") < text.index("class TkjitGlobals")
    assert 'tkjit::check_extents<decltype(TkjitGlobals::x)>(arg_x, "x")' in text
    for member in ("grid", "block", "shared_memory"):
        assert f"tkjit::use_own_{member}(shape, globals);" in text
    overridden = launcher(f, struct="layout<64>::globals", shared_memory=1024)
    assert "use_own" not in overridden and "shape.set_shared_memory(1024);" in overridden


def test_nested_members_are_filled_in_braces_and_counted():
    def f(
        a_real: In[Tensor, F32, "N", Member("a.real")],
        a_imag: In[Tensor, F32, "N", Member("a.imag")],
        b: In[Tensor, F32, "N"],
    ): ...

    text = launcher(f, struct="globals", grid=1, block=1)
    assert "has_fields<TkjitGlobals, 2>()" in text and "has_fields<decltype(TkjitGlobals::a), 2>()" in text
    filled = text.split("globals{\n")[1].split("};")[0]
    assert [line.strip().split(" = ")[0] for line in filled.splitlines()] == [".a", ".real", ".imag", "},", ".b", ""]
    assert ".imag = tkjit::convert<decltype(TkjitGlobals::a.imag)>(arg_a_imag)," in text
    with pytest.raises(SpecError, match="expected a member, or a nested one"):
        Member("a.b.c")


def test_computed_integers():
    def f(x: In[Tensor, F32, "N"], n: int): ...

    text = launcher(f, struct="globals", grid=1, block=1, computed={"half": "N // 2"}, fields="half x n", trailing="n")
    assert "has_fields<TkjitGlobals, 2>()" in text
    assert (
        'if (const char* error = tkjit::check_computed<decltype(TkjitGlobals::half)>(v_N / 2, "half")) return error;'
        in text
    )
    assert ".half = tkjit::convert<decltype(TkjitGlobals::half)>(v_N / 2)," in text
    assert "tkjit::launch(scale, shape, device, stream, globals, tkjit::convert<int>(arg_n));" in text
    text = launcher(f, args=True, computed={"half": "N // 2"}, fields="x half n")
    assert "static_assert(tkjit::takes<decltype(&scale), float, tkjit::computed, int>()" in text
    assert 'tkjit::check_computed<int64_t>(v_N / 2, "half")' in text
    assert "const TkjitArg all[] = {arg_x, tkjit::integer_arg(v_N / 2), arg_n};" in text


def test_launch_computed_in_cpp():
    def f(x: In[Tensor, F32, "M", "N"], n: int): ...

    text = launcher(
        f, struct="auto", grid=CExpr("tiles<2>::grid(M, n)"), block=CExpr("tiles<2>::threads"),
        shared_memory=CExpr("sizeof(tile) * globals.count"), cluster=(2, 1), pdl=True,
    )  # fmt: skip
    assert (
        "shape.set_grid([&](int M, int n) { return dim3(tiles<2>::grid(M, n)); }(int(v_M.value()), int(v_n.value())));"
        in text
    )
    assert "shape.set_block([&]() { return dim3(tiles<2>::threads); }());" in text
    assert "shape.set_shared_memory([&]() { return tkjit::Int(int64_t(sizeof(tile) * globals.count)); }());" in text
    assert "shape.cluster = dim3(2, 1);" in text and "shape.overlaps = true;" in text
    assert "tkjit_launch_own(args, device, stream, tkjit::struct_of(&scale))" in text


def test_config_launches_a_device_function():
    def f(x: In[Tensor, F32, "N"]): ...

    text = launcher(f, struct="globals", config="config", grid=None, block=None)
    for what in ("grid", "block", "shared_memory"):
        assert f"tkjit::use_config_{what}<config>(shape, globals);" in text
    assert "tkjit::use_config_cluster<config>(shape);" in text
    assert "tkjit::launch(tkjit::configured<config, TkjitGlobals, scale>, shape, device, stream, globals);" in text


def test_plain_arguments_and_host_functions():
    text = launcher(plain, args=True)
    assert "struct Globals" not in text and "globals" not in text
    assert "return tkjit::launch_with_arguments(scale, shape, device, stream, args);" in text
    text = launcher(plain, host=True, grid=None, block=None)
    assert "return tkjit::call_host(scale, device, stream, globals);" in text and "shape" not in text
    text = launcher(plain, host=True, args=True, grid=None, block=None)
    assert "return tkjit::call_host_with_arguments(scale, device, stream, args);" in text


def test_launcher_has_one_c_function_and_no_python():
    text = launcher(plain)
    assert text.count('extern "C"') == 1
    assert (
        'extern "C" TKJIT_EXPORT const char* tkjit_launch(const TkjitArg* args, int32_t device, void* stream) {' in text
    )
    assert "Python.h" not in text and "torch" not in text
