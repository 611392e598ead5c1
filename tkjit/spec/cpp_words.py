"""Words that C++ and its standard headers reserve."""

from __future__ import annotations

CPP_KEYWORDS = frozenset(
    "alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t char32_t class "
    "compl concept const consteval constexpr constinit const_cast continue co_await co_return co_yield decltype "
    "default delete do double dynamic_cast else enum explicit export extern false float for friend goto if inline "
    "int long mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected public "
    "register reinterpret_cast requires return short signed sizeof static static_assert static_cast struct switch "
    "template this thread_local throw true try typedef typeid typename union unsigned using virtual void volatile "
    "wchar_t while xor xor_eq".split()
)
# Macros from the C library's headers and from GNU compilers. The preprocessor replaces these names everywhere.
MACROS = frozenset(
    "BUFSIZ CHAR_BIT CHAR_MAX CHAR_MIN CLOCKS_PER_SEC DBL_EPSILON DBL_MAX DBL_MIN EOF EDOM EILSEQ ERANGE "
    "EXIT_FAILURE EXIT_SUCCESS FILENAME_MAX FLT_EPSILON FLT_MAX FLT_MIN FLT_RADIX FP_INFINITE FP_NAN FP_NORMAL "
    "FP_SUBNORMAL FP_ZERO HUGE_VAL HUGE_VALF INFINITY INT8_MAX INT8_MIN INT16_MAX INT16_MIN INT32_MAX INT32_MIN "
    "INT64_MAX INT64_MIN INT_MAX INT_MIN LLONG_MAX LLONG_MIN LONG_MAX LONG_MIN MB_CUR_MAX NAN NDEBUG NULL "
    "PTRDIFF_MAX RAND_MAX SCHAR_MAX SHRT_MAX SIGABRT SIGFPE SIGILL SIGINT SIGSEGV SIGTERM SIZE_MAX UCHAR_MAX "
    "UINT8_MAX UINT16_MAX UINT32_MAX UINT64_MAX UINT_MAX ULLONG_MAX ULONG_MAX USHRT_MAX M_E M_PI assert errno "
    "i386 linux math_errhandling offsetof setjmp stderr stdin stdout unix va_arg va_copy va_end va_start".split()
)
