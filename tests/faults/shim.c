/* Preloaded: lets writes and renames below $FAULT_FOLDER fail as a filesystem does that is far away or over quota.
   FAULT_BYTES: how many bytes may be written there, then EDQUOT. FAULT_RENAME: the number of the rename that is done
   and answered with EIO, as over a network that lost the answer. FAULT_SYNC, FAULT_CLOSE: the number of the fsync, or
   of the close of a file that was written, that fails with EDQUOT, as where a server says so late. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <unistd.h>

static long spent, renames, syncs, closes;

static int is_there(int fd)
{
    char link[64], path[PATH_MAX];
    const char *folder = getenv("FAULT_FOLDER");
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (!folder || length < 0)
        return 0;
    path[length] = 0;
    return strncmp(path, folder, strlen(folder)) == 0;
}

static int is_spent(int fd, size_t count)
{
    const char *most = getenv("FAULT_BYTES");
    if (!most || !is_there(fd))
        return 0;
    spent += count;
    if (spent <= atol(most))
        return 0;
    errno = EDQUOT;
    return 1;
}

ssize_t write(int fd, const void *data, size_t count)
{
    ssize_t (*real)(int, const void *, size_t) = dlsym(RTLD_NEXT, "write");
    return is_spent(fd, count) ? -1 : real(fd, data, count);
}

ssize_t pwrite64(int fd, const void *data, size_t count, off64_t at)
{
    ssize_t (*real)(int, const void *, size_t, off64_t) = dlsym(RTLD_NEXT, "pwrite64");
    return is_spent(fd, count) ? -1 : real(fd, data, count, at);
}

ssize_t sendfile64(int to, int from, off64_t *at, size_t count)
{
    ssize_t (*real)(int, int, off64_t *, size_t) = dlsym(RTLD_NEXT, "sendfile64");
    return is_spent(to, count < 65536 ? count : 65536) ? -1 : real(to, from, at, count);
}

ssize_t sendfile(int to, int from, off_t *at, size_t count)
{
    ssize_t (*real)(int, int, off_t *, size_t) = dlsym(RTLD_NEXT, "sendfile");
    return is_spent(to, count < 65536 ? count : 65536) ? -1 : real(to, from, at, count);
}

int rename(const char *old, const char *new)
{
    int (*real)(const char *, const char *) = dlsym(RTLD_NEXT, "rename");
    const char *number = getenv("FAULT_RENAME"), *folder = getenv("FAULT_FOLDER");
    char path[PATH_MAX];
    if (number && folder && realpath(old, path) && strncmp(path, folder, strlen(folder)) == 0
        && ++renames == atol(number)) {
        real(old, new);
        errno = EIO;
        return -1;
    }
    return real(old, new);
}

static int is_late(int fd, const char *variable, long *count)
{
    const char *number = getenv(variable);
    return number && is_there(fd) && ++*count == atol(number);
}

int fsync(int fd)
{
    int (*real)(int) = dlsym(RTLD_NEXT, "fsync");
    if (is_late(fd, "FAULT_SYNC", &syncs)) {
        errno = EDQUOT;
        return -1;
    }
    return real(fd);
}

int close(int fd)
{
    int (*real)(int) = dlsym(RTLD_NEXT, "close");
    int flags = getenv("FAULT_CLOSE") ? fcntl(fd, F_GETFL) : -1;
    if (flags != -1 && (flags & O_ACCMODE) != O_RDONLY && is_late(fd, "FAULT_CLOSE", &closes)) {
        real(fd);
        errno = EDQUOT;
        return -1;
    }
    return real(fd);
}
