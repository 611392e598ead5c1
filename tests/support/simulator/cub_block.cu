// Kernels that call CUB's primitives for blocks and warps, for tests/sim/test_cub_block.py and test_nvcc_cub.py. Each
// block of X x Y threads has N items per thread. Each result is a row of `y`, as long as the block's items.
#include <cub/block/block_raking_layout.cuh>
#include <cub/block/block_shuffle.cuh>
#include <cub/cub.cuh>
#include <cuda/functional>
#include <cuda/std/functional>

template <class T, int X, int Y, int N>
struct Rows {
    T* y;

    __device__ int thread() const { return threadIdx.y * X + threadIdx.x; }
    __device__ void put(int row, const T (&items)[N]) const {
        for (int i = 0; i < N; i++) y[(row * X * Y + thread()) * N + i] = items[i];
    }
    __device__ void put(int row, T item) const {
        for (int i = 0; i < N; i++) y[(row * X * Y + thread()) * N + i] = item;
    }
};

// A prefix callback that adds up the totals of the blocks before this one.
template <class T>
struct RunningTotal {
    T total;
    __device__ T operator()(T aggregate) {
        const T before = total;
        total = total + aggregate;
        return before;
    }
};

struct Greater {
    template <class T>
    __device__ bool operator()(const T& a, const T& b) const {
        return b < a;
    }
};

template <class T, int X, int Y, int N>
__global__ void reduce(const T* x, T* y, int, int valid) {
    using Reduce = cub::BlockReduce<T, X, cub::BLOCK_REDUCE_WARP_REDUCTIONS, Y>;
    using Raking = cub::BlockReduce<T, X, cub::BLOCK_REDUCE_RAKING, Y>;
    __shared__ union {
        typename Reduce::TempStorage reduce;
        typename Raking::TempStorage raking;
    } temp;
    const Rows<T, X, Y, N> rows{y};
    T items[N];
    cub::LoadDirectBlocked(rows.thread(), x, items);
    T results[6];
    results[0] = Reduce(temp.reduce).Sum(items);
    __syncthreads();
    results[1] = Raking(temp.raking).Sum(items[0]);
    __syncthreads();
    results[2] = Reduce(temp.reduce).Reduce(items, cuda::maximum<>{});
    __syncthreads();
    results[3] = Reduce(temp.reduce).Sum(items[0], valid);
    __syncthreads();
    results[4] = Raking(temp.raking).Reduce(items[0], cuda::minimum<>{}, valid);
    __syncthreads();
    results[5] = Reduce(temp.reduce).Reduce(items[0], cuda::std::plus<>{});
    if (rows.thread() == 0) {
        for (int i = 0; i < 6; i++) y[i] = results[i];
    }
}

template <class T, int X, int Y, int N>
__global__ void scan(const T* x, T* y, int, int first) {
    using Scan = cub::BlockScan<T, X, cub::BLOCK_SCAN_WARP_SCANS, Y>;
    using Raking = cub::BlockScan<T, X, cub::BLOCK_SCAN_RAKING, Y>;
    __shared__ union {
        typename Scan::TempStorage scan;
        typename Raking::TempStorage raking;
    } temp;
    const Rows<T, X, Y, N> rows{y};
    const T initial = T(first);
    T items[N], result[N], one, sum;
    cub::LoadDirectBlocked(rows.thread(), x, items);
    Scan(temp.scan).InclusiveSum(items, result, sum);
    rows.put(0, result);
    rows.put(1, sum);
    __syncthreads();
    Raking(temp.raking).ExclusiveSum(items, result, sum);
    rows.put(2, result);
    rows.put(3, sum);
    __syncthreads();
    Scan(temp.scan).ExclusiveScan(items, result, initial, cuda::maximum<>{});
    rows.put(4, result);
    __syncthreads();
    Raking(temp.raking).InclusiveScan(items, result, cuda::minimum<>{});
    rows.put(5, result);
    __syncthreads();
    RunningTotal<T> running{initial};
    Scan(temp.scan).ExclusiveSum(items, result, running);
    rows.put(6, result);
    __syncthreads();
    Raking(temp.raking).InclusiveSum(items, result, running);
    rows.put(7, result);
    __syncthreads();
    Scan(temp.scan).InclusiveSum(items[0], one);
    rows.put(8, one);
    __syncthreads();
    Raking(temp.raking).ExclusiveScan(items[0], one, initial, cuda::std::plus<>{}, sum);
    rows.put(9, one);
    rows.put(10, sum);
    __syncthreads();
    Scan(temp.scan).InclusiveScan(items, result, initial, cuda::std::plus<>{}, sum);
    rows.put(11, result);
    rows.put(12, sum);
    __syncthreads();
    Scan(temp.scan).ExclusiveScan(items[0], one, cuda::std::plus<>{});
    rows.put(13, rows.thread() == 0 ? T(0) : one);
}

