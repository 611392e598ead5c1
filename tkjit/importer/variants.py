"""Merges instances of a kernel template into one spec with variants."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tkjit.importer.dtypes import dtype_of_cpp
from tkjit.importer.model import Instance, Part, Type
from tkjit.source.lexer import Token, tokens_of
from tkjit.source.tokens import spell, split, with_angles_apart


@dataclass(frozen=True)
class Described:
    """Instances that become one spec.

    Parameters
    ----------
    instance : Instance
        The merged instance. Its entry, element types and extents have the names of variants wherever instances differ.
    variants : tuple of (str, tuple)
        Each variant with its dtype names or integers.
    chosen : tuple of str
        Variants that an argument chooses, because a call's tensors do not determine them.
    left_out : tuple of str
        Instances that a call could not choose.
    """

    instance: Instance
    variants: tuple[tuple[str, tuple[str | int, ...]], ...] = ()
    chosen: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Column:
    """A template argument that differs between instances: its value in each as text, and the variant's name."""

    values: tuple[str, ...]
    name: str = ""

    @property
    def numbers(self) -> tuple[int, ...] | None:
        return tuple(map(int, self.values)) if all(value.isdigit() for value in self.values) else None

    @property
    def spelled(self) -> str:
        """The text of the template argument in the entry. Torch has its own types for some of CUDA's formats."""
        of_torch = any(value.startswith("c10::") for value in self.values)
        return f"tkjit::torch_type<{self.name}>" if of_torch else self.name

    @property
    def can_be_chosen(self) -> bool:
        """Whether a call's argument can choose the value, which must then be an integer or a bool."""
        return self.numbers is not None or set(self.values) <= {"true", "false"}


def merge_instances(instances: Sequence[Instance]) -> list[Described]:
    """Merge instances that differ only in what a call can choose: a dtype, a fixed extent, an integer or a bool."""
    groups: dict[tuple[str, int], list[Instance]] = {}
    for instance in instances:
        groups.setdefault((instance.name, len(atoms(instance.entry))), []).append(instance)
    return [_unify(group) for group in groups.values()]


def atoms(text: str) -> list[str]:
    """Split a type or an expression into tokens; a qualified name is one token.

    >>> atoms("a::k<g<64>, kittens::bf16>")
    ['a::k', '<', 'g', '<', '64', '>', ',', 'kittens::bf16', '>']
    """
    found: list[str] = []
    for token in with_angles_apart(tokens_of(text)):
        joins = found and (token.text == "::" or found[-1].endswith("::")) and found[-1] != "<"
        if joins and (found[-1][-1].isalnum() or found[-1][-1] in "_:"):
            found[-1] += token.text
        else:
            found.append(token.text)
    return found


def _unify(group: list[Instance]) -> Described:
    """Describe the first instance together with all others that a call can tell apart."""
    members = group
    left_out: list[str] = []
    while len(members) > 1:
        columns = _columns([atoms(instance.entry) for instance in members])
        open_columns = [column for column in columns if not _is_reachable(column, members)]
        unreachable = [column for column in open_columns if not column.can_be_chosen]
        if not unreachable:
            named = _name_columns(columns, members[0])
            together = _together(members, named)
            if together is not None:
                values = [column.values for column in open_columns]
                chosen = tuple(column.name for column in named if column.values in values)
                options = tuple((column.name, _options(column, members)) for column in named)
                return Described(together, options, chosen, tuple(left_out))
            kept = [0]
        else:
            kept = [i for i in range(len(members)) if all(c.values[i] == c.values[0] for c in unreachable)]
        left_out += [instance.entry for i, instance in enumerate(members) if i not in kept]
        members = [members[i] for i in kept]
    return Described(members[0], left_out=tuple(left_out))


def _columns(texts: Sequence[Sequence[str]]) -> list[_Column]:
    """Return the atoms that differ between texts of equal length, without duplicate columns."""
    columns = (tuple(atom) for atom in zip(*texts, strict=True) if len(set(atom)) > 1)
    return [_Column(values) for values in dict.fromkeys(columns)]


