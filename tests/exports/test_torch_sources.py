"""The sources of an exported torch extension."""

import json
import subprocess

import pytest
from support.torch_package import PACKAGE, export

pytestmark = pytest.mark.compiles


def test_variants_share_no_symbol_where_nothing_hides_them(tmp_path):
    """setup.py hides the symbols of each object, but kernel-builder links the objects as they are."""
    directory = export(tmp_path / PACKAGE, "softmax", "axpy", archs=("cpu",))
    symbols = []
    for number, source in enumerate(json.loads((directory / "sources.json").read_text())):
        if source["symbol"]:
            include = [f"-I{directory / place}" for place in source["include"]]
            compiled = tmp_path / f"{number}.o"
            command = ["g++", "-c", *source["flags"], *include, source["path"], "-o", compiled]
            subprocess.run(command, cwd=directory, check=True)
            listed = subprocess.run(
                ["nm", "-g", "--defined-only", compiled], capture_output=True, text=True, check=True
            )
            symbols += [line.split()[-1] for line in listed.stdout.splitlines() if line.split()[-2] in "TDB"]
    assert len(symbols) > 2 and len(symbols) == len(set(symbols))
