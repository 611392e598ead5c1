"""The module that ``tkjit bind`` writes finds files of its own wherever it is imported."""

from tkjit.bindings.render_module import render_module


def test_files_that_exist_are_relative_to_the_module(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "packer.h").touch()
    (tmp_path / "include").mkdir()
    options = {"namespaces": ("packer",), "include_dirs": ("include", "/nowhere")}
    text = render_module(["packer.h", "vector"], options, "packer", tmp_path / "python")
    assert "HERE = Path(__file__).parent\n" in text
    assert "    str(HERE / '../packer.h'),\n    'vector',\n" in text
    assert "    include_dirs=(str(HERE / '../include'), '/nowhere',),\n    namespaces=('packer',),\n" in text
    compile(text, "module.py", "exec")


def test_a_library_without_files_of_its_own_has_no_paths(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = render_module(["thrust/sort.h"], {"namespaces": ("thrust",)}, "thrust", tmp_path)
    assert "Path" not in text and "tkjit.bind(\n    'thrust/sort.h',\n" in text
