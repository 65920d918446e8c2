/* Preloaded into a program, this counts the calls that change something below one directory, and kills the program at
 * one of them or makes it fail.
 *
 *   KILL_ROOT=directory   what counts: calls on paths below it (resolved, without a final slash)
 *   KILL_STDOUT=1         writes to standard output count, too
 *   KILL_LOG=file         gets a line for every counted call: number, name, path (of link and rename: what they make)
 *   KILL_AT=n             SIGKILL before call n
 *   KILL_AFTER=n          SIGKILL after it
 *   FAIL_AT=n FAIL_ERRNO=e   call n does nothing and fails with e
 *   KILL_NOSYNC=1         fsync, fdatasync and syncfs are counted and otherwise left out
 *   KILL_CLOCK=file       holds the seconds by which CLOCK_REALTIME and CLOCK_BOOTTIME are ahead
 *
 * The same name stands in the log for a call and its *at variant.  One thread is assumed.
 *
 *   gcc -shared -fPIC -o killlib.so killlib.c -ldl
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define LONG_PATH 4096

enum fate { UNTOUCHED, COUNTED, FAILS, DIES_AFTER };

static long calls;

static long number(const char *variable)
{
    const char *text = getenv(variable);
    return text ? atol(text) : 0;
}

/* ------------------------------------------------------------------ which calls count */

static void die(void)
{
    kill(getpid(), SIGKILL);
    for (;;)
        pause();
}

static void note(const char *name, const char *path)
{
    const char *file = getenv("KILL_LOG");
    char line[LONG_PATH + 64];
    int length, fd;

    if (!file)
        return;
    length = snprintf(line, sizeof line, "%ld %s %s\n", calls, name, path);
    fd = (int)syscall(SYS_openat, AT_FDCWD, file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd >= 0) {
        syscall(SYS_write, fd, line, (size_t)length);
        syscall(SYS_close, fd);
    }
}

static enum fate count(const char *name, const char *path)
{
    calls++;
    note(name, path);
    if (calls == number("KILL_AT"))
        die();
    if (calls == number("FAIL_AT")) {
        errno = (int)number("FAIL_ERRNO");
        return FAILS;
    }
    return calls == number("KILL_AFTER") ? DIES_AFTER : COUNTED;
}

static int below_root(const char *path)
{
    const char *root = getenv("KILL_ROOT");
    size_t length = root ? strlen(root) : 0;

    return length && !strncmp(path, root, length) && (path[length] == '/' || !path[length]);
}

static void of_descriptor(int fd, char *path)
{
    char link[64];
    ssize_t length;

    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    length = readlink(link, path, LONG_PATH - 1);
    path[length < 0 ? 0 : length] = 0;
}

static enum fate on_path(const char *name, int directory, const char *path)
{
    char above[LONG_PATH] = "", whole[2 * LONG_PATH];

    if (path[0] != '/') {
        if (directory != AT_FDCWD)
            of_descriptor(directory, above);
        else if (!getcwd(above, sizeof above))
            return UNTOUCHED;
    }
    snprintf(whole, sizeof whole, "%s%s%s", above, above[0] ? "/" : "", path);
    return below_root(whole) ? count(name, whole) : UNTOUCHED;
}

static enum fate on_descriptor(const char *name, int fd)
{
    char path[LONG_PATH];

    of_descriptor(fd, path);
    return below_root(path) ? count(name, path) : UNTOUCHED;
}

static enum fate on_output(const char *name, int fd)
{
    if (fd == STDOUT_FILENO && number("KILL_STDOUT"))
        return count("stdout", "");
    return fd == STDOUT_FILENO || fd == STDERR_FILENO ? UNTOUCHED : on_descriptor(name, fd);
}

/* ------------------------------------------------------------------ the calls */

#define REAL(name) \
    static __typeof__(&name) real; \
    if (!real) \
        real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

#define DO(decide, call) \
    do { \
        enum fate fate_ = (decide); \
        __typeof__(call) answer_; \
        if (fate_ == FAILS) \
            return -1; \
        answer_ = (call); \
        if (fate_ == DIES_AFTER) \
            die(); \
        return answer_; \
    } while (0)

#define CHANGES(flags) ((flags) & O_CREAT || ((flags) & O_ACCMODE) != O_RDONLY)

#define MODE(flags) \
    mode_t mode = 0; \
    if ((flags) & (O_CREAT | __O_TMPFILE)) { \
        va_list rest; \
        va_start(rest, flags); \
        mode = va_arg(rest, mode_t); \
        va_end(rest); \
    }

