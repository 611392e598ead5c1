"""A preprocessed text is adapted only where necessary, and keeps its line numbers."""

from __future__ import annotations

import pytest

from tkjit.source.keywords import repaired
from tkjit.source.preprocessed import adapt_preprocessed


@pytest.mark.parametrize(
    "statement",
    [
        'asm volatile("bar.sync 0;");',
        '__asm__ __volatile__("bar.sync" " 0;" ::: "memory");',
        'asm("{\\n" "bar.sync 0;\\n}" : : );',
        'asm volatile(R"ptx(bar.sync 0;)ptx");',
        'asm volatile\n(\n"bar.sync 0;"\n);',
    ],
)
def test_every_spelling_of_an_asm_statement_is_translated(statement):
    made = adapt_preprocessed(f"void f() {{ {statement} }}")
    assert "bar_sync<true>(" in made and "asm" not in made
    assert made.count("\n") == f"{statement}".count("\n")


def test_named_operands_are_translated():
    made = adapt_preprocessed('void f() { asm("mov.u32 %[to], %[of];" : [to] "=r"(a[i]) : [of] "r"(b ? 1 : c::d)); }')
    assert "tkjit_out0 = (a[i])" in made and "input_r((b ? 1 : c::d))" in made


def test_operands_may_lack_the_comma_between_them():
    made = adapt_preprocessed('void f() { asm volatile("st.shared.b16 [%0], %1;" :: "r"(g(a) + 1) "h"(b)); }')
    assert "input_r((g(a) + 1))" in made and "input_h((b))" in made


@pytest.mark.parametrize(
    "text",
    [
        'extern int puts(const char*) __asm__("puts_renamed");',
        'inline unsigned f() { unsigned low, high; asm volatile("rdtsc" : "=a"(low), "=d"(high)); return low; }',
        "int asmodeus = 1; // asm",
        '# 1 "/usr/include/x.h" 1 3 4\nvoid f() { asm volatile("bar.sync 0;"); }',
    ],
)
def test_host_assembly_and_other_text_stay_unchanged(text):
    assert adapt_preprocessed(text) == text


def test_shared_variables_become_members_of_structs():
    made = adapt_preprocessed("void f() { int i;\n static __shared__ alignas(16) box<2, 3> a[2], b; }")
    assert "{ alignas(16) box<2, 3> a[2];" in made and "{ alignas(16) box<2, 3> b;" in made
    assert "auto& a = " in made and "auto& b = " in made and "__shared__" not in made


def test_dynamic_shared_memory_and_launches_in_headers_are_rewritten():
    made = adapt_preprocessed("void f() { extern __shared__ int x[]; }\nvoid g() { f<<<1,\n2>>>(3); }\n")
    assert "int (&x)[] = ::tkjit::sim::dynamic_shared;" in made
    assert "::tkjit::sim::Launcher{" in made and made.count("\n") == 3


def test_pragmas_that_come_from_macros_are_removed():
    """Nvcc accepts them anywhere, but g++ only in column 1."""
    assert adapt_preprocessed("{ #pragma unroll\n  #pragma unroll 4 for (;;) {} }") == "{ \n   for (;;) {} }"
    assert adapt_preprocessed("#pragma unroll 4\nfor (;;) {}") == "#pragma unroll 4\nfor (;;) {}"


@pytest.mark.parametrize(
    ("written", "rewritten"),
    [
        ("p = (void const*)k<T>;", "p = ::tkjit::sim::to_pointer->*k<T>;"),
        ("f((const void *) &a::k, 1);", "f(::tkjit::sim::to_pointer->* &a::k, 1);"),
        ("return (void*)x->k;", "return ::tkjit::sim::to_pointer->*x->k;"),
        ("f(reinterpret_cast<void const*>(&k<T>));", "f(::tkjit::sim::to_pointer->*(&k<T>));"),
        ("void* (*f)(void*) = g;", ""),
        ("void operator delete(void*) noexcept;", ""),
        ("int size = sizeof(void*), p = f((void*)0);", ""),
        ('# 1 "/usr/include/x.h" 1 3 4\nvoid* p = (void*)x;', ""),
    ],
)
def test_casts_that_may_hide_a_kernels_type(written, rewritten):
    assert adapt_preprocessed(written) == (rewritten or written)


def test_ptx_that_does_not_parse_fails_only_in_generated_code():
    made = adapt_preprocessed('template <class T> void f() { asm("mov.u32 %0, 1" : "=r"(x)); }')
    assert "__attribute__((error(\"inline PTX: expected ',' or ';', found the end\")))" in made


LINES = '# 1 "a.cu"\nx = alloc.allocate<tile>();\n# 7 "b.cuh" 1\ny = sizeof(layout::tile);\n# 2 "a.cu" 2\nz;\n'


def test_keywords_that_the_compiler_asks_for_are_added():
    log = "a.cu:1:24: error: expected primary-expression before '>' token\n"
    made = repaired(LINES, log)
    assert made is not None and "alloc.template allocate<tile>()" in made
    log = (
        "b.cuh:7:5: error: dependent-name 'T::layout::tile' is parsed as a non-type, but instantiation yields a type\n"
    )
    made = repaired(made, log)
    assert made is not None and "sizeof(typename layout::tile)" in made
    assert repaired(made, log) is None, "there is nothing left to add"
    assert repaired(LINES, "a.cu:1:2: error: 'y' was not declared in this scope\n") is None
