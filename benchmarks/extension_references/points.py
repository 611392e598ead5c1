"""Point clouds: nearest neighbours, sampling, grouping, interpolation, voxels, and distances between clouds."""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.extension_references.cases import Case, gradients, of

# All threads read the farthest point's index, which thread 0 may have overwritten. On a GPU the reads come first.
FARTHEST_RACES = "no barrier between reading the farthest point and overwriting it"


def squared_distances(a: Tensor, b: Tensor) -> Tensor:
    """The squared distances between (..., N, D) and (..., M, D) points: (..., N, M), float64."""
    return (a.double()[..., :, None, :] - b.double()[..., None, :, :]).square().sum(-1)


def farthest_points(points: Tensor, count: int) -> Tensor:
    """Indices of (N, D) points, starting with the first point; each is the farthest from those before it."""
    distances = squared_distances(points, points)
    chosen = [0]
    while len(chosen) < count:
        chosen.append(int(distances[chosen].amin(0).argmax()))
    return torch.tensor(chosen, dtype=torch.int32)


def points_in_ball(centres: Tensor, points: Tensor, radius: float, count: int) -> Tensor:
    """The first ``count`` points of (B, N, D) around each centre, padded with the first of them, or all 0 if none."""
    near = squared_distances(centres, points) < radius**2
    found = torch.zeros(*near.shape[:2], count, dtype=torch.int32)
    for b, m in near.any(-1).nonzero().tolist():
        inside = near[b, m].nonzero()[:count, 0].int()
        found[b, m] = inside[0]
        found[b, m, : len(inside)] = inside
    return found


def gathered(values: Tensor, indices: Tensor) -> Tensor:
    """(B, C, N) values at (B, ...) indices: (B, C, ...)."""
    flat = indices.flatten(1).long()[:, None].expand(-1, values.shape[1], -1)
    return values.gather(2, flat).view(*values.shape[:2], *indices.shape[1:])


def interpolated(values: Tensor, indices: Tensor, weights: Tensor) -> Tensor:
    """The weighted sum of (B, C, M) values at (B, N, K) indices: (B, C, N)."""
    return (gathered(values, indices) * weights[:, None].to(values.dtype)).sum(-1)


def _chamfer(suffix: str = "", on_cpu: bool = False) -> Iterator[Case]:
    a, b = torch.randn(2, 37, 3), torch.randn(2, 53, 3)
    nearest = [squared_distances(a, b).min(dim) for dim in (2, 1)]
    indices = [each.indices.int() for each in nearest]
    written = (torch.zeros(2, 37), torch.zeros(2, 53), torch.zeros(2, 37).int(), torch.zeros(2, 53).int())
    found = [*(each.values for each in nearest), *indices]
    yield Case(f"forward{suffix}", (a, b, *written), found, written, on_cpu=on_cpu)
    up = torch.randn(2, 37), torch.randn(2, 53)
    grads = torch.zeros_like(a), torch.zeros_like(b)
    expected = gradients(lambda x, y: [squared_distances(x, y).amin(dim) for dim in (2, 1)], (a, b), *up)
    yield Case(f"backward{suffix}", (a, b, *grads, *up, *indices), expected, grads, on_cpu=on_cpu)


@of("chamfer_3D")
def _chamfer_3d() -> Iterator[Case]:
    yield from _chamfer()


@of("chamfer_distance")
def _chamfer_distance() -> Iterator[Case]:
    yield from _chamfer("_cuda")
    yield from _chamfer(on_cpu=True)


@of("knn_cuda")
def _knn() -> Iterator[Case]:
    reference, query = torch.randn(5, 71), torch.randn(5, 33)
    distances, indices = squared_distances(reference.T, query.T).sqrt().topk(4, 0, largest=False)
    yield Case("knn", (reference, query, 4), [distances, indices + 1])


