// Block requests: one record per request, joined in the kernel and sent when it completes.
//
// A request's facts gather in a slot. Requests are a fixed pool, so a slot belongs to one request (address) for the
// whole recording, and is active from its first event until its record is sent. The table has two places for each
// hash; a request that finds both taken lives in a hash map, which is slower.
// All times are bpf_ktime_get_ns() = CLOCK_MONOTONIC.
#include "../bpf/kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>
#include "bio.h"
#include "../bpf/chain.h"
#include "../bpf/name.h"

char LICENSE[] SEC("license") = "GPL";

#define SLOTS_LOG2 15
#define BIOS_LOG2 16
#define CPUS_MAX 1024
#define SOFTIRQS_MAX 10
#define MERGED_BIOS_MAX 256

#define REQ_OP_MASK 0xff
#define REQ_OP_FLUSH 2

// Set by the loader before attaching.
const volatile bool owners = 0; // also look who is behind requests that are not our own
const volatile u32 ring_records = 1; // length of a CPU's ring, a power of two
const volatile bool weakly_ordered = 1; // this CPU may reorder stores
const volatile u32 rqf_flush_seq = 0; // RQF_FLUSH_SEQ of this kernel
const volatile u32 req_durable = 0; // REQ_PREFLUSH and REQ_FUA
const volatile bool start_at_getrq = 0; // this kernel has no block_io_start (before 6.5)

// Written by the loader: 1 from the moment every program is attached until the end of the recording. So
// the recording begins and ends for all programs at once, however long attaching takes.
u32 recording SEC(".data.control") = 0;

// What went otherwise than hoped. The order is that of `Counters` in layout.rs.
enum counter {
	RING_FULL,       // a finished request that found no room in its CPU's ring
	MERGE_RING_FULL, // a merged bio that found no room in the ring of merges
	MAP_FULL,        // a request that found neither a slot nor room in the overflow map
	NO_STATE,        // a completion of a request of which nothing was known
	NO_COMPLETE,     // a request whose completion was never seen, and no room to say so
	WALK_CUT,        // a request with more bios than are followed
	OWN_REQUESTS,    // left out: the recorder's own
	OWN_BYTES,
	REQUESTS_MERGED, // requests that vanished into another request
	PARTIAL,         // completions of a part of a request
	OVERFLOW,        // requests that lived in the overflow map
	QUEUE_UNSEEN,    // starts whose queueing was not found
	SCOPE_FULL,      // a process that found no room in `scope`
	CARRIER_RING_FULL, // what a carrier waited for, and no room to say so
	CARRIERS_CUT,    // a flush command with more carriers than are followed
	COUNTERS,
};
u64 counters[COUNTERS] SEC(".bss.counters");

#define SLOT_OWN 1       // the recorder's own request: never sent
#define SLOT_THROTTLED 2 // its bio was held back by the I/O controller before it was queued
#define SLOT_SCOPED 4    // a process in the scope submitted it
#define SLOT_KERNEL 8    // a thread of the kernel submitted it
#define NO_INDEX 0xffff

// What is known of a request; meaning of the fields: case::rows::BlockRow.
struct facts {
	u64 queue_ns;
	u64 start_ns;
	u64 insert_ns;
	u64 issue_first_ns;
	u64 issue_ns;
	u64 sector_512;
	u32 size_bytes;
	u32 cmd_flags;
	u32 device;
	s32 pid;
	s32 tid;
	u16 cpu;
	u16 hctx;
	u16 requeues;
	u16 merges;
	u8 status; // blk_status_t
	u8 flags;  // SLOT_*
	u16 index; // of its slot; NO_INDEX: in the overflow map
	u64 comm[2];
	u64 op_id;
	u64 merge_key; // 0, or what records of its merged bios, or of what a carrier waited for, refer to
};

// A request in flight. Two cache lines, because a request often completes on another CPU than it was issued on, and
// every line then has to travel.
struct slot {
	u64 request; // whose slot it is; 0 = nobody's yet
	u64 active;  // its first event's time, from then until the last; 0 = idle
	struct facts facts;
};

