// Blocks that share an OS thread. While one waits for others, another continues, or a new one begins.
//
// A device runs many blocks at the same time, and they may wait for each other. With one OS thread per block (a
// thousand blocks on eight devices), the waiting blocks would take most of the time on a machine with few CPUs. A block
// stays on its OS thread, whose thread-local variables are the block's registers and its static shared memory.
#pragma once

#include "../detail/block.h"
#include "launch_state.h"

#include <link.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

namespace tkjit::sim {

/// The thread-local variables that belong to this shared object, in the calling OS thread.
struct ThreadLocals {
    char* begin;
    size_t bytes;  // 0 if the C library does not report it
};

inline ThreadLocals own_thread_locals() {
    ThreadLocals found{};
    const auto look = [](dl_phdr_info* object, size_t, void* result) {
        char* const begin = static_cast<char*>(object->dlpi_tls_data);
        const auto place = reinterpret_cast<uintptr_t>(&current_block) - reinterpret_cast<uintptr_t>(begin);
        for (int i = 0; begin && i < object->dlpi_phnum; i++) {
            const auto& header = object->dlpi_phdr[i];
            if (header.p_type != PT_TLS || place >= header.p_memsz) continue;
            *static_cast<ThreadLocals*>(result) = {begin, header.p_memsz};
            return 1;
        }
        return 0;
    };
    dl_iterate_phdr(look, &found);
    return found;
}

/// The blocks that have given up an OS thread. The first one has waited longest.
class ParkedBlocks {
  public:
    explicit ParkedBlocks(Launch& launch) : launch_(launch) {}
    ParkedBlocks(const ParkedBlocks&) = delete;
    ParkedBlocks& operator=(const ParkedBlocks&) = delete;

    bool is_empty() const { return first_ == nullptr; }

    /// Returns whether a new block may begin in addition to those that wait.
    bool has_room() const {
        return !__atomic_load_n(&launch_.lacks_room, __ATOMIC_RELAXED) &&
               __atomic_load_n(&launch_.next_block, __ATOMIC_RELAXED) < launch_.block_count &&
               __atomic_load_n(&launch_.running, __ATOMIC_RELAXED) < most_begun_blocks;
    }

    /// Returns whether the running block may give up the OS thread, because there is another block to take it.
    bool can_take(Block& block) {
        if (is_empty() && !has_room()) return false;
        if (has_memory_for(block)) return true;
        __atomic_store_n(&launch_.lacks_room, 1, __ATOMIC_RELAXED);
        return false;
    }

    void put(Block& block) {
        memcpy(block.thread_locals, locals_.begin, locals_.bytes);
        current_thread = nullptr;
        current_block = nullptr;
        block.next_parked = nullptr;
        (first_ ? last_->next_parked : first_) = &block;
        last_ = &block;
        count_++;
    }

    /// Takes the block that has waited longest, and restores the block's variables.
    Block& take() {
        Block& block = drop();
        memcpy(locals_.begin, block.thread_locals, locals_.bytes);
        return block;
    }

    /// Takes a block that will not be continued.
    Block& drop() {
        Block& block = *first_;
        first_ = block.next_parked;
        count_--;
        return block;
    }

    /// Counts a turn. Returns whether all blocks have had a turn since something last happened.
    bool have_all_waited(bool in_vain) {
        turns_in_vain_ = in_vain ? turns_in_vain_ + 1 : 0;
        if (turns_in_vain_ < count_) return false;
        turns_in_vain_ = 0;
        return true;
    }

  private:
    bool has_memory_for(Block& block) {
        if (locals_.bytes == 0) locals_ = own_thread_locals();
        if (block.thread_local_bytes >= locals_.bytes) return locals_.bytes != 0;
        void* const memory = realloc(block.thread_locals, locals_.bytes);
        if (memory == nullptr) return false;
        block.thread_locals = static_cast<char*>(memory);
        block.thread_local_bytes = locals_.bytes;
        return true;
    }

    Launch& launch_;
    ThreadLocals locals_{};
    Block *first_ = nullptr, *last_ = nullptr;
    unsigned count_ = 0, turns_in_vain_ = 0;
};

}  // namespace tkjit::sim
