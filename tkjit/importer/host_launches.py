"""Selects host functions that contain launches.

The spec describes such a function instead of a kernel whose launch depends on values that only the function knows.
"""

from __future__ import annotations

from dataclasses import replace

from tkjit.importer.model import Instance, Part


def is_host(instance: Instance) -> bool:
    """Whether an instance is a host function that launches kernels, and that no Python binding in the source names."""
    launch = instance.launch
    return launch is not None and launch.is_host and not launch.bound


def is_plain(instance: Instance) -> bool:
    """Whether a function takes only pointers and numbers."""
    kinds = {type_.kind for _, type_ in instance.parameters}
    return not instance.struct and "pointer" in kinds and kinds <= {"pointer", "number"}


def without_stream(instance: Instance) -> Instance:
    """Drop the last parameter if it is a stream; the launch passes the stream instead."""
    if instance.launch is None or instance.parameters[-1][1].element != "CUstream_st":
        return instance
    launch = replace(instance.launch, parts=(("stream", Part("stream")),))
    return replace(instance, parameters=instance.parameters[:-1], launch=launch)
