"""Imports follow the order of the packages in the architecture, and importing tkjit is light."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

import tkjit
from tkjit.loader.environment import rendering_files

PACKAGE = Path(tkjit.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))
# the table of docs/explanation/architecture.md, from the top: a package imports only packages before it
PAGE = (PACKAGE.parent / "docs/explanation/architecture.md").read_text()
IN_CPP = ("runtime", "sim")
PACKAGES = [name for name in re.findall(r"^\| `(\w+)(?:\.py|/)` \|", PAGE, re.MULTILINE) if name not in IN_CPP]
# __init__ re-exports public names of the packages, and __main__ starts the command line
ENTRANCES = {"__init__", "__main__"}


def package_of(path: Path, package: Path = PACKAGE) -> str:
    return path.relative_to(package).parts[0].removesuffix(".py")


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def for_types_only(tree: ast.AST) -> set[ast.AST]:
    """Return the nodes under ``if TYPE_CHECKING``, which never run."""
    blocks = (node for node in ast.walk(tree) if isinstance(node, ast.If))
    guarded = (block for block in blocks if ast.unparse(block.test) == "TYPE_CHECKING")
    return {node for block in guarded for statement in block.body for node in ast.walk(statement)}


def imported_modules(path: Path, *, types: bool = True) -> list[tuple[int, str]]:
    """Return each import of tkjit in a file, also inside functions, as (line, dotted name)."""
    found = []
    tree = parsed(path)
    skipped = set() if types else for_types_only(tree)
    for node in ast.walk(tree):
        if node in skipped:
            continue
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: imports are absolute here"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        found += [(node.lineno, name) for name in names if name.split(".")[0] == "tkjit"]
    return found


def imported_packages(path: Path) -> list[tuple[int, str]]:
    """Return the packages that a file imports, with line numbers; "tkjit" is ``tkjit/__init__.py``."""
    modules = [(line, [*name.split("."), "tkjit"][1]) for line, name in imported_modules(path)]
    return [(line, name if name in PACKAGES else "tkjit") for line, name in modules]


def test_every_file_belongs_to_a_package():
    assert {package_of(path) for path in FILES} - ENTRANCES == set(PACKAGES)


def test_a_package_imports_only_packages_above_it():
    for path in FILES:
        package = package_of(path)
        for line, other in imported_packages(path) if package not in ENTRANCES else ():
            # only the command line may import from tkjit/__init__.py
            allowed = package == "cli" if other == "tkjit" else PACKAGES.index(other) <= PACKAGES.index(package)
            assert allowed, f"{path}:{line}: {package} imports {other}"


def imports_of_modules(*, types: bool = True) -> dict[str, set[str]]:
    """Return the modules that each module imports, also inside functions."""
    modules = {".".join(["tkjit", *path.relative_to(PACKAGE).with_suffix("").parts]): path for path in FILES}
    modules = {name.removesuffix(".__init__"): path for name, path in modules.items()}

    def target(name: str) -> str:
        while name not in modules:
            name = name.rpartition(".")[0]
        return name

    found = {
        name: {target(other) for _, other in imported_modules(path, types=types)} - {name}
        for name, path in modules.items()
    }
    # tkjit/__init__.py imports other modules, and the command line imports tkjit inside functions: no real cycle
    return {**found, "tkjit": set()}


def test_no_module_imports_itself_through_others():
    """Imports for types count as well. Code that two modules need from each other belongs in a third module."""
    imports = imports_of_modules()
    finished: set[str] = set()

    def visit(name: str, trail: tuple[str, ...]) -> None:
        assert name not in trail, " -> ".join([*trail[trail.index(name) :], name])
        if name not in finished:
            for other in imports[name]:
                visit(other, (*trail, name))
            finished.add(name)

    for name in imports:
        visit(name, ())


# modules that the plans import but that change no text, flag or key: they build, store and look up. Their settings
# (config, the directories of headers) are part of the key.
SAYS_NOTHING = re.compile(
    r"tkjit(\.errors|\.error_html|\.config|\.system\..*|\.headers.*|\.cache(\.(?!recipe).*)?"
    r"|\.compile\.(compiler|cxx_check|embedded|log|nvrtc_server|resources|run_measured|tool_memo)|\.loader\.(plan|source_errors|torch_files|variant_names))?"
)


def test_a_warm_call_looks_at_all_code_that_decides_what_is_compiled():
    """If a file were missing from ``rendering_files``, the cache would be stale after an edit of that file."""
    imports = imports_of_modules(types=False)
    reached: set[str] = set()
    pending = ["tkjit.loader.launchers", "tkjit.loader.modules", "tkjit.loader.simulator"]
    while pending:
        name = pending.pop()
        if name not in reached:
            reached.add(name)
            pending += imports[name]
    listed = {Path(file).relative_to(PACKAGE.parent).with_suffix("").as_posix() for file in rendering_files()}
    listed = {name.replace("/", ".").removesuffix(".__init__") for name in listed}
    assert {name for name in reached if not SAYS_NOTHING.fullmatch(name)} <= listed


@cache
def words_in(path: Path) -> set[str]:
    """Return the names in a file's code, split at dots, without those in comments and docstrings."""
    found: set[str] = set()
    for node in ast.walk(parsed(path)):
        words = {
            ast.Name: lambda n: n.id,
            ast.Attribute: lambda n: n.attr,
            ast.alias: lambda n: n.name,
            ast.ImportFrom: lambda n: n.module,
        }
        if type(node) in words:
            found.update(str(words[type(node)](node)).split("."))
    return found