template <class T, int X, int Y, int N, cub::BlockLoadAlgorithm how_to_load,
          cub::BlockStoreAlgorithm how_to_store>
__device__ void load_and_store(int row, const T* x, T* y, int valid) {
    using Load = cub::BlockLoad<T, X, N, how_to_load, Y>;
    using Store = cub::BlockStore<T, X, N, how_to_store, Y>;
    __shared__ union {
        typename Load::TempStorage load;
        typename Store::TempStorage store;
    } temp;
    const Rows<T, X, Y, N> rows{y};
    T items[N];
    __syncthreads();
    Load(temp.load).Load(x, items);
    __syncthreads();
    rows.put(row, items);
    Load(temp.load).Load(x, items, valid, T(99));
    __syncthreads();
    rows.put(row + 1, items);
    Store(temp.store).Store(y + (row + 2) * X * Y * N, items);
    __syncthreads();
    Load(temp.load).Load(x, items);
    __syncthreads();
    Store(temp.store).Store(y + (row + 3) * X * Y * N, items, valid);
}

// Four rows for each algorithm.
template <class T, int X, int Y, int N>
__global__ void load_store(const T* x, T* y, int, int valid) {
    load_and_store<T, X, Y, N, cub::BLOCK_LOAD_DIRECT, cub::BLOCK_STORE_DIRECT>(0, x, y, valid);
    load_and_store<T, X, Y, N, cub::BLOCK_LOAD_STRIPED, cub::BLOCK_STORE_STRIPED>(4, x, y, valid);
    load_and_store<T, X, Y, N, cub::BLOCK_LOAD_VECTORIZE, cub::BLOCK_STORE_VECTORIZE>(8, x, y, valid);
    load_and_store<T, X, Y, N, cub::BLOCK_LOAD_TRANSPOSE, cub::BLOCK_STORE_TRANSPOSE>(12, x, y, valid);
    if constexpr (X * Y % 32 == 0) {
        load_and_store<T, X, Y, N, cub::BLOCK_LOAD_WARP_TRANSPOSE, cub::BLOCK_STORE_WARP_TRANSPOSE>(16, x, y, valid);
        load_and_store<T, X, Y, N, cub::BLOCK_LOAD_WARP_TRANSPOSE_TIMESLICED,
                       cub::BLOCK_STORE_WARP_TRANSPOSE_TIMESLICED>(20, x, y, valid);
    }
}

template <class T, int X, int Y, int N>
__global__ void sort(const T* x, T* y, int, int end_bit) {
    using Sort = cub::BlockRadixSort<T, X, N, int, 4, true, cub::BLOCK_SCAN_WARP_SCANS, cudaSharedMemBankSizeFourByte, Y>;
    using Keys = cub::BlockRadixSort<T, X, N, cub::NullType, 4, true, cub::BLOCK_SCAN_WARP_SCANS,
                                     cudaSharedMemBankSizeFourByte, Y>;
    constexpr bool merges = (X * Y & (X * Y - 1)) == 0;  // CUB requires a power of two
    using Merge = cub::BlockMergeSort<T, merges ? X : 32, N, int, merges ? Y : 1>;
    __shared__ union {
        typename Sort::TempStorage sort;
        typename Keys::TempStorage keys;
        typename Merge::TempStorage merge;
    } temp;
    const Rows<T, X, Y, N> rows{y};
    T keys[N], as_keys[N];
    int values[N];
    const auto begin = [&] {
        __syncthreads();
        cub::LoadDirectBlocked(rows.thread(), x, keys);
        for (int i = 0; i < N; i++) values[i] = (rows.thread() * N + i) % 100;
    };
    const auto put = [&](int row) {
        rows.put(row, keys);
        for (int i = 0; i < N; i++) as_keys[i] = T(values[i]);
        rows.put(row + 1, as_keys);
    };
    begin();
    Keys(temp.keys).Sort(keys);
    put(0);
    begin();
    Sort(temp.sort).Sort(keys, values);
    put(2);
    begin();
    Sort(temp.sort).SortDescending(keys, values);
    put(4);
    begin();
    Sort(temp.sort).SortBlockedToStriped(keys, values);
    put(6);
    begin();
    Keys(temp.keys).SortDescendingBlockedToStriped(keys);
    put(8);
    begin();
    Sort(temp.sort).Sort(keys, values, 1, end_bit);
    put(10);
    if constexpr (merges) {
        begin();
        Merge(temp.merge).StableSort(keys, values, Greater());
        put(12);
        begin();
        Merge(temp.merge).Sort(keys, values, Greater(), X * Y * N - 3, T(0));
        put(14);
    }
}

