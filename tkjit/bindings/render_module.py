"""Renders the type stub of a bindings module, and the module itself, which a user can read, edit and ship."""

from __future__ import annotations

import keyword
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from textwrap import indent
from typing import Any

from tkjit.bindings.declarations import Declarations, Declared

_MARK = "# Written by python -m tkjit bind; run it again when the headers have changed."
# C++ distinguishes more types than Python, so overloads that differ in C++ may overlap in the stub
_OVERLAPPING = (
    '# mypy: disable-error-code="overload-overlap, overload-cannot-match"',
    "# pyright: reportOverlappingOverload=false",
)
_SIGNED = ["int", "short", "long", "long long"]
_TYPES = {
    "bool": "bool",
    "void": "None",
    **dict.fromkeys([*_SIGNED, *(f"unsigned {one}" for one in _SIGNED), "unsigned", "size_t", "std::size_t"], "int"),
    **dict.fromkeys(["float", "double", "long double"], "float"),
    **dict.fromkeys(["std::string", "string", "char *", "std::string_view"], "str"),
}
_IMPORT, _HERE = "from pathlib import Path\n", "HERE = Path(__file__).parent\n"
_Overloads = Sequence[Mapping[str, Any]]


def render_module(headers: Sequence[str], options: Mapping[str, Any], title: str, directory: Path) -> str:
    """Return the source text of a module that binds headers.

    Parameters
    ----------
    options : mapping
        The keyword arguments of ``tkjit.bind``.
    title : str
        The name of the bound library, for the docstring.
    directory : Path
        The module's directory. Files and directories that exist are written relative to it.
    """
    given = {name: value for name, value in options.items() if value}
    places = ", ".join(_place(path, directory) for path in given.pop("include_dirs", ()))
    arguments = [_place(header, directory) for header in headers]
    arguments += [f"include_dirs=({places},)"] if places else []
    arguments += [f"{name}={_literal(value)}" for name, value in given.items()]
    lines = "".join(f"    {argument},\n" for argument in arguments)
    imports, here = (_IMPORT, _HERE) if _HERE.split()[0] in lines else ("", "")
    return f'''"""Bindings of {title}. Each call is compiled once for the types of its arguments, and cached.

Written by ``python -m tkjit bind``. You can edit this file.
"""

{imports}from typing import Any

import tkjit

{here}library = tkjit.bind(
{lines})


def __getattr__(name: str) -> Any:
    return getattr(library, name)


def __dir__() -> list[str]:
    return dir(library)
'''


def _place(path: str | Path, directory: Path) -> str:
    """Render a path: relative to the module if it exists here, else as a name that the compiler looks up."""
    if not Path(path).exists():
        return repr(str(path))
    return f"str(HERE / {os.path.relpath(path, directory)!r})"


def _literal(value: Any) -> str:
    if isinstance(value, str) and "\n" in value and '"""' not in value and "\\" not in value:
        return f'"""{value}"""'
    return repr(value)


def render_stub(declarations: Declarations, namespaces: Sequence[str], used: Collection[str] = ()) -> str:
    """Return the type stub for a module that ``render_module`` renders.

    Parameters
    ----------
    used : collection of str
        The C++ names to include, classes with all their members. If it is empty, the stub includes all names.
    """
    names: dict[str, Declared] = {}
    for namespace in namespaces or ("",):
        for name in declarations.names(namespace):
            found = declarations.find(namespace, name)
            if found is not None and name not in names and (not used or found.qualified in used):
                names[name] = found
    classes = {name for name, one in names.items() if one.kind == "class"}
    blocks = [
        text
        for name, one in names.items()
        if not keyword.iskeyword(name)
        for text in _render(one, declarations, classes)
    ]
    imports = ["from typing import Any, overload", "", "from tkjit.bindings.library import Library"]
    head = [_MARK, *_OVERLAPPING, *imports, "", "library: Library", ""]
    return "\n".join([*head, *blocks, "def __getattr__(name: str) -> Any: ...", ""])