// What goes to user space, in three cache lines; the twins are in layout.rs.
struct block_record {
	u64 irq_ns;
	u64 complete_ns;
	struct facts facts;
	struct owner owner;
	s32 vector;
	u16 complete_cpu;
	u16 error; // set by the reader where the status is not known
};

struct merge_record {
	u64 merge_key;
	struct owner owner;
};

// A request whose completion passed unseen, some time before.
struct unfinished_record {
	struct slot slot;
	u64 before_ns;
	struct owner owner;
};

// The owner of the request in a slot: one cache line.
struct kept_owner {
	struct owner owner;
	u64 pad;
};

// When a bio was queued, for the request that is made of it moments later.
struct queued_bio {
	u64 bio;
	u64 queue_ns; // with QUEUED_THROTTLED, QUEUED_SPLIT
};

#define QUEUED_THROTTLED (1ull << 63)
#define QUEUED_SPLIT (1ull << 62) // a piece of it has become a request

// Where a softirq comes from: the interrupt whose handler raised it last.
struct raised {
	u64 run_ns; // 0 = not raised by a handler
	s32 vector;
	u32 pad;
};

// What this CPU is doing, as far as interrupts go.
struct cpu_state {
	u64 handler_run_ns;
	u64 softirq_run_ns;
	u64 action; // the handler seen last
	u64 merge_keys;
	s32 handler_vector;
	s32 softirq_vector;
	u32 in_handler;
	u32 in_softirq;
	struct raised raised[SOFTIRQS_MAX];
	volatile u64 numbers[2]; // see as_number()
	u64 pad[4];
};

struct queued_bio bios[1 << BIOS_LOG2] SEC(".bss.bios");
struct cpu_state cpus[CPUS_MAX] SEC(".bss.cpus");

// Finished requests go through one ring per CPU, in memory shared with the reader. Only block_rq_complete writes
// to it, and a program never runs twice at once on one CPU, so it needs no lock: about half the cost of a
// BPF_MAP_TYPE_RINGBUF. Nothing ever wakes the reader.
struct ring_ends {
	u64 head; // records written so far
	u64 pad[7];
	u64 tail; // records read so far; user space writes it
	u64 pad2[7];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); // CPUs
	__type(key, u32);
	__type(value, struct ring_ends);
} ring_ends SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); // CPUs * ring_records
	__type(key, u32);
	__type(value, struct block_record);
} ring SEC(".maps");

// Merges are few and come from any context: an ordinary ring.
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 22);
} merges SEC(".maps");

// The same holds for requests whose completion passed unseen.
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 22);
} unfinished SEC(".maps");

// Shared with the reader so that its values begin at a page, and thus at a cache line.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1 << SLOTS_LOG2);
	__type(key, u32);
	__type(value, struct slot);
} slots SEC(".maps");

// Beside the slots, so that who does not ask for owners does not pay for them; the loader sets the length.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct kept_owner);
} slot_owners SEC(".maps");

// A request that has no slot in the table, by its address.
struct overflow_slot {
	struct slot slot;
	struct owner owner;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, u64);
	__type(value, struct overflow_slot);
} overflow SEC(".maps");

// Where block_io_start does not exist: who got a request for a bio, until the request is first seen.
struct submitter {
	u64 start_ns;
	u64 comm[2];
	s32 pid;
	s32 tid;
	u32 cpu;
	u32 flags;
	u32 opf; // before the flush machinery takes away what it does itself
	u32 pad;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, u64);
	__type(value, struct submitter);
} submitters SEC(".maps");

static __always_inline void count(enum counter which, u64 n)
{
	__sync_fetch_and_add(&counters[which], n);
}
#include "../bpf/scope.h"

