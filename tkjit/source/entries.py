"""Explains why a compiler rejected an entry: its name, its template arguments or its parameters are wrong."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tkjit.source.lexer import Token, closing, macros, tokens_of
from tkjit.source.scopes import Function, Outline, outline
from tkjit.source.tokens import closing_angle, split, with_angles_apart

_ATTRIBUTES = frozenset(
    ["__launch_bounds__", "__cluster_dims__", "__block_size__", "__maxnreg__", "__attribute__", "alignas", "__align__"]
)
# the last word of a template parameter that has no name, such as "unsigned int"
_TYPE_WORDS = frozenset("auto bool char class const double float int long short signed typename unsigned".split())
_HIDDEN = frozenset(["__grid_constant__", "__restrict__"])  # specifiers to leave out when showing a parameter


class KernelFunction(NamedTuple):
    """A ``__global__`` function of a source.

    Parameters
    ----------
    name : str
        The name, with its namespace.
    template : str
        The template parameters, ``typename T, int N``; empty if the function is not a template.
    parameters : tuple of str
        The text of each parameter, such as ``const float* x``.
    """

    name: str
    template: str
    parameters: tuple[str, ...]

    def __str__(self) -> str:
        angles = f"<{self.template}>" if self.template else ""
        return f"{self.name}{angles}({', '.join(self.parameters)})"


def why_not_the_entry(text: str, entry: str, *, takes_arguments: bool, passed: Sequence[str], log: str) -> str:
    """Explain how a spec's entry contradicts the source; empty if nothing is known to be wrong.

    Parameters
    ----------
    text : str
        The source.
    entry : str
        The spec's entry, such as ``relu<T>``.
    takes_arguments : bool
        Whether the kernel takes plain arguments instead of a struct.
    passed : sequence of str
        The names of the arguments that the launch passes.
    log : str
        The compiler's output.

    Examples
    --------
    >>> source = "template <class T> __global__ void relu(Globals g) {}"
    >>> log = "launcher.cu:40:29: error: no matches converting function"
    >>> why_not_the_entry(source, "relu", takes_arguments=False, passed=["x"], log=log)
    'relu is a template, <class T>; write entry="relu<T>"'
    """
    if any("__global__" in (token.text for token in macro.inner) for macro in macros(tokens_of(text))):
        return ""  # a macro may define kernels
    found = list(kernel_functions(text))
    name, angle, arguments = entry.partition("<")
    may_be_elsewhere = "#include" in text.replace("# ", "#")
    names = [kernel.name for kernel in found]
    if found and name not in names and (_is_undeclared(name, log) or (_is_ours(log) and not may_be_elsewhere)):
        return _no_such_kernel(name, found)
    for argument in re.findall(r"(?<![\w:])[A-Za-z_]\w*(?![\w:])", arguments):
        if _is_ours(log) and _is_undeclared(argument, log):
            variants = f'variants={{"{argument}": ("float32", "bfloat16")}}'
            return f'{argument} in entry="{entry}" is not a variant; declare it, as in {variants}'
    named = [kernel for kernel in found if kernel.name == name]
    if len(named) != 1 or not _is_ours(log):
        return ""
    (kernel,) = named
    if kernel.template and not angle:
        wanted = ", ".join(template_names(kernel.template))
        return f'{name} is a template, <{kernel.template}>; write entry="{name}<{wanted}>"' if wanted else ""
    if angle and not kernel.template:
        return f'{name} is not a template; write entry="{name}"'
    if angle and "=" not in kernel.template and "..." not in kernel.template:
        parameters = template_names(kernel.template)
        if len(parameters) != len(split(with_angles_apart(tokens_of(arguments.removesuffix(">"))))):
            return f'{name} is a template, <{kernel.template}>; write entry="{name}<{", ".join(parameters)}>"'
    given = kernel.parameters
    if any("..." in parameter or parameter == "void" for parameter in given):
        return ""
    if len(given) == 1 and not takes_arguments and re.search(r"\bGlobals\b.*[&*]", given[0]):
        by_value = "a kernel takes it by value: const __grid_constant__ Globals g"
        return f"{kernel} takes a reference or pointer to Globals; {by_value}"
    if len(given) > 1 and not takes_arguments:
        return f"{kernel} takes plain arguments instead of a struct; set args=True"
    if len(given) != len(passed) and f"the parameters of {entry}" in log:
        few = f"{len(given)} parameter{'s' * (len(given) != 1)}"
        return f"{kernel} has {few}, but the spec describes {len(passed)}: {', '.join(passed)}"
    if f"the parameters of {entry}" in log:
        return _other_parameters(kernel, passed)
    return ""


def _other_parameters(kernel: KernelFunction, passed: Sequence[str]) -> str:
    """Explain how a kernel's parameters differ from the spec's; both have the same number of parameters."""
    names = [match[0] for one in kernel.parameters if (match := re.search(r"\w+(?=\W*$)", one))]
    text = f"{kernel} takes other types than the spec passes, in this order: {', '.join(passed)}"
    if names == list(passed):
        return f"{kernel} takes other types than the spec's dtypes and numbers; compare them one by one"
    if sorted(names) == sorted(passed):
        return f'{text}; fields="{" ".join(names)}" is the kernel\'s order'
    return text


def _is_undeclared(name: str, log: str) -> bool:
    """Whether g++, clang, nvcc or NVRTC reports a name as undeclared, with or without a namespace."""
    quoted = rf"\W(?:\w*::)*{re.escape(name.rpartition('::')[2])}\W+"
    known = r"(?:was not declared|is undefined|is not a member of|has not been declared)"
    return bool(re.search(rf"{quoted}{known}|undeclared identifier {quoted}|has no member {quoted}", log))


def _is_ours(log: str) -> bool:
    """Whether the first error is in the rendered launcher, not in the source."""
    first = re.search(r"^(\S+?)[:(]\d+[^\n]*?\berror\b", log, re.MULTILINE)
    return bool(first and re.search(r"(?:^|/)launcher\.cu$|/tkjit/\w+\.h$", first[1]))


def _no_such_kernel(name: str, found: list[KernelFunction]) -> str:
    inside = [kernel for kernel in found if kernel.name.endswith(f"::{name}")]
    near = [kernel.name for kernel in inside] or difflib.get_close_matches(name, [kernel.name for kernel in found], 1)
    question = f"; did you mean {near[0]}?" if near else ""
    return f"the source has no __global__ function {name}; it has {', '.join(map(str, found))}{question}"


def kernel_functions(text: str) -> Iterator[KernelFunction]:
    """Yield the ``__global__`` functions that a source defines.

    >>> [str(kernel) for kernel in kernel_functions("template <int N> __global__ void f(float* x, int n) {}")]
    ['f<int N>(float* x, int n)']
    """
    for kernel, _ in kernels_in(text, outline(tokens_of(text))):
        yield kernel


def entry_function(text: str, found: Outline, name: str) -> tuple[KernelFunction, Function] | None:
    """Return the kernel that an entry names, with its body, or None if there is not exactly one."""
    kernels = list(kernels_in(text, found))
    exact = [candidate for candidate in kernels if candidate[0].name == name]
    named = exact or [
        candidate for candidate in kernels if candidate[0].name.rpartition("::")[2] == name.rpartition("::")[2]
    ]
    return named[0] if len(named) == 1 else None


def kernels_in(text: str, found: Outline) -> Iterator[tuple[KernelFunction, Function]]:
    """Yield each ``__global__`` function that a source defines, with its head and body."""
    for function in found.functions:
        if "__global__" in [token.text for token in function.head] and not function.is_member:
            for kernel in _kernel(text, function):
                yield kernel, function


def _kernel(text: str, function: Function) -> Iterator[KernelFunction]:
    """Yield the kernel that a function declares, or nothing if its head cannot be parsed."""
    head = with_angles_apart(function.head)
    template = ""
    if head[0].text == "template" and (angle := closing_angle(head, 1)) is not None:
        template = _spelled(text, head[2:angle])
    bracket = _parameters_at(head)
    if bracket is not None:
        parameters = [_spelled(text, part) for part in split(head[bracket + 1 : closing(head, bracket)])]
        yield KernelFunction(function.namespace + head[bracket - 1].text, template, tuple(parameters))


def _parameters_at(head: list[Token]) -> int | None:
    """Return the index of the bracket that opens the parameters: the last one that does not follow an attribute."""
    found = None
    i = [token.text for token in head].index("__global__")
    while i < len(head):
        if head[i].text == "(":
            if head[i - 1].kind == "word" and head[i - 1].text not in _ATTRIBUTES:
                found = i
            i = closing(head, i) or len(head)
        i += 1
    return found


def _spelled(text: str, tokens: list[Token]) -> str:
    """Return the source text of tokens, on one line."""
    words = text[tokens[0].start : tokens[-1].end].split() if tokens else []
    return " ".join(word for word in words if word not in _HIDDEN)


def template_names(template: str) -> list[str]:
    """Return the names of a template's parameters that have no default.

    >>> template_names("typename T, int N = 4")
    ['T']
    """
    return [part[-1] for part in _template_parts(template) if "=" not in part]


def template_arguments(template: str) -> list[str] | None:
    """Return the arguments by which a template's body names its own instance, or None if a parameter has no name.

    >>> template_arguments("typename T, int N = 4, class... Ts")
    ['T', 'N', 'Ts...']
    >>> template_arguments("typename T, int") is template_arguments("std::size_t") is None
    True
    """
    arguments = []
    for part in _template_parts(template):
        *kind, name = part[: part.index("=")] if "=" in part else part
        if not kind or kind[-1] in ("::", "const") or name in _TYPE_WORDS or not name.isidentifier():
            return None
        arguments.append(f"{name}..." if "." in kind else name)
    return arguments


def _template_parts(template: str) -> list[list[str]]:
    return [[token.text for token in part] for part in split(with_angles_apart(tokens_of(template)))]
