"""References for functions of real torch extensions, which ``benchmarks.real_extension_references`` runs.

The references are written in PyTorch from the definition of each operation, in modules by field: ``points``,
``graphs``, ``images``, ``sequences`` and ``training``.
"""

FIELDS = ("points", "graphs", "images", "sequences", "training")
