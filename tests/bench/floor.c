/* The floor: the system calls that a verb makes, made by C and nothing else.
 *
 * usage: floor ROW DIRECTORY COUNT      ROW: send send-full claim-ack links
 * Prints one number a line: microseconds of each round.  The directory exists and is empty; nothing is cleaned up.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static char body[1000];

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}

static void must(int result, const char *what)
{
    if (result < 0) {
        perror(what);
        exit(1);
    }
}

static void path(char *out, const char *directory, int i, const char *stamp)
{
    snprintf(out, 200, "%s/01a22e46-7f03-77dd-b1c6-%012d%s.json", directory, i, stamp);
}

static void sync_directory(const char *name)
{
    int fd = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    must(fd, name);
    must(fsync(fd), "fsync");
    close(fd);
}

static void write_file(const char *name, int full)
{
    int fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    must(fd, name);
    must((int)write(fd, body, sizeof body), "write");
    if (full)
        must(fsync(fd), "fsync");
    must(close(fd), "close");
}

static void send_one(int i, int full)
{
    char draft[200], anchor[200], new[200];
    path(draft, "tmp", i, "");
    path(anchor, "messages", i, "");
    path(new, "new", i, "");
    write_file(draft, full);
    must(link(draft, anchor), "link");
    must(rename(draft, new), "rename");
    if (full)
        sync_directory("new");
}

static void read_file(const char *name)
{
    static char into[4096];
    struct stat info;
    int fd = open(name, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
    must(fd, name);
    must(fstat(fd, &info), "fstat");
    must((int)read(fd, into, info.st_size), "read");
    must(close(fd), "close");
}

static void claim_ack(int i)
{
    char new[200], claimed[200], acked[200], anchor[200];
    struct stat info;
    path(new, "new", i, "");
    path(anchor, "messages", i, "");
    read_file(new);
    must(lstat(new, &info), "lstat");
    must(lstat(anchor, &info), "lstat");
    must(stat("messages", &info), "stat");
    path(claimed, "claimed", i, "~n1~x20261130T184712.123Z~b0123456789abcdef-123456789~wworker");
    path(acked, "acked", i, "~r20261130T184712.123Z~n1~a20261130T184712.123Z");
    must(rename(new, claimed), "claim");
    must(rename(claimed, acked), "ack");
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return 64;
    int count = atoi(argv[3]);
    char name[200], to[200];
    must(chdir(argv[2]), argv[2]);
    for (const char **d = (const char *[]){"tmp", "new", "claimed", "acked", "messages", NULL}; *d; d++)
        must(mkdir(*d, 0700), *d);
    memset(body, 'x', sizeof body);
    if (!strcmp(argv[1], "links")) {
        write_file("body", 0);
        for (int i = 0; i < count; i++) {
            snprintf(name, 200, "box%d", i);
            must(mkdir(name, 0700), name);
        }
        double start = now();
        for (int i = 0; i < count; i++) {
            snprintf(name, 200, "tmp/%d", i);
            snprintf(to, 200, "box%d/message", i);
            must(link("body", name), "link");
            must(rename(name, to), "rename");
        }
        printf("%.1f\n", now() - start);
        return 0;
    }
    int claim = !strcmp(argv[1], "claim-ack"), full = !strcmp(argv[1], "send-full");
    for (int i = 0; claim && i < count; i++)
        send_one(i, 0);
    for (int i = 0; i < count; i++) {
        double start = now();
        if (claim)
            claim_ack(i);
        else
            send_one(i, full);
        printf("%.1f\n", now() - start);
    }
    return 0;
}
