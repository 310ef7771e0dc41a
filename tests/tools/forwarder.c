/* A forwarder with known properties, to test the tester: forwarder LEFT RIGHT SOCKET KEY=VALUE ...
 *
 * Frames from LEFT leave on RIGHT; those from RIGHT leave on LEFT unchanged and at once. Keys (0 or absent: off):
 *   rate=N        serves N frames a second, one after the other
 *   queue=N       of which N may wait; more are dropped (default 1000)
 *   delay=NS      adds a fixed delay in nanoseconds
 *   jitter=NS     adds 0 to NS nanoseconds, by a fixed pseudorandom sequence; frames may overtake
 *   drop=N, twice=N, swap=N, flip=N, cut=N, sum=N
 *                 every Nth frame: dropped; sent twice; exchanged with the next one; its last byte changed; its last 4 bytes
 *                 removed; its UDP checksum changed
 *   after=N     leaves the first N frames alone, for a tester's warm-up
 *
 * What is dropped follows from the times at which the kernel received the frames, not from when this program ran: rate and
 * queue are exact even if it had to wait for a processor. Then a frame can leave too late, but never too early.
 *
 * `forwarder SOCKET` prints the counters of a running forwarder, as soon as no frame is delayed. `delayed` is the sum of the
 * times in nanoseconds from the arrival of each frame in the kernel until it was sent.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { FRAMES = 1 << 15, ROOM = 2048 };

struct frame {
    uint64_t arrived; /* nanoseconds of CLOCK_REALTIME at which the kernel received it */
    uint64_t at; /* nanoseconds of CLOCK_REALTIME at which it leaves */
    int len;
    uint8_t bytes[ROOM];
};

/* A heap of frames by their time; frames of the same time keep their order. */
static struct frame *heap[FRAMES], *spare[FRAMES];
static uint64_t order[FRAMES];
static int waiting, spares;
static uint64_t came, left, dropped, doubled, swapped, flipped, cuts, sums, full, delayed;

static void die(const char *what) {
    perror(what);
    exit(1);
}

static uint64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static int port(const char *name) {
    int on = 1, room = 64 << 20, fd = socket(AF_PACKET, SOCK_RAW, 0);
    struct sockaddr_ll to = { .sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL), .sll_ifindex = if_nametoindex(name) };
    if (fd < 0 || !to.sll_ifindex)
        die(name);
    if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof room))
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
    setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on);
    setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof on);
    setsockopt(fd, SOL_PACKET, PACKET_QDISC_BYPASS, &on, sizeof on);
    if (bind(fd, (struct sockaddr *)&to, sizeof to))
        die(name);
    return fd;
}

/* Receives a frame; returns the time at which the kernel received it, or 0. */
static uint64_t receive(int fd, struct frame *f) {
    union {
        char room[128];
        struct cmsghdr align;
    } control;
    struct iovec io = { f->bytes, ROOM };
    struct msghdr m = { .msg_iov = &io, .msg_iovlen = 1, .msg_control = control.room, .msg_controllen = sizeof control };
    uint64_t at = 0;
    f->len = recvmsg(fd, &m, MSG_DONTWAIT);
    if (f->len < 0)
        return 0;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c))
        if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_TIMESTAMPNS) {
            struct timespec t;
            memcpy(&t, CMSG_DATA(c), sizeof t);
            at = t.tv_sec * 1000000000ull + t.tv_nsec;
        }
    return at ? at : now();
}

static int before(int a, int b) {
    return heap[a]->at != heap[b]->at ? heap[a]->at < heap[b]->at : order[a] < order[b];
}

static void exchange(int a, int b) {
    struct frame *f = heap[a];
    uint64_t n = order[a];
    heap[a] = heap[b], order[a] = order[b];
    heap[b] = f, order[b] = n;
}

static void push(struct frame *f) {
    static uint64_t number;
    int i = waiting++;
    heap[i] = f, order[i] = number++;
    for (; i && before(i, (i - 1) / 2); i = (i - 1) / 2)
        exchange(i, (i - 1) / 2);
}

static struct frame *pop(void) {
    struct frame *f = heap[0];
    exchange(0, --waiting);
    for (int i = 0;;) {
        int least = i;
        for (int child = 2 * i + 1; child <= 2 * i + 2; child++)
            if (child < waiting && before(child, least))
                least = child;
        if (least == i)
            return f;
        exchange(i, least);
        i = least;
    }
}

static struct frame *take(void) {
    return spares ? spare[--spares] : NULL;
}

static uint64_t key(char **words, const char *name, uint64_t none) {
    size_t n = strlen(name);
    for (; *words; words++)
        if (!strncmp(*words, name, n) && (*words)[n] == '=')
            return strtoull(*words + n + 1, NULL, 10);
    return none;
}