def _types(instance: Instance) -> list[Type]:
    typed = [*instance.parameters, *instance.trailing]
    return [inner for _, type_ in typed for inner in (type_, *(member for _, member in type_.members))]


def _is_reachable(column: _Column, members: list[Instance]) -> bool:
    if column.numbers is not None:
        return any(extents == column.numbers for extents in _extents(members))
    return _elements_of(column, members) is not None


def _extents(members: list[Instance]) -> list[tuple[int | str, ...]]:
    """Return the values of each extent in all instances; empty if the instances have different numbers of extents."""
    rows = [[extent for type_ in _types(instance) for extent in type_.extents] for instance in members]
    return list(zip(*rows, strict=True)) if len({len(row) for row in rows}) == 1 else []


def _elements_of(column: _Column, members: list[Instance]) -> tuple[str, ...] | None:
    """Return a tensor's element type in each instance, if it differs exactly where the column's template argument does.

    Return None if no tensor has such element types.
    """
    rows = [[type_.element for type_ in _types(instance)] for instance in members]
    for elements in zip(*rows, strict=True) if len({len(row) for row in rows}) == 1 else ():
        pairs = set(zip(column.values, elements, strict=True))
        if len(pairs) == len(set(elements)) == len(set(column.values)) and all(map(dtype_of_cpp, elements)):
            return elements
    return None


def _options(column: _Column, members: list[Instance]) -> tuple[str | int, ...]:
    if column.numbers is not None:
        return tuple(dict.fromkeys(column.numbers))
    if column.can_be_chosen:
        return tuple(dict.fromkeys(value == "true" for value in column.values))
    return tuple(dict.fromkeys(dtype_of_cpp(element) for element in _elements_of(column, members) or ()))


def _name_columns(columns: list[_Column], first: Instance) -> list[_Column]:
    """Name each column after its template parameter; if the name is unknown, ``D`` for integers and ``T`` otherwise."""
    arguments = template_arguments(first.entry)
    parameter_names = dict(zip(arguments, first.template, strict=False))
    taken = {name for name, _ in (*first.parameters, *first.trailing)}
    named = []
    for column in columns:
        wanted = parameter_names.get(column.values[0], "")
        name = wanted or ("D" if column.numbers is not None else "T")
        while name in taken:
            name += "_"
        taken.add(name)
        named.append(replace(column, name=name))
    return named


def template_arguments(entry: str) -> list[str]:
    """Return the arguments of the outermost template: ``k<g<2>, 3>`` gives ``g<2>`` and ``3``."""
    tokens = with_angles_apart(tokens_of(entry))
    angles = [i for i, token in enumerate(tokens) if token.text == "<"]
    return [spell(part) for part in split(tokens[angles[0] + 1 : -1])] if angles else []


# ---- several instances as one


def _together(members: list[Instance], columns: list[_Column]) -> Instance | None:
    """Merge instances, using variants' names where they differ; return None if they also differ elsewhere."""
    first = members[0]
    if len({len(_types(instance)) for instance in members}) > 1:
        return None
    try:
        parameters = _listed_together([instance.parameters for instance in members], columns, members)
        trailing = _listed_together([instance.trailing for instance in members], columns, members)
        entry = _text_together([instance.entry for instance in members], columns)
        launches = [instance.launch for instance in members if instance.launch]
        launch = first.launch
        if launch is not None and len(launches) == len(members):
            launch = replace(
                launch,
                entry=entry,
                config=_text_together([instance_launch.config for instance_launch in launches], columns),
                struct=_text_together([instance_launch.struct for instance_launch in launches], columns),
                given=_given_together([instance_launch.given for instance_launch in launches], columns),
                parts=tuple(
                    (
                        what,
                        _part_together(
                            [dict(instance_launch.parts).get(what, Part("")) for instance_launch in launches], columns
                        ),
                    )
                    for what, _ in launch.parts
                ),
            )
    except ValueError:
        return None
    struct = launch.struct if launch and launch.config else "auto" if first.struct else ""
    return replace(first, entry=entry, parameters=parameters, trailing=trailing, struct=struct, launch=launch)


