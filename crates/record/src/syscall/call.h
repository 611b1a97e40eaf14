// Operations in flight, where they are kept, and how they are sent.
#pragma once

#define CALLS_LOG2 15
#define WAYS 4

// States of `recording` here: calls are followed from the moment of attaching, so that those which are in flight when the
// recording begins are known; they are sent while it lasts; afterwards nothing changes any more.
enum { BEFORE = 0, DURING = 1, OVER = 2 };

// case::rows::Via
enum via { VIA_CALL, VIA_URING, VIA_AIO, VIA_WAIT };

// case::rows::syscall_flags
enum flag {
	FLAG_DIRECT = 1,
	FLAG_SYNC = 2,
	FLAG_APPEND = 4,
	FLAG_NOWAIT = 8,
	FLAG_BLOCK_DEVICE = 16,
	FLAG_WORKER = 32,
	FLAG_END_IS_REAP = 64,
	FLAG_END_UNSEEN = 128,
	FLAG_BEGIN_UNSEEN = 256,
	FLAG_SIZE_UNSEEN = 512,
};

#define SIZE_UNREAD (~0ull)

// Meaning of the fields: case::rows::SyscallRow. The twins of these structs are in layout.rs.
struct call {
	u64 key; // thread, request's address, or what stands for a control block; 0 = free
	u64 start_ns;
	u64 owner_key;
	u64 user_data;
	u64 offset;
	u64 size;
	u64 inode;
	u64 argument; // io_submit, io_getevents: the kernel's context; else how often the thread had slept (task_struct::nvcsw)
	u32 device;
	s32 pid;
	s32 tid;
	u32 flags;
	u16 cpu;
	u16 call;
	u8 via;
	u8 op;
	u8 shape;
	u8 has_file : 1;
	u8 in_overflow : 1;
	u8 cached : 1; // io_submit: some of its operations go through the page cache
	u64 comm[2];
};

struct call_record {
	struct call call;
	u64 end_ns;
	s64 result;
	u16 end_cpu;
	u16 pad[3];
};

RING(struct call_record);

// Shared with the reader, which looks at the end for what is still open.
struct calls {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1 << CALLS_LOG2);
	__type(key, u32);
	__type(value, struct call);
};
struct calls threads SEC(".maps");
struct calls requests SEC(".maps");

// For those that find all their places taken.
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, u64);
	__type(value, struct call);
} overflow SEC(".maps");

bool overflow_used SEC(".bss.overflow");

// Multiplicative hash of the low half of a key. The verifier forbids arithmetic on a pointer, but a 32-bit move of it is a
// number.
static __always_inline u32 call_index(u64 key)
{
	u32 low;

	asm volatile("%0 = %1" : "=w"(low) : "w"((u32)key));
	return (low * 0x9E3779B1u) >> (32 - CALLS_LOG2);
}

static __always_inline struct call *call_find(void *table, u64 key)
{
	u32 first = call_index(key);

	for (u32 way = 0; way < WAYS; way++) {
		u32 index = first ^ way;
		struct call *call = bpf_map_lookup_elem(table, &index);

		if (call && call->key == key)
			return call;
	}
	return overflow_used ? bpf_map_lookup_elem(&overflow, &key) : NULL;
}

static __always_inline void call_release(struct call *call)
{
	u64 key = call->key;

	call->key = 0;
	if (call->in_overflow)
		bpf_map_delete_elem(&overflow, &key);
}

// Sends the record of an operation that ended now, or (end_ns 0) some time before.
static __noinline int call_send(struct call *call, u64 end_ns, s64 result)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct ring_ends *ends = bpf_map_lookup_elem(&ring_ends, &cpu);

	if (!ends || !call || recording != DURING)
		return 0;
	if (__sync_val_compare_and_swap(&ends->busy, 0, 1)) {
		count(RECORDS_BUSY, 1);
		return 0;
	}
	u64 head = ends->head;
	u32 index = cpu * ring_records + ((u32)head & (ring_records - 1));
	struct call_record *record = bpf_map_lookup_elem(&ring, &index);
	if (!record || head - ends->tail >= ring_records) {
		count(RECORDS_FULL, 1);
		ends->busy = 0;
		return 0;
	}
	record->call = *call;
	record->end_ns = end_ns;
	record->result = result;
	record->end_cpu = cpu;
	ring_publish(ends, head);
	return 0;
}

static __always_inline void call_send_unended(struct call *call)
{
	if (call->via == VIA_WAIT)
		return;
	call->flags |= FLAG_END_UNSEEN;
	call_send(call, 0, 0);
}

static __always_inline struct call *call_place(void *table, u64 key)
{
	static const struct call empty;
	u32 first = call_index(key);
	struct call *call;

	for (u32 way = 0; way < WAYS; way++) {
		u32 index = first ^ way;

		call = bpf_map_lookup_elem(table, &index);
		if (!call)
			continue;
		if (call->key == key) {
			call_send_unended(call);
			return call;
		}
		if (call->key == 0 && __sync_val_compare_and_swap(&call->key, 0, key) == 0)
			return call;
	}
	overflow_used = 1;
	if (bpf_map_update_elem(&overflow, &key, &empty, BPF_ANY)) {
		count(TABLE_FULL, 1);
		return NULL;
	}
	count(SLOTS_OVERFLOW, 1);
	call = bpf_map_lookup_elem(&overflow, &key);
	if (call) {
		call->key = key;
		call->in_overflow = 1;
	}
	return call;
}

static __always_inline bool is_own(struct task_struct *task)
{
	return is_own_comm(*(u64 *)&task->comm[0]);
}

// A place for an operation that begins now; NULL if there is none, or if it is our own.
static __always_inline struct call *call_take(void *table, u64 key, struct task_struct *task, u64 now)
{
	if (is_own(task)) {
		count(OWN_CALLS, 1);
		return NULL;
	}
	struct call *call = call_place(table, key);
	if (!call)
		return NULL;
	call->start_ns = now;
	call->owner_key = 0;
	call->user_data = 0;
	call->offset = 0;
	call->size = 0;
	call->inode = 0;
	call->argument = 0;
	call->device = 0;
	call->pid = task->tgid;
	call->tid = task->pid;
	call->flags = 0;
	call->cpu = bpf_get_smp_processor_id();
	call->via = VIA_CALL;
	call->shape = 0;
	call->has_file = 0;
	call->cached = 0;
	name_of(call->comm, task);
	return call;
}
