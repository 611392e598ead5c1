"""Graphs: reductions by index or segment, clustering, and convolution with B-splines."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import torch
from torch import Tensor

from benchmarks.extension_references.cases import Case, of
from benchmarks.extension_references.points import farthest_points, squared_distances


@of("torch_scatter")
def _scatter() -> Iterator[Case]:
    values, index = torch.randn(37, 6), torch.randint(0, 8, (37,))
    arguments = values, index, 0, None, 9  # nothing is added to row 8
    rows = [(index == each).nonzero()[:, 0] for each in range(8)]
    for reduce, empty in (("sum", 0.0), ("prod", 1.0), ("mean", 0.0)):
        reduced = torch.stack([*(getattr(values[row], reduce)(0) for row in rows), torch.full((6,), empty)])
        yield Case(f"torch_scatter::scatter_{reduce.replace('prod', 'mul')}", arguments, reduced)
    for reduce in ("min", "max"):
        found = [getattr(values[row], reduce)(0) for row in rows]
        extremes = torch.stack([*(each.values for each in found), torch.zeros(6)])
        where = [row[each.indices] for row, each in zip(rows, found, strict=True)]
        yield Case(
            f"torch_scatter::scatter_{reduce}", arguments, [extremes, torch.stack([*where, torch.full((6,), 37)])]
        )


@of("torch_scatter_segment_csr")
def _segments() -> Iterator[Case]:
    values, ends = torch.randn(41, 6), torch.tensor([0, 3, 4, 17, 29, 41])
    segments = [values[start:end] for start, end in zip(ends[:-1], ends[1:], strict=True)]
    for reduce in ("sum", "mean"):
        expected = torch.stack([getattr(each, reduce)(0) for each in segments])
        yield Case(f"torch_scatter::segment_{reduce}_csr", (values, ends, None), expected)
    for reduce in ("min", "max"):
        found = [getattr(each, reduce)(0) for each in segments]
        where = torch.stack([each.indices for each in found]) + ends[:-1, None]
        extremes = torch.stack([each.values for each in found])
        yield Case(f"torch_scatter::segment_{reduce}_csr", (values, ends, None), [extremes, where])
    rows = torch.randn(5, 6)
    yield Case("torch_scatter::gather_csr", (rows, ends, None), rows.repeat_interleave(ends.diff(), 0), tolerance=0)


@of("torch_cluster_grid")
def _grid() -> Iterator[Case]:
    positions, size = 10 * torch.rand(67, 3), torch.tensor([1.5, 2.5, 0.7])
    start, end = torch.tensor([-1.0, 0.0, 0.0]), torch.full((3,), 10.0)
    cells = ((positions - start) / size).floor().long()
    counts = ((end - start) / size).floor().long() + 1
    expected = cells[:, 0] + counts[0] * (cells[:, 1] + counts[1] * cells[:, 2])
    yield Case("torch_cluster::grid", (positions, size, start, end), expected)


@of("torch_cluster_fps")
def _farthest() -> Iterator[Case]:
    points, ends = torch.randn(60, 3), torch.tensor([0, 23, 60])
    expected = torch.cat([farthest_points(points[:23], 8), 23 + farthest_points(points[23:], 13)]).long()
    yield Case("torch_cluster::fps", (points, ends, torch.tensor(1 / 3), False), expected)


@of("torch_cluster_knn")
def _nearest() -> Iterator[Case]:
    points, queries, ends, query_ends = torch.randn(50, 3), torch.randn(21, 3), [0, 27, 50], [0, 8, 21]
    pairs = []
    for b in range(2):
        near = squared_distances(queries[query_ends[b] : query_ends[b + 1]], points[ends[b] : ends[b + 1]])
        indices = near.topk(4, largest=False).indices
        rows = torch.arange(len(indices)).repeat_interleave(4)
        pairs.append(torch.stack([rows + query_ends[b], indices.flatten() + ends[b]]))
    arguments = points, queries, torch.tensor(ends), torch.tensor(query_ends), 4, False, 1
    yield Case("torch_cluster::knn", arguments, torch.cat(pairs, 1))


def _b_spline(x: Tensor, degree: int) -> Tensor:
    """The cardinal B-spline on [0, degree + 1], by the recursion of Cox and de Boor."""
    if degree == 0:
        return ((x >= 0) & (x < 1)).to(x)
    lower, upper = _b_spline(x, degree - 1), _b_spline(x - 1, degree - 1)
    return (x * lower + (degree + 1 - x) * upper) / degree


@of("torch_spline_conv_basis")
def _spline_basis() -> Iterator[Case]:
    """The product of a B-spline for each dimension; an open spline has ``degree`` fewer intervals than knots."""
    sizes, is_open = torch.tensor([4, 5, 6]), torch.tensor([1, 0, 1], dtype=torch.uint8)
    for degree in (1, 2, 3):
        places = torch.rand(29, 3)
        scaled = places.double() * (sizes - degree * is_open)
        basis, indices = [], []
        for offsets in product(range(degree + 1), repeat=3):
            offset = torch.tensor(offsets[::-1])
            basis.append(_b_spline(scaled.frac() + degree - offset, degree).prod(1))
            knots = (scaled.long() + offset) % sizes
            indices.append(knots[:, 0] + sizes[0] * (knots[:, 1] + sizes[1] * knots[:, 2]))
        expected = [torch.stack(basis, 1), torch.stack(indices, 1)]
        yield Case("torch_spline_conv::spline_basis", (places, sizes, is_open, degree), expected)


@of("torch_spline_conv_weighting")
def _spline_weighting() -> Iterator[Case]:
    x, weight = torch.randn(31, 5), torch.randn(12, 5, 7)
    basis, indices = torch.rand(31, 4), torch.randint(0, 12, (31, 4))
    expected = torch.einsum("ei,es,esio->eo", x.double(), basis.double(), weight[indices].double())
    yield Case("torch_spline_conv::spline_weighting", (x, weight, basis, indices), expected)
