"""The flags that the sources of an extension are compiled with."""

from tkjit.extensions.sources import Extension, Source


def test_the_optimization_level_of_the_user_replaces_the_default():
    source = Source("main.cpp", None, "int a;")
    flags = Extension("mine", (source,), cflags=("-O3",)).flags_of(source)
    assert [flag for flag in flags if flag.startswith("-O")] == ["-O2", "-O3"], "the compiler follows the last one"
