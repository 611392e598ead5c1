"""Reads the extents of a kernel's pointers from host code: from torch's tensors, and from allocations.

In ``const int n = x.size(0); k<<<n, 256>>>(x.data_ptr<float>(), n);`` the dim of ``x`` is ``n``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tkjit.importer.dtypes import is_integer
from tkjit.importer.model import Launch, Part, Type
from tkjit.importer.shapes import integers_of
from tkjit.source.lexer import Token, closing, tokens_of
from tkjit.source.tokens import spell, split
from tkjit.spec.expr import EXTENTS

_SIZE = re.compile(r"\b(?P<tensor>\w+)\.(?:size\((?P<axis>-?\d+)\)|sizes\(\)\[(?P<index>\d+)\]|(?P<all>numel)\(\))")
_LIKE = re.compile(r"(?:torch|at)::(?P<kind>empty|zeros)_like\((?P<tensor>\w+)[,)]")
_MADE = re.compile(r"(?:torch|at|torch::stable)::(?P<kind>empty|zeros)\((?P<rest>\{.*)", re.DOTALL)


@dataclass
class Extents:
    """The extents of a launch's pointers, according to host code.

    Parameters
    ----------
    dims : dict
        The dims of each pointer whose extents are known, by the parameter's name.
    computed : dict
        The kernel's integers that follow from dims, each with its expression.
    outputs : dict
        The pointers whose memory the host function allocates; the value is whether it zeroes the memory.
    sizes : dict
        The dims and integers whose values the source gives as literals, with these values.
    """

    dims: dict[str, list[str]] = field(default_factory=dict)
    computed: dict[str, str] = field(default_factory=dict)
    outputs: dict[str, bool] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    _names: dict[tuple[str, int], str] = field(default_factory=dict)

    def translate(self, part: Part) -> Part:
        """Replace the extents of tensors in a part of the launch by the names of dims."""
        return Part(self._translated(part.text), part.borrowed, part.compiles, part.as_written)

    def _translated(self, text: str) -> str:
        def name(match: re.Match[str]) -> str:
            axes = self._axes_of(match["tensor"])
            if match["all"]:
                return f"({' * '.join(axes)})" if axes else match[0]
            axis = int(match["axis"] or match["index"])
            return axes[axis] if -len(axes) <= axis < len(axes) else match[0]

        return _SIZE.sub(name, text)

    def _axes_of(self, tensor: str) -> list[str]:
        return [name for (owner, _), name in sorted(self._names.items()) if owner == tensor]


def extents_of(
    launch: Launch | None, parameters: Sequence[tuple[str, Type]], variants: set[str], taken: set[str]
) -> Extents:
    """Read the extents of a launch's pointers from host code; empty for a launch that passes a struct.

    Parameters
    ----------
    variants : set of str
        The names of the integer variants.
    taken : set of str
        Names that no dim may have. The names of the new dims are added to the set.
    """
    found = Extents()
    if launch is None or len(launch.given) != len(parameters):
        return found
    given = {name: text for (name, _), text in zip(parameters, launch.given, strict=True)}
    integers = [name for name, type_ in parameters if is_integer(type_.cpp) and type_.kind == "number"]
    pointers = {name: given[name] for name, type_ in parameters if type_.kind == "pointer"}
    _name_axes(found, launch, given, integers, set(pointers.values()), taken)
    for name, source in pointers.items():
        _add_pointer(found, launch, name, source, given, integers)
    dims = {dim for listed in found.dims.values() for dim in listed}
    for name in integers:
        if name in dims:
            found.computed[name] = name
            continue
        text = integers_of(found._translated(given[name]), dims | variants)
        if text is not None and text.isdigit():
            found.sizes[name] = int(text)
        elif text is not None:
            found.computed[name] = text
    return found


def _name_axes(
    found: Extents,
    launch: Launch,
    given: Mapping[str, str],
    integers: Sequence[str],
    tensors: set[str],
    taken: set[str],
) -> None:
    """Name those axes of torch's tensors that the launch or a local variable uses."""
    texts = [*(given[name] for name in integers), *(part.text for _, part in launch.parts), *tensors, *launch.called]
    axes: dict[str, set[int]] = {}
    counted = set[str]()  # the tensors whose elements are counted
    for match in [match for text in texts for match in _SIZE.finditer(text)]:
        used = axes.setdefault(match["tensor"], set())
        if match["all"]:
            counted.add(match["tensor"])
        else:
            used.add(int(match["axis"] or match["index"]))
    by_size = {given[name]: name for name in integers if _SIZE.fullmatch(given[name])}
    for tensor, used in axes.items():
        forward = max([axis + 1 for axis in used if axis >= 0], default=0)
        backward = max([-axis for axis in used if axis < 0], default=0)
        # in numel() / size(-1), which counts the rows, the tensor has at least one more dim
        leading = 1 if forward or tensor in counted else 0
        rank = max(forward, leading) + backward if backward else max(forward, 1)
        if rank > len(EXTENTS):
            continue
        for axis in range(rank):
            spelled = [f"{tensor}.size({axis})", f"{tensor}.size({axis - rank})", f"{tensor}.sizes()[{axis}]"]
            spelled += [f"{tensor}.numel()"] if rank == 1 else []
            name = next((by_size[text] for text in spelled if text in by_size), "")
            if not name:
                called = next((launch.called[text] for text in spelled if text in launch.called), "")
                name = (
                    called if called and called not in taken else f"{tensor}_{axis}" if rank > 1 else f"{tensor}_size"
                )
                while name in taken:
                    name += "_"
                taken.add(name)
            found._names[tensor, axis] = name