// Multiplicative hash of the low half of an address. The verifier forbids arithmetic on a pointer, but a 32-bit move
// of it is a number.
static __always_inline u32 hash(u64 address, u32 bits)
{
	u32 low;

	asm volatile("%0 = %1" : "=w"(low) : "w"((u32)address));
	return (low * 0x9E3779B1u) >> (32 - bits);
}

static __always_inline struct cpu_state *this_cpu(void)
{
	return &cpus[bpf_get_smp_processor_id() & (CPUS_MAX - 1)];
}

// A pointer as a number, for a function that the verifier looks at by itself: what was in memory is no pointer any more.
// `way`: one place for each that is alive at a time.
static __always_inline u64 as_number(const void *pointer, u32 way)
{
	volatile u64 *place = &this_cpu()->numbers[way];

	*place = (u64)pointer;
	return *place;
}

static __always_inline struct slot *slot_place(u64 key, u32 way)
{
	u32 index = hash(key, SLOTS_LOG2) ^ way;

	return bpf_map_lookup_elem(&slots, &index);
}

static __always_inline struct slot *slot_find(struct request *rq)
{
	u64 key = (u64)rq;
	struct slot *slot = slot_place(key, 0);

	if (slot && slot->request == key)
		return slot->active ? slot : NULL;
	slot = slot_place(key, 1);
	if (slot && slot->request == key)
		return slot->active ? slot : NULL;
	struct overflow_slot *further = bpf_map_lookup_elem(&overflow, &key);
	return further ? &further->slot : NULL;
}

// The slot that belongs to a request, or one that from now on does. A locked instruction only the first time: it would
// wait for the cache line, and for every store before it.
static __always_inline bool slot_belongs(struct slot *slot, u64 key, u32 way)
{
	if (!slot)
		return 0;
	if (slot->request == key)
		return 1;
	if (slot->request != 0 || __sync_val_compare_and_swap(&slot->request, 0, key) != 0)
		return 0;
	slot->facts.index = hash(key, SLOTS_LOG2) ^ way;
	return 1;
}

static __always_inline struct slot *slot_overflow(u64 key)
{
	struct overflow_slot *further = bpf_map_lookup_elem(&overflow, &key);
	static const struct overflow_slot empty;

	if (further)
		return &further->slot;
	if (bpf_map_update_elem(&overflow, &key, &empty, BPF_ANY)) {
		count(MAP_FULL, 1);
		return NULL;
	}
	count(OVERFLOW, 1);
	further = bpf_map_lookup_elem(&overflow, &key);
	if (!further)
		return NULL;
	further->slot.request = key;
	further->slot.facts.index = NO_INDEX;
	return &further->slot;
}

// Where the owner of a request is kept; NULL if that is not asked for.
static __always_inline struct owner *slot_owner(struct slot *slot)
{
	u32 index = slot->facts.index;
	struct kept_owner *kept;

	if (!owners)
		return NULL;
	if (index == NO_INDEX) {
		u64 key = slot->request;
		struct overflow_slot *further = bpf_map_lookup_elem(&overflow, &key);

		return further ? &further->owner : NULL;
	}
	kept = bpf_map_lookup_elem(&slot_owners, &index);
	return kept ? &kept->owner : NULL;
}

// Asks for the cache line of a request's owner. It is wanted later, at a place that only the slot tells, whose own lines
// have to come first: so both come together.
static __always_inline void fetch_owner(struct request *rq)
{
	u32 index = hash((u64)rq, SLOTS_LOG2);
	struct kept_owner *kept = owners ? bpf_map_lookup_elem(&slot_owners, &index) : NULL;

	if (kept)
		(void)*(volatile u64 *)&kept->owner;
}

static __always_inline void copy_owner(struct owner *to, struct slot *slot)
{
	struct owner *from = slot_owner(slot);
	static const struct owner none;

	*to = from && slot->facts.issue_ns ? *from : none;
}

static __always_inline void count_own(struct slot *slot)
{
	count(OWN_REQUESTS, 1);
	count(OWN_BYTES, slot->facts.size_bytes);
}

