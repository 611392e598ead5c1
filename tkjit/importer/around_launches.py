"""Host functions around launches, which are described where only they know the launch."""

from __future__ import annotations

from dataclasses import replace

from tkjit.importer.model import Instance, Part


def is_host(instance: Instance) -> bool:
    """Whether it is a function around a launch, which no binding asks for."""
    launch = instance.launch
    return launch is not None and launch.is_host and not launch.bound


def is_plain(instance: Instance) -> bool:
    """Whether a function takes pointers and numbers alone."""
    kinds = {type_.kind for _, type_ in instance.parameters}
    return not instance.struct and "pointer" in kinds and kinds <= {"pointer", "number"}


def without_stream(instance: Instance) -> Instance:
    """A function without the stream that it takes last, which the launch gives it."""
    if instance.launch is None or instance.parameters[-1][1].element != "CUstream_st":
        return instance
    launch = replace(instance.launch, parts=(("stream", Part("stream")),))
    return replace(instance, parameters=instance.parameters[:-1], launch=launch)
