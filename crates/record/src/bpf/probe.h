// What every probe with one ordinary ring has: the ring, the switch, the counters. Include it after `enum counter` is
// defined, whose first member must be RING_FULL and whose last COUNTERS; the Rust side lists the same in its
// `Design::COUNTERS`. A probe that reads kernel types beyond kernel.h declares them in its own source, and extends one
// of kernel.h's with a flavor (struct request___mine): CO-RE ignores what follows three underscores.
#pragma once
#include "name.h"
#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "GPL";

// Written by the loader: 1 from the moment every program of every probe is attached until the end of the recording.
u32 recording SEC(".data.control") = 0;

u64 counters[COUNTERS] SEC(".bss.counters");

// The loader sets the size. Nothing ever wakes the reader: it looks every 5 ms.
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} events SEC(".maps");

static __always_inline void count(enum counter which, u64 n)
{
	__sync_fetch_and_add(&counters[which], n);
}

// Sends a record, or counts that there was no room for it.
static __always_inline void send_event(void *record, u64 bytes)
{
	if (bpf_ringbuf_output(&events, record, bytes, BPF_RB_NO_WAKEUP))
		count(RING_FULL, 1);
}

// Whether a command name is that of one of our own threads.
static __always_inline bool is_own_comm(u64 start)
{
	return start == OWN_THREAD;
}
