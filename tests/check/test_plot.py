"""``check --plot`` draws findings beside the lines of their source."""

from __future__ import annotations

import re

import pytest

from tkjit.check.checker import Report
from tkjit.check.findings import Finding, Place
from tkjit.check.plot import plot
from tkjit.cli import main

SOURCE = "".join(f"line {number};\n" for number in range(1, 60)) + "__syncthreads();\n"


def texts(file) -> list[str]:
    return [
        text.replace("\N{NO-BREAK SPACE}", " ").strip()
        for text in re.findall(r"<text[^>]*>(.*?)</text>", file.read_text())
    ]


def test_two_threads_are_drawn_beside_their_lines(tmp_path):
    source = tmp_path / "kernel.cu"
    source.write_text(SOURCE)
    write, read = (
        Place("write", str(source), 7, (0, 0, 0), (1, 0, 0)),
        Place("read", str(source), 9, (2, 0, 0), (3, 0, 0)),
    )
    race = Finding("race", "nothing orders two accesses to $tile$ + 4 bytes", write, read)
    assert plot([race], {}, tmp_path / "race.svg")
    found = texts(tmp_path / "race.svg")
    assert "race: nothing orders two accesses to $tile$ + 4 bytes" in found
    assert [text for text in found if "line" in text] == [f"{number}  line {number};" for number in range(5, 12)]
    assert {"write", "read", "thread (1, 0, 0)", "thread (3, 0, 0)", "block (2, 0, 0)", "no order"} <= set(found)


def test_only_the_lines_around_distant_places_are_drawn(tmp_path):
    source = tmp_path / "kernel.cu"
    source.write_text(SOURCE)
    places = [Place("wait", str(source), line, (0, 0, 0), ()) for line in (3, 60)]
    stuck = Finding("fault", "threads wait for each other", *places)
    assert plot([stuck], {}, tmp_path / "stuck.svg")
    found = texts(tmp_path / "stuck.svg")
    lines = [text.split()[0] for text in found if text.endswith(";")]
    assert lines == ["1", "2", "3", "4", "5", "58", "59", "60"] and found.count("threads that wait") == 2


def test_a_report_of_a_source_in_a_cell_is_drawn_in_a_notebook():
    write = Place("write", "inline.cu", 2, (0, 0, 0), (1, 0, 0))
    report = Report(
        [Finding("memory", "access of 4 bytes right after y", write)], sources={"inline.cu": "a;\nb;\nc;\n"}
    )
    drawn = report._repr_svg_()
    assert drawn.startswith("<svg") and "right after y" in drawn and "pt" not in drawn[:120]
    assert repr(report) == "<tkjit report: 1 finding, 0 warnings, 0 launches>"
    assert Report()._repr_svg_() is None


def test_findings_without_a_source_are_not_drawn(tmp_path):
    gone = Finding("race", "a race", Place("write", str(tmp_path / "gone.cu"), 3, (0, 0, 0), (0, 0, 0)))
    assert not plot([gone, Finding("order", "the result depends on the order")], {}, tmp_path / "none.svg")
    assert not (tmp_path / "none.svg").exists()


@pytest.mark.compiles
def test_the_command_draws_what_it_finds(tmp_path, capsys):
    (tmp_path / "shift.cu").write_text(
        "__global__ void shift(Globals g) {\n    __shared__ float tile[32];\n"
        "    tile[threadIdx.x] = g.x[threadIdx.x];\n"
        "    g.y[threadIdx.x] = tile[31 - threadIdx.x];\n}\n"
    )
    (tmp_path / "shift.py").write_text(
        "import tkjit\nfrom tkjit import In, Out, Tensor\n"
        '@tkjit.kernel("shift.cu", entry="shift", grid=1, block=32)\n'
        'def shift(x: In[Tensor, "float32", 32], y: Out[Tensor, "float32", 32]) -> Tensor:\n    return x.flip(0)\n'
    )
    assert main(["check", str(tmp_path / "shift.py"), "--race", "--plot", str(tmp_path / "race.svg")]) == 1
    assert {"write", "read", "no order"} <= set(texts(tmp_path / "race.svg"))
    (tmp_path / "shift.cu").write_text(
        (tmp_path / "shift.cu").read_text().replace("    g.y", "    __syncthreads();\n    g.y")
    )
    assert main(["check", str(tmp_path / "shift.py"), "--race", "--plot", str(tmp_path / "right.svg")]) == 0
    assert "right.svg: not written, because there is nothing to draw" in capsys.readouterr().err
    assert main(["check", str(tmp_path / "shift.py"), "--plot", "race.bmp"]) == 1
    assert "expected a file name that ends in .svg, .png, .pdf" in capsys.readouterr().err
