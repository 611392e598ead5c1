"""Writes an export as a torch extension that needs no tkjit: sources, operators, a Python package and its build."""

from __future__ import annotations

import json
import keyword
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tkjit.compile.targets import Target
from tkjit.errors import SpecError
from tkjit.exports.c_header import render_header
from tkjit.exports.model import Export, names
from tkjit.exports.python_functions import Copies, called_kernels
from tkjit.exports.torch_sources import CompiledSource, Sources, collect_sources
from tkjit.exports.torch_tests import render_tests
from tkjit.exports.write import check_target, in_place_of, kernels_of, write_facts
from tkjit.kernel_objects import Kernel
from tkjit.loader import Loader
from tkjit.render.exported import render_library
from tkjit.render.text import repr_text
from tkjit.render.torch_binding import BINDINGS, operator_name, operator_schema, operators, render_binding
from tkjit.render.torch_overloads import function_name
from tkjit.render.torch_python import FunctionSource, overloads_by_kernel, render_package

_TEMPLATES = Path(__file__).with_name("torch")
_LEAST_TORCH = "2.11"  # must match TORCH_TARGET_VERSION below


def with_backwards(kernels: Iterable[str | Kernel]) -> list[Kernel]:
    """Return the given kernels, followed by the kernels that their gradients call.

    Raises
    ------
    SpecError
        If there is no such kernel, or it cannot be exported.
    """
    waiting = kernels_of(kernels)
    known = {kernel.name for kernel in waiting}
    for kernel in waiting:  # the list grows inside the loop
        for spec in kernel.specs:
            if spec.backward is None:
                continue
            backward = spec.backward
            given: Any = backward.function or backward.kernel
            called = kernels_of([given]) if backward.kernel else called_kernels(given)
            for one in called:
                if one.name not in known:
                    known.add(one.name)
                    waiting += kernels_of([one])
    return waiting


def write_torch_package(loader: Loader, export: Export, output: Path, binding: str = "stable") -> Path:
    """Write kernels as a torch extension, without compiling them.

    Parameters
    ----------
    output : Path
        The directory to write. An earlier export there is replaced; any other content is an error.
    binding : {"stable", "pybind11"}
        Operators on torch's stable ABI, or functions of a pybind11 module.

    Raises
    ------
    SpecError
        If a kernel cannot be an operator, or its gradient or headers cannot be copied.
    ToolchainError
        If a kernel has no source for an architecture.
    CacheError
        If the directory contains something else, or cannot be written.
    """
    if binding not in BINDINGS:
        raise SpecError(f"unknown binding {binding!r}; expected {' or '.join(BINDINGS)}")
    output = output.absolute()
    check_target(output)
    _check_names(export)
    texts = _texts(export, collect_sources(loader, export), binding)
    with in_place_of(output) as scratch:
        for place, text in texts.items():
            (scratch / place).parent.mkdir(parents=True, exist_ok=True)
            (scratch / place).write_text(text, encoding="utf-8")
        write_facts(scratch, export, ("torch",))
    return output


def _texts(export: Export, sources: Sources, binding: str) -> dict[str, str]:
    """Return the text of every file, by its path in the package."""
    devices = [device for device in ("cpu", "cuda") if any(one.device == device for one in sources.compiled)]
    header, interface = render_header(export)
    targets = [_name_of(target) for target in export.targets]
    library = render_library(export.name, sources.functions, targets, interface, is_source=True)
    copies = Copies({s.spec.name: s.name for s in reversed(export.signatures)})
    texts = {
        **sources.texts,
        f"include/{export.name}.h": header,
        f"include/{export.name}/tensors.h": sources.texts["include/tkjit/export/tensors.h"],
        f"csrc/{export.name}.cpp": library,
        "torch-ext/torch_binding.cpp": render_binding(export.name, export.signatures, binding, devices),
        f"torch-ext/{export.name}/__init__.py": render_package(
            export.name, export.signatures, _gradients(export, copies)
        ),
        f"torch-ext/{export.name}/_ops.py": _ops(export, binding, devices),
        f"torch-ext/{export.name}/_ops.pyi": _template("ops.pyi.in"),
        f"torch-ext/{export.name}/py.typed": "",
        "sources.json": json.dumps([asdict(one) for one in sources.compiled], indent=1) + "\n",
        "build_kernels.py": _build_kernels(binding),
        "setup.py": _setup(export, binding),
        "pyproject.toml": _template("pyproject.toml.in").format(
            name=export.name, version=export.version, kernels=names(export.signatures)
        ),
        f"tests/test_{export.name}.py": render_tests(export, copies),
        "README.md": _readme(export, binding),
    }
    if binding == "stable":
        texts["csrc/registration.h"] = _template("registration.h")
        texts["build.toml"] = _build_toml(export, sources.compiled, sorted(texts))
        texts["flake.nix"] = _template("flake.nix")
    else:
        texts["load_inline.py"] = _template("load_inline.py.in").format(name=export.name)
    texts["MANIFEST.in"] = _manifest(texts)
    return texts


