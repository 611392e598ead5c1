"""``BuildExtension`` and extensions for a ``setup.py`` that builds one wheel for all versions of torch and Python."""

from __future__ import annotations

import re
import shlex
import shutil
import sysconfig
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import setuptools
from setuptools.command.build_ext import build_ext
from setuptools.errors import CompileError as SetuptoolsCompileError

from tkjit.config import Settings
from tkjit.errors import ArgumentError, TkjitError, ToolchainError
from tkjit.extensions.sources import (
    CPU,
    Extension,
    Source,
    archs_for,
    archs_of_flags,
    extension_of,
    files_of,
    links_device_code,
)
from tkjit.extensions.stable_abi import OLDEST_PYTHON, build_and_audit

_LIMITED_API = re.compile(r"-DPy_LIMITED_API=(0x[0-9a-fA-F]+)")
_HOST_ONLY_ARCH = "80"  # for an extension that uses CUDA but compiles no kernel
_COMPILERS = ("cxx", "nvcc")


class TorchExtension(setuptools.Extension):
    """An extension that ``BuildExtension`` compiles through tkjit's stand-ins for torch's headers.

    Parameters
    ----------
    extra_compile_args : list of str or dict of str to list of str
        Flags for both compilers, or a list for each: ``{"cxx": ["-O3"], "nvcc": ["-O3", "--use_fast_math"]}``.
    uses_cuda : bool
        Whether C++ sources can include CUDA's headers as well.
    """

    def __init__(
        self,
        name: str,
        sources: Sequence[str],
        *arguments: Any,
        extra_compile_args: Sequence[str] | dict[str, Sequence[str]] | None = None,
        uses_cuda: bool = False,
        dlink: bool = False,
        dlink_libraries: Sequence[str] = (),
        **options: Any,
    ) -> None:
        if dlink_libraries:
            raise ArgumentError(f"{name}: dlink_libraries= is not supported; pass the library's sources instead")
        if isinstance(extra_compile_args, dict):
            if unknown := extra_compile_args.keys() - {*_COMPILERS, "nvcc_dlink"}:
                raise ArgumentError(f"{name}: extra_compile_args has {sorted(unknown)}; expected 'cxx' and 'nvcc'")
            self.cxx_flags, self.nvcc_flags = (tuple(extra_compile_args.get(each, ())) for each in _COMPILERS)
        else:
            self.cxx_flags = self.nvcc_flags = tuple(extra_compile_args or ())
        if dlink and not links_device_code(self.nvcc_flags):
            self.nvcc_flags = (*self.nvcc_flags, "-rdc=true")
        self.uses_cuda = uses_cuda
        options["py_limited_api"] = True  # even if the setup.py does not ask for it
        options.setdefault("language", "c++")
        super().__init__(name, list(sources), *arguments, **options)


def CppExtension(name: str, sources: Sequence[str], *arguments: Any, **options: Any) -> TorchExtension:
    """Create a C++ extension. Takes the same arguments as ``torch.utils.cpp_extension.CppExtension``."""
    return TorchExtension(name, sources, *arguments, **options)


def CUDAExtension(name: str, sources: Sequence[str], *arguments: Any, **options: Any) -> TorchExtension:
    """Create a C++ and CUDA extension. Takes the same arguments as ``torch.utils.cpp_extension.CUDAExtension``."""
    return TorchExtension(name, sources, *arguments, uses_cuda=True, **options)


