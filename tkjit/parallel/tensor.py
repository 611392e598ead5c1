"""placeholder"""

from tkjit.spec import ParallelLayout


class ParallelTensor(ParallelLayout):
    """A tensor of which each process holds a part."""
