/* A switch between network namespaces with bandwidth and delay, for kernels without netem: it forwards frames between
 * TAP devices, one in each namespace, after the delay. scale_link COUNT BITS SECONDS PREFIX      for each link into the
 * switch; BITS per second, 0: unlimited The namespaces are PREFIX-1 to PREFIX-COUNT, the devices eth0. It runs as root
 * until it is killed. */
#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

enum { MOST_PORTS = 64, FRAME = 1600, QUEUE = 1 << 15, ADDRESS = 6 };

typedef struct frame {
    double due;
    size_t bytes;
    unsigned char data[FRAME];
} frame;

/* A link into the switch; it forwards frames in order. */
typedef struct port {
    int fd;
    frame *queue; /* [QUEUE] */
    size_t first, count;
    double free; /* time when the link has sent all frames */
    unsigned char address[ADDRESS];
} port;

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void fail(const char *what) {
    fprintf(stderr, "scale_link: %s: %s\n", what, strerror(errno));
    exit(1);
}

static int open_tap(const char *prefix, int number, int home) {
    char path[256];
    struct ifreq request = {.ifr_flags = IFF_TAP | IFF_NO_PI};
    snprintf(path, sizeof(path), "/run/netns/%s-%d", prefix, number);
    const int space = open(path, O_RDONLY | O_CLOEXEC);
    if (space < 0 || setns(space, CLONE_NEWNET) != 0)
        fail(path);
    const int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    strcpy(request.ifr_name, "eth0");
    if (fd < 0 || ioctl(fd, TUNSETIFF, &request) != 0)
        fail("/dev/net/tun");
    close(space);
    if (setns(home, CLONE_NEWNET) != 0)
        fail("setns");
    return fd;
}

/* Reads the frames of a port; drops frames that do not fit the queue, like any switch. */
static void take(port *p, double bits, double delay) {
    while (p->count < QUEUE) {
        frame *f = &p->queue[(p->first + p->count) % QUEUE];
        const ssize_t got = read(p->fd, f->data, sizeof(f->data));
        if (got < 2 * ADDRESS)
            return;
        const double now = seconds(), begin = p->free > now ? p->free : now;
        f->bytes = (size_t)got;
        p->free = bits > 0 ? begin + 8 * (double)got / bits : begin;
        f->due = p->free + delay;
        p->count++;
        memcpy(p->address, f->data + ADDRESS, ADDRESS);
    }
}

static void send_on(port *ports, int count, const port *from, const frame *f) {
    for (int i = 0; i < count; i++)
        if (&ports[i] != from && memcmp(ports[i].address, f->data, ADDRESS) == 0) {
            if (write(ports[i].fd, f->data, f->bytes) < 0 && errno != EAGAIN && errno != EIO)
                fail("eth0");
            return;
        }
    for (int i = 0; i < count; i++) /* unknown destination or broadcast */
        if (&ports[i] != from && write(ports[i].fd, f->data, f->bytes) < 0 && errno != EAGAIN && errno != EIO)
            fail("eth0");
}

int main(int argc, char **argv) {
    static port ports[MOST_PORTS];
    static struct pollfd waits[MOST_PORTS];
    const int count = argc == 5 ? atoi(argv[1]) : 0, home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    const double bits = argc == 5 ? atof(argv[2]) : 0, delay = argc == 5 ? atof(argv[3]) : 0;
    if (count < 1 || count > MOST_PORTS || home < 0) {
        fputs("usage: scale_link COUNT BITS SECONDS PREFIX\n", stderr);
        return 2;
    }
    for (int i = 0; i < count; i++) {
        ports[i].fd = open_tap(argv[4], i + 1, home);
        ports[i].queue = malloc(QUEUE * sizeof(frame));
        if (!ports[i].queue)
            fail("memory");
        waits[i] = (struct pollfd){.fd = ports[i].fd, .events = POLLIN};
    }
    puts("ready");
    fflush(stdout);
    for (;;) {
        double next = 1e300;
        for (int i = 0; i < count; i++) {
            port *p = &ports[i];
            take(p, bits, delay);
            while (p->count > 0 && p->queue[p->first].due <= seconds()) {
                send_on(ports, count, p, &p->queue[p->first]);
                p->first = (p->first + 1) % QUEUE;
                p->count--;
            }
            if (p->count > 0 && p->queue[p->first].due < next)
                next = p->queue[p->first].due;
        }
        const double left = next < 1e300 ? next - seconds() : 1;
        const struct timespec wait = {.tv_sec = left > 1 ? 1 : 0,
                                      .tv_nsec = left > 1   ? 0
                                                 : left > 0 ? (long)(1e9 * left)
                                                            : 0};
        ppoll(waits, (nfds_t)count, &wait, NULL);
    }
}