class BuildExtension(build_ext):
    """The ``build_ext`` command for a ``setup.py`` whose extensions use torch.

    The command compiles the extensions made by ``CUDAExtension`` and ``CppExtension`` through tkjit's stand-ins for
    torch's headers. The shared objects need only Python's limited API and torch's stable ABI, and the wheel is tagged
    ``cp310-abi3``. Other extensions, such as Cython's, are left to setuptools.

    ``TORCH_CUDA_ARCH_LIST="8.0;9.0a;10.0+PTX"`` sets the architectures of the kernels, unless ``-gencode`` flags do.
    With neither, the kernels are compiled for this machine's GPU.
    """

    no_python_abi_suffix = False

    @classmethod
    def with_options(cls, *, no_python_abi_suffix: bool = False, use_ninja: bool = True) -> type[BuildExtension]:
        """Create a subclass with other options.

        Parameters
        ----------
        no_python_abi_suffix : bool
            Name the file ``NAME.so`` instead of ``NAME.abi3.so``.
        use_ninja : bool
            Ignored: tkjit compiles sources in parallel anyway, and caches their objects.
        """
        return type(cls.__name__, (cls,), {"no_python_abi_suffix": no_python_abi_suffix})

    def run(self) -> None:
        self._tag_wheel()
        super().run()

    def get_ext_filename(self, fullname: str) -> str:
        name: str = super().get_ext_filename(fullname)  # type: ignore[no-untyped-call]
        return name.replace(".abi3.so", ".so") if self.no_python_abi_suffix else name

    def build_extension(self, ext: setuptools.Extension) -> None:
        """Compile one extension and copy it to the path that setuptools expects.

        Raises
        ------
        setuptools.errors.CompileError
            If it does not compile, or needs more of torch than its stable ABI.
        """
        if not isinstance(ext, TorchExtension):
            super().build_extension(ext)
            return
        try:
            built = build_and_audit(_extension_of(ext))
        except TkjitError as error:
            raise SetuptoolsCompileError(f"{ext.name}: {error}") from error
        path = Path(self.get_ext_fullpath(ext.name))
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(built, path)
        path.chmod(0o755)

    def _tag_wheel(self) -> None:
        """Tag the wheel with the newest limited API that an extension asks for, provided that all use a limited API."""
        if not self.extensions or not all(getattr(each, "py_limited_api", False) for each in self.extensions):
            return
        versions = [_limited_api_of(each) for each in self.extensions if isinstance(each, TorchExtension)]
        newest = max(versions, default=int(OLDEST_PYTHON, 16))
        if wheel := self.distribution.command_obj.get("bdist_wheel"):  # None if build_ext runs alone
            wheel.py_limited_api = f"cp{newest >> 24}{newest >> 16 & 0xFF}"  # type: ignore[attr-defined]


def _limited_api_of(extension: TorchExtension) -> int:
    found = _LIMITED_API.search(" ".join([*_macros(extension), *extension.cxx_flags]))
    return int(found[1], 16) if found else int(OLDEST_PYTHON, 16)


def _extension_of(given: TorchExtension) -> Extension:
    """Convert an extension of a ``setup.py`` to one that tkjit compiles.

    Raises
    ------
    ArgumentError
        If a source or a flag is not valid.
    ToolchainError
        If this Python has no GIL, or if no architecture is known.
    """
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        raise ToolchainError("a Python without the GIL has no limited API; build the wheel with one that has the GIL")
    files = files_of([*map(str, given.sources)])
    macros = [*_macros(given)]
    return extension_of(
        given.name.rpartition(".")[2],
        files,
        # quoted, because extension_of splits flags like a shell, and a setup.py passes each flag as one word
        [*map(shlex.quote, [*macros, *given.cxx_flags])],
        [*map(shlex.quote, [*macros, *given.nvcc_flags])],
        [*map(shlex.quote, _link_flags(given))],
        [*given.include_dirs],
        archs=_archs(files, given.nvcc_flags, uses_cuda=given.uses_cuda),
    )


def _macros(given: TorchExtension) -> Iterator[str]:
    for macro in given.define_macros:
        name, value = macro if len(macro) > 1 else (macro[0], None)
        yield f"-D{name}" if value is None else f"-D{name}={value}"
    yield from (f"-U{name}" for name in given.undef_macros)


def _link_flags(given: TorchExtension) -> Iterator[str]:
    """Yield the linker's flags.

    Many packages list torch's libraries; ``--as-needed`` drops these libraries, because nothing uses them.
    """
    # libstdc++ comes first, because libc10 also contains some of libstdc++'s functions
    yield from ("-Wl,--as-needed", "-lstdc++")
    yield from given.extra_objects
    yield from (f"-L{directory}" for directory in given.library_dirs)
    yield from (f"-Wl,-rpath,{directory}" for directory in given.runtime_library_dirs)
    yield from (f"-l{library}" for library in given.libraries)
    yield from given.extra_link_args


def _archs(files: Sequence[Source], nvcc_flags: Sequence[str], *, uses_cuda: bool) -> tuple[str, ...]:
    """Return the architectures of an extension's kernels, or nothing if it does not use CUDA.

    Raises
    ------
    ToolchainError
        If there is no GPU, and neither a flag nor ``TORCH_CUDA_ARCH_LIST`` names an architecture.
    """
    has_kernels = any(source.is_cuda for source in files)
    if not has_kernels:
        return (_HOST_ONLY_ARCH,) if uses_cuda else ()
    listed = archs_of_flags(nvcc_flags) or archs_for(files, Settings.from_environment().cuda_archs)
    if listed == (CPU,):
        raise ToolchainError(
            "this machine has no GPU, so set the architectures of the wheel: TORCH_CUDA_ARCH_LIST='8.0;9.0a'"
        )
    return listed
