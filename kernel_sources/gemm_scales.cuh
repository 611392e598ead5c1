// Scales of blocks along K.
#pragma once

constexpr int kScaledDepth = 128;  // elements of K that share their scales

/// Whether the sums over each block of K are multiplied by `finish.row_scale(row, block)` and `finish.col_scale(col, block)`.
/// The latter is the same for 128 columns.
template <typename Finish>
concept scales_blocks = requires(const Finish& finish) {
    finish.row_scale(0, 0);
    finish.col_scale(0, 0);
};
