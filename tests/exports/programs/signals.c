/* While a kernel runs in several threads, checks which signals the simulator's threads block. */
#include <zoo.h>

#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

static volatile sig_atomic_t done;
static long launcher;

static void* run(void* failed) {
    const int64_t sizes[] = {768, 768};
    tkjit_tensor a, c = {0};
    int i;
    launcher = syscall(SYS_gettid);
    if (tkjit_tensor_new(&a, TKJIT_FLOAT32, tkjit_cpu(), 2, sizes)) return failed;
    for (i = 0; i < 768 * 768; ++i) ((float*)a.data)[i] = 1;
    for (i = 0; i < 3; ++i)
        if (zoo_gemm(&a, &a, &c, NULL) || ((float*)c.data)[77] != 768) return failed;
    tkjit_free_error(tkjit_tensor_free(&a));
    tkjit_free_error(tkjit_tensor_free(&c));
    done = 1;
    return NULL;
}

/* The signals that a thread blocks; all signals if it has ended. */
static unsigned long long blocked(const char* thread) {
    char path[64], line[256];
    unsigned long long mask = ~0ull;
    FILE* file;
    snprintf(path, sizeof path, "/proc/self/task/%.20s/status", thread);
    file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "SigBlk: %llx", &mask) == 1) break;
    if (file) fclose(file);
    return mask;
}

static int is_in(unsigned long long mask, int number) { return mask >> (number - 1) & 1; }

int main(void) {
    pthread_t thread;
    void* failed = NULL;
    int seen = 0, wrong = 0;
    if (pthread_create(&thread, NULL, run, (void*)&launcher)) return 1;
    while (!done) {
        DIR* const directory = opendir("/proc/self/task");
        struct dirent* entry;
        while (directory && (entry = readdir(directory))) {
            const long id = atol(entry->d_name);
            unsigned long long mask;
            if (id == 0 || id == getpid() || id == launcher || !launcher) continue;
            mask = blocked(entry->d_name);
            if (mask == ~0ull) continue;
            ++seen;
            /* the signals of a Go runtime, a timer and a terminal */
            wrong += !is_in(mask, SIGURG) || !is_in(mask, SIGPROF) || !is_in(mask, SIGINT);
        }
        if (directory) closedir(directory);
        usleep(1000);
    }
    pthread_join(thread, &failed);
    if (failed) return 2;
    printf("%s, %s\n", seen ? "seen" : "none seen", wrong ? "not blocked" : "blocked");
    return 0;
}