// Ends a slot whose request completed unseen, before `now`. Whoever finds that out first does it.
__noinline int slot_unfinished(struct slot *slot, u64 active, u64 now)
{
	if (!slot)
		return 0;
	if (slot->facts.flags & SLOT_OWN) {
		if (__sync_val_compare_and_swap(&slot->active, active, 0) == active)
			count_own(slot);
		return 0;
	}
	struct unfinished_record *record = bpf_ringbuf_reserve(&unfinished, sizeof(*record), 0);
	if (record) {
		record->slot = *slot;
		record->before_ns = now;
		copy_owner(&record->owner, slot);
	}
	bool ended = __sync_val_compare_and_swap(&slot->active, active, 0) == active;
	if (!record) {
		if (ended)
			count(NO_COMPLETE, 1);
		return 0;
	}
	if (ended)
		bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
	else
		bpf_ringbuf_discard(record, BPF_RB_NO_WAKEUP);
	return 0;
}

// Makes a request's slot active. The caller fills in who and when.
static __always_inline struct slot *slot_take(struct request *rq, u64 now)
{
	u64 key = (u64)rq;
	struct slot *slot = slot_place(key, 0);

	if (!slot_belongs(slot, key, 0)) {
		slot = slot_place(key, 1);
		if (!slot_belongs(slot, key, 1))
			slot = slot_overflow(key);
		if (!slot)
			return NULL;
	}
	u64 active = slot->active;
	if (active)
		slot_unfinished(slot, active, now);
	slot->active = now;
	slot->facts.queue_ns = 0;
	slot->facts.insert_ns = 0;
	slot->facts.issue_first_ns = 0;
	slot->facts.issue_ns = 0;
	slot->facts.hctx = 0;
	slot->facts.requeues = 0;
	slot->facts.merges = 0;
	slot->facts.status = 0;
	slot->facts.flags = 0;
	slot->facts.op_id = 0;
	slot->facts.merge_key = 0;
	return slot;
}

static __always_inline void slot_release(struct slot *slot, struct request *rq)
{
	u64 key = (u64)rq;

	slot->active = 0;
	if (slot != slot_place(key, 0) && slot != slot_place(key, 1))
		bpf_map_delete_elem(&overflow, &key);
}

// When the bio behind a new request was queued. A bio too large for the device is split: all pieces but the
// last are clones chained to the original, and only the original passes block_bio_queue. What is left of it
// behind a piece goes through the I/O controller again: if that held it back, it is queued when it is released.
static __always_inline void take_queueing(struct slot *slot, struct bio *bio, u64 end_io, u64 now)
{
	struct bio *origin = bio;

	if (sym_bio_chain_endio && end_io == sym_bio_chain_endio) {
		for (int depth = 0; depth < 4; depth++) {
			origin = BPF_CORE_READ(origin, bi_private);
			if ((u64)BPF_CORE_READ(origin, bi_end_io) != sym_bio_chain_endio)
				break;
		}
	}
	struct queued_bio *queued = &bios[hash((u64)origin, BIOS_LOG2)];
	if (queued->bio != (u64)origin) {
		count(QUEUE_UNSEEN, 1);
		return;
	}
	if (origin == bio)
		queued->bio = 0; // the last piece: its address may be used for another bio from here on
	u64 with_flags = queued->queue_ns;
	u64 queue_ns = with_flags & ~(QUEUED_THROTTLED | QUEUED_SPLIT);
	if (queue_ns > now)
		return;
	if (origin != bio)
		queued->queue_ns = with_flags | QUEUED_SPLIT;
	if (with_flags & QUEUED_SPLIT && releases_throttled(bpf_get_current_task_btf())) {
		with_flags |= QUEUED_THROTTLED;
		queue_ns = now;
	}
	slot->facts.queue_ns = queue_ns;
	if (with_flags & QUEUED_THROTTLED)
		slot->facts.flags |= SLOT_THROTTLED;
}