_PACKAGES = frozenset(["torch", "numpy", "setuptools", "pytest", "aten", "prim", "quantized"])  # modules and namespaces
# names that the package's module defines, imports or calls
_NAMES = frozenset(
    "torch Tensor NamedTuple ops add_op_namespace_prefix cdiv annotations "
    "RuntimeError ValueError dict enumerate getattr int isinstance list next str tuple zip".split()
)


def _check_names(export: Export) -> None:
    """Reject names that Python, torch or the package itself already uses."""
    if keyword.iskeyword(export.name) or export.name in _PACKAGES or export.name in sys.stdlib_module_names:
        raise SpecError(
            f"{export.name!r} cannot be the name of a package: Python or torch has that name; choose another"
        )
    owners: dict[str, str] = {}
    overloads = overloads_by_kernel(export.signatures)
    for signature in export.signatures:
        own = [operator_name(signature, out=out) for out in operators(signature)]
        own += [f"{signature.name}_result"] if len(signature.spec.returns) > 1 else []
        own.append(function_name(signature, overloads[signature.spec.name]))
        for name in own:
            if keyword.iskeyword(name) or name in _NAMES:
                raise SpecError(
                    f"{signature.name} cannot be exported: the package uses the name {name}; rename the kernel"
                )
            if owners.setdefault(name, signature.name) != signature.name:
                raise SpecError(
                    f"{signature.name} cannot be exported: {owners[name]} also has a function {name}; rename one"
                )
        taken = _NAMES | ({"ctx"} if signature.spec.backward is not None else frozenset())
        for name in (*(p.name for p in signature.parameters), *signature.spec.dim_names):
            if keyword.iskeyword(name) or name in taken:
                raise SpecError(
                    f"{signature.name} cannot be exported: the package uses the name {name}; rename the parameter"
                )


def _name_of(target: Target) -> str:
    return "cpu-any" if target.is_cpu else target.name


def _gradients(export: Export, copies: Copies) -> Mapping[str, FunctionSource]:
    """Return the gradients that are Python functions, by the name of the kernel's C function."""
    return {
        s.name: copies.gradient(s.name, s.spec.backward.function)
        for s in export.signatures
        if s.spec.backward is not None and s.spec.backward.function is not None and not s.spec.backward.kernel
    }


def _template(name: str) -> str:
    return (_TEMPLATES / name).read_text(encoding="utf-8")


def _build_kernels(binding: str) -> str:
    """Return the module that compiles the kernels, with the definition of ``CUDA_HOME`` for the binding.

    The pybind11 binding needs a CUDA build of torch, so it uses torch's ``CUDA_HOME``, which is None in other builds.
    The stable binding works with any build, so it first reads the environment variable ``CUDA_HOME``.
    """
    home = _CUDA_HOME if binding == "stable" else "CUDA_HOME = cpp_extension.CUDA_HOME"
    return _template("build_kernels.py.in").replace("{cuda_home}", home)


def _setup(export: Export, binding: str) -> str:
    if binding == "stable":
        facts = {
            "extensions": "CppExtension",
            "extension": "CppExtension",
            "choice": "",
            "macros": _STABLE_MACROS.format(name=export.name),
            "limited": "\n            py_limited_api=True,",
            "options": '\n    options={"bdist_wheel": {"py_limited_api": "cp310"}},',
        }
    else:
        facts = {
            "extensions": "CppExtension, CUDAExtension",
            "extension": "Extension",
            "choice": 'Extension = CUDAExtension if "cuda" in devices() else CppExtension\n\n',
            "macros": "macros",
            "limited": "",
            "options": "",
        }
    return _template("setup.py.in").format(name=export.name, **facts)


