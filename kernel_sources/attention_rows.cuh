// Where the queries and the keys of a block of attention are: in dense tensors (B, H, S, D), or in packed ones (S, H, D),
// whose rows belong to several sequences.
#pragma once

#include <tkjit/gl.h>

/// The queries or keys of heads that are matrices of their own.
template <int D>
struct DenseRows {
    static constexpr int begin = 0, stride = D;
    int length;

    __device__ size_t number(int head) const { return size_t(head) * length; }  // of the head's first row, among all rows
    __device__ size_t offset(int head) const { return number(head) * D; }       // of that row's first element
};

/// The queries or keys of a sequence. The matrix of a head is every `stride / D`-th row of the tensor.
template <int D>
struct PackedRows {
    int begin, length, stride;
    int total;  // rows of all sequences

    __device__ size_t number(int head) const { return size_t(head) * total + begin; }
    __device__ size_t offset(int head) const { return size_t(begin) * stride + head * D; }
};

/// A block's queries in dense tensors. The grid is (tiles of queries, heads, batches). The last queries see most keys, so
/// they start first.
template <int D>
struct DenseBlock {
    DenseRows<D> queries, keys;
    int head, key_head, first_query;
    static constexpr bool is_idle = false;

    __device__ DenseBlock(int queries, int keys, int heads, int key_heads, int queries_of_block)
        : queries{queries},
          keys{keys},
          head(blockIdx.z * heads + blockIdx.y),
          key_head(blockIdx.z * key_heads + blockIdx.y / (heads / key_heads)),
          first_query((gridDim.x - 1 - blockIdx.x) * queries_of_block) {}
};

/// The sequences of a packed tensor: sequence i has the rows from positions[i] to before positions[i + 1]. The rows before
/// the first and after the last belong to none; among the sequences, their numbers would be -1 and `count`.
struct Sequences {
    const int* positions;
    int count, heads;
    int total;  // rows of the tensor

    /// The first row of a sequence, for -1 <= number <= count + 1. It is in the tensor, whatever the positions are.
    __device__ int begin_of(int number) const {
        if (number < 0) return 0;
        return number > count ? total : max(0, min(positions[number], total));
    }
    template <int D>
    __device__ PackedRows<D> rows_of(int number) const {
        const int begin = begin_of(number);
        return {begin, max(0, begin_of(number + 1) - begin), heads * D, total};
    }
    __device__ bool has(int number) const { return 0 <= number && number < count; }
};

/// The number of tiles that `PackedTile` counts in a packed tensor, those without rows included.
__host__ __device__ inline size_t packed_tiles(size_t total, size_t sequences, int rows_of_tile) {
    return total / rows_of_tile + sequences + 2;
}

/// A block's tile of a packed tensor. The blocks of a sequence are adjacent, and so are those of a head in it.
///
/// The tiles of sequence i have numbers from positions[i] / rows_of_tile + i + 1 on. These are at least as many as it needs,
/// so a search finds the sequence of a block without adding up the lengths of the others, and at most one block for each
/// sequence and head is idle.
struct PackedTile {
    int sequence, head, first_row;  // of the sequence
    bool is_idle;

    /// All threads of a warp call this together. With `from_the_end`, the last tile of a head starts first.
    __device__ PackedTile(const Sequences& sequences, int rows_of_tile, int block, bool from_the_end) {
        const auto first_tile = [&](int number) { return sequences.begin_of(number) / rows_of_tile + number + 1; };
        const int tile = block / sequences.heads, lane = threadIdx.x % 32;
        int end = sequences.count + 1;
        for (sequence = -1; end - sequence > 1;) {  // from `sequence` to before `end`
            const int step = (end - sequence + 31) / 32, at = sequence + lane * step;
            const int found = __popc(__ballot_sync(0xffffffff, at < end && first_tile(at) <= tile));
            sequence += max(0, found - 1) * step;
            end = min(end, sequence + step);
        }
        const int first = first_tile(sequence), tiles = first_tile(sequence + 1) - first;
        const int own = block - first * sequences.heads;
        // false only if the positions decrease
        const bool is_found = own >= 0 && own < tiles * sequences.heads;
        head = is_found ? own / tiles : 0;
        const int number = is_found ? own % tiles : 0;
        first_row = (from_the_end ? tiles - 1 - number : number) * rows_of_tile;
        is_idle = !is_found || sequences.begin_of(sequence) + first_row >= sequences.begin_of(sequence + 1);
    }
};

/// A block's queries in packed tensors.
template <int D>
struct PackedBlock {
    PackedRows<D> queries, keys;
    int head, key_head, first_query;
    bool is_idle;

    __device__ PackedBlock(const Sequences& of_queries, const Sequences& of_keys, int queries_of_block)
        : PackedBlock(of_queries, of_keys, PackedTile(of_queries, queries_of_block, blockIdx.x, true)) {}

private:
    __device__ PackedBlock(const Sequences& of_queries, const Sequences& of_keys, const PackedTile& tile)
        : queries(of_queries.rows_of<D>(tile.sequence)),
          keys(of_keys.has(tile.sequence) ? of_keys.rows_of<D>(tile.sequence) : PackedRows<D>{}),
          head(tile.head),
          key_head(tile.head / (of_queries.heads / of_keys.heads)),
          first_query(tile.first_row),
          is_idle(tile.is_idle) {}
};