// Tells who is behind bio number `further` behind its request's first, if there is a key and it is not `known` already. Not
// static, as all that loops call: see find_owner().
__noinline int send_merge(u64 address, u64 merge_key, u32 further, u32 known)
{
	if (!merge_key || further < known)
		return 0;
	struct bio *bio = (void *)address;
	struct merge_record record = { .owner.size_bytes = BPF_CORE_READ(bio, bi_iter.bi_size) };

	find_owner(address, (u64)BPF_CORE_READ(bio, bi_end_io), (u64)BPF_CORE_READ(bio, bi_private), owners, &record.owner);
	if (!record.owner.op_id && !record.owner.owner_key && !record.owner.inode)
		return 0;
	record.merge_key = merge_key;
	if (bpf_ringbuf_output(&merges, &record, sizeof(record), BPF_RB_NO_WAKEUP))
		count(MERGE_RING_FULL, 1);
	return 0;
}

// How many bios a request has behind its first; tells of them, see send_merge(). Nothing is decided in the loop: the verifier
// would follow both ways of every turn to its end.
__noinline int walk_bios(u64 first, u64 merge_key, u32 known)
{
	struct bio *bio = (void *)first;
	u32 further = 0;

	for (; further < MERGED_BIOS_MAX; further++) {
		bio = BPF_CORE_READ(bio, bi_next);
		if (!bio)
			break;
		send_merge((u64)bio, merge_key, further, known);
	}
	if (further == MERGED_BIOS_MAX)
		count(WALK_CUT, 1);
	return further;
}

// Finds who is behind a request that is about to be issued: all its bios are there, none has ended. After a requeue
// it may have grown at its tail, and only that part is new.
static __always_inline void set_owner(struct slot *slot, struct request *rq)
{
	struct bio *bio = rq->bio; // read as it is: a helper would cost more than all that follows
	u64 address = as_number(bio, 0);
	struct owner *kept = slot_owner(slot);
	struct owner here = {};
	struct owner *owner = kept ? kept : &here;

	if (kept) {
		kept->stack_key = slot->facts.device >> 20 == LOOP_MAJOR ? loop_stack_key(*(volatile u64 *)&slot->request) : 0;
		kept->cgroup = bio_cgroup(rq);
	}
	if (!address) {
		*owner = (struct owner){ .stack_key = owner->stack_key };
		return;
	}
	owner->size_bytes = bio->bi_iter.bi_size;
	find_owner(address, as_number(bio->bi_end_io, 0), as_number(bio->bi_private, 1), owners, owner);
	slot->facts.op_id = owner->op_id;
}

// What other records refer to a request by; see facts.merge_key.
static __always_inline u64 give_key(struct slot *slot)
{
	if (!slot->facts.merge_key) {
		u32 cpu = bpf_get_smp_processor_id();

		slot->facts.merge_key = (u64)(cpu + 1) << 40 | ++cpus[cpu & (CPUS_MAX - 1)].merge_keys;
	}
	return slot->facts.merge_key;
}

// Counts the bios behind a request's first; `with_owners`: tells who is behind them.
static __always_inline void set_merges(struct slot *slot, struct request *rq, bool with_owners)
{
	u64 merge_key = 0;

	if (with_owners)
		merge_key = give_key(slot);
	slot->facts.merges = walk_bios(as_number(rq->bio, 0), merge_key, slot->facts.merges);
}

static __always_inline u32 disk_dev(struct request *rq)
{
	struct gendisk *disk = rq->q->disk;

	return disk ? (u32)disk->major << 20 | disk->first_minor : 0;
}

static __always_inline void set_place(struct slot *slot, struct request *rq)
{
	slot->facts.sector_512 = rq->__sector;
	slot->facts.size_bytes = rq->__data_len;
	slot->facts.device = disk_dev(rq);
	slot->facts.hctx = rq->mq_hctx->queue_num;
}