int open(const char *path, int flags, ...)
{
    MODE(flags)
    REAL(open);
    DO(CHANGES(flags) ? on_path("open", AT_FDCWD, path) : UNTOUCHED, real(path, flags, mode));
}

int open64(const char *path, int flags, ...)
{
    MODE(flags)
    REAL(open64);
    DO(CHANGES(flags) ? on_path("open", AT_FDCWD, path) : UNTOUCHED, real(path, flags, mode));
}

int openat(int directory, const char *path, int flags, ...)
{
    MODE(flags)
    REAL(openat);
    DO(CHANGES(flags) ? on_path("open", directory, path) : UNTOUCHED, real(directory, path, flags, mode));
}

int openat64(int directory, const char *path, int flags, ...)
{
    MODE(flags)
    REAL(openat64);
    DO(CHANGES(flags) ? on_path("open", directory, path) : UNTOUCHED, real(directory, path, flags, mode));
}

ssize_t write(int fd, const void *data, size_t size)
{
    REAL(write);
    DO(on_output("write", fd), real(fd, data, size));
}

ssize_t writev(int fd, const struct iovec *parts, int many)
{
    REAL(writev);
    DO(on_output("write", fd), real(fd, parts, many));
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t at)
{
    REAL(pwrite);
    DO(on_descriptor("pwrite", fd), real(fd, data, size, at));
}

ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at)
{
    REAL(pwrite64);
    DO(on_descriptor("pwrite", fd), real(fd, data, size, at));
}

int ftruncate(int fd, off_t size)
{
    REAL(ftruncate);
    DO(on_descriptor("ftruncate", fd), real(fd, size));
}

int ftruncate64(int fd, off64_t size)
{
    REAL(ftruncate64);
    DO(on_descriptor("ftruncate", fd), real(fd, size));
}

int fsync(int fd)
{
    REAL(fsync);
    DO(on_descriptor("fsync", fd), number("KILL_NOSYNC") ? 0 : real(fd));
}

int fdatasync(int fd)
{
    REAL(fdatasync);
    DO(on_descriptor("fsync", fd), number("KILL_NOSYNC") ? 0 : real(fd));
}

int syncfs(int fd)
{
    REAL(syncfs);
    DO(on_descriptor("syncfs", fd), number("KILL_NOSYNC") ? 0 : real(fd));
}

int link(const char *source, const char *target)
{
    REAL(link);
    DO(on_path("link", AT_FDCWD, target), real(source, target));
}

int linkat(int from, const char *source, int to, const char *target, int flags)
{
    REAL(linkat);
    DO(on_path("link", to, target), real(from, source, to, target, flags));
}

int rename(const char *source, const char *target)
{
    REAL(rename);
    DO(on_path("rename", AT_FDCWD, target), real(source, target));
}

int renameat(int from, const char *source, int to, const char *target)
{
    REAL(renameat);
    DO(on_path("rename", to, target), real(from, source, to, target));
}

int renameat2(int from, const char *source, int to, const char *target, unsigned int flags)
{
    REAL(renameat2);
    DO(on_path("rename", to, target), real(from, source, to, target, flags));
}

int unlink(const char *path)
{
    REAL(unlink);
    DO(on_path("unlink", AT_FDCWD, path), real(path));
}

int unlinkat(int directory, const char *path, int flags)
{
    REAL(unlinkat);
    DO(on_path(flags & AT_REMOVEDIR ? "rmdir" : "unlink", directory, path), real(directory, path, flags));
}

int mkdir(const char *path, mode_t mode)
{
    REAL(mkdir);
    DO(on_path("mkdir", AT_FDCWD, path), real(path, mode));
}

int mkdirat(int directory, const char *path, mode_t mode)
{
    REAL(mkdirat);
    DO(on_path("mkdir", directory, path), real(directory, path, mode));
}

int rmdir(const char *path)
{
    REAL(rmdir);
    DO(on_path("rmdir", AT_FDCWD, path), real(path));
}

/* ------------------------------------------------------------------ the clocks */

int clock_gettime(clockid_t clock, struct timespec *now)
{
    const char *file = getenv("KILL_CLOCK");
    char text[32];
    ssize_t length;
    int failed, fd;

    REAL(clock_gettime);
    failed = real(clock, now);
    if (failed || !file || (clock != CLOCK_REALTIME && clock != CLOCK_BOOTTIME))
        return failed;
    fd = (int)syscall(SYS_openat, AT_FDCWD, file, O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0)
        return failed;
    length = syscall(SYS_read, fd, text, sizeof text - 1);
    syscall(SYS_close, fd);
    if (length > 0) {
        text[length] = 0;
        now->tv_sec += atol(text);
    }
    return failed;
}