def _ops(export: Export, binding: str, devices: Iterable[str]) -> str:
    """Return the module ``_ops``, which kernel-builder replaces in its own builds."""
    name = export.name
    if binding == "stable":
        operators_named = "".join(f'"{operator_name(s, out=out)}", ' for s in export.signatures for out in operators(s))
        return _template("ops_stable.py.in").format(name=name, operators=operators_named.rstrip())
    keys = ", ".join(f'"{device.upper()}"' for device in devices)
    schemas = [operator_schema(s, out=out) for s in export.signatures for out in operators(s)]
    listed = "\n".join(f"    {repr_text(schema)}," for schema in schemas)
    return _template("ops_pybind11.py.in").format(name=name, schemas=listed, keys=keys)


def _build_toml(export: Export, compiled: Sequence[CompiledSource], paths: Iterable[str]) -> str:
    """Return the configuration for kernel-builder."""
    headers = [path for path in paths if path.startswith(("include/", "sim/", "kernels/", "third_party/"))]
    headers = [path for path in headers if path != "sim/simulator.cpp"]
    backends = list(dict.fromkeys(one.device for one in compiled))
    bindings = ["torch-ext/torch_binding.cpp", f"csrc/{export.name}.cpp"]
    lines = [
        "# Read by kernel-builder, for kernels on the Hugging Face Hub.",
        "# Before you build, add the licence of your kernels, and the repository to upload to.",
        "[general]",
        f'name = "{export.name.replace("_", "-")}"',
        f"version = {export.major}",
        "edition = 5",
        '# license = "Apache-2.0"',
        f"backends = {_listed(backends)}",
        "",
        "# [general.hub]",
        f'# repo-id = "OWNER/{export.name.replace("_", "-")}"',
        "",
        "[torch]",
        'include = ["include"]',
        f"src = {_listed([*bindings, *headers])}",
        "",
        "[torch.stable-abi]",
        *(f'{backend} = "{_LEAST_TORCH}"' for backend in backends),
    ]
    for source in compiled:
        name = source.symbol or "simulator"
        flags = [flag for flag in source.flags if not flag.startswith("-gencode")]
        if source.device == "cuda":  # several variants define a kernel of the same name, so each object keeps its own
            flags.append("-static-global-template-stub=true")
        lines += [
            "",
            f"[kernel.{name}]",
            f'backend = "{source.device}"',
            'depends = ["torch"]',
            f"include = {_listed(source.include)}",
            f"src = {_listed([source.path])}",
            f"{'cxx' if source.device == 'cpu' else 'cuda'}-flags = {_listed(flags)}",
        ]
        if source.device == "cuda":
            lines.append(f"cuda-capabilities = {_listed(_capabilities(source.flags))}")
    return "\n".join(lines) + "\n"


def _capabilities(flags: Iterable[str]) -> list[str]:
    """Return the compute capabilities in nvcc's flags: ``9.0a`` for ``-gencode=arch=compute_90a,code=sm_90a``."""
    archs = [flag.partition("code=sm_")[2] for flag in flags if flag.startswith("-gencode")]
    found = []
    for arch in archs:
        number = arch.rstrip("af")
        found.append(f"{number[:-1]}.{number[-1]}{arch[len(number) :]}")
    return found


def _listed(items: Iterable[str]) -> str:
    return json.dumps(list(items))


def _manifest(paths: Iterable[str]) -> str:
    """Return ``MANIFEST.in``, which lists the files that an sdist needs in addition to those that setuptools finds."""
    directories = sorted({path.split("/")[0] for path in paths if "/" in path})
    files = sorted(path for path in paths if "/" not in path)
    return "".join([*(f"graft {name}\n" for name in directories), f"include {' '.join(files)}\n"])


def _readme(export: Export, binding: str) -> str:
    kernels = names(export.signatures)
    targets = ", ".join(_name_of(target) for target in export.targets)
    return _template(f"README_{binding}.md.in").format(
        name=export.name, kernels=kernels, targets=targets, first=export.signatures[0].name, torch=_LEAST_TORCH
    )


_STABLE_MACROS = """[
                *macros,
                ("OPERATORS_NAMESPACE", "{name}"),
                ("TORCH_TARGET_VERSION", "0x020b000000000000"),  # 2.11 and later
                ("Py_LIMITED_API", "0x030A0000"),  # 3.10 and later
            ]"""

_CUDA_HOME = 'CUDA_HOME = os.environ.get("CUDA_HOME") or cpp_extension.CUDA_HOME'
