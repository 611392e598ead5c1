"""Rewriting a source for the CPU: launches, dynamic shared memory, alignments, and the parts that stay unchanged."""

import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import tkjit
from tkjit.source.adapt import adapt
from tkjit.source.lexer import tokens_of

REFERENCE = "= ::tkjit::sim::dynamic_shared"


@pytest.mark.parametrize(
    "launch, call",
    [
        ("add<<<1, 2>>>(x)", "TKJIT_SIM_LAUNCH(add)(1, 2)(x)"),
        (
            "add<<<grid, block, n * sizeof(T), stream>>>()",
            "TKJIT_SIM_LAUNCH(add)(grid, block, n * sizeof(T), stream)()",
        ),
        ("add<T, 4><<<1, 2>>>(x)", "TKJIT_SIM_LAUNCH(add<T, 4>)(1, 2)(x)"),
        ("add<A<B<int>>><<<1, 2>>>(x)", "TKJIT_SIM_LAUNCH(add<A<B<int>>>)(1, 2)(x)"),
        ("add<N << 2, (N >> 1), (a > b)><<<1, 2>>>(x)", "TKJIT_SIM_LAUNCH(add<N << 2, (N >> 1), (a > b)>)(1, 2)(x)"),
        ("::a::b<T>::template add<U><<<1, 2>>>(x)", "TKJIT_SIM_LAUNCH(::a::b<T>::template add<U>)(1, 2)(x)"),
        ("return a::add<<<1, 2>>>(x)", "return TKJIT_SIM_LAUNCH(a::add)(1, 2)(x)"),
        ("if (n) add<<<1, 2>>>(x)", "if (n) TKJIT_SIM_LAUNCH(add)(1, 2)(x)"),
        ("else add<<<1, 2>>>(x)", "else TKJIT_SIM_LAUNCH(add)(1, 2)(x)"),
        ("case 1: add<<<1, 2>>>(x)", "case 1: TKJIT_SIM_LAUNCH(add)(1, 2)(x)"),
        ("(*kernels[i])<<<1, 2>>>(x)", "TKJIT_SIM_LAUNCH((*kernels[i]))(1, 2)(x)"),
        ("p->table[i].f<<<1, 2>>>(x)", "TKJIT_SIM_LAUNCH(p->table[i].f)(1, 2)(x)"),
        ("choose<T>(n)<<<1, 2>>>(x)", "TKJIT_SIM_LAUNCH(choose<T>(n))(1, 2)(x)"),
        ("if (f)(*g)<<<1, 2>>>(x)", "if (f)TKJIT_SIM_LAUNCH((*g))(1, 2)(x)"),
        ("CHECK(add<<<1, 2>>>(x))", "CHECK(TKJIT_SIM_LAUNCH(add)(1, 2)(x))"),
        ("add<<<f<<<1, 2>>>(3), 4>>>(x)", "TKJIT_SIM_LAUNCH(add)(TKJIT_SIM_LAUNCH(f)(1, 2)(3), 4)(x)"),
        ("add<<<{1, 2}, [] { return 3; }()>>>(x)", "TKJIT_SIM_LAUNCH(add)({1, 2}, [] { return 3; }())(x)"),
        ("add<<<A<B<C>>>::n, 2>>>(x)", "TKJIT_SIM_LAUNCH(add)(A<B<C>>>::n, 2)(x)"),
        ("add /* a */ <<< /* b */ 1, 2 >>> (x)", "TKJIT_SIM_LAUNCH(add) /* a */ ( /* b */ 1, 2 ) (x)"),
        (
            "#define LAUNCH(k, ...) k<<<grid, \\\n    block>>>(__VA_ARGS__)",
            "#define LAUNCH(k, ...) TKJIT_SIM_LAUNCH(k)(grid, \\\n    block)(__VA_ARGS__)",
        ),
        ("#define RUN(name) name##_kernel<<<1, 2>>>", "#define RUN(name) TKJIT_SIM_LAUNCH(name##_kernel)(1, 2)"),
        ("add<T\n  ><<<\n1,\n2>>>\n(x)", "TKJIT_SIM_LAUNCH(add<T\n  >)(\n1,\n2)\n(x)"),
    ],
)
def test_launches_become_calls(launch, call):
    assert adapt(f"{launch}\n;") == f"{call}\n;"