template <class T, int X, int Y, int N>
__global__ void exchange(const T* x, T* y, int, int rotation) {
    using Exchange = cub::BlockExchange<T, X, N, false, Y>;
    __shared__ typename Exchange::TempStorage temp;
    const Rows<T, X, Y, N> rows{y};
    T items[N];
    int ranks[N];
    cub::LoadDirectBlocked(rows.thread(), x, items);
    Exchange(temp).StripedToBlocked(items, items);
    rows.put(0, items);
    __syncthreads();
    Exchange(temp).BlockedToStriped(items);
    rows.put(1, items);
    __syncthreads();
    for (int i = 0; i < N; i++) ranks[i] = (rows.thread() * N + i + rotation) % (X * Y * N);
    Exchange(temp).ScatterToBlocked(items, ranks);
    rows.put(2, items);
    __syncthreads();
    Exchange(temp).ScatterToStriped(items, ranks);
    rows.put(3, items);
    __syncthreads();
    Exchange(temp).WarpStripedToBlocked(items);
    rows.put(4, items);
    __syncthreads();
    Exchange(temp).BlockedToWarpStriped(items);
    rows.put(5, items);
}

template <class T, int X, int Y, int N>
__global__ void neighbours(const T* x, T* y, int, int valid) {
    using Flags = cub::BlockDiscontinuity<T, X, Y>;
    using Difference = cub::BlockAdjacentDifference<T, X, Y>;
    using Shuffle = cub::BlockShuffle<T, X, Y>;
    using Histogram = cub::BlockHistogram<unsigned char, X, N, 16, cub::BLOCK_HISTO_ATOMIC, Y>;
    __shared__ union {
        typename Flags::TempStorage flags;
        typename Difference::TempStorage difference;
        typename Shuffle::TempStorage shuffle;
        typename Histogram::TempStorage histogram;
    } temp;
    __shared__ unsigned counts[16];
    const Rows<T, X, Y, N> rows{y};
    T items[N], result[N], heads[N], tails[N];
    cub::LoadDirectBlocked(rows.thread(), x, items);
    Flags(temp.flags).FlagHeads(heads, items, cuda::std::not_equal_to<>{});
    rows.put(0, heads);
    __syncthreads();
    Flags(temp.flags).FlagTails(tails, items, cuda::std::not_equal_to<>{}, T(3));
    rows.put(1, tails);
    __syncthreads();
    Flags(temp.flags).FlagHeadsAndTails(heads, T(5), tails, items, cuda::std::not_equal_to<>{});
    rows.put(2, heads);
    rows.put(3, tails);
    __syncthreads();
    Difference(temp.difference).SubtractLeft(items, result, cuda::std::minus<>{});
    rows.put(4, result);
    __syncthreads();
    Difference(temp.difference).SubtractRightPartialTile(items, result, cuda::std::minus<>{}, valid);
    rows.put(5, result);
    __syncthreads();
    Difference(temp.difference).SubtractLeft(items, result, cuda::std::minus<>{}, T(7));
    rows.put(6, result);
    __syncthreads();
    T rotated;
    Shuffle(temp.shuffle).Rotate(items[0], rotated, 3);
    rows.put(7, rotated);
    __syncthreads();
    rows.put(8, items);
    for (int i = 0; i < N; i++) result[i] = items[i];
    Shuffle(temp.shuffle).Up(items, result);
    rows.put(8, result);
    __syncthreads();
    T first;
    for (int i = 0; i < N; i++) result[i] = items[i];
    Shuffle(temp.shuffle).Down(items, result, first);
    rows.put(9, result);
    rows.put(10, first);
    __syncthreads();
    unsigned char bins[N];
    for (int i = 0; i < N; i++) bins[i] = static_cast<unsigned char>(items[i]);
    Histogram(temp.histogram).Histogram(bins, counts);
    __syncthreads();
    rows.put(11, T(counts[rows.thread() % 16] % 100));
    using Layout = cub::BlockRakingLayout<T, X * Y>;
    __shared__ typename Layout::TempStorage layout;
    *Layout::PlacementPtr(layout, rows.thread()) = items[0];
    __syncthreads();
    T of_segment = 0;
    if (rows.thread() < Layout::RAKING_THREADS) {
        const T* segment = Layout::RakingPtr(layout, rows.thread());
        const int rest = X * Y - rows.thread() * Layout::SEGMENT_LENGTH;
        for (int i = 0; i < Layout::SEGMENT_LENGTH && i < rest; i++) of_segment = of_segment + segment[i];
    }
    rows.put(12, of_segment);
}

