"""Constants are read from ELF files. The tests use a C compiler's object, which has the same tables as a cubin."""

from __future__ import annotations

import subprocess

import pytest

from tkjit.compile.cubin import constant

pytestmark = pytest.mark.compiles


@pytest.fixture
def elf(tmp_path) -> bytes:
    (tmp_path / "a.c").write_text('const int numbers[] = {1, 2, 700}; const char text[] = "words"; int none;')
    subprocess.run(["gcc", "-c", "a.c", "-fno-common"], cwd=tmp_path, check=True)
    return (tmp_path / "a.o").read_bytes()


def test_constants_are_read(elf):
    assert constant(elf, "numbers") == b"".join(n.to_bytes(4, "little") for n in (1, 2, 700))
    assert constant(elf, "text") == b"words\0"


@pytest.mark.parametrize("name", ["number", "numbers2"])
def test_an_unknown_name_is_an_error(elf, name):
    with pytest.raises(ValueError, match=f"no variable {name}"):
        constant(elf, name)


@pytest.mark.parametrize("damage", [b"", b"\x7fELF", b"MZ" + bytes(100)])
def test_another_kind_of_file_is_an_error(damage):
    with pytest.raises(ValueError, match="not a 64-bit ELF file"):
        constant(damage, "numbers")


def test_a_truncated_file_is_an_error(elf):
    for length in range(64, len(elf) - 64, 97):
        with pytest.raises(ValueError):
            constant(elf[:length], "text")