def _given_together(listed: list[tuple[str, ...]], columns: list[_Column]) -> tuple[str, ...]:
    """Merge launches' arguments. An argument whose differences no variant explains becomes an empty string."""
    found = []
    for texts in zip(*listed, strict=False):
        try:
            found.append(_text_together(list(texts), columns))
        except ValueError:
            found.append("")
    return tuple(found)


def _listed_together(
    listed: Sequence[tuple[tuple[str, Type], ...]], columns: list[_Column], members: list[Instance]
) -> tuple[tuple[str, Type], ...]:
    return tuple(
        (row[0][0], _type_together([type_ for _, type_ in row], columns, members)) for row in zip(*listed, strict=True)
    )


def _type_together(types: list[Type], columns: list[_Column], members: list[Instance]) -> Type:
    if len({type_.kind for type_ in types}) > 1:
        raise ValueError
    element = types[0].element
    elements = tuple(type_.element for type_ in types)
    if len(set(elements)) > 1:
        element = next((c.name for c in columns if _goes_with(c, elements)), "")
        if not element:
            raise ValueError
    extents = tuple(
        _extent_together(column, columns) for column in zip(*(type_.extents for type_ in types), strict=True)
    )
    inner = _listed_together([type_.members for type_ in types], columns, members)
    if types[0].kind == "number" and len({type_.cpp for type_ in types}) > 1:
        raise ValueError
    return replace(types[0], element=element, extents=extents, members=inner)


def _goes_with(column: _Column, elements: tuple[str, ...]) -> bool:
    pairs = set(zip(column.values, elements, strict=True))
    return column.numbers is None and len(pairs) == len(set(elements)) == len(set(column.values))


def _extent_together(extents: tuple[int | str, ...], columns: list[_Column]) -> int | str:
    """Merge an extent: a constant, a variant, or a multiple or a fraction of a variant."""
    if len(set(extents)) == 1:
        return extents[0]
    rules: list[Callable[[int, int], str]] = [
        lambda own, value: "" if own == value else "?",
        lambda own, value: f" // {value // own}" if own > 0 and value % own == 0 else "?",
        lambda own, value: f" * {own // value}" if value > 0 and own % value == 0 else "?",
    ]
    for column in columns:
        for rule in rules:
            numbers = column.numbers or ()
            suffixes = {rule(int(own), value) for own, value in zip(extents, numbers, strict=False)}
            if numbers and len(suffixes) == 1 and "?" not in suffixes:
                return column.name + suffixes.pop()
    raise ValueError


def _text_together(texts: list[str], columns: list[_Column]) -> str:
    """Merge texts, using variants' names where they differ."""
    rows = [atoms(text) for text in texts]
    if len({len(row) for row in rows}) > 1:
        raise ValueError
    names = {column.values: column.spelled for column in columns}
    found = [row[0] if len(set(row)) == 1 else names.get(row, "") for row in zip(*rows, strict=True)]
    if not all(found):
        raise ValueError
    return _join(found)


def _join(found: list[str]) -> str:
    return spell([token for atom in found for token in tokens_of(atom)] if found else list[Token]())


def _part_together(parts: list[Part], columns: list[_Column]) -> Part:
    """Merge a part of several launches. If no variant explains the differences, the part becomes an open question."""
    try:
        text = _text_together([part.text for part in parts], columns)
    except ValueError:
        alternatives = " or ".join(dict.fromkeys(part.as_written or part.text for part in parts))
        return Part("", as_written=alternatives)
    compiles = all(part.compiles for part in parts)
    return replace(parts[0], text=text, compiles=compiles, borrowed=any(part.borrowed for part in parts))