@pytest.mark.parametrize(
    "text",
    [
        "// add<<<1, 2>>>(x)",
        "/* add<<<1, 2>>>(x)\n extern __shared__ int a[]; */",
        '"add<<<1, 2>>>(x)"',
        r'"\"add<<<1, 2>>>(x)"',
        'R"(add<<<1, 2>>>(x))"',
        'u8R"end(add<<<1, 2>>>(x) )" extern __shared__ int a[]; )end"',
        "// goes on \\\nadd<<<1, 2>>>(x)",
        "'<' '<<<' L'\\''",
        "operator<<<int>(out, x);",
        "#define ONE_THREAD <<<1, 1>>>",
        "#error don't add<<<1, 2>>>(x)",
        "int x = a << b >> c; A<B<C<int>>> d; 1'000'000;",
        "add<<<1, 2>>>;",
        "__shared__ int a[4]; extern int b[]; __shared__ __align__(16) T c[N];",
    ],
)
def test_other_text_stays_unchanged(text):
    assert adapt(text + "\n") == text + "\n"


def function(body: str) -> str:
    return f"__global__ void f(int n) {{ {body} }}"


def squeezed(text: str) -> str:
    return re.sub(r"\s+", " ", text)


@pytest.mark.parametrize(
    "declaration, reference",
    [
        ("extern __shared__ float a[];", f"float (&a)[] {REFERENCE};"),
        ("extern __shared__ __align__(16) unsigned char a[];", f"unsigned char (&a)[] {REFERENCE};"),
        ("extern __shared__ alignas(128) T a[];", f"T (&a)[] {REFERENCE};"),
        ("alignas(A<T>) extern __shared__ T a[];", f"T (&a)[] {REFERENCE};"),
        ("extern volatile __shared__ int a[];", f"volatile int (&a)[] {REFERENCE};"),
        ("extern float __shared__ a[];", f"float (&a)[] {REFERENCE};"),
        ("__shared__ extern typename X<T>::Y a[];", f"typename X<T>::Y (&a)[] {REFERENCE};"),
        ("extern __shared__ A<int>* a[][8 * N];", f"A<int>* (&a)[][8 * N] {REFERENCE};"),
        ("extern __shared__ T a[], b[][2];", f"T (&a)[] {REFERENCE}, (&b)[][2] {REFERENCE};"),
    ],
)
def test_dynamic_shared_memory_in_a_function_becomes_a_reference(declaration, reference):
    assert squeezed(adapt(function(declaration))) == squeezed(function(reference))


def test_dynamic_shared_memory_in_a_member_or_a_macro_becomes_a_reference():
    member = "struct S { operator T*() { extern __shared__ int a[]; return (T*)a; } };"
    assert squeezed(adapt(member)) == f"struct S {{ operator T*() {{ int (&a)[] {REFERENCE}; return (T*)a; }} }};"
    macro = "#define RAW(T) extern __shared__ T raw[]\nint x;"
    assert squeezed(adapt(macro)) == f"#define RAW(T) T (&raw)[] {REFERENCE} int x;"


NAMESPACE = """\
namespace n {
extern __shared__ __align__(16) float a[];
template <class T> struct S { T member() { return a[0]; } T a_; };
__global__ void uses(int n)
{
    a[n] = 1;
}
void hides(float* a) { a[0] = 1; }
void other(S<int>* s) { s->a[0] = x::a[0]; }
__global__ __launch_bounds__(32) void also() { for (;;) { a[1]++; } }
}
"""


def test_dynamic_shared_memory_of_a_namespace_is_declared_in_the_functions_that_use_it():
    lines = adapt(NAMESPACE).split("\n")
    reference = f"float (&a) [ ] {REFERENCE};"
    assert lines[1].strip() == ""
    assert lines[2] == f"template <class T> struct S {{ T member() {{ {reference} {{ return a[0]; }} }} T a_; }};"
    assert lines[4:7] == [f"{{ {reference} {{", "    a[n] = 1;", "} }"]
    assert lines[7:9] == NAMESPACE.split("\n")[7:9]
    assert lines[9] == f"__global__ __launch_bounds__(32) void also() {{ {reference} {{ for (;;) {{ a[1]++; }} }} }}"


def test_preprocessor_branches_do_not_unbalance_braces():
    text = "#if A\nvoid f() {\n#else\nvoid f(int) {\n#endif\n}\nextern __shared__ int a[];\nvoid g() { a[0] = 1; }\n"
    lines = adapt(text).split("\n")
    assert lines[6].strip() == "" and REFERENCE in lines[7]


