// Products of A with two matrices, whose sums an epilogue combines.
#pragma once

/// Whether a problem has a second B, `up`: each element of C then combines two sums, from the same column of `b` and of `up`.
template <class Problem>
constexpr bool is_gated = requires(const Problem& g) { g.up; };
