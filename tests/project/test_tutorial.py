"""The tutorial: its programs run in order, the commands print what it says, and its pictures are current."""

from __future__ import annotations

import difflib
import doctest
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from support.pictures import same_picture

TUTORIAL = Path(__file__).parents[2] / "docs/tutorial"
PAGES = re.findall(r"^(\w[\w-]*)$", (TUTORIAL / "index.md").read_text().split(":maxdepth: 1")[1], re.MULTILINE)
BLOCK = re.compile(r"^```(?P<language>\w+)\n(?P<text>.*?)^```", re.DOTALL | re.MULTILINE)
IMAGE = re.compile(r"\]\(images/([\w.-]+)\)")
IGNORED = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


class Step(NamedTuple):
    """A file to save, or a command with the output that the page shows."""

    file: str = ""
    command: str = ""
    text: str = ""


def steps_of(page: str) -> list[Step]:
    steps = []
    page_text = (TUTORIAL / f"{page}.md").read_text()
    for block in BLOCK.finditer(page_text):
        paragraph = page_text[: block.start()].rstrip().rpartition("\n\n")[2]
        if block["language"] == "console":
            for part in re.split(r"^\$ ", block["text"], flags=re.MULTILINE)[1:]:
                command, _, shown = part.partition("\n")
                steps.append(Step(command=command, text=shown))
        elif saved := re.search(r"Save this\s+as `([\w.]+)`:$", paragraph):
            steps.append(Step(file=saved[1], text=block["text"]))
        else:
            assert block["language"] == "sh", f"{page}: a block that is neither saved nor run:\n{block['text']}"
    return steps


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "TKJIT_CACHE": str(tmp_path_factory.mktemp("cache")),
        "TKJIT_QUIET": "1",
        "MPLBACKEND": "agg",
        "PYTHONUNBUFFERED": "1",  # findings and summaries in the order in which a terminal shows them
    }


def test_there_are_six_pages_and_each_ends_with_a_picture():
    assert len(PAGES) == 6
    assert all(IMAGE.search((TUTORIAL / f"{page}.md").read_text()) for page in PAGES)


@pytest.mark.compiles
@pytest.mark.parametrize("page", PAGES)
def test_a_page(page, environment, tmp_path, request):
    for earlier in PAGES[: PAGES.index(page)]:
        for step in steps_of(earlier):
            if step.file:
                (tmp_path / step.file).write_text(step.text)
    for step in steps_of(page):
        if step.file:
            (tmp_path / step.file).write_text(step.text)
            continue
        done = subprocess.run(
            step.command,
            shell=True,
            cwd=tmp_path,
            env=environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        if not doctest.OutputChecker().check_output(step.text, done.stdout, IGNORED):
            lines = difflib.unified_diff(
                step.text.splitlines(), done.stdout.splitlines(), "the page", "printed", lineterm=""
            )
            pytest.fail(f"$ {step.command}\n" + "\n".join(lines))
    for name in IMAGE.findall((TUTORIAL / f"{page}.md").read_text()):
        drawn, shown = tmp_path / name, TUTORIAL / "images" / name
        if drawn.exists() and request.config.getoption("--update-golden"):
            shutil.copy(drawn, shown)
        assert not drawn.exists() or same_picture(drawn, shown), f"{shown} is outdated; --update-golden draws it again"