static __always_inline u8 flags_of(struct task_struct *task)
{
	return (comm_start(task) == OWN_THREAD ? SLOT_OWN : 0) | (scope_limited && scope_has(task->tgid) ? SLOT_SCOPED : 0) |
	       (((struct task_struct___bio *)task)->flags & pf_kthread ? SLOT_KERNEL : 0);
}

static __always_inline void set_submitter(struct slot *slot)
{
	struct task_struct *task = bpf_get_current_task_btf();

	slot->facts.pid = task->tgid;
	slot->facts.tid = task->pid;
	name_of(slot->facts.comm, task);
	slot->facts.flags |= flags_of(task);
}

static __always_inline void set_no_submitter(struct slot *slot)
{
	slot->facts.start_ns = 0;
	slot->facts.cpu = bpf_get_smp_processor_id();
	slot->facts.pid = -1;
	slot->facts.tid = -1;
	slot->facts.comm[0] = 0;
	slot->facts.comm[1] = 0;
}

static __always_inline void take_submitter(struct slot *slot, struct bio *bio, u64 end_io)
{
	u64 key = (u64)bio;
	struct submitter *submitter = bpf_map_lookup_elem(&submitters, &key);

	if (!submitter)
		return;
	slot->facts.start_ns = submitter->start_ns;
	take_queueing(slot, bio, end_io, submitter->start_ns);
	slot->facts.comm[0] = submitter->comm[0];
	slot->facts.comm[1] = submitter->comm[1];
	slot->facts.pid = submitter->pid;
	slot->facts.tid = submitter->tid;
	slot->facts.cpu = submitter->cpu;
	slot->facts.flags |= submitter->flags;
	slot->facts.cmd_flags |= submitter->opf & req_durable;
	bpf_map_delete_elem(&submitters, &key);
}

// A request first seen after its start: flush machinery, begun before the recording, or a kernel that does not
// tell the start.
static __always_inline struct slot *slot_adopt(struct request *rq, u64 now)
{
	struct slot *slot = slot_take(rq, now);

	if (!slot)
		return NULL;
	slot->facts.cmd_flags = rq->cmd_flags;
	set_no_submitter(slot);
	if (start_at_getrq && rq->bio)
		take_submitter(slot, rq->bio, (u64)rq->bio->bi_end_io);
	return slot;
}

static __always_inline void queue_bio(struct bio *bio)
{
	struct queued_bio *queued = &bios[hash((u64)bio, BIOS_LOG2)];
	u64 now = bpf_ktime_get_ns();

	if (releases_throttled(bpf_get_current_task_btf()))
		now |= QUEUED_THROTTLED;
	queued->queue_ns = now;
	queued->bio = (u64)bio;
}

CHAINED_PROGRAM(block_bio_queue, queue_bio(bio), struct bio *bio)

SEC("tp_btf/block_io_start")
int BPF_PROG(block_io_start, struct request *rq)
{
	if (!recording)
		return 0;
	u64 now = bpf_ktime_get_ns();
	struct slot *slot = slot_take(rq, now);
	if (!slot)
		return 0;
	slot->facts.start_ns = now;
	struct bio *bio = rq->bio;
	if (bio)
		take_queueing(slot, bio, (u64)bio->bi_end_io, now);
	slot->facts.cmd_flags = rq->cmd_flags;
	slot->facts.cpu = bpf_get_smp_processor_id();
	set_submitter(slot);
	if (!rq->__data_len)
		set_place(slot, rq); // an empty flush is never issued
	return 0;
}

SEC("tp_btf/block_getrq")
int BPF_PROG(block_getrq, struct bio *bio)
{
	struct task_struct *task = bpf_get_current_task_btf();
	u64 key = (u64)bio;
	struct submitter submitter = {
		.start_ns = bpf_ktime_get_ns(),
		.pid = task->tgid,
		.tid = task->pid,
		.cpu = bpf_get_smp_processor_id(),
	};

	name_of(submitter.comm, task);
	submitter.flags = flags_of(task);
	submitter.opf = ((struct bio___bio *)bio)->bi_opf;
	if (bpf_map_update_elem(&submitters, &key, &submitter, BPF_ANY))
		count(MAP_FULL, 1);
	return 0;
}

