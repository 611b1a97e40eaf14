// Runs of interrupt handlers and softirqs. Every run of at least min_ns is sent, and every run of a handler whose
// line has several; the rest is counted and totalled per CPU, vector and handler, which the reader fetches once a second.
#include "../bpf/kernel.h"

// The order is that of `COUNTERS` in mod.rs.
enum counter {
	RING_FULL,
	MAP_FULL, // runs of a handler that found no room in the table of totals
	COUNTERS,
};
#include "../bpf/probe.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

// Set by the loader.
const volatile u64 min_ns = 5000;
const volatile u64 softirq_min_ns = 50000; // of softirqs other than the block layer's

#define CPUS_MAX 1024
#define TOTALS_MAX 16384
#define BLOCK_SOFTIRQ 4
#define NAME_BYTES 32

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct irqaction___irq {
	struct irqaction___irq *next;
	const char *name;
};

#pragma clang attribute pop

// Not a typedef: the loader looks for a type of that name in the kernel.
#define action_t struct irqaction___irq

// What goes to user space; the twins are in mod.rs.
struct key {
	u64 action; // 0 = a softirq
	s32 vector; // number of the line, or of the softirq
	u32 cpu;
};

struct total {
	u64 runs;
	u64 time_ns;
	u64 sent;
	u32 shared; // its line has several handlers
	u32 pad;
	char name[NAME_BYTES];
};

// Comes before the first run of its handler.
struct handler_name {
	struct key key;
	char name[NAME_BYTES];
};

struct run {
	struct key key;
	u64 start_ns;
	u64 end_ns;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, TOTALS_MAX);
	__type(key, struct key);
	__type(value, struct total);
} totals SEC(".maps");

struct cpu_state {
	u64 handler_ns;
	u64 softirq_ns;
	u64 action; // the handler seen last
	s32 vector;
	u32 pad;
	u64 pad2[4];
};

struct cpu_state cpus[CPUS_MAX] SEC(".bss.cpus");

static __always_inline struct cpu_state *this_cpu(void)
{
	return &cpus[bpf_get_smp_processor_id() & (CPUS_MAX - 1)];
}

static __noinline int add(struct key *key, action_t *action, u32 shared)
{
	struct total total = {.shared = shared};

	if (!key)
		return 0;
	if (action) {
		struct handler_name name = {.key = *key};

		bpf_probe_read_kernel_str(name.name, sizeof(name.name), BPF_CORE_READ(action, name));
		__builtin_memcpy(total.name, name.name, sizeof(total.name));
		send_event(&name, sizeof(name));
	}
	bpf_map_update_elem(&totals, key, &total, BPF_NOEXIST);
	return 0;
}

static __always_inline void account(struct key *key, struct total *total, u64 start_ns, u64 end_ns, u64 least_ns)
{
	// Only this CPU writes to it.
	total->runs++;
	total->time_ns += end_ns - start_ns;
	if (!total->shared && end_ns - start_ns < least_ns)
		return;
	struct run run = {.key = *key, .start_ns = start_ns, .end_ns = end_ns};
	total->sent++;
	send_event(&run, sizeof(run));
}

SEC("tp_btf/irq_handler_entry")
int BPF_PROG(irq_handler_entry)
{
	if (recording)
		this_cpu()->handler_ns = bpf_ktime_get_ns();
	return 0;
}

SEC("tp_btf/irq_handler_exit")
int BPF_PROG(irq_handler_exit, int irq, action_t *action)
{
	struct cpu_state *cpu = this_cpu();
	struct key key = {.action = (u64)action, .vector = irq, .cpu = bpf_get_smp_processor_id()};

	if (!recording || !cpu->handler_ns)
		return 0;
	u64 start_ns = cpu->handler_ns;
	u64 end_ns = bpf_ktime_get_ns();
	cpu->handler_ns = 0;
	// The handlers of a line are called one after the other.
	action_t *before = (void *)cpu->action;
	u32 shared = action->next || (before && cpu->vector == irq && BPF_CORE_READ(before, next) == action);
	cpu->action = (u64)action;
	cpu->vector = irq;
	struct total *total = bpf_map_lookup_elem(&totals, &key);
	if (!total) {
		add(&key, action, shared);
		total = bpf_map_lookup_elem(&totals, &key);
	}
	if (!total) {
		count(MAP_FULL, 1);
		return 0;
	}
	// A second device may have come to the line.
	if (shared)
		total->shared = 1;
	account(&key, total, start_ns, end_ns, min_ns);
	return 0;
}

SEC("tp_btf/softirq_entry")
int BPF_PROG(softirq_entry)
{
	if (recording)
		this_cpu()->softirq_ns = bpf_ktime_get_ns();
	return 0;
}

SEC("tp_btf/softirq_exit")
int BPF_PROG(softirq_exit, u32 number)
{
	struct cpu_state *cpu = this_cpu();
	struct key key = {.vector = number, .cpu = bpf_get_smp_processor_id()};

	if (!recording || !cpu->softirq_ns)
		return 0;
	u64 start_ns = cpu->softirq_ns;
	cpu->softirq_ns = 0;
	struct total *total = bpf_map_lookup_elem(&totals, &key);
	if (!total) {
		add(&key, NULL, 0);
		total = bpf_map_lookup_elem(&totals, &key);
	}
	if (!total) {
		count(MAP_FULL, 1);
		return 0;
	}
	account(&key, total, start_ns, bpf_ktime_get_ns(), number == BLOCK_SOFTIRQ ? min_ns : softirq_min_ns);
	return 0;
}
