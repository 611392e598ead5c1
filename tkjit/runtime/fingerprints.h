// Checks a cache entry's fingerprint. tkjit/cache/fingerprints.py does the same check but takes three times as long.
#pragma once

#include <sys/stat.h>

#include <array>
#include <charconv>
#include <string>
#include <string_view>
#include <system_error>

namespace tkjit::runtime {

// Returns whether the files are unchanged. Each line is "size mtime_ns ctime_ns inode path", with zeros if there was no
// file. A second thread would not help: starting it in a new process takes as long as it would save for five hundred
// files.
inline bool unchanged(std::string_view lines) {
    const auto nanoseconds = [](const timespec& time) { return time.tv_sec * 1'000'000'000LL + time.tv_nsec; };
    std::string path;
    for (size_t end; (end = lines.find('\n')) != lines.npos; lines.remove_prefix(end + 1)) {
        const char* const line_end = lines.data() + end;
        const char* next = lines.data();
        std::array<long long, 4> expected;
        for (long long& number : expected) {
            const auto [after, error] = std::from_chars(next, line_end, number);
            if (error != std::errc() || after == line_end || *after != ' ') return false;
            next = after + 1;
        }
        path.assign(next, line_end);
        struct stat found;
        if (stat(path.c_str(), &found) != 0) found = {};
        if (expected != std::array{static_cast<long long>(found.st_size), nanoseconds(found.st_mtim),
                                nanoseconds(found.st_ctim), static_cast<long long>(found.st_ino)})
            return false;
    }
    return true;
}

}  // namespace tkjit::runtime
