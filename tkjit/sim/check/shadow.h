// Shadow memory: stores the last writer of each memory location, and readers since then.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <unordered_map>
#include <vector>

namespace tkjit::sim::race {

// `asynchronous` is the read of an asynchronous operation, or its write once it has landed. `block_atomic` and
// `cluster_atomic` are atomic only for threads of the same block or cluster.
enum Kind : unsigned char {
    none = 0,
    plain = 1,
    atomic = 2,
    pending_copy = 3,
    volatile_access = 4,
    asynchronous = 5,
    block_atomic = 6,
    map_read = 7,  // of a tensor map, by a copy
    cluster_atomic = 8,
    mbarrier_use = 9,  // an mbarrier's initialisation, and the operations on it
};

struct Access {
    unsigned launch, block, clock, where;
    unsigned short thread;
    Kind kind;
};

/// The accesses to a piece of memory. Keeps four readers. If the writer does not know about some reader, that reader is
/// then likely to be among the four.
struct Cell {
    static constexpr unsigned readers = 4;
    Access write;   // the last plain one
    Access update;  // the last atomic or volatile one
    Access reads[readers];
};

/// The cells for a page: one for every four bytes, or smaller ones once an access touches only part of such a cell.
class Page {
  public:
    static constexpr uintptr_t bytes = 4096;

    Page() : cells_(bytes >> shift_) {}

    unsigned granule() const { return 1u << shift_; }
    Cell& cell(uintptr_t address) { return cells_[address % bytes >> shift_]; }

    /// Makes the cells small enough that an access never covers only part of one.
    void refine(uintptr_t begin, uintptr_t end) {
        while (shift_ > 0 && (begin | end) & (granule() - 1)) {
            std::vector<Cell> finer(2 * cells_.size());
            for (size_t i = 0; i < finer.size(); i++) finer[i] = cells_[i / 2];
            cells_.swap(finer);
            shift_--;
        }
    }

  private:
    unsigned shift_ = 2;
    std::vector<Cell> cells_;
};

class Shadow {
  public:
    /// Calls `visit(cell, address, bytes)` for each piece of a range.
    template <class Visit>
    void for_each(uintptr_t begin, size_t bytes, Visit visit) {
        for (const uintptr_t end = begin + bytes; begin < end;) {
            Page& page = page_of(begin);
            const uintptr_t page_end = (begin | (Page::bytes - 1)) + 1;
            const uintptr_t stop = end < page_end ? end : page_end;
            page.refine(begin, stop);
            for (; begin < stop; begin += page.granule()) visit(page.cell(begin), begin, page.granule());
        }
    }

    /// Forgets all accesses to a range. Visits only memory that was ever accessed, because a range may be huge.
    void clear(uintptr_t begin, size_t bytes) {
        for (const uintptr_t end = begin + bytes; begin < end;) {
            const uintptr_t page_end = (begin | (Page::bytes - 1)) + 1, stop = end < page_end ? end : page_end;
            if (pages_.count(begin / Page::bytes)) {
                for_each(begin, stop - begin, [](Cell& cell, uintptr_t, unsigned) { cell = {}; });
            }
            begin = stop;
        }
    }

  private:
    Page& page_of(uintptr_t address) {
        const uintptr_t number = address / Page::bytes;
        if (last_ == nullptr || number != last_number_) {
            last_ = &pages_[number];
            last_number_ = number;
        }
        return *last_;
    }

    std::unordered_map<uintptr_t, Page> pages_;
    Page* last_ = nullptr;
    uintptr_t last_number_ = 0;
};

}  // namespace tkjit::sim::race