def _add_pointer(
    found: Extents, launch: Launch, name: str, source: str, given: Mapping[str, str], integers: Sequence[str]
) -> None:
    like, allocation = _LIKE.match(source), _MADE.match(source)
    if like:
        dims = found._axes_of(like["tensor"])
        if dims:
            found.dims[name], found.outputs[name] = dims, like["kind"] == "zeros"
    elif allocation:
        listed = tokens_of(allocation["rest"])
        end = closing(listed, 0)
        texts = [integers_of(found._translated(spell(part)), _dims(found)) for part in split(listed[1:end])]
        if texts and len(texts) <= len(EXTENTS) and all(texts):
            found.dims[name], found.outputs[name] = [text for text in texts if text], allocation["kind"] == "zeros"
    elif axes := found._axes_of(source):
        found.dims[name] = axes
    elif source in launch.allocated:
        factors = [spell(part) for part in _factors(tokens_of(launch.allocated[source]))]
        integer_by_argument = {
            launch.arguments[list(given).index(i)]: i for i in integers if launch.arguments[list(given).index(i)]
        }
        if (
            factors
            and all(factor in integer_by_argument for factor in factors)
            and len(set(factors)) == len(factors) <= len(EXTENTS)
        ):
            found.dims[name] = [integer_by_argument[factor] for factor in factors]
            for factor in factors:
                number = integers_of(given[integer_by_argument[factor]], ())
                if number is not None and number.isdigit():
                    found.sizes[integer_by_argument[factor]] = int(number)
        elif (size := integers_of(" * ".join(f"({factor})" for factor in factors), ())) and size.isdigit():
            found.sizes[f"{name}_size"] = int(size)


def _dims(found: Extents) -> set[str]:
    return set(found._names.values())


def _factors(tokens: list[Token]) -> list[list[Token]]:
    """Return the factors of a size in bytes, without ``sizeof(...)``; empty if the size is not a product."""
    while len(tokens) > 2 and tokens[0].text == "(" and closing(tokens, 0) == len(tokens) - 1:
        tokens = tokens[1:-1]
    parts: list[list[Token]] = [[]]
    i = 0
    while i < len(tokens):
        end = closing(tokens, i) if tokens[i].text in ("(", "[", "{") else None
        if end is not None:
            parts[-1] += tokens[i : end + 1]
            i = end
        elif tokens[i].text == "*":
            parts.append([])
        elif tokens[i].text in ("+", "-", "/", "%", "?"):
            return []
        else:
            parts[-1].append(tokens[i])
        i += 1
    found: list[list[Token]] = []
    for part in parts:
        is_bracket = len(part) > 2 and part[0].text == "(" and closing(part, 0) == len(part) - 1
        if is_bracket:
            found += _factors(part) or [part]
        elif part and part[0].text != "sizeof":
            found.append(part)
    return found