@of("emd_cuda")
def _earth_mover() -> Iterator[Case]:
    """The approximate matching of Fan, Su and Guibas, "A Point Set Generation Network", section 3."""
    a, b = torch.randn(2, 24, 3), torch.randn(2, 24, 3)
    distances = squared_distances(b, a)  # (B, M, N)
    match = torch.zeros_like(distances)
    supply, demand = torch.ones(2, 1, 24).double(), torch.ones(2, 24, 1).double()
    for level in [*(-(4.0**power) for power in range(7, -2, -1)), 0.0]:
        affinity = torch.exp(level * distances)
        offered = affinity * supply / ((affinity * demand).sum(1, keepdim=True) + 1e-9)
        wanted = demand * offered.sum(2, keepdim=True)
        taken = offered * demand * (demand / (wanted + 1e-9)).clamp(max=1)
        match += taken
        supply = (supply - taken.sum(1, keepdim=True)).clamp(min=0)
        demand = (demand - wanted).clamp(min=0)
    yield Case("approxmatch_forward", (a, b), match, tolerance=1e-3)
    match, up = torch.rand(2, 24, 24), torch.randn(2)
    yield Case("matchcost_forward", (a, b, match), (distances * match).sum((1, 2)))
    expected = gradients(lambda x, y: (squared_distances(y, x) * match).sum((1, 2)), (a, b), up)
    yield Case("matchcost_backward", (up, a, b, match), expected)


@of("pointnet2_ops", "votenet_pointnet2")
def _pointnet2() -> Iterator[Case]:
    points, centres, features = torch.randn(2, 45, 3), torch.randn(2, 19, 3), torch.randn(2, 6, 45)
    samples = torch.stack([farthest_points(each, 13) for each in points])
    yield Case("furthest_point_sampling", (points, 13), samples, races=FARTHEST_RACES)
    yield Case("ball_query", (centres, points, 0.8, 7), points_in_ball(centres, points, 0.8, 7))
    for name, shape in [("gather_points", (2, 19)), ("group_points", (2, 19, 5))]:
        indices, up = torch.randint(0, 45, shape, dtype=torch.int32), torch.randn(2, 6, *shape[1:])
        yield Case(name, (features, indices), gathered(features, indices), tolerance=0)
        expected = gradients(lambda x, at=indices: gathered(x, at), [features], up)
        yield Case(f"{name}_grad", (up, indices, 45), expected)
    distances, indices = squared_distances(points, centres).topk(3, largest=False)
    indices = indices.int()
    yield Case("three_nn", (points, centres), [distances, indices])
    weights, known, up = torch.rand(2, 45, 3), torch.randn(2, 6, 19), torch.randn(2, 6, 45)
    yield Case("three_interpolate", (known, indices, weights), interpolated(known, indices, weights))
    expected = gradients(lambda x: interpolated(x, indices, weights), [known], up)
    yield Case("three_interpolate_grad", (up, indices, weights, 19), expected)