template <class T, int X, int Y, int N, int Threads>
__device__ void warps_of(int row, const T* x, T* y, int valid) {
    using Reduce = cub::WarpReduce<T, Threads>;
    using Scan = cub::WarpScan<T, Threads>;
    using Exchange = cub::WarpExchange<T, N, Threads>;
    using Merge = cub::WarpMergeSort<T, N, Threads>;
    using Load = cub::WarpLoad<T, N, cub::WARP_LOAD_TRANSPOSE, Threads>;
    using Store = cub::WarpStore<T, N, cub::WARP_STORE_TRANSPOSE, Threads>;
    constexpr int warps = (X * Y + Threads - 1) / Threads;
    __shared__ union {
        typename Reduce::TempStorage reduce;
        typename Scan::TempStorage scan;
        typename Exchange::TempStorage exchange;
        typename Merge::TempStorage merge;
        typename Load::TempStorage load;
        typename Store::TempStorage store;
    } temps[warps];
    const Rows<T, X, Y, N> rows{y};
    const int warp = rows.thread() / Threads, lane = rows.thread() % Threads;
    auto& temp = temps[warp];
    T items[N], result[N], one, other, sum;
    cub::LoadDirectBlocked(rows.thread(), x, items);
    const auto begin = [&] { __syncthreads(); };
    begin();
    one = Reduce(temp.reduce).Sum(items[0]);
    rows.put(row, lane == 0 ? one : T(0));
    begin();
    one = Reduce(temp.reduce).Reduce(items[0], cuda::maximum<>{}, valid);
    rows.put(row + 1, lane == 0 ? one : T(0));
    begin();
    one = Reduce(temp.reduce).HeadSegmentedSum(items[0], lane % 3 == 0);
    rows.put(row + 2, lane % 3 == 0 ? one : T(0));
    begin();
    one = Reduce(temp.reduce).TailSegmentedSum(items[0], lane % 3 == 2);
    rows.put(row + 3, lane % 3 == 0 ? one : T(0));
    begin();
    Scan(temp.scan).InclusiveSum(items[0], one, sum);
    rows.put(row + 4, one);
    rows.put(row + 5, sum);
    begin();
    Scan(temp.scan).ExclusiveScan(items[0], one, T(2), cuda::maximum<>{});
    rows.put(row + 6, one);
    begin();
    Scan(temp.scan).Scan(items[0], one, other, T(1), cuda::std::plus<>{});
    rows.put(row + 7, one);
    rows.put(row + 8, other);
    begin();
    rows.put(row + 9, Scan(temp.scan).Broadcast(items[0], 1));
    begin();
    Exchange(temp.exchange).BlockedToStriped(items, result);
    rows.put(row + 10, result);
    begin();
    Exchange(temp.exchange).StripedToBlocked(items, result);
    rows.put(row + 11, result);
    begin();
    for (int i = 0; i < N; i++) result[i] = items[i];
    Merge(temp.merge).Sort(result, Greater());
    rows.put(row + 12, result);
    begin();
    Load(temp.load).Load(x + warp * Threads * N, result);
    rows.put(row + 13, result);
    begin();
    Store(temp.store).Store(y + ((row + 14) * X * Y + warp * Threads) * N, result);
}

// Only for blocks of whole warps.
template <class T, int X, int Y, int N>
__global__ void warps(const T* x, T* y, int, int valid) {
    if constexpr (X * Y % 32 == 0) {
        warps_of<T, X, Y, N, 32>(0, x, y, valid);
        warps_of<T, X, Y, N, 8>(15, x, y, valid);
    }
}

#ifdef TKJIT_SIM
#define KERNEL(kernel, name, T, X, Y, N)                                                                       \
    extern "C" __attribute__((visibility("default"))) const char* run_##kernel##_##name(                       \
        const unsigned* dims, size_t, const T* x, T* y, int unused, int number) {                              \
        return tkjit::sim::launch(kernel<T, X, Y, N>, dim3(1), dim3(dims[3], dims[4]), 0, x, y, unused, number); \
    }
#else
#define KERNEL(kernel, name, T, X, Y, N) template __global__ void kernel<T, X, Y, N>(const T*, T*, int, int);
#endif
#define SHAPE(...)                 \
    KERNEL(reduce, __VA_ARGS__)    \
    KERNEL(scan, __VA_ARGS__)      \
    KERNEL(load_store, __VA_ARGS__) \
    KERNEL(sort, __VA_ARGS__)      \
    KERNEL(exchange, __VA_ARGS__)  \
    KERNEL(neighbours, __VA_ARGS__) \
    KERNEL(warps, __VA_ARGS__)
SHAPE(int32, int, 64, 1, 1)
SHAPE(float32, float, 50, 3, 2)
SHAPE(float64, double, 16, 8, 4)
SHAPE(uint8, unsigned char, 33, 1, 3)
SHAPE(int64, long long, 20, 1, 5)
SHAPE(float16, __half, 32, 2, 2)
