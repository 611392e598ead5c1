// Finds the source line for an address in the kernel's code, using binutils' addr2line if it is installed. Launchers
// are compiled with line tables (tkjit/compile/flags.py), which nothing reads until a kernel fails.
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;

extern "C" {
extern char __ehdr_start[] __attribute__((visibility("hidden")));  // where this shared object begins
extern char etext[] __attribute__((visibility("hidden")));         // and where its code ends
}

namespace tkjit::sim {

/// Returns whether an instruction is in this shared object, in the kernel's own code or the simulator's.
inline bool in_own_code(uintptr_t address) {
    const auto begin = reinterpret_cast<uintptr_t>(__ehdr_start), end = reinterpret_cast<uintptr_t>(etext);
    return address - begin < end - begin;
}

/// Finds this shared object's current path. A launcher is loaded before its directory gets its final name.
inline bool own_path(char* path, size_t bytes) {
    FILE* const maps = fopen("/proc/self/maps", "re");
    if (maps == nullptr) return false;
    bool found = false;
    char* line = nullptr;
    size_t room = 0;
    while (!found && getline(&line, &room, maps) > 0) {
        unsigned long begin = 0, end = 0;
        int at = 0;
        const auto own = reinterpret_cast<unsigned long>(__ehdr_start);
        if (sscanf(line, "%lx-%lx %*s %*s %*s %*s %n", &begin, &end, &at) != 2 || own < begin || own >= end) continue;
        line[strcspn(line, "\n")] = 0;
        found = at != 0 && line[at] == '/' && strlen(line + at) < bytes;
        if (!found) break;
        strcpy(path, line + at);
    }
    free(line);
    fclose(maps);
    return found;
}

/// Reads at most `bytes - 1` bytes of a program's output. Reads nothing if the program cannot be run or takes too long.
inline void output_of(const char* const* command, char* text, size_t bytes) {
    constexpr int patience_ms = 5000;
    text[0] = 0;
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
    posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
    pid_t child;
    const int refused = posix_spawnp(&child, command[0], &actions, nullptr, const_cast<char* const*>(command), environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    for (size_t used = 0; !refused && used + 1 < bytes;) {
        pollfd ready{ends[0], POLLIN, 0};
        const int count = poll(&ready, 1, patience_ms);
        if (count < 0 && errno == EINTR) continue;
        const ssize_t got = count > 0 ? read(ends[0], text + used, bytes - 1 - used) : 0;
        if (count == 0) kill(child, SIGKILL);
        if (got <= 0) break;
        text[used += static_cast<size_t>(got)] = 0;
    }
    close(ends[0]);
    while (!refused && waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
    }
}

/// Returns whether a file is the user's, and does not belong to tkjit, the C++ library or the compiler.
inline bool is_users(const char* file) {
    return file[0] != '?' && strncmp(file, "/usr/", 5) != 0 && strstr(file, "/tkjit/include/tkjit/") == nullptr &&
           strstr(file, "/tkjit/sim/") == nullptr && strncmp(file, "launcher.cu:", 12) != 0;
}

/// Writes `file.cu:7`, or an empty string if the line is unknown. For inlined calls, writes the innermost line that is
/// in one of the user's files.
inline void find_line(uintptr_t instruction, char* place, size_t bytes) {
    place[0] = 0;
    if (instruction == 0) return;
    char path[4096], address[32], printed[4096];
    if (!own_path(path, sizeof path)) return;
    snprintf(address, sizeof address, "0x%zx", size_t(instruction - reinterpret_cast<uintptr_t>(__ehdr_start)));
    const char* const command[] = {"addr2line", "-i", "-e", path, address, nullptr};
    output_of(command, printed, sizeof printed);
    char* rest = printed;
    while (char* const line = strsep(&rest, "\n")) {
        line[strcspn(line, " ")] = 0;  // "(discriminator 2)"
        const char* file = line;
        while (strncmp(file, "./", 2) == 0) file += 2;
        const char* const colon = strrchr(file, ':');
        if (colon == nullptr || atoi(colon + 1) == 0) continue;
        if (strlen(file) < bytes && is_users(file)) {
            strcpy(place, file);
            return;
        }
    }
}

}  // namespace tkjit::sim