SEC("tp_btf/block_rq_insert")
int BPF_PROG(block_rq_insert, struct request *rq)
{
	u64 now = bpf_ktime_get_ns();
	struct slot *slot = slot_find(rq);

	if (!slot && start_at_getrq && recording)
		slot = slot_adopt(rq, now);
	if (slot && !slot->facts.insert_ns)
		slot->facts.insert_ns = now;
	return 0;
}

SEC("tp_btf/block_rq_issue")
int BPF_PROG(block_rq_issue, struct request *rq)
{
	if (!recording)
		return 0;
	u64 now = bpf_ktime_get_ns();
	struct slot *slot = slot_find(rq);
	if (!slot)
		slot = slot_adopt(rq, now);
	if (!slot)
		return 0;
	if (!slot->facts.issue_first_ns)
		slot->facts.issue_first_ns = now;
	slot->facts.issue_ns = now;
	set_place(slot, rq);
	if (slot->facts.flags & SLOT_OWN)
		return 0;
	bool with_owners = owners || (join_tgid && (slot->facts.pid == join_tgid || slot->facts.flags & SLOT_THROTTLED));
	if (with_owners)
		set_owner(slot, rq);
	if (rq->bio != rq->biotail)
		set_merges(slot, rq, with_owners);
	return 0;
}

SEC("tp_btf/block_rq_requeue")
int BPF_PROG(block_rq_requeue, struct request *rq)
{
	struct slot *slot = slot_find(rq);

	if (slot)
		slot->facts.requeues++;
	return 0;
}

// The request is swallowed by its neighbour: its bios go on, it will never be issued.
SEC("tp_btf/block_rq_merge")
int BPF_PROG(block_rq_merge, struct request *rq)
{
	struct slot *slot = slot_find(rq);

	if (slot) {
		slot_release(slot, rq);
		count(REQUESTS_MERGED, 1);
	}
	return 0;
}

// Which interrupt completes what was issued at that time and completes now on this CPU, and when it began; the rule is told
// in mod.rs.
static __always_inline u64 interrupt_begin(u64 issue_ns, s32 *of_vector)
{
	struct cpu_state *cpu = this_cpu();
	u64 run_ns = 0;
	s32 vector = -1;

	if (cpu->in_handler) {
		run_ns = cpu->handler_run_ns;
		vector = cpu->handler_vector;
	} else if (cpu->in_softirq) {
		run_ns = cpu->softirq_run_ns;
		vector = cpu->softirq_vector;
	}
	*of_vector = vector;
	return run_ns && run_ns < issue_ns ? issue_ns : run_ns;
}

#include "flush.h"

static __always_inline void send(struct slot *slot, u64 now)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct ring_ends *ends = bpf_map_lookup_elem(&ring_ends, &cpu);

	if (!ends)
		return;
	u64 head = ends->head;
	u32 index = cpu * ring_records + ((u32)head & (ring_records - 1));
	struct block_record *record = bpf_map_lookup_elem(&ring, &index);

	if (!record)
		return;
	if (head - ends->tail >= ring_records) {
		count(RING_FULL, 1);
		return;
	}
	record->complete_ns = now;
	record->complete_cpu = cpu;
	record->facts = slot->facts;
	record->error = 0;
	// An empty carrier is never issued.
	u64 begun_ns = record->facts.issue_ns ? record->facts.issue_ns : record->facts.start_ns;
	record->irq_ns = interrupt_begin(begun_ns, &record->vector);
	if (owners)
		copy_owner(&record->owner, slot);
	// Not before the record is there. x86 keeps the order of stores by itself; a locked instruction would wait
	// until the record's cache lines have come.
	if (weakly_ordered)
		__sync_lock_test_and_set(&ends->head, head + 1);
	else
		*(volatile u64 *)&ends->head = head + 1;
}