def _render(declared: Declared, declarations: Declarations, classes: set[str]) -> Iterator[str]:
    name, facts = declared.name, declared.facts
    doc = str(facts.get("doc", ""))
    if declared.kind == "function":
        yield from _functions(name, declared.overloads, doc, classes)
    elif declared.kind == "class":
        yield _class(name, declarations.members(declared.qualified), doc, classes)
    elif declared.kind == "class template":
        yield _class(f"_{name}", declarations.members(declared.qualified), doc, classes)
        yield f"def {name}(*template_arguments: Any) -> type[_{name}]: ..."
    elif declared.kind == "enum":
        yield "\n".join([f"class {name}:", *(f"    {value}: {name}" for value in facts["values"] if _is_name(value))])
    else:
        yield f"{name}: Any"


def _class(name: str, members: Mapping[str, Any], doc: str, classes: set[str]) -> str:
    body = [_docstring(doc)] if doc else []
    own = name.removeprefix("_")
    constructors = members.get(own, {}).get("overloads", []) if own in members else []
    if constructors:
        body += _functions("__init__", constructors, "", classes, is_method=True)
    else:
        body.append("def __init__(self, *args: Any, **fields: Any) -> None: ...")
    for member, about in members.items():
        if not _is_name(member) or member == own or keyword.iskeyword(member):
            continue
        if about["kind"] == "method":
            body += _functions(member, about["overloads"], about["doc"], classes, is_method=True)
        elif about["kind"] in ("field", "static field") or about["kind"] == "type":
            body.append(f"{member}: Any")
    return f"class {name}:\n" + indent("\n".join([*body, "def __getattr__(self, name: str) -> Any: ..."]), "    ")


def _functions(
    name: str, overloads: _Overloads, doc: str, classes: set[str], *, is_method: bool = False
) -> Iterator[str]:
    """Render the overloads of a function. Overloads with the same Python signature are rendered once."""
    is_static = is_method and all("static" in overload for overload in overloads)
    takes_self = is_method and not is_static
    texts = list(dict.fromkeys(_signature(overload, classes, takes_self, name) for overload in overloads))
    ending = f":\n{indent(_docstring(doc), '    ')}" if doc else ": ..."
    for position, text in enumerate(texts):
        decorator = "@overload\n" if len(texts) > 1 else ""
        decorator += "@staticmethod\n" if is_static else ""
        yield f"{decorator}def {name}{text}{ending if position == 0 else ': ...'}"


def _signature(overload: Mapping[str, Any], classes: set[str], takes_self: bool, name: str) -> str:
    parameters = ["self"] if takes_self else []
    is_named = False
    for position, (parameter, kind, default) in enumerate(overload["parameters"]):
        if "..." in kind:
            parameters.append("*args: Any")
            break
        known = parameter if _is_name(parameter) and not keyword.iskeyword(parameter) else f"_{position}"
        is_named = is_named or bool(default)
        parameters.append(f"{known}: {_python_type(kind, classes)}{' = ...' if is_named else ''}")
    if "template" in overload and name != "__init__" and parameters[-1:] != ["*args: Any"]:
        parameters.append("*, template_args: Any = ...")
    result = "None" if name == "__init__" else _python_type(overload.get("result", "void"), classes)
    return f"({', '.join(parameters)}) -> {result}"


def _python_type(text: str, classes: set[str]) -> str:
    plain = text.replace("&", "").strip()
    if plain in _TYPES:
        return _TYPES[plain]
    plain = plain.removeprefix("const ").strip()
    if plain in _TYPES:
        return _TYPES[plain]
    last = plain.rpartition("::")[2]
    return last if last in classes else "Any"


def _docstring(text: str) -> str:
    safe = text.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    return f'"""{safe}"""' if not safe.endswith('"') else f'"""{safe} """'


def _is_name(text: str) -> bool:
    return text.isidentifier()
