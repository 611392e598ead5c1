"""The programs of the gallery run, and draw the pictures that the page shows."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from support.pictures import same_picture
from support.sampling import sample

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/gallery.md").read_text()
PROGRAMS = sorted((ROOT / "examples/gallery").glob("*.py"))


def test_the_page_shows_each_program():
    shown = re.findall(r"\{literalinclude\} \.\./examples/(\S+)", PAGE)
    assert len(shown) == 12 and {f"gallery/{path.name}" for path in PROGRAMS} == set(shown) - {"go/service/main.go"}
    for path in (ROOT / "examples" / name for name in shown):
        assert len([line for line in path.read_text().splitlines() if line.strip()]) < 80, path


@pytest.mark.compiles
@pytest.mark.parametrize("program", sample(PROGRAMS, "heat", "mandelbrot", name=lambda path: path.stem))
def test_a_program_draws_its_picture(program, fresh, tmp_path, request):
    run = f"import runpy\nrunpy.run_path({str(program)!r}, run_name='__main__')"
    fresh.start(run, directory=tmp_path, MPLBACKEND="agg").printed()
    (drawn,) = tmp_path.glob("*.png")
    shown = ROOT / "docs/gallery" / drawn.name
    assert drawn.stem == program.stem
    if request.config.getoption("--update-golden"):
        shutil.copy(drawn, shown)
    assert same_picture(drawn, shown), f"{shown} is outdated; --update-golden draws it again"
