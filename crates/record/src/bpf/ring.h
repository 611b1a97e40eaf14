// Finished records go to user space through one ring per CPU, in memory shared with the reader (rings.rs): about half the
// cost of a BPF_MAP_TYPE_RINGBUF. Nothing ever wakes the reader. A program must not be interrupted by another one that
// writes to the same ring; should a kernel allow that, the second finds the ring busy and loses its record, counted.
#pragma once

struct ring_ends {
	u64 head; // records written so far
	u64 busy;
	u64 pad[6];
	u64 tail; // records read so far; user space writes it
	u64 pad2[7];
};

#define RING(record_type)                                                                                             \
	struct {                                                                                                       \
		__uint(type, BPF_MAP_TYPE_ARRAY);                                                                      \
		__uint(map_flags, BPF_F_MMAPABLE);                                                                     \
		__uint(max_entries, 1); /* CPUs */                                                                     \
		__type(key, u32);                                                                                      \
		__type(value, struct ring_ends);                                                                       \
	} ring_ends SEC(".maps");                                                                                      \
	struct {                                                                                                       \
		__uint(type, BPF_MAP_TYPE_ARRAY);                                                                      \
		__uint(map_flags, BPF_F_MMAPABLE);                                                                     \
		__uint(max_entries, 1); /* CPUs * ring_records */                                                      \
		__type(key, u32);                                                                                      \
		__type(value, record_type);                                                                            \
	} ring SEC(".maps")

const volatile u32 ring_records = 1; // length of a CPU's ring, a power of two
const volatile bool weakly_ordered = 1; // this CPU may reorder stores

// Makes the record written at `head` visible.
static __always_inline void ring_publish(struct ring_ends *ends, u64 head)
{
	// Not before the record is there. x86 keeps the order of stores by itself.
	if (weakly_ordered) {
		__sync_lock_test_and_set(&ends->head, head + 1);
		__sync_lock_test_and_set(&ends->busy, 0);
	} else {
		*(volatile u64 *)&ends->head = head + 1;
		*(volatile u64 *)&ends->busy = 0;
	}
}
