"""Every header that a source may include counts as a dependency, whatever the preprocessor's conditions."""

from __future__ import annotations

from pathlib import Path

import pytest

from tkjit.compile.includes import ComputedInclude, closure, included


@pytest.mark.parametrize(
    "text, names",
    [
        ('#include "a.h"', [(True, "a.h")]),
        ("  #  include<a/b.h> // <c.h>", [(False, "a/b.h"), (False, "c.h")]),  # an extra name does no harm
        ("#if 0\n#include <a>\n#endif", [(False, "a")]),
        ('#inc\\\nlude \\\n "a.h"', [(True, "a.h")]),
        ('/* a\n b */ # /* c */ include /* d */ "a.h"', [(True, "a.h")]),
        ("%: include <a>", [(False, "a")]),
        ("#include_next <a>\n#import <b>", [(False, "a"), (False, "b")]),
        ("#if defined(X) && __has_include(<a>) || __has_include( \"b\" )", [(False, "a"), (True, "b")]),
        ("x = y; // #include <a>\n#error never include this", []),
        ("#include <a>\n#include <a>", [(False, "a")]),
    ],
)  # fmt: skip
def test_included_finds_all_names(text, names):
    assert list(included(text)) == names


@pytest.mark.parametrize("text", ["#define H <a>\n#include H", "#include /* \n */ <a>", "#include NAME(x)"])
def test_an_include_given_by_a_macro_raises_an_error(text):
    with pytest.raises(ComputedInclude):
        included(text)


def write(directory: Path, **texts: str) -> None:
    for name, text in texts.items():
        path = directory / name.replace("__", "/").replace("_h", ".h")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_closure_follows_includes(tmp_path):
    write(
        tmp_path,
        own__a_h='#ifdef NEVER\n#include "b.h"\n#endif\n#include <c.h>\n',
        own__b_h="#include <missing.h>\n",
        first__c_h='#include "d.h"\n',
        first__d_h='#include "c.h"\n',  # a cycle
        second__c_h="",
    )
    search = [tmp_path / "first", tmp_path / "second"]
    found = closure('#include "a.h"\n', [tmp_path / "own", *search])
    names = [str(path.relative_to(tmp_path)) for path in found]
    assert names == ["first/c.h", "first/d.h", "own/a.h", "own/b.h", "second/c.h"]
    assert closure('#include "a.h"\n', search) == ()


def test_computed_includes_of_a_toolkit_are_ignored(tmp_path):
    write(tmp_path, toolkit__t_h="#include MACRO\n#include <u.h>\n", toolkit__u_h="", own__o_h="#include MACRO\n")
    search = [tmp_path / "own", tmp_path / "toolkit"]
    found = closure("#include <t.h>", search, [tmp_path / "toolkit"])
    assert [path.name for path in found] == ["t.h", "u.h"]
    with pytest.raises(ComputedInclude, match="MACRO"):
        closure("#include <o.h>", search, [tmp_path / "toolkit"])


def test_an_edited_header_is_read_again(tmp_path):
    write(tmp_path, a_h="", b_h="")
    assert [path.name for path in closure("#include <a.h>", [tmp_path])] == ["a.h"]
    (tmp_path / "a.h").write_text("#include <b.h>")
    assert [path.name for path in closure("#include <a.h>", [tmp_path])] == ["a.h", "b.h"]
