"""Errors about an entry that the source lacks or declares differently."""

import pytest

from tkjit.source.entries import kernel_functions, why_not_the_entry

SOURCE = """
// __global__ void commented(int);
template <typename T, int N = 4>
__global__ void __launch_bounds__(256, 2) relu(const __grid_constant__ Globals g) {}
namespace n {
extern "C" __global__ void add(const float* __restrict__ x, Pair<int, Pair<int, int>> y, int n) { if (n) {} }
}
__device__ float helper(float x) { return x; }
__global__ void declared(int);
__global__ void scale(float* x) {}
template <class T> __global__ void scale(T* x, int n) {}
__global__ void C10_LAUNCH_BOUNDS_1(256) marked(Globals g) {}
template <int N = 4> __global__ void fixed(Globals g) {}
template <class... Ts> __global__ void packed(Ts... xs) {}
"""
UNDECLARED = "launcher.cu:40:30: error: \u2018rellu\u2019 was not declared in this scope"
OURS = "launcher.cu:40:29: error: no matches converting function"
COUNT = "launcher.cu:13:57: error: static assertion failed: the parameters of {}; the spec of k says otherwise"
ALL = (
    "relu<typename T, int N = 4>(const Globals g), n::add(const float* x, Pair<int, Pair<int, int>> y, int n), "
    "scale(float* x), scale<class T>(T* x, int n), marked(Globals g), "
    "fixed<int N = 4>(Globals g), packed<class... Ts>(Ts... xs)"
)


def why(entry: str, *, args: bool = False, passed: str = "x", log: str = OURS, source: str = SOURCE) -> str:
    return why_not_the_entry(source, entry, takes_arguments=args, passed=passed.split(), log=log)


def test_all_kernels_of_a_source_are_found():
    assert ", ".join(map(str, kernel_functions(SOURCE))) == ALL


@pytest.mark.parametrize(
    ("entry", "log", "near"),
    [
        ("rellu<T>", UNDECLARED, "relu"),
        ("rellu<T>", 'launcher.cu(40): error: identifier "rellu" is undefined', "relu"),
        ("rellu<T>", "launcher.cu:40:30: error: use of undeclared identifier 'rellu'", "relu"),
        ("n::ad", "launcher.cu:40:30: error: \u2018ad\u2019 is not a member of \u2018n\u2019", "n::add"),
        ("n::ad", 'launcher.cu(40): error: namespace "n" has no member "ad"', "n::add"),
        ("add", "launcher.cu:40:30: error: \u2018add\u2019 was not declared in this scope", "n::add"),
    ],
)
def test_a_misspelt_name_gets_a_suggestion(entry, log, near):
    name = entry.partition("<")[0]
    assert why(entry, log=log) == f"the source has no __global__ function {name}; it has {ALL}; did you mean {near}?"


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ("relu", 'relu is a template, <typename T, int N = 4>; write entry="relu<T>"'),
        ("n::add<T>", 'n::add is not a template; write entry="n::add"'),
        ("n::add", "takes plain arguments instead of a struct; set args=True"),
    ],
)
def test_an_entry_of_the_wrong_kind(entry, expected):
    assert why(entry).endswith(expected)


@pytest.mark.parametrize(("passed", "expected"), [("x y", "describes 2: x, y"), ("x y n m", "describes 4: x, y, n, m")])
def test_a_wrong_number_of_parameters(passed, expected):
    text = why("n::add", args=True, passed=passed, log=COUNT.format("n::add"))
    assert text == f"{ALL.split('g), ')[1].split(', scale')[0]} has 3 parameters, but the spec {expected}"


@pytest.mark.parametrize(
    ("entry", "args", "log"),
    [
        ("relu", False, "mine.cu:3:1: error: expected ;"),  # the error is in the source
        ("of_a_header<T>", False, "mine.cu:3:1: error: expected ;"),  # a header may define it
        ("scale", True, OURS),  # two kernels have the name
        ("n::add", True, OURS),  # the error is not about the parameters
        ("fixed", False, OURS),  # all template parameters have defaults
        ("packed<T>", True, COUNT.format("packed<T>")),
    ],
)
def test_nothing_is_reported_if_nothing_is_known_to_be_wrong(entry, args, log):
    assert why(entry, args=args, log=log) == ""


def test_a_macro_may_define_kernels():
    source = "#define KERNEL(name) __global__ void name\nKERNEL(rellu)(Globals g) {}\n__global__ void f(Globals g) {}"
    assert why("rellu", log=UNDECLARED, source=source) == ""


@pytest.mark.parametrize("parameter", ["const Globals& g", "Globals* g", "const Globals *g"])
def test_a_struct_by_reference_or_pointer(parameter):
    message = why_not_the_entry(
        f"__global__ void f({parameter}) {{}}",
        "f",
        takes_arguments=False,
        passed=["x"],
        log="launcher.cu:1:1: error: no",
    )
    assert message.endswith("a kernel takes it by value: const __grid_constant__ Globals g")


def test_an_existing_kernel_is_not_reported_as_missing():
    source = "__global__ void f(Params g) {}"
    log = "a.cu:1:1: error: 'Params' was not declared\nlauncher.cu:9:1: error: 'f' was not declared in this scope"
    assert why_not_the_entry(source, "f", takes_arguments=False, passed=["x"], log=log) == ""


@pytest.mark.parametrize(
    ("template", "entry", "expected"),
    [
        ("typename T, bool on", "f<T>", 'f is a template, <typename T, bool on>; write entry="f<T, on>"'),
        ("typename T, bool on", "f<T, true>", ""),
        ("int N", "f<max(M, 2)>", ""),
        ("typename T", "f<pair<int, T>>", ""),
        ("typename... Ts", "f<float*, int>", ""),
        ("typename T, int N = 4", "f<T, 2>", ""),
    ],
)
def test_a_wrong_number_of_template_arguments(template, entry, expected):
    source = f"template <{template}> __global__ void f(Globals g) {{}}"
    assert why_not_the_entry(source, entry, takes_arguments=False, passed=["x"], log=OURS) == expected
