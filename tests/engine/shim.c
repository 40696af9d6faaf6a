/* Preloaded under a storage tool: keeps a log of each pread64 and pwrite64 of one length that no
 * histogram of ours has touched, and lets these calls take a known time.
 *
 *   SHIM_LENGTH_BYTES  calls of this length are meant; all others pass untouched
 *   SHIM_LOG           file that gets (begin, end) of each call, as two u64 of CLOCK_MONOTONIC ns
 *   SHIM_TAKE_US       each call takes at least so long, awake
 *   SHIM_SLOW_EVERY    every so many-th call takes SHIM_SLOW_US instead
 *   SHIM_FREEZE_CALL   from this call on (counted from 1) nothing ends for SHIM_FREEZE_MS
 *   SHIM_FREEZE_ONE    only that one call is frozen, those of other threads are not
 *   SHIM_BREAKS        a signal breaks a frozen call off with EINTR, as on a network file system
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define LOGGED_MAX (1 << 21)

typedef ssize_t (*read_call)(int, void *, size_t, off64_t);
typedef ssize_t (*write_call)(int, const void *, size_t, off64_t);

static struct {
    size_t length_bytes;
    const char *log;
    uint64_t take_ns, slow_every, slow_ns, freeze_call, freeze_ns;
    int freeze_one, breaks;
} shim;

static struct { uint64_t begin_ns, end_ns; } logged[LOGGED_MAX];
static atomic_uint_fast64_t calls, thaw_ns;
static read_call real_read;
static write_call real_write;

static uint64_t setting(const char *name) {
    const char *value = getenv(name);
    return value ? strtoull(value, NULL, 10) : 0;
}

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

__attribute__((constructor)) static void begin(void) {
    real_read = (read_call)dlsym(RTLD_NEXT, "pread64");
    real_write = (write_call)dlsym(RTLD_NEXT, "pwrite64");
    shim.length_bytes = setting("SHIM_LENGTH_BYTES");
    shim.log = getenv("SHIM_LOG");
    shim.take_ns = setting("SHIM_TAKE_US") * 1000;
    shim.slow_every = setting("SHIM_SLOW_EVERY");
    shim.slow_ns = setting("SHIM_SLOW_US") * 1000;
    shim.freeze_call = setting("SHIM_FREEZE_CALL");
    shim.freeze_ns = setting("SHIM_FREEZE_MS") * 1000000;
    shim.freeze_one = setting("SHIM_FREEZE_ONE") != 0;
    shim.breaks = setting("SHIM_BREAKS") != 0;
}

__attribute__((destructor)) static void write_log(void) {
    uint64_t count = atomic_load(&calls);
    if (!shim.log || count == 0)
        return;
    FILE *file = fopen(shim.log, "wb");
    if (file) {
        fwrite(logged, sizeof logged[0], count < LOGGED_MAX ? count : LOGGED_MAX, file);
        fclose(file);
    }
}

/* Sleeps while everything is frozen; -1 when a signal breaks that off and may. */
static int stay_frozen(uint64_t until_ns) {
    struct timespec until = {
        .tv_sec = (time_t)(until_ns / 1000000000u), .tv_nsec = (long)(until_ns % 1000000000u)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR) {
        if (shim.breaks) {
            errno = EINTR;
            return -1;
        }
    }
    return 0;
}

static int hold(uint64_t call, uint64_t begin_ns) {
    if (call == shim.freeze_call) {
        if (shim.freeze_one)
            return stay_frozen(begin_ns + shim.freeze_ns);
        atomic_store(&thaw_ns, begin_ns + shim.freeze_ns);
    }
    if (begin_ns < atomic_load(&thaw_ns) && stay_frozen(atomic_load(&thaw_ns)) != 0)
        return -1;
    int is_slow = shim.slow_every && call % shim.slow_every == 0;
    uint64_t take_ns = is_slow ? shim.slow_ns : shim.take_ns;
    while (now_ns() - begin_ns < take_ns) {
    }
    return 0;
}

static void note(uint64_t call, uint64_t begin_ns) {
    if (call <= LOGGED_MAX) {
        logged[call - 1].begin_ns = begin_ns;
        logged[call - 1].end_ns = now_ns();
    }
}

ssize_t pread64(int fd, void *buffer, size_t length, off64_t offset) {
    if (length != shim.length_bytes)
        return real_read(fd, buffer, length, offset);
    uint64_t begin_ns = now_ns(), call = atomic_fetch_add(&calls, 1) + 1;
    ssize_t moved = real_read(fd, buffer, length, offset);
    if (hold(call, begin_ns) != 0)
        moved = -1;
    note(call, begin_ns);
    return moved;
}

ssize_t pwrite64(int fd, const void *buffer, size_t length, off64_t offset) {
    if (length != shim.length_bytes)
        return real_write(fd, buffer, length, offset);
    uint64_t begin_ns = now_ns(), call = atomic_fetch_add(&calls, 1) + 1;
    ssize_t moved = real_write(fd, buffer, length, offset);
    if (hold(call, begin_ns) != 0)
        moved = -1;
    note(call, begin_ns);
    return moved;
}
