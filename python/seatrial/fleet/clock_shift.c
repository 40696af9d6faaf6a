/* Shifts the time of day seen by the processes of a lab's host by the value in a shared file.
 *
 * Loaded before libc (LD_PRELOAD). The machine's own clock is not set, and monotonic clocks are not
 * shifted, as on a host whose clock is set.
 * Source: clock_gettime(2), ld.so(8).
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile long long *shift_ns;
static int (*plain)(clockid_t, struct timespec *);

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("SEATRIAL_LAB_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    plain = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    if (file < 0)
        return;
    void *mapped = mmap(0, sizeof *shift_ns, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (mapped != MAP_FAILED)
        shift_ns = mapped;
}

int clock_gettime(clockid_t clock, struct timespec *found)
{
    int failed = plain ? plain(clock, found) : (int)syscall(SYS_clock_gettime, clock, found);
    if (failed || !shift_ns || (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE))
        return failed;
    long long now_ns = found->tv_sec * 1000000000LL + found->tv_nsec + *shift_ns;
    found->tv_sec = now_ns / 1000000000LL;
    found->tv_nsec = now_ns % 1000000000LL;
    return 0;
}

int gettimeofday(struct timeval *restrict found, void *restrict zone)
{
    struct timespec now;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &now))
        return -1;
    found->tv_sec = now.tv_sec;
    found->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *found)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (found)
        *found = now.tv_sec;
    return now.tv_sec;
}
