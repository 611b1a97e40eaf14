// Bios of volumes (dm, md): one record per bio that a volume gets, and one for each bio of a member's request that
// comes from a volume. Which bio of the volume that was is found out when the case is sealed, by place and time: drivers
// of volumes clone bios, split them, or carry their data over into bios of their own, each in its own way, and
// block_bio_remap tells of all of them where they come from.
// All times are bpf_ktime_get_ns() = CLOCK_MONOTONIC.
#include "../bpf/kernel.h"

// The order is that of `COUNTERS` in mod.rs.
enum counter {
	RING_FULL,
	MAP_FULL,    // bios that found no room in a table
	NO_COMPLETE, // bios of volumes whose end passed unseen
	WALK_CUT,    // a request with more bios than are followed
	OWN_BIOS,    // left out: the recorder's own
	OWN_BYTES,
	COUNTERS,
};
#include "../bpf/probe.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>
#include "../block/bio.h"

#define MAJORS 4
#define BIOS_MAX 256
#define REQ_OP_MASK 0xff

// Set by the loader: majors of drivers that make volumes; 0 = none.
const volatile u32 volume_majors[MAJORS] = {};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

// A disk that has no requests, only bios, has submit_bio.
struct block_device_operations {
	void *submit_bio;
};

struct gendisk___stack {
	int major;
	int first_minor;
	struct block_device_operations *fops;
};

struct block_device___stack {
	struct gendisk___stack *bd_disk;
	u32 bd_dev;
};

struct bio___stack {
	struct block_device___stack *bi_bdev;
	u32 bi_opf;
	u8 bi_status;
	struct bvec_iter___bio bi_iter;
	struct blkcg_gq *bi_blkg;
};

#pragma clang attribute pop

// Not typedefs: the loader looks for types of their names in the kernel.
#define bio_t struct bio___stack
#define disk_t struct gendisk___stack

// Where a bio comes from: the volume above, and the place there. 0 = from none.
struct origin {
	u64 time_ns;
	u64 sector_512;
	u32 device;
	u32 size_bytes;
};

// Kinds of records; the twins are in layout.rs.
#define KIND_BIO 1
#define KIND_MEMBER 2

#define BIO_THROTTLED 1 // as SLOT_THROTTLED

struct volume_bio {
	u32 kind;
	u32 device;
	u64 queue_ns;
	u64 complete_ns;
	u64 sector_512;
	struct owner owner;
	struct origin origin;
	u64 comm[2];
	u32 cmd_flags;
	s32 pid;
	s32 tid;
	u16 cpu;
	u16 complete_cpu;
	u8 status; // blk_status_t
	u8 flags;
	u16 pad;
	u32 pad2;
};

struct member {
	u32 kind;
	u32 device;
	u64 issue_ns;
	u64 sector_512; // of the request
	struct origin origin;
	u32 request_bytes;
	u32 size_bytes; // of this bio
	u32 cmd_flags;
	u16 hctx;
	u16 pad;
};

// A bio that was sent from a volume to a member.
struct sent {
	struct origin origin;
	u32 cmd_flags;
	u32 queued; // it has been queued since; a second time means that its end passed unseen, and this is another bio
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 32768);
	__type(key, u64);
	__type(value, struct volume_bio);
} volumes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__type(key, u64);
	__type(value, struct sent);
} sent SEC(".maps");

static __always_inline bool of_volume(u32 major)
{
	bool found = 0;

	for (int i = 0; i < MAJORS; i++)
		found |= major && volume_majors[i] == major;
	return found;
}

// A pointer as a number, for functions that the verifier looks at by themselves.
static __always_inline u64 as_number(const void *pointer)
{
	u64 kept = (u64)pointer, number = 0;

	bpf_probe_read_kernel(&number, sizeof(number), &kept);
	return number;
}

static __always_inline u64 cgroup_of(bio_t *bio)
{
	struct blkcg_gq *group = bio->bi_blkg;

	if (!group)
		return 0;
	struct cgroup *cgroup = group->blkcg->css.cgroup;
	return cgroup ? cgroup->kn->id : 0;
}