SEC("tp_btf/block_rq_complete")
int BPF_PROG(block_rq_complete, struct request *rq, u8 status, u32 bytes)
{
	if (!recording)
		return 0;
	u64 now = bpf_ktime_get_ns();
	fetch_owner(rq);
	struct slot *slot = slot_find(rq);
	if (!slot) {
		count(NO_STATE, 1);
		return 0;
	}
	if (status)
		slot->facts.status = status;
	if (bytes < rq->__data_len) {
		count(PARTIAL, 1);
		return 0;
	}
	if ((rq->rq_flags & rqf_flush_seq) && flush_step(slot, rq, now))
		return 0;
	if (!slot->facts.issue_ns)
		set_place(slot, rq);
	if (slot->facts.flags & SLOT_OWN)
		count_own(slot);
	else
		send(slot, now);
	slot_release(slot, rq);
	return 0;
}

static __always_inline void begin_handler(int irq, struct irqaction *action)
{
	struct cpu_state *cpu = this_cpu();
	struct irqaction *before = (void *)cpu->action;

	// A line shared by several devices calls its handlers one after the other: one run.
	if (!(before && cpu->handler_vector == irq && BPF_CORE_READ(before, next) == action))
		cpu->handler_run_ns = bpf_ktime_get_ns();
	cpu->action = (u64)action;
	cpu->handler_vector = irq;
	cpu->in_handler = 1;
}

CHAINED_PROGRAM(irq_handler_entry, begin_handler(irq, action), int irq, struct irqaction *action)

static __always_inline void end_handler(void)
{
	this_cpu()->in_handler = 0;
}

CHAINED_PROGRAM(irq_handler_exit, end_handler())

SEC("tp_btf/softirq_raise")
int BPF_PROG(softirq_raise, u32 number)
{
	struct cpu_state *cpu = this_cpu();

	if (number >= SOFTIRQS_MAX)
		return 0;
	// The block layer raises its softirq when the list of what is to be completed was empty, so the last raise is
	// the one that began the list.
	struct raised *raised = &cpu->raised[number];
	raised->run_ns = cpu->in_handler ? cpu->handler_run_ns : 0;
	raised->vector = cpu->handler_vector;
	return 0;
}

static __always_inline void begin_softirq(u32 number)
{
	struct cpu_state *cpu = this_cpu();

	if (number >= SOFTIRQS_MAX)
		return;
	struct raised *raised = &cpu->raised[number];
	if (raised->run_ns) {
		cpu->softirq_run_ns = raised->run_ns;
		cpu->softirq_vector = raised->vector;
	} else {
		cpu->softirq_run_ns = bpf_ktime_get_ns();
		cpu->softirq_vector = -1;
	}
	raised->run_ns = 0;
	cpu->in_softirq = 1;
}

CHAINED_PROGRAM(softirq_entry, begin_softirq(number), u32 number)

static __always_inline void end_softirq(void)
{
	this_cpu()->in_softirq = 0;
}

CHAINED_PROGRAM(softirq_exit, end_softirq())

#define SLOTS_PER_RUN 1024

// Run by user space, never attached: ends slots whose requests the kernel has freed, which means that their
// completion passed unseen. args[0] is the first slot of SLOTS_PER_RUN.
SEC("raw_tp/release_stale")
int release_stale(struct bpf_raw_tracepoint_args *ctx)
{
	u64 first = ctx->args[0];

	for (u32 i = 0; i < SLOTS_PER_RUN; i++) {
		u32 index = (first + i) & ((1 << SLOTS_LOG2) - 1);
		struct slot *slot = bpf_map_lookup_elem(&slots, &index);

		if (!slot || !slot->active)
			continue;
		// Read first: a request that is begun anew meanwhile then has another value.
		u64 active = *(volatile u64 *)&slot->active;
		u64 key = slot->request;
		if (active && BPF_CORE_READ((struct request *)key, ref.counter) <= 0)
			slot_unfinished(slot, active, bpf_ktime_get_ns());
	}
	return 0;
}
