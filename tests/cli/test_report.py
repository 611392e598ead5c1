"""``report`` writes one page, with everything in it."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest
from support.browser import measured

from tkjit.cli import main

pytestmark = pytest.mark.compiles
SOURCE = """__global__ void shift(Globals g) {
    __shared__ float tile[32];
    tile[threadIdx.x] = g.x[threadIdx.x];
    g.y[threadIdx.x] = tile[31 - threadIdx.x];
}
"""
SPEC = '''
import tkjit
from tkjit import In, Out, Tensor

@tkjit.kernel("shift.cu", entry="shift", grid=1, block=32, sizes=[{{"M": 32}}])
def shift(x: In[Tensor, "float32", "M"], y: Out[Tensor, "float32", "M"]) -> Tensor:
    """Reverses x; 1 < 2 & <b>bold</b>."""
    return {reference}
'''


class Page(HTMLParser):
    """The text of a page, its links, and whether its elements are closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open, self.links, self.text = [], [], ""
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.links += [value for name, value in attributes if name in ("href", "src") and value]
        if tag not in ("meta", "link", "path", "use", "defs"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in ("path", "use", "defs"):
            assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


@pytest.fixture(scope="module")
def kernel(tmp_path_factory):
    directory = tmp_path_factory.mktemp("kernel")
    (directory / "shift.cu").write_text(SOURCE)
    (directory / "shift.py").write_text(SPEC.format(reference="x.flip(0) + 1"))
    return directory / "shift.py"


@pytest.fixture(scope="module")
def report(kernel):
    output = kernel.with_name("report.html")
    assert main(["report", str(kernel), "-o", str(output), "--check", "--verify", "--bench"]) == 1
    return output


def test_it_has_the_spec_the_builds_the_results_and_the_environment(report):
    page = Page(report.read_text())
    assert page.open == []
    for text in ("shift(x: Tensor, *, y: Tensor = None, out=None, stream=None)", "Reverses x; 1 < 2 & <b>bold</b>."):
        assert text in page.text
    for text in (
        "entry: shift",
        "block: 32",
        "race: nothing orders two accesses",
        "no order",
        "launcher.cu",
        "the glue of shift",
    ):
        assert text in page.text, text
    for text in ("differ", "shift(M=32)", "these times say nothing about a GPU", "Python.h"):
        assert text in page.text, text
    assert "<b>bold" not in report.read_text()


def test_it_needs_nothing_else(report):
    page = Page(report.read_text())
    assert all(link.startswith("#") for link in page.links) and "<script" not in report.read_text()


@pytest.mark.parametrize("width", [390, 1440])
def test_it_fits_into_a_window(report, width, tmp_path):
    needed, height = measured(report, width, tmp_path)
    assert needed <= width and height > 1000


def test_a_kernel_that_cannot_be_read_is_part_of_the_page(tmp_path, capsys):
    (tmp_path / "broken.py").write_text(SPEC.format(reference="x").replace("shift.cu", "gone.cu"))
    output = tmp_path / "report.html"
    assert main(["report", str(tmp_path / "broken.py"), "axpy", "-o", str(output)]) == 1
    assert "gone.cu" in output.read_text() and "alpha * x + y" in output.read_text()
    assert "2 kernels, 1 with problems" in capsys.readouterr().out
    assert main(["report", "axpy", "-o", str(tmp_path / "missing/report.html")]) == 1
    assert "there is no directory" in capsys.readouterr().err
