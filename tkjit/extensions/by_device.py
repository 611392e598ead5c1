"""Lets the functions of a GPU module also take tensors on the CPU, by running those calls in the simulator."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from types import ModuleType
from typing import Any

from tkjit.extensions.registrations import registers_operators
from tkjit.extensions.sources import Extension
from tkjit.source.lexer import Token, closing, tokens_of
from tkjit.system.fork_safe import ForkSafeLock, cached_property

_CHECK = re.compile(r"\w*(?:CHECK|ASSERT|ENFORCE|EXPECT|REQUIRE)\w*")


def take_each_device(module: ModuleType, extension: Extension, load_simulated: Callable[[], ModuleType]) -> None:
    """Wrap a module's functions so that a call runs in the simulator if all of its tensors are on the CPU.

    Two kinds of sources are left alone: those that query a tensor's device outside a check, because they may have their
    own code for the CPU, and those that register operators.

    Parameters
    ----------
    load_simulated : callable
        Returns the module for the simulator, which is built when a call first needs it.
    """
    if extension.target is None or extension.is_simulated:
        return
    simulated = _Simulated(extension, load_simulated)
    for name, function in list(vars(module).items()):
        if not name.startswith("_") and callable(function):
            setattr(module, name, FunctionByDevice(name, function, simulated))


def asks_for_device(extension: Extension) -> bool:
    """Whether a source queries the device of a tensor, other than in a check or a macro.

    Examples
    --------
    >>> from tkjit.extensions.sources import Extension, Source
    >>> def asks(text): return asks_for_device(Extension("one", (Source("a.cu", None, text),)))
    >>> asks("if (x.is_cuda()) { f(x); }"), asks("return x.device().type() == at::kCPU ? f(x) : g(x);")
    (True, True)
    >>> asks('TORCH_CHECK(x.is_cuda(), "not on a GPU");'), asks("CHECK_INPUT(x.device().is_cuda()) // if (x.is_cuda())")
    (False, False)
    >>> asks("auto y = torch::empty({3}, torch::TensorOptions(x.device()));")
    False
    """
    return any(_asks(tokens_of(source.content)) for source in extension.own_sources)


def _asks(tokens: list[Token]) -> bool:
    code = list(_outside_checks([token for token in tokens if token.kind != "directive"]))
    words = [token.text for token in code]
    for i, text in enumerate(words):
        if text in ("is_cuda", "is_cpu") or (text == "kCPU" and _is_compared(words, i)):
            return True
        if text == "type" and words[max(i - 4, 0) : i] == ["device", "(", ")", "."]:
            return True
    return False


def _is_compared(words: list[str], i: int) -> bool:
    before = [word for word in words[max(i - 6, 0) : i] if word not in ("at", "torch", "c10", "::")]
    return (
        before[-1:] in (["=="], ["case"]) or before[-2:] in (["=", "="], ["!", "="]) or words[i + 1 : i + 2] == ["=="]
    )


def _outside_checks(code: list[Token]) -> Iterator[Token]:
    """Return the tokens without the checks, such as ``TORCH_CHECK(...)``, and their arguments."""
    i = 0
    while i < len(code):
        is_check = code[i].kind == "word" and _CHECK.fullmatch(code[i].text) and code[i + 1 : i + 2]
        end = closing(code, i + 1) if is_check and code[i + 1].text == "(" else None
        if end is None:
            yield code[i]
        i = i + 1 if end is None else end + 1


class _Simulated:
    """The module as built for the simulator. The first call whose tensors are all on the CPU loads it."""

    def __init__(self, extension: Extension, load: Callable[[], ModuleType]) -> None:
        self._extension = extension
        self._load = load
        self._module: ModuleType | None = None
        self._loading = ForkSafeLock()

    @cached_property
    def _is_wanted(self) -> bool:
        return not (asks_for_device(self._extension) or registers_operators(self._extension))

    def function(self, name: str, own: Callable[..., Any]) -> Callable[..., Any]:
        """Return the simulator's version of a function.

        If the sources may have their own code for the CPU, return the GPU module's function instead.
        """
        if not self._is_wanted:
            return own
        if self._module is None:
            with self._loading:
                self._module = self._module or self._load()
        found: Callable[..., Any] = getattr(self._module, name)
        return found


class FunctionByDevice:
    """A function of an extension; it runs in the simulator if all tensors of a call are on the CPU."""

    def __init__(self, name: str, function: Callable[..., Any], simulated: _Simulated) -> None:
        self.__name__ = self.__qualname__ = name
        self.__doc__ = function.__doc__
        self._function = function
        self._simulated = simulated

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        devices = set(_device_types((*args, *kwargs.values()) if kwargs else args))
        function = self._function
        if devices == {"cpu"}:
            function = self._simulated.function(self.__name__, function)
        return function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<function {self.__name__} of an extension>"


def _device_types(values: Iterable[Any]) -> Iterator[str]:
    """Yield the device type of each tensor, including tensors in lists and tuples."""
    import torch

    for value in values:
        if isinstance(value, torch.Tensor):
            yield value.device.type
        elif isinstance(value, (list, tuple)):
            yield from _device_types(value)
