"""Files that an assembler reads: the search for directives and for file names."""

from __future__ import annotations

from pathlib import Path

import pytest

from tkjit.compile.embedded import embedded_files


@pytest.fixture
def data(tmp_path) -> Path:
    directory = tmp_path / "data"
    (directory / "sub").mkdir(parents=True)
    for name in ("table.bin", "sub/other.bin", "a b.bin", "macros.s", "own.h"):
        (directory / name).write_text("abcd")
    return directory


def found(text: str, data: Path, *read: Path, words=()) -> list[str]:
    return [str(path.relative_to(data)) for path in embedded_files(text, read, [data / "none", data], words)]


@pytest.mark.parametrize(
    "text, names",
    [
        (r'asm(".incbin \"table.bin\"\n");', ["table.bin"]),
        (r'asm(".section x\n.incbin \"sub/other.bin\", 4, 8\n.previous");', ["sub/other.bin"]),
        ('asm(".incbin \\"" "table" ".bin\\"\\n");', ["table.bin"]),
        ('asm(".incbin " // by hand\n  /* " */ "\\"a b.bin\\"");', ["a b.bin"]),
        ('asm(R"(\n.incbin "table.bin"\n)");', ["table.bin"]),
        ('asm(R"--(.incbin "table.bin" )")--");', ["table.bin"]),
        ('asm(".inc\\\nbin \\"table.bin\\"");', []),  # a directive in two parts is not recognized
        ('asm(".incbin \\"tab\\\nle.bin\\"");', ["table.bin"]),
        ('#define INCBIN(name, file) asm(#name ": .incbin \\"" file "\\"")\nINCBIN(x, "table.bin")', ["table.bin"]),
        (r'asm(".include \"macros.s\"\n");', ["macros.s"]),
        (r'asm(".INCBIN \"table.bin\"");', ["table.bin"]),
        (r'asm(".incbin \"gone.bin\"");', []),
        (r'asm(".incbin \"sub\"");', []),
        ("""const char q = '"'; asm(".incbin \\"table.bin\\""); int million = 1'000'000;""", ["table.bin"]),
        ('// .incbin\nconst char* name = "table.bin";', ["table.bin"]),  # an unnecessary dependency does no harm
        ('const char* name = "table.bin";', []),
        ('#include "own.h"\nasm(".incbin \\"\\0\\"");', ["own.h"]),
    ],
)
def test_embedded_files_are_found(data, text, names):
    assert found(text, data) == names


def test_directives_and_macros_in_headers_count(data):
    (data / "table.h").write_text(r'asm(".incbin \"table.bin\"");')
    (data / "incbin.h").write_text('#define INCBIN(name, file) asm(#name ": .incbin \\"" file "\\"")\n')
    assert found('#include "table.h"', data, data / "table.h") == ["table.bin", "table.h"]
    assert found('INCBIN(x, "sub/other.bin")', data, data / "incbin.h", data / "gone.h") == ["sub/other.bin"]


@pytest.mark.parametrize("define", ['-DTABLE="table.bin"', "-DTABLE=table.bin"])
def test_a_file_name_in_a_define_counts(data, define):
    assert found('asm(".incbin \\"" TABLE "\\"");', data, words=["g++", define, "-O2"]) == ["table.bin"]


def test_the_first_directory_with_the_file_counts(data):
    (data / "none").mkdir()
    (data / "none/table.bin").write_text("first")
    assert found(r'asm(".incbin \"table.bin\"");', data) == ["none/table.bin"]
    text = rf'asm(".incbin \"{data}/table.bin\"");'
    assert found(text, data) == ["table.bin"]
