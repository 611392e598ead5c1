"""The choice of the first error to show from a compiler's log."""

from pathlib import Path

import pytest

from tkjit.compile.log import first_error

SOURCE = Path("/home/me/kernels/axpy.cu")

GXX_LOG = """\
In file included from /staging/launcher.cu:2:
/repo/tkjit/include/tkjit/launcher.h:14:10: error: 'Globals' was not declared in this scope
   14 |   return Globals{};
axpy.cu: In function 'void axpy(Globals)':
axpy.cu:7:23: error: expected ';' before '}' token
    7 |     const int i = 3
      |                    ^
axpy.cu:9:1: error: a later one
"""
NVCC_LOG = """\
/repo/tkjit/include/tkjit/gl.h(31): warning #177-D: variable "n" was declared but never referenced

axpy.cu(7): error: identifier "blockDimm" is undefined
      const int i = blockIdx.x * blockDimm.x;
                                 ^

1 error detected in the compilation of "/staging/launcher.cu".
"""
HEADER_LOG = """\
In file included from axpy.cu:1,
                 from /staging/launcher.cu:20:
/usr/include/missing.h:3:10: fatal error: nothing.h: No such file or directory
    3 | #include "nothing.h"
      |          ^~~~~~~~~~~
compilation terminated.
"""
WARNING_LOG = """\
axpy.cu(3): warning #177-D: variable "error" was declared but never referenced
      const char* error = nullptr;
                  ^

axpy.cu(9): error: expected a ";"
"""
CONTEXT_LOG = """\
axpy.cu:3:17: warning: unused variable 'failed' [-Wunused-variable]
    3 |     const char* failed = error;
/repo/other.h:9:1: error: expected ';'
"""
PTXAS_ERROR_LOG = """\
ptxas info    : 0 bytes gmem
ptxas error   : Entry function '_Z4axpyv' uses too much shared data (0x10000 bytes, 0xc000 max)
"""
PTXAS_LINE_LOG = """\
ptxas info    : 0 bytes gmem
ptxas /tmp/tmpxft_1-6_launcher.ptx, line 31; error   : Unknown modifier '.foo'
ptxas fatal   : Ptx assembly aborted due to errors
"""
PTXAS_FATAL_LOG = """\
ptxas info    : 0 bytes gmem
ptxas fatal   : Unresolved extern function '_Z6helperv'
"""
NVCC_FATAL_LOG = "nvcc fatal   : Unsupported gpu architecture 'compute_20'\n"
LINKER_LOG = """\
/usr/bin/ld: cannot find -lnothing: No such file or directory
collect2: error: ld returned 1 exit status
"""


@pytest.mark.parametrize(
    "log, shown",
    [
        (GXX_LOG, "/home/me/kernels/axpy.cu:7:23: error: expected ';' before '}' token\n    7 |     const int i = 3"),
        (NVCC_LOG, '/home/me/kernels/axpy.cu(7): error: identifier "blockDimm" is undefined\n      const int i ='),
        (HEADER_LOG, "/usr/include/missing.h:3:10: fatal error: nothing.h: No such file or directory"),
        (WARNING_LOG, '/home/me/kernels/axpy.cu(9): error: expected a ";"'),
        (CONTEXT_LOG, "/repo/other.h:9:1: error: expected ';'"),
        (PTXAS_ERROR_LOG, "ptxas error   : Entry function '_Z4axpyv' uses too much shared data"),
        (PTXAS_LINE_LOG, "ptxas /tmp/tmpxft_1-6_launcher.ptx, line 31; error   : Unknown modifier '.foo'"),
        (PTXAS_FATAL_LOG, "ptxas fatal   : Unresolved extern function '_Z6helperv'"),
        (NVCC_FATAL_LOG, "nvcc fatal   : Unsupported gpu architecture 'compute_20'"),
        (LINKER_LOG, "/usr/bin/ld: cannot find -lnothing: No such file or directory"),
        ("Killed\n", "Killed"),
        ("", "the compiler failed without printing an error"),
    ],
    ids="gxx nvcc header warning context ptxas ptxas-line ptxas-fatal nvcc-fatal linker killed silent".split(),
)
def test_the_first_error_in_the_users_file_is_shown(log, shown):
    assert first_error(log, SOURCE).startswith(shown)


def test_only_one_error_is_shown():
    assert "a later one" not in first_error(GXX_LOG, SOURCE)


def test_without_a_source_file_the_first_error_of_all_is_shown():
    assert first_error(GXX_LOG, None).startswith("/repo/tkjit/include/tkjit/launcher.h:14:10: error: 'Globals'")
    assert first_error("inline.cu:2:1: error: no\n", None) == "inline.cu:2:1: error: no"


def test_the_path_of_a_source_may_contain_spaces():
    log = "my kernels/axpy.cu:2:1: error: no\n"
    assert first_error(log, Path("/a b/my kernels/axpy.cu")) == "/a b/my kernels/axpy.cu:2:1: error: no"


def test_the_include_stack_of_a_note_is_not_shown():
    log = """axpy.cu:5:38: error: call of overloaded 'max(float&, int)' is ambiguous
In file included from /usr/include/c++/12/algorithm:60,
                 from /repo/tkjit/include/tkjit/launcher.h:25,
"""
    assert first_error(log, SOURCE) == f"{SOURCE}:5:38: error: call of overloaded 'max(float&, int)' is ambiguous"
