"""Reads the pages of the documentation as steps to follow: files to save, commands to run, and Python code."""

from __future__ import annotations

import difflib
import doctest
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from support.forking import Server
from support.pictures import same_picture

_BLOCK = re.compile(r"^```(?P<language>[\w+]+)\n(?P<text>.*?)^```", re.DOTALL | re.MULTILINE)
IMAGE = re.compile(r"\]\(images/([\w.-]+)\)")
_SAVED = re.compile(r"Save\s+this\s+as\s+`([\w./-]+)`:$")
_NOT_RUN = re.compile(r"^<!-- not run: (.+) -->$")
_IGNORED = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


class Step(NamedTuple):
    """A file to save, a command with the output that the page shows, or Python code."""

    file: str = ""
    command: str = ""
    text: str = ""


class Page(NamedTuple):
    steps: list[Step]
    unused: list[tuple[str, str]]
    """Language and text of the blocks that are neither saved nor run."""
    not_run: list[str]
    """Why the blocks that are marked as not run cannot run in a test."""


def read_page(path: Path) -> Page:
    page, text = Page([], [], []), path.read_text()
    for block in _BLOCK.finditer(text):
        before = text[: block.start()].rstrip().rpartition("\n\n")[2]
        language, code = block["language"], block["text"]
        if reason := _NOT_RUN.match(before):
            page.not_run.append(reason[1])
        elif saved := _SAVED.search(before):
            page.steps.append(Step(file=saved[1], text=code))
        elif language == "console":
            for part in re.split(r"^\$ ", code, flags=re.MULTILINE)[1:]:
                command, _, shown = part.partition("\n")
                page.steps.append(Step(command=command, text=shown))
        elif language == "python":
            page.steps.append(Step(text=code))
        else:
            page.unused.append((language, code))
    return page


def environment(cache: Path) -> dict[str, str]:
    """Return the environment of a reader with a cache of their own, whose terminal shows output in order."""
    return {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "TKJIT_CACHE": str(cache),
        "TKJIT_QUIET": "1",
        "MPLBACKEND": "agg",
        "PYTHONUNBUFFERED": "1",
    }


def follow(steps: list[Step], directory: Path, variables: dict[str, str], fresh: Server) -> None:
    """Save the files and run the commands in a directory, then the Python code in one process.

    Python runs in processes that have already imported torch, which would take most of the time.

    Raises
    ------
    AssertionError
        If a command prints something else than the page shows, or if the code fails.
    """
    for step in steps:
        if step.file:
            (directory / step.file).parent.mkdir(parents=True, exist_ok=True)
            (directory / step.file).write_text(step.text)
        elif step.command:
            printed = _output(step.command, directory, variables, fresh)
            if not doctest.OutputChecker().check_output(step.text, printed, _IGNORED):
                lines = difflib.unified_diff(
                    step.text.splitlines(), printed.splitlines(), "the page", "printed", lineterm=""
                )
                raise AssertionError(f"$ {step.command}\n" + "\n".join(lines))
    if code := [step.text for step in steps if not step.file and not step.command]:
        _run_code(code, directory, variables, fresh)


def compare_pictures(page: Path, directory: Path, *, update: bool) -> None:
    """Compare the pictures that a page shows with those that its programs drew in a directory.

    Parameters
    ----------
    update : bool
        Whether to replace the page's pictures first.

    Raises
    ------
    AssertionError
        If a picture is outdated.
    """
    for name in IMAGE.findall(page.read_text()):
        drawn, shown = directory / name, page.parent / "images" / name
        if drawn.exists() and update:
            shutil.copy(drawn, shown)
        assert not drawn.exists() or same_picture(drawn, shown), f"{shown} is outdated; --update-golden draws it again"


_TKJIT = "import sys\ndel sys.path[0]\nfrom tkjit.cli import main\nsys.exit(main(sys.argv[1:]))"
_PROGRAM = """
import os, runpy, sys
del sys.argv[0]
sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[0]))
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def _output(command: str, directory: Path, variables: dict[str, str], fresh: Server) -> str:
    words = [] if re.search(r"[|&;<>$`*]", command) else shlex.split(command)
    if words[:1] == ["tkjit"]:
        code, arguments = _TKJIT, words[1:]
    elif words[:1] == ["python"] and words[1:] and words[1].endswith(".py"):
        code, arguments = _PROGRAM, words[1:]
    else:
        return subprocess.run(
            command,
            shell=True,
            cwd=directory,
            env=variables,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        ).stdout
    return fresh.start(code, *arguments, directory=directory, merged=True, **variables).wait(600).stdout


_RUNNER = """
import doctest, sys
from pathlib import Path
names = {"__name__": "__main__"}
for block in sys.argv[1:]:
    text = Path(block).read_text()
    if text.startswith(">>>"):
        test = doctest.DocTestParser().get_doctest(text, names, block, block, 0)
        runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
        runner.run(test, clear_globs=False)
        names = test.globs
        if runner.failures:
            sys.exit(1)
    else:
        exec(compile(text, block, "exec"), names)
"""


def _run_code(blocks: list[str], directory: Path, variables: dict[str, str], fresh: Server) -> None:
    files = [directory / f"block_{number}.py" for number, _ in enumerate(blocks)]
    for file, text in zip(files, blocks, strict=True):
        file.write_text(text)
    done = fresh.start(_RUNNER, *files, directory=directory, merged=True, **variables).wait(600)
    assert done.code == 0, done.stdout
