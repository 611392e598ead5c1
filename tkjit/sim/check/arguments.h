// Reads a launch's arguments from the file that the parent process wrote (tkjit/check/arguments.py), and writes the
// tensors' new contents back.
#pragma once

#include "regions.h"
#ifdef TKJIT_SIM_MEMORY
#include "address_sanitizer.h"
#endif
#ifdef TKJIT_SIM_OVERFLOW
#include "overflow.h"
#endif

#include <tkjit/arg.h>

#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <string>
#include <vector>

namespace tkjit::sim::check {

enum class ArgumentKind : int32_t { scalar, tensor, list, text };

/// The header of each argument in the file; its name and its payload follow.
struct ArgumentHeader {
    ArgumentKind kind;
    int32_t dtype;
    int32_t present;
    int32_t starts_blank;  // an output or scratch, whose bytes are undefined
    int32_t rank;
    int32_t is_output;
    int64_t extents[TKJIT_MAX_RANK];
    int64_t strides[TKJIT_MAX_RANK];
    int64_t name_bytes;
    int64_t payload_bytes;
    int64_t tensor_bytes;  // if these are more, the payload is repeated, in memory that is only mapped lazily
};

#ifdef TKJIT_SIM_OVERFLOW
inline constexpr size_t apart = size_t{64} << 30;  // an index that has wrapped around may be so far off
#else
inline constexpr size_t apart = 64 << 20;
#endif

#ifndef TKJIT_SIM_MEMORY  // the race detector looks up the region of each access, so it needs no fences
inline void fence_off(char*, char*, char*, char*) {}
#endif

/// A tensor in separate memory, far from all other tensors, so that an access outside of it does not hit another one.
struct TensorMemory {
    char* data;
    size_t bytes;
};

class Arguments {
  public:
    bool read(const char* path) {
        const int file = open(path, O_RDONLY);
        if (file < 0) return false;
        for (ssize_t got = 1; got > 0;) {
            char piece[1 << 16];
            got = ::read(file, piece, sizeof(piece));
            if (got > 0) text_.append(piece, static_cast<size_t>(got));
        }
        close(file);
        while (position_ < text_.size()) top_.push_back(next());
        return true;
    }

    const TkjitArg* data() const { return top_.data(); }

    bool write_tensors(const char* path) const {
        const int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        if (file < 0) return false;
        bool whole = true;
        for (const TensorMemory& tensor : tensors_) {
            for (size_t done = 0; done < tensor.bytes && whole;) {
                const ssize_t put = ::write(file, tensor.data + done, tensor.bytes - done);
                whole = put > 0;
                done += whole ? static_cast<size_t>(put) : 0;
            }
        }
        return close(file) == 0 && whole;
    }

  private:
    TkjitArg next() {
        ArgumentHeader header;
        memcpy(&header, text_.data() + position_, sizeof(header));
        position_ += sizeof(header);
        const std::string name = text_.substr(position_, static_cast<size_t>(header.name_bytes));
        position_ += name.size();
        TkjitArg argument{};
        argument.dtype = header.dtype;
        argument.present = header.present;
        argument.rank = header.kind == ArgumentKind::tensor ? header.rank : 0;
        memcpy(argument.extents, header.extents, sizeof(argument.extents));
        memcpy(argument.strides, header.strides, sizeof(argument.strides));
        const char* const payload = text_.data() + position_;
        const size_t bytes = static_cast<size_t>(header.payload_bytes);
        position_ += bytes;
        switch (header.kind) {
            case ArgumentKind::scalar: memcpy(&argument.integer, payload, sizeof(argument.integer)); break;
            case ArgumentKind::tensor: argument.data = place(payload, bytes, name, header); break;
            case ArgumentKind::text: argument.data = texts_.emplace_back(payload, bytes).data(); break;
            case ArgumentKind::list: {
                std::vector<TkjitArg>& items = lists_.emplace_back();
                for (int64_t i = 0; i < header.extents[0]; i++) items.push_back(next());
                argument.data = items.data();
            }
        }
        return argument;
    }

    void* place(const char* payload, size_t payload_bytes, const std::string& name, const ArgumentHeader& header) {
        constexpr size_t page = 4096;  // inaccessible pages are on both sides
        const size_t bytes = static_cast<size_t>(header.tensor_bytes);
        const size_t room = (bytes + 2 * page - 1) / page * page + page;
        char* const reserved = static_cast<char*>(
            mmap(nullptr, room + 2 * apart, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
        if (reserved == MAP_FAILED || mprotect(reserved + apart, room, PROT_READ | PROT_WRITE)) {
            fprintf(stderr, "out of memory for %s\n", name.c_str());
            _exit(2);
        }
        char* const begin = reserved + apart + page;
        if (bytes == payload_bytes) memcpy(begin, payload, bytes);
        else repeat(payload, payload_bytes, begin, bytes);
        fence_off(begin, begin + bytes, reserved + apart, reserved + apart + room);
        add_region(begin, bytes, Space::tensor, name, header.starts_blank, header.is_output);
#ifdef TKJIT_SIM_OVERFLOW
        const auto at = [](const char* place) { return reinterpret_cast<uintptr_t>(place); };
        tensor_places.push_back({at(reserved), at(begin), at(begin + bytes), at(reserved + room + 2 * apart)});
#endif
        tensors_.push_back({begin, bytes});
        return bytes ? begin : nullptr;
    }

    /// Fills memory with copies of a payload, whose size is a multiple of the page's. Only written pages take up memory.
    static void repeat(const char* payload, size_t payload_bytes, char* begin, size_t bytes) {
        if (payload_bytes == 0) return;  // it stays zero
        const int file = memfd_create("payload", 0);
        bool whole = file >= 0 && ::write(file, payload, payload_bytes) == static_cast<ssize_t>(payload_bytes);
        for (size_t done = 0; done < bytes && whole; done += payload_bytes) {
            const size_t piece = std::min(payload_bytes, bytes - done);
            whole = mmap(begin + done, piece, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, file, 0) !=
                    MAP_FAILED;
        }
        if (file >= 0) close(file);
        if (whole) return;
        fprintf(stderr, "the system cannot map a tensor of %zu bytes\n", bytes);
        _exit(2);
    }

    std::string text_;
    size_t position_ = 0;
    std::vector<TkjitArg> top_;
    std::deque<std::vector<TkjitArg>> lists_;
    std::deque<std::string> texts_;
    std::vector<TensorMemory> tensors_;
};

}  // namespace tkjit::sim::check