SEC("tp_btf/block_bio_queue")
int BPF_PROG(block_bio_queue, struct bio *arg)
{
	bio_t *bio = (void *)arg;
	u64 key = (u64)arg;

	if (!recording)
		return 0;
	struct sent *from = bpf_map_lookup_elem(&sent, &key);
	if (from && from->queued) {
		bpf_map_delete_elem(&sent, &key);
		from = NULL;
	}
	if (from)
		from->queued = 1;
	disk_t *disk = bio->bi_bdev->bd_disk;
	if (!of_volume(disk->major) || !disk->fops->submit_bio)
		return 0;
	struct task_struct *task = bpf_get_current_task_btf();
	struct volume_bio volume = {
		.kind = KIND_BIO,
		.device = (u32)disk->major << 20 | disk->first_minor,
		.queue_ns = bpf_ktime_get_ns(),
		.sector_512 = bio->bi_iter.bi_sector,
		.owner = { .size_bytes = bio->bi_iter.bi_size },
		.cmd_flags = bio->bi_opf,
		.pid = task->tgid,
		.tid = task->pid,
		.cpu = bpf_get_smp_processor_id(),
		.flags = releases_throttled(task) ? BIO_THROTTLED : 0,
	};
	name_of(volume.comm, task);
	if (is_own_comm(volume.comm[0])) {
		count(OWN_BIOS, 1);
		count(OWN_BYTES, volume.owner.size_bytes);
		return 0;
	}
	if (from)
		volume.origin = from->origin;
	find_owner(as_number(arg), as_number(arg->bi_end_io), as_number(arg->bi_private), 1, &volume.owner);
	if (bpf_core_field_exists(bio->bi_blkg))
		volume.owner.cgroup = cgroup_of(bio);
	if (bpf_map_update_elem(&volumes, &key, &volume, BPF_NOEXIST)) {
		// It is there, and begins anew: its end was not seen. Or there is no room.
		if (bpf_map_update_elem(&volumes, &key, &volume, BPF_ANY))
			count(MAP_FULL, 1);
		else
			count(NO_COMPLETE, 1);
	}
	return 0;
}

SEC("tp_btf/block_bio_remap")
int BPF_PROG(block_bio_remap, struct bio *arg, u32 device, u64 sector)
{
	bio_t *bio = (void *)arg;
	u64 key = (u64)arg;

	// From a partition to its disk is no step down.
	if (!recording || !of_volume(device >> 20) || bio->bi_bdev->bd_dev == device)
		return 0;
	struct sent from = {
		.origin = {
			.time_ns = bpf_ktime_get_ns(),
			.sector_512 = sector,
			.device = device,
			.size_bytes = bio->bi_iter.bi_size,
		},
		.cmd_flags = bio->bi_opf,
		// The volume's own bio, sent on as it is, is not queued again.
		.queued = bpf_map_lookup_elem(&volumes, &key) != NULL,
	};
	if (bpf_map_update_elem(&sent, &key, &from, BPF_ANY))
		count(MAP_FULL, 1);
	return 0;
}

// Sends a record if this bio of a request comes from a volume. One that is too large for the member is split there: all
// pieces but the last are chained to it.
__noinline int send_member(u64 address, struct member *member)
{
	struct bio *bio = (void *)address;
	u64 key = address;

	if (!member)
		return 0;
	struct sent *from = bpf_map_lookup_elem(&sent, &key);
	struct bio *parent = bio;
	for (int depth = 0; !from && depth < 4; depth++) {
		if (!sym_bio_chain_endio || (u64)BPF_CORE_READ(parent, bi_end_io) != sym_bio_chain_endio)
			return 0;
		parent = BPF_CORE_READ(parent, bi_private);
		key = (u64)parent;
		from = bpf_map_lookup_elem(&sent, &key);
	}
	if (!from || (from->cmd_flags & REQ_OP_MASK) != (member->cmd_flags & REQ_OP_MASK))
		return 0;
	member->origin = from->origin;
	member->size_bytes = BPF_CORE_READ(bio, bi_iter.bi_size);
	send_event(member, sizeof(*member));
	return 0;
}

__noinline int send_members(u64 first, struct member *member)
{
	struct bio *bio = (void *)first;

	for (u32 i = 0; i < BIOS_MAX; i++) {
		if (!bio)
			return 0;
		send_member((u64)bio, member);
		bio = BPF_CORE_READ(bio, bi_next);
	}
	count(WALK_CUT, 1);
	return 0;
}

SEC("tp_btf/block_rq_issue")
int BPF_PROG(block_rq_issue, struct request *rq)
{
	if (!recording || !rq->bio)
		return 0;
	struct gendisk *disk = rq->q->disk;
	struct member member = {
		.kind = KIND_MEMBER,
		.device = disk ? (u32)disk->major << 20 | disk->first_minor : 0,
		.issue_ns = bpf_ktime_get_ns(),
		.sector_512 = rq->__sector,
		.request_bytes = rq->__data_len,
		.cmd_flags = rq->cmd_flags,
		.hctx = rq->mq_hctx->queue_num,
	};
	send_members(as_number(rq->bio), &member);
	return 0;
}

SEC("tp_btf/block_bio_complete")
int BPF_PROG(block_bio_complete, void *queue, struct bio *arg)
{
	u64 key = (u64)arg;

	if (!recording)
		return 0;
	bpf_map_delete_elem(&sent, &key);
	struct volume_bio *volume = bpf_map_lookup_elem(&volumes, &key);
	if (!volume)
		return 0;
	volume->complete_ns = bpf_ktime_get_ns();
	volume->complete_cpu = bpf_get_smp_processor_id();
	volume->status = ((bio_t *)arg)->bi_status;
	send_event(volume, sizeof(*volume));
	bpf_map_delete_elem(&volumes, &key);
	return 0;
}
