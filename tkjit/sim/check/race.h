// Hooks from the simulator to the race detector. They are empty in normal builds.
#pragma once

#include "../detail/block.h"
#include "../detail/scopes.h"
#include "../detail/site.h"
#include "../detail/vector_types.h"

#include <stddef.h>
#include <string.h>

namespace tkjit::sim::race {

#ifdef TKJIT_SIM_RACE

/// The time and the place in the source at which a thread, or an asynchronous copy that it issued, did something.
struct Moment {
    unsigned launch, block, thread, clock, where;
};

void begin_launch(dim3 grid, dim3 block, uint3 cluster, bool is_dependent);
void begin_block(Block& block);
void end_block(Block& block);
void begin_thread(Thread& thread);
void begin_variables(char* place, size_t bytes, const char* name);

// An object at which threads meet. Threads that arrive share what they know. Threads that leave learn everything that
// had been shared when the object was last completed.
void arrive(const void* object);
/// Shares only what the thread knew at its last fence of this scope or a larger one.
void arrive_relaxed(const void* object, Scope scope);
void complete(const void* object);
/// Without acquire order, the thread learns only once a fence follows.
void leave(const void* object, bool acquires = true);

/// Records that an asynchronous operation arrives at the object, and so is done.
void arrive_for(const void* object, const Moment& issued);

void read(const void* address, size_t bytes, Site site);
void write(const void* address, size_t bytes, Site site);

// Asynchronous copies. Between issuing and landing, nothing may access their destination.
Moment landing_of(const Moment& issued);
/// Moves bytes without counting as an access.
extern "C" void* __real_memcpy(void* to, const void* from, size_t bytes);
extern "C" void* __real_memset(void* to, int value, size_t bytes);
inline void move(void* to, const void* from, size_t bytes) { __real_memcpy(to, from, bytes); }
inline void fill(void* to, int value, size_t bytes) { __real_memset(to, value, bytes); }
// What copies do; a wait for one kind does not cover the others. A store reads first, and its writes may take longer.
enum class Copier { loads, stores, products, store_writes, tensor_products, tensor_loads, tensor_stores };
Moment begin_copy(Copier copier, Site site);
Moment pending(Copier copier, const void* destination, size_t bytes, Site site);
void landed(const void* destination, size_t bytes, const Moment& moment);

// The accesses that a copy makes until it has landed: it reads its source, and writes to or adds to its destination.
void read_meanwhile(const void* source, size_t bytes, const Moment& issued);
void write_meanwhile(const void* destination, size_t bytes, const Moment& issued);
void update_meanwhile(const void* destination, size_t bytes, const Moment& issued);

/// A warpgroup's product reads its tiles until each of the warpgroup's threads has waited for it, with a commit and a
/// wait. All of these threads must know that the tiles have been written.
Moment begin_product(const Thread& first_of_warpgroup, Site site);
void end_reads_of_product();

/// Records `fence.proxy.tensormap`, and that a copy reads a tensor map.
void release_tensor_maps();
void acquire_tensor_maps();
void read_tensor_map(const void* map, size_t bytes, Site site);

/// Records `fence.proxy.async`, for shared memory, global memory or both.
void fence_async_proxy(bool shared, bool global);

/// Reads that a `cp.async` makes until it has landed. Unlike those above, they go through the generic proxy.
void read_by_copy(const void* source, size_t bytes, const Moment& issued);

/// Records that the running thread has waited for a copy.
void finish(const Moment& issued);

/// Records that the running thread groups its stores, and that it has waited for the writes of all but the last groups.
void commit_stores();
void finish_store_writes(unsigned pending_groups);

// Records which threads reach a barrier, and from where (divergence.h).
void note_places(const Barrier& barrier, Site site);
void note_named(const Barrier& barrier);
void note_exited_lanes(Operation operation, unsigned mask, Site site);
void check_participants(const Block& block, const Barrier& barrier);
void note_mbarrier_init(const void* barrier, unsigned count, Site site);
void note_mbarrier_arrival(const void* barrier, unsigned pending, unsigned count, Site site);
void note_mbarrier_use(const void* barrier, Site site);
void note_mbarrier_end(const void* barrier, Site site);

/// Records `fence.mbarrier_init`, and that an asynchronous copy will complete at an mbarrier.
void fence_mbarrier_init();
void note_completion_at(const void* barrier, Site site);

// Tensor memory (race_tensor_memory.h). A place is given by lanes and columns. A warp's loads and stores, and a thread's
// products and copies (tcgen05.mma, tcgen05.cp), each count as a separate thread.
void begin_tensor_memory(unsigned column, unsigned columns);
void note_dealloc(unsigned column, unsigned columns, Site site);
void access_tensor_memory(unsigned lane, unsigned lanes, unsigned column, unsigned columns, bool is_store, Site site);
void use_tensor_memory(const Block& block, unsigned lane, unsigned lanes, unsigned column, unsigned columns, bool is_write,
                       const Moment& issued, bool reads = true);
/// Records `tcgen05.wait`, for the warp's stores or its loads.
void finish_tensor_accesses(bool stores, Site site);
/// Begins a thread's product or copy. A commit passes on the accesses that were ordered before the last of them.
Moment begin_tensor_operation(Site site);
Moment last_tensor_operation(Site site);
void release_tensor_operations(const void* object);
void fence_tensor_memory(bool before_meeting);

/// Records that a thread exits without having waited for a bulk store.
void note_store_at_exit(Site site);

#else

struct Moment {};

inline void begin_launch(dim3, dim3, uint3, bool) {}
inline void begin_block(Block&) {}
inline void end_block(Block&) {}
inline void begin_thread(Thread&) {}
inline void begin_variables(char*, size_t, const char*) {}
inline void arrive(const void*) {}
inline void arrive_relaxed(const void*, Scope) {}
inline void complete(const void*) {}
inline void leave(const void*, bool = true) {}
inline void arrive_for(const void*, Moment) {}
inline void read(const void*, size_t, Site) {}
inline void write(const void*, size_t, Site) {}
inline Moment landing_of(Moment) { return {}; }
inline void move(void* to, const void* from, size_t bytes) { memcpy(to, from, bytes); }
inline void fill(void* to, int value, size_t bytes) { memset(to, value, bytes); }
enum class Copier { loads, stores, products, store_writes, tensor_products, tensor_loads, tensor_stores };
inline void commit_stores() {}
inline void finish_store_writes(unsigned) {}
inline Moment begin_copy(Copier, Site) { return {}; }
inline Moment pending(Copier, const void*, size_t, Site) { return {}; }
inline void landed(const void*, size_t, Moment) {}
inline void read_meanwhile(const void*, size_t, Moment) {}
inline void write_meanwhile(const void*, size_t, Moment) {}
inline void update_meanwhile(const void*, size_t, Moment) {}
inline Moment begin_product(const Thread&, Site) { return {}; }
inline void end_reads_of_product() {}
inline void release_tensor_maps() {}
inline void acquire_tensor_maps() {}
inline void read_tensor_map(const void*, size_t, Site) {}
inline void fence_async_proxy(bool, bool) {}
inline void begin_tensor_memory(unsigned, unsigned) {}
inline void note_dealloc(unsigned, unsigned, Site) {}
inline void access_tensor_memory(unsigned, unsigned, unsigned, unsigned, bool, Site) {}
inline void use_tensor_memory(const Block&, unsigned, unsigned, unsigned, unsigned, bool, Moment, bool = true) {}
inline void finish_tensor_accesses(bool, Site) {}
inline Moment begin_tensor_operation(Site) { return {}; }
inline Moment last_tensor_operation(Site) { return {}; }
inline void release_tensor_operations(const void*) {}
inline void fence_tensor_memory(bool) {}
inline void read_by_copy(const void*, size_t, Moment) {}
inline void finish(Moment) {}
inline void note_places(const Barrier&, Site) {}
inline void note_exited_lanes(Operation, unsigned, Site) {}
inline void note_named(const Barrier&) {}
inline void check_participants(const Block&, const Barrier&) {}
inline void note_mbarrier_init(const void*, unsigned, Site) {}
inline void note_mbarrier_arrival(const void*, unsigned, unsigned, Site) {}
inline void note_mbarrier_use(const void*, Site) {}
inline void note_mbarrier_end(const void*, Site) {}
inline void fence_mbarrier_init() {}
inline void note_completion_at(const void*, Site) {}
inline void note_store_at_exit(Site) {}

#endif

}  // namespace tkjit::sim::race