@pytest.mark.parametrize(
    "written, moved",
    [
        ("__shared__ alignas(16) int a[4];", "alignas(16) __shared__ int a[4];"),
        ("static const alignas(A<B>) T a;", "alignas(A<B>) static const T a;"),
        ("alignas(16) int a; struct alignas(8) B {};", "alignas(16) int a; struct alignas(8) B {};"),
    ],
)
def test_alignments_come_first(written, moved):
    assert squeezed(adapt(function(written))) == squeezed(function(moved))


@pytest.mark.parametrize("cast", ["(void*)", "(const void *)", "(void const*)", "reinterpret_cast<const void*>"])
def test_casts_of_kernels_are_removed(cast):
    kernel = "(f<T>)" if "reinterpret" in cast else "f<T>"
    text = f"cudaLaunchKernel({cast}{kernel}, 1, 2, args); cudaLaunchKernelExC(&c, {cast}{kernel}, args); g((void*)x);"
    bare = f"cudaLaunchKernel({kernel}, 1, 2, args); cudaLaunchKernelExC(&c, {kernel}, args); g((void*)x);"
    assert adapt(text).replace(" ", "") == bare.replace(" ", "")


@pytest.mark.parametrize(
    "written, rewritten",
    [
        ("p = (void*)k<T, (N > 2)>;", "p = ::tkjit::sim::as_pointer(k<T, (N > 2)>);"),
        ("S s = {(const void*)&a::k<A<B>>, 1};", "S s = {::tkjit::sim::as_pointer(&a::k<A<B>>), 1};"),
        ("p = reinterpret_cast<void*>(k<T>);", "p = ::tkjit::sim::as_pointer(k<T>);"),
        ("#define P(n) \\\n  p = (void*)k<n>;\n", "#define P(n) \\\n  p = ::tkjit::sim::as_pointer(k<n>);\n"),
        ("p = (void*)k(1);", "p = (void*)k(1);"),
        ("p = (void*)other;", "p = (void*)other;"),
        ("p = (void*)x->k;", "p = (void*)x->k;"),
        ("cudaLaunchKernel((void*)k<T>, 1, 2, args);", "cudaLaunchKernel(k<T>, 1, 2, args);"),
    ],
)
def test_a_kernel_cast_to_a_pointer_keeps_its_type(written, rewritten):
    kernel = "template <class T, int n> __global__ void __launch_bounds__(64) k(T* x) {}\n"
    assert adapt(kernel + written) == kernel + rewritten


# pieces to combine into a source in any order: some are rewritten, some never are
REWRITTEN = ["k<<<1, 2>>>(x);", "extern __shared__ int a[];", "k<A<B>>\n<<<1,\n2>>>(x);", "void f() { a[0]++; }"]
KEPT = [
    '"k<<<1, 2>>>(x);"',
    "/* extern __shared__ int a[]; */",
    'R"x(k<<<1, 2>>>\n(x); )" )x"',
    "// k<<<1, 2>>>(x);\n",
    "'\"'",
]
OTHER = [
    "#if __CUDA_ARCH__ \\\n > 1\n",
    "#define A __CUDA_ARCH__\n",
    "A;",
    "__CUDA_ARCH__",
    "__device__ f()",
    "{",
    "}",
    "(",
    ")",
    "<",
    ">",
    "#if 1\n",
    "#endif\n",
    "\\\n",
    "'",
    '"',
    "namespace n {",
    "struct s",
    "\n",
    "##",
]


@settings(deadline=None)
@given(st.lists(st.sampled_from([*REWRITTEN, *KEPT, *OTHER])))
@example(["k<<<1, 2>>>(x);", ")", "struct s", "{"])
def test_any_text_keeps_its_line_count(pieces):
    text = " ".join(pieces)
    assert adapt(text).count("\n") == text.count("\n")


@settings(deadline=None)
@given(st.lists(st.sampled_from([*REWRITTEN, *KEPT])))
def test_strings_and_comments_are_untouched(pieces):
    text = "\n".join(pieces)
    adapted = adapt(text)

    def strings(source: str) -> list[str]:
        return [token.text for token in tokens_of(source) if token.kind == "string"]

    assert strings(adapted) == strings(text)
    for comment in (KEPT[1], KEPT[3]):
        assert adapted.count(comment) == text.count(comment)
    assert all(token.text != "<<<" for token in tokens_of(adapted))


@settings(deadline=None)
@given(st.text())
def test_tokens_record_their_positions(text):
    for token in tokens_of(text):
        if token.kind != "directive":
            assert text[token.start : token.end] == token.text


@pytest.mark.parametrize("name", ["axpy", "gemm", "softmax"])
def test_bundled_kernels_stay_unchanged(name):
    source = tkjit.find(name).specs[0].sources[0][1].read()
    assert adapt(source) == source
