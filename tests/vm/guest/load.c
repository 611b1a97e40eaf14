// A load that counts exactly: one thread per reader, one read in flight each, at random aligned places.
//
//     load [-s BYTES] [-a ALIGN] [-t SECONDS | -n READS] [-p PAUSE_US] [-c BURN_US] [-b] [-w] [-r SEED] PATH...
//
// A path given twice has two readers. -b reads through the page cache (else O_DIRECT); -w writes instead, each time until
// the data are safe (O_DSYNC), and counts that as reads; -p sleeps between reads, half
// to one and a half times as long, -c keeps the CPU busy between reads. Prints one JSON object: by path, reads and latencies
// in ns.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

enum { READERS_MAX = 16, LATENCIES_MAX = 1 << 18 };

struct reader {
	const char *path;
	pthread_t thread;
	uint64_t places, random, *latency_ns;
	unsigned long reads;
	int fd;
};

static size_t size_bytes = 4096, align_bytes = 4096;
static double seconds = 1;
static unsigned long reads_max = LATENCIES_MAX;
static unsigned pause_us, burn_us;
static int writes;

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static void fail(const char *what, const char *path)
{
	fprintf(stderr, "load: %s: %s: %s\n", path, what, strerror(errno));
	exit(2);
}

// xorshift64*: the same seed reads the same places in the same order.
static uint64_t next_random(uint64_t *state)
{
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return *state * 2685821657736338717ull;
}

static void *read_along(void *argument)
{
	struct reader *reader = argument;
	uint64_t end_ns = now_ns() + (uint64_t)(seconds * 1e9);
	void *buffer;

	if (posix_memalign(&buffer, 4096, size_bytes))
		fail("out of memory", reader->path);
	memset(buffer, 0, size_bytes);
	while (reader->reads < reads_max && now_ns() < end_ns) {
		off_t offset = next_random(&reader->random) % reader->places * align_bytes;
		uint64_t begin_ns = now_ns();

		ssize_t done = writes ? pwrite(reader->fd, buffer, size_bytes, offset) :
					pread(reader->fd, buffer, size_bytes, offset);
		if (done != (ssize_t)size_bytes)
			fail(writes ? "write" : "read", reader->path);
		reader->latency_ns[reader->reads++] = now_ns() - begin_ns;
		// Readers that march in step would always queue up for the one CPU in the same order.
		if (pause_us)
			usleep(pause_us / 2 + next_random(&reader->random) % pause_us);
		for (uint64_t until_ns = now_ns() + burn_us * 1000ull; now_ns() < until_ns;)
			;
	}
	return NULL;
}

static int ascending(const void *left, const void *right)
{
	uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

	return (a > b) - (a < b);
}

static void open_reader(struct reader *reader, const char *path, int flags, uint64_t seed)
{
	uint64_t bytes;

	reader->path = path;
	reader->fd = open(path, (writes ? O_WRONLY | O_DSYNC : O_RDONLY) | O_CLOEXEC | flags);
	if (reader->fd < 0 || ioctl(reader->fd, BLKGETSIZE64, &bytes))
		fail("open", path);
	if (bytes < size_bytes + align_bytes)
		fail("too small", path);
	reader->places = (bytes - size_bytes) / align_bytes;
	reader->random = seed * 0x9e3779b97f4a7c15ull | 1;
	reader->latency_ns = calloc(LATENCIES_MAX, sizeof(uint64_t));
	if (!reader->latency_ns)
		fail("out of memory", path);
}

static void print_reader(struct reader *reader, int number)
{
	unsigned long count = reader->reads;

	qsort(reader->latency_ns, count, sizeof(uint64_t), ascending);
	printf("%s\n  {\"path\": \"%s\", \"reads\": %lu, \"size_bytes\": %zu, \"p50_ns\": %llu, \"max_ns\": %llu}",
	       number ? "," : "", reader->path, count, size_bytes,
	       count ? (unsigned long long)reader->latency_ns[count / 2] : 0,
	       count ? (unsigned long long)reader->latency_ns[count - 1] : 0);
}

int main(int argc, char **argv)
{
	static struct reader readers[READERS_MAX];
	int option, count = 0, flags = O_DIRECT;
	uint64_t seed = 1;

	while ((option = getopt(argc, argv, "s:a:t:n:p:c:bwr:")) != -1) {
		switch (option) {
		case 's': size_bytes = strtoul(optarg, NULL, 10); break;
		case 'a': align_bytes = strtoul(optarg, NULL, 10); break;
		case 't': seconds = strtod(optarg, NULL); break;
		case 'n': reads_max = strtoul(optarg, NULL, 10), seconds = 1e6; break;
		case 'p': pause_us = strtoul(optarg, NULL, 10); break;
		case 'c': burn_us = strtoul(optarg, NULL, 10); break;
		case 'b': flags = 0; break;
		case 'w': writes = 1; break;
		case 'r': seed = strtoul(optarg, NULL, 10); break;
		default: return 2;
		}
	}
	for (; optind < argc && count < READERS_MAX; optind++, count++)
		open_reader(&readers[count], argv[optind], flags, seed + count);
	if (!count || optind < argc || reads_max > LATENCIES_MAX) {
		fprintf(stderr, "load: expected 1 to %d paths and at most %d reads\n", READERS_MAX, LATENCIES_MAX);
		return 2;
	}
	for (int i = 0; i < count; i++)
		if (pthread_create(&readers[i].thread, NULL, read_along, &readers[i]))
			fail("thread", readers[i].path);
	for (int i = 0; i < count; i++)
		pthread_join(readers[i].thread, NULL);
	printf("{\"readers\": [");
	for (int i = 0; i < count; i++)
		print_reader(&readers[i], i);
	printf("\n]}\n");
	return 0;
}
