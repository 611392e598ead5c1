"""The documentation site: it builds without a warning, and its reference is complete."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from html import unescape
from pathlib import Path

import pytest

import tkjit
from tkjit.config import Settings

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "--quiet", "--fail-on-warning", "--keep-going", "-b", "html"]
    done = subprocess.run([*command, "docs", str(out)], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return out


def text_of(page: Path) -> str:
    return unescape(re.sub(r"<[^>]+>", "", page.read_text()))


def test_every_command_and_its_options_are_listed(site):
    page = text_of(site / "reference/commands.html")
    done = subprocess.run([sys.executable, "-m", "tkjit", "--help"], capture_output=True, text=True, check=True)
    commands = re.findall(r"^    (\w+) ", done.stdout, re.MULTILINE)
    assert {"warmup", "check", "doctor"} <= set(commands)
    assert [name for name in commands if f"tkjit {name}" not in page] == []
    assert "--tools" not in page and "--rounds ROUNDS" in page and "tkjit cache prune" in page


def test_every_variable_is_listed(site):
    variables = set(re.findall(r"``([A-Z_]+)``", Settings.__doc__ or ""))
    page = text_of(site / "reference/settings.html")
    assert len(variables) > 15
    of_compilers = {"PATH", "CPATH", "CPLUS_INCLUDE_PATH"}
    assert variables - of_compilers <= set(re.findall(r"\b[A-Z_]+\b", page))


def test_every_public_name_is_described(site):
    described = set(re.findall(r'id="(tkjit\.[\w.]+)"', (site / "reference/api.html").read_text()))
    missing = [name for name in tkjit.__all__ if not {f"tkjit.{name}", f"tkjit.errors.{name}"} & described]
    assert missing == []


def test_every_function_for_kernels_is_declared(site):
    tables = (ROOT / "docs/reference/device-api.md").read_text()
    rows = re.findall(r"^\| `#include <tkjit/[\w.]+\.cuh>` \| ([^|]*) \|", tables, re.MULTILINE)
    names = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    page = text_of(site / "reference/device-functions.html")
    declarations = re.sub(r"//.*", "", page)
    assert len(names) > 80
    assert sorted(name for name in names if not re.search(rf"\b{name}\b", declarations)) == []


def test_the_search_finds_pages_without_a_server(site):
    index = (site / "searchindex.js").read_text()
    titles = json.loads(re.search(r'"titles":(\[.*?\])', index)[1])
    assert {"Tutorial", "How to", "Reference", "Explanation"} <= set(titles)
    assert "https://" not in "".join(re.findall(r'<script[^>]* src="([^"]+)"', (site / "index.html").read_text()))