@of("pvcnn_backend")
def _pvcnn() -> Iterator[Case]:
    """Point-Voxel CNN: the functions of PointNet++ with channels first, and conversions between points and voxels."""
    points, centres, features = torch.randn(2, 3, 45), torch.randn(2, 3, 19), torch.randn(2, 6, 19)
    rows, middles = points.mT.contiguous(), centres.mT.contiguous()
    samples = torch.stack([farthest_points(each, 13) for each in rows])
    yield Case("furthest_point_sampling", (points, 13), samples, races=FARTHEST_RACES)
    yield Case("ball_query", (centres, points, 0.8, 7), points_in_ball(middles, rows, 0.8, 7))
    distances, indices = squared_distances(rows, middles).topk(3, largest=False)
    weights = (1 / distances) / (1 / distances).sum(-1, keepdim=True)
    found = [interpolated(features.double(), indices, weights), indices.mT.int(), weights.mT]
    yield Case("three_nearest_neighbors_interpolate_forward", (points, centres, features), found)
    up = torch.randn(2, 6, 45)
    expected = gradients(lambda x: interpolated(x, indices, weights), [features], up)
    arguments = up, indices.mT.int().contiguous(), weights.mT.float().contiguous(), 19
    yield Case("three_nearest_neighbors_interpolate_backward", arguments, expected)
    for name, shape in [("gather_features", (2, 23)), ("grouping", (2, 11, 5))]:
        chosen, up = torch.randint(0, 19, shape, dtype=torch.int32), torch.randn(2, 6, *shape[1:])
        yield Case(f"{name}_forward", (features, chosen), gathered(features, chosen), tolerance=0)
        expected = gradients(lambda x, at=chosen: gathered(x, at), [features], up)
        yield Case(f"{name}_backward", (up, chosen, 19), expected)
    coordinates, up = torch.randint(0, 4, (2, 3, 45), dtype=torch.int32), torch.randn(2, 6, 64)
    voxels = (coordinates[:, 0] * 16 + coordinates[:, 1] * 4 + coordinates[:, 2]).long()
    counts = F.one_hot(voxels, 64).sum(1)
    shares = (F.one_hot(voxels, 64) / counts[:, None].clamp(min=1)).double()
    values = torch.randn(2, 6, 45)
    found = [values.double() @ shares, voxels.int(), counts.int()]
    yield Case("avg_voxelize_forward", (values, coordinates, 4), found)
    yield Case("avg_voxelize_backward", (up, voxels.int(), counts.int()), up.double() @ shares.mT)
    places, grid = 2.999 * torch.rand(2, 3, 45), torch.randn(2, 6, 4, 4, 4)
    where = (places.mT.flip(-1) * 2 / 3 - 1)[:, :, None, None].double()
    sampled = F.grid_sample(grid.double(), where, align_corners=True).flatten(2)
    yield Case("trilinear_devoxelize_forward", (4, True, places, grid.flatten(2)), [sampled])


@of("openpcdet_roipoint_pool3d_cuda")
def _points_in_boxes() -> Iterator[Case]:
    """The first points in each rotated box with their features, repeated cyclically, and which boxes are empty."""
    points, features, count = 2 * torch.randn(2, 150, 3), torch.randn(2, 150, 5), 9
    centres, sizes, headings = torch.randn(2, 7, 3), 1 + torch.rand(2, 7, 3), 6 * torch.rand(2, 7, 1)
    centres[:, 0] = 50  # an empty box
    x, y, z = (points[:, None] - centres[:, :, None]).double().unbind(-1)
    cos, sin = headings.cos(), headings.sin()
    local = torch.stack([x * cos + y * sin, y * cos - x * sin, z], -1)
    inside = (local.abs() < sizes[:, :, None] / 2).all(-1)
    expected = torch.zeros(2, 7, count, 8)
    for b, m in inside.any(-1).nonzero().tolist():
        within = inside[b, m].nonzero()[:, 0]
        expected[b, m] = torch.cat([points, features], -1)[b, within[torch.arange(count) % len(within[:count])]]
    written = torch.zeros_like(expected), torch.zeros(2, 7, dtype=torch.int32)
    boxes = torch.cat([centres, sizes, headings], -1)
    empty = (~inside.any(-1)).int()
    yield Case("forward", (points, boxes, features, *written), [expected, empty], written)


@of("bevfusion_bev_pool_ext", "openpcdet_bev_pool_ext")
def _bev_pool() -> Iterator[Case]:
    """The sum of the features of the points in each cell of (B, D, H, W); points are sorted by cell."""
    sizes = B, D, H, W = 2, 2, 5, 7
    cells = torch.randint(0, B * D * H * W, (90,)).sort().values
    features, up = torch.randn(90, 6), torch.randn(B, D, H, W, 6)
    b, d, h, w = torch.unravel_index(cells, sizes)
    geometry = torch.stack([h, w, d, b], 1).int()
    lengths = torch.unique_consecutive(cells, return_counts=True)[1]
    intervals = lengths.int(), (lengths.cumsum(0) - lengths).int()
    pooled = torch.zeros(B * D * H * W, 6).index_add(0, cells, features).view(B, D, H, W, 6)
    yield Case("bev_pool_forward", (features, geometry, *intervals, *sizes), pooled)
    yield Case("bev_pool_backward", (up, geometry, *intervals, *sizes), up.flatten(0, 3)[cells], tolerance=0)