def mentions(name: str) -> set[str]:
    """Return the files whose code contains a name."""
    return {str(path.relative_to(PACKAGE)) for path in FILES if name in words_in(path)}


@pytest.mark.parametrize("name", ["environ", "environb", "getenv", "getenvb", "expanduser", "expandvars"])
def test_only_config_reads_the_environment(name):
    # compile/compiler.py sets PATH and CXX during a load_inline call, which takes them only from the environment;
    # compile/nvrtc_child.py runs in another process, and sets the environment of each request
    others = {"compile/compiler.py", "compile/nvrtc_child.py"} if name == "environ" else set()
    allowed = {"config.py", *others}
    # config.py also has a parameter named environ
    assert mentions(name) <= allowed


@pytest.mark.parametrize("name", ["excepthook", "displayhook", "settrace", "set_custom_exc", "path_hooks"])
def test_no_hook_of_the_process_is_replaced(name):
    """The side effects that tkjit does have are listed in docs/explanation/architecture.md."""
    assert mentions(name) == set()


def test_the_compiler_sets_only_the_variables_that_cpp_extension_reads():
    text = (PACKAGE / "compile/compiler.py").read_text()
    assert set(re.findall(r'environ\.get\("(\w+)"', text)) == {"PATH"}
    assert '_environment({"PATH": search_path, "CXX": str(cxx)})' in text


def test_only_the_compiler_uses_cpp_extension():
    assert mentions("cpp_extension") == {"compile/compiler.py"}


@pytest.mark.parametrize(
    "package, modules",
    [
        ("source", "os subprocess pathlib torch"),
        ("spec", "os subprocess torch"),
        ("render", "os subprocess pathlib torch"),
        ("cache", "subprocess torch toolchain spec render"),
    ],
)
def test_pure_packages_stay_pure(package, modules):
    for path in FILES:
        if package_of(path) == package:
            assert not words_imported(path) & set(modules.split()), path


def words_imported(path: Path) -> set[str]:
    """Return the parts of all names that a file imports at run time, such as torch, utils and cpp_extension."""
    tree = parsed(path)
    found: set[str] = set()
    for node in set(ast.walk(tree)) - for_types_only(tree):
        if isinstance(node, ast.Import):
            found |= {word for alias in node.names for word in alias.name.split(".")}
        elif isinstance(node, ast.ImportFrom):
            found |= {*str(node.module).split("."), *(alias.name for alias in node.names)}
    return found


@pytest.mark.compiles
def test_the_command_line_starts_without_torch(python):
    code = "import sys; from tkjit.cli import make_parser; make_parser(); print('torch' in sys.modules)"
    assert python(code) == "False\n"  # importing torch takes seconds


def test_importing_tkjit_is_light(python, tmp_path, monkeypatch):
    for name in ("HOME", "TKJIT_CACHE", "XDG_CACHE_HOME", "TMPDIR"):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    heavy = "torch numpy jinja2 filelock platformdirs rich"
    printed = python(
        "import os, sys\n"
        "made = []\n"
        "sys.addaudithook(lambda event, args: made.append(args) if event in ('os.mkdir', 'os.rename') else None)\n"
        "import tkjit\n"
        "names = [getattr(tkjit, name) for name in tkjit.__all__]\n"
        "print(made, [name for name in sys.argv[1].split() if name in sys.modules])",
        heavy,
    )
    assert printed.strip() == "[] []"
    assert list(tmp_path.iterdir()) == []


def test_importing_tkjit_reads_no_environment_variable(python):
    printed = python(
        "import os, sys\n"
        "plain = type(os.environ).__getitem__\n"
        "read = []\n"
        "def spy(self, key):\n"
        "    frame = sys._getframe(1)\n"
        "    while frame.f_code.co_filename.startswith('<frozen') or frame.f_code.co_filename == os.__file__:\n"
        "        frame = frame.f_back\n"
        "    if os.sep + 'tkjit' + os.sep in frame.f_code.co_filename:\n"
        "        read.append((key, frame.f_code.co_filename, frame.f_lineno))\n"
        "    return plain(self, key)\n"
        "type(os.environ).__getitem__ = spy\n"
        "import tkjit\n"
        "names = [getattr(tkjit, name) for name in tkjit.__all__]\n"
        "print(read)\n"
        "from tkjit.config import Settings\n"
        "Settings.from_environment()\n"
        "print(len(read) > 0)  # the spy sees what there is to see"
    )
    assert printed.split() == ["[]", "True"]
