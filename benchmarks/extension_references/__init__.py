"""Functions of other people's torch extensions, with references: ``benchmarks.real_extension_references`` runs them.

The references are written in PyTorch from the definition of each operation, in modules by field: ``points``,
``graphs``, ``images``, ``sequences`` and ``training``.
"""

FIELDS = ("points", "graphs", "images", "sequences", "training")