static struct sockaddr_un local(const char *path) {
    struct sockaddr_un at = { .sun_family = AF_UNIX };
    strncpy(at.sun_path, path, sizeof at.sun_path - 1);
    return at;
}

static int show(const char *path) {
    struct sockaddr_un at = local(path);
    char text[1024];
    int n, s = socket(AF_UNIX, SOCK_STREAM, 0);
    if (connect(s, (struct sockaddr *)&at, sizeof at))
        die(path);
    while ((n = read(s, text, sizeof text)) > 0)
        fwrite(text, 1, n, stdout);
    return 0;
}

#define EVERY(n) ((n) && came > after && came % (n) == 0)

int main(int words, char **word) {
    if (words == 2)
        return show(word[1]);
    if (words < 4)
        return fprintf(stderr, "forwarder LEFT RIGHT SOCKET KEY=VALUE ...\n"), 2;
    int in = port(word[1]), out = port(word[2]), asked = socket(AF_UNIX, SOCK_STREAM, 0);
    struct sockaddr_un at = local(word[3]);
    if (bind(asked, (struct sockaddr *)&at, sizeof at) || listen(asked, 8))
        die(word[3]);
    char **keys = word + 4;
    uint64_t rate = key(keys, "rate", 0), queue = key(keys, "queue", 1000), delay = key(keys, "delay", 0);
    uint64_t jitter = key(keys, "jitter", 0), drop = key(keys, "drop", 0), twice = key(keys, "twice", 0);
    uint64_t swap = key(keys, "swap", 0), flip = key(keys, "flip", 0), cut = key(keys, "cut", 0);
    uint64_t sum = key(keys, "sum", 0), after = key(keys, "after", 0), random = 1;
    double each = rate ? 1e9 / rate : 0, free_at = 0;
    for (int i = 0; i < FRAMES; i++)
        if (!(spare[spares++] = malloc(sizeof(struct frame))))
            die("memory");
    puts("it forwards"), fflush(stdout);
    struct frame back, *held = NULL;
    for (;;) {
        struct frame *f;
        uint64_t arrived;
        for (int n = 0; n < 64 && (f = take()); n++) {
            if (!(arrived = receive(in, f))) {
                spare[spares++] = f;
                break;
            }
            came++;
            /* The frames still to be served at its arrival. */
            double wait = free_at > arrived ? free_at - arrived : 0;
            if (EVERY(drop) || (rate && wait / each >= queue)) {
                if (EVERY(drop))
                    dropped++;
                else
                    full++;
                spare[spares++] = f;
                continue;
            }
            free_at = arrived + wait + each;
            random = random * 6364136223846793005ull + 1442695040888963407ull;
            f->arrived = arrived;
            f->at = (uint64_t)free_at + delay + (jitter ? (random >> 33) % (jitter + 1) : 0);
            /* At most one thing happens to a frame, however many frames come. */
            int intact = 0;
            if (EVERY(flip))
                f->bytes[f->len - 1] ^= 1, flipped++;
            else if (EVERY(cut))
                f->len -= 4, cuts++;
            else if (EVERY(sum))
                f->bytes[40] ^= 1, sums++;
            else
                intact = 1;
            if (intact && EVERY(twice) && spares) {
                struct frame *copy = take();
                *copy = *f;
                doubled++;
                push(f), push(copy);
            } else if (intact && EVERY(swap) && !held) {
                held = f;
            } else {
                push(f);
                if (held) {
                    /* A damaged frame that overtakes another one does not count: it is not received. */
                    held->at = f->at, swapped += intact;
                    push(held), held = NULL;
                }
            }
        }
        while (waiting && heap[0]->at <= now()) {
            f = pop();
            while (send(out, f->bytes, f->len, 0) < 0 && (errno == ENOBUFS || errno == EAGAIN))
                ;
            left++, delayed += now() - f->arrived;
            spare[spares++] = f;
        }
        while (receive(out, &back))
            send(in, back.bytes, back.len, 0);
        /* Sleeps only if nothing is delayed: it must not be late. */
        struct pollfd all[] = { { in, POLLIN, 0 }, { out, POLLIN, 0 }, { asked, POLLIN, 0 } };
        poll(all, 3, waiting ? 0 : 10);
        if (all[2].revents && !waiting) {
            int who = accept(asked, NULL, NULL);
            dprintf(who,
                    "came: %lu\nleft: %lu\ndropped: %lu\nfull: %lu\ndoubled: %lu\nswapped: %lu\nflipped: %lu\ncut: %lu\nsummed: %lu\ndelayed: %lu\n",
                    came, left, dropped, full, doubled, swapped, flipped, cuts, sums, delayed);
            close(who);
        }
    }
}
