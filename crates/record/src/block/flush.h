// The flush machinery (block/blk-flush.c). A request with PREFLUSH, or with FUA on a device that has none, is a carrier: the
// machinery issues its data, and before or after them a flush command, which is a request of its own and serves all
// carriers that wait for it. Told is what a row of the carrier itself cannot tell: when its data were done, and which flush
// commands served it, when.
//
// While a flush command is in flight its carriers are on the list `flush_running_idx`, which nobody changes until it has
// completed; those that come meanwhile go to the other list.
#pragma once

#define CARRIERS_MAX 64

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct list_head {
	struct list_head *next;
	struct list_head *prev;
};

struct blk_flush_queue {
	unsigned int flush_running_idx : 1;
	struct list_head flush_queue[2];
};

struct blk_mq_hw_ctx___flush {
	struct blk_flush_queue *fq;
};

// Carriers are listed by `flush.list` until 6.5, by `queuelist` since.
struct request___flush {
	struct list_head queuelist;
	struct {
		struct list_head list;
	} flush;
	struct blk_mq_hw_ctx___flush *mq_hctx;
};

#pragma clang attribute pop

// Meaning of the fields: case::rows::BlockCarrierRow.
struct carrier_record {
	u64 carrier_key;
	u64 flush_key;
	u64 issue_ns;
	u64 irq_ns;
	u64 done_ns;
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} carriers SEC(".maps");

static __always_inline void send_carrier(struct slot *carrier, u64 flush_key, u64 issue_ns, u64 irq_ns, u64 now)
{
	struct carrier_record record = {
		.flush_key = flush_key,
		.issue_ns = issue_ns,
		.irq_ns = irq_ns,
		.done_ns = now,
	};

	if (carrier->facts.flags & SLOT_OWN)
		return;
	record.carrier_key = give_key(carrier);
	if (bpf_ringbuf_output(&carriers, &record, sizeof(record), BPF_RB_NO_WAKEUP))
		count(CARRIER_RING_FULL, 1);
}

// A carrier whose start nobody told: an empty one is never inserted or issued either.
static __always_inline struct slot *adopt_carrier(u64 request, u64 now)
{
	struct request *rq = (void *)request;
	struct slot *slot = slot_take(rq, now);
	struct bio *bio;

	if (!slot)
		return NULL;
	slot->facts.cmd_flags = BPF_CORE_READ(rq, cmd_flags);
	set_no_submitter(slot);
	bio = BPF_CORE_READ(rq, bio);
	if (bio)
		take_submitter(slot, bio, (u64)BPF_CORE_READ(bio, bi_end_io));
	return slot;
}

// One carrier that a flush command has served. Not static, as all that loops call: see find_owner().
__noinline int served(u64 request, u64 flush_key, u64 issue_ns, u64 irq_ns, u64 now)
{
	struct slot *slot = slot_find((void *)request);

	if (!slot && start_at_getrq)
		slot = adopt_carrier(request, now);
	if (slot)
		send_carrier(slot, flush_key, issue_ns, irq_ns, now);
	return 0;
}

// Tells of all carriers that a flush command, which completes now, has served.
__noinline int flush_done(u64 request, u64 flush_key, u64 issue_ns, u64 irq_ns, u64 now)
{
	struct request___flush *rq = (void *)request;
	struct blk_flush_queue *queue;
	u64 offset, head, next;
	u32 walked = 0;

	if (!bpf_core_field_exists(struct blk_mq_hw_ctx___flush, fq) ||
	    !bpf_core_field_exists(struct blk_flush_queue, flush_queue) ||
	    !bpf_core_field_exists(struct blk_flush_queue, flush_running_idx))
		return 0;
	if (bpf_core_field_exists(rq->flush.list))
		offset = bpf_core_field_offset(rq->flush.list);
	else if (bpf_core_field_exists(rq->queuelist))
		offset = bpf_core_field_offset(rq->queuelist);
	else
		return 0;
	queue = BPF_CORE_READ(rq, mq_hctx, fq);
	if (!queue)
		return 0;
	head = (u64)queue + bpf_core_field_offset(struct blk_flush_queue, flush_queue);
	if (BPF_CORE_READ_BITFIELD_PROBED(queue, flush_running_idx))
		head += bpf_core_type_size(struct list_head);
	next = (u64)BPF_CORE_READ((struct list_head *)head, next);
	// Every way out leaves at once: conditions that a later test asks again are kept as flags, whose combinations the verifier of 6.1
	// follows one by one.
	for (;; walked++) {
		if (!next || next == head)
			return 0;
		if (walked == CARRIERS_MAX) {
			count(CARRIERS_CUT, 1);
			return 0;
		}
		served(next - offset, flush_key, issue_ns, irq_ns, now);
		next = (u64)BPF_CORE_READ((struct list_head *)next, next);
	}
}

// A request of the flush machinery completes; whether it goes on for it. A carrier with data completes twice: once its
// data, then the sequence, after which its bio ends. While the sequence runs it has RQF_FLUSH_SEQ (as has a flush, always).
static __always_inline bool flush_step(struct slot *slot, struct request *rq, u64 now)
{
	s32 vector;
	u64 irq_ns = interrupt_begin(slot->facts.issue_ns, &vector);

	if ((rq->cmd_flags & REQ_OP_MASK) != REQ_OP_FLUSH) {
		send_carrier(slot, 0, slot->facts.issue_ns, irq_ns, now);
		return 1;
	}
	flush_done(as_number(rq, 0), give_key(slot), slot->facts.issue_ns, irq_ns, now);
	return 0;
}
