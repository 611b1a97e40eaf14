// What is behind a bio: the operation it belongs to, the file its data comes from, and who queues it.
#pragma once
#include "../bpf/owner.h"

const volatile s32 join_tgid = 0;
const volatile u32 page_shift = 12;
const volatile u64 sym_bio_chain_endio = 0;
const volatile u64 sym_iomap_dio_bio_end_io = 0;
const volatile u64 sym_blkdev_bio_end_io = 0;
const volatile u64 sym_blkdev_bio_end_io_async = 0;
const volatile u64 sym_btrfs_simple_end_io = 0;
const volatile u64 sym_btrfs_dio_end_io = 0;
const volatile u64 sym_submit_bio_wait_endio = 0;
const volatile u64 sym_bio_wait_end_io = 0;
const volatile u64 sym_io_complete_rw = 0;
const volatile u64 sym_io_complete_rw_iopoll = 0;
const volatile u64 sym_blk_throtl_dispatch_work_fn = 0;
const volatile u64 pf_kthread = 0;       // flag of the kernel's threads; 0 = not known
const volatile u64 pf_wq_worker = 0;     // flag of the kernel's workers; 0 = not known
const volatile u64 mapping_flags = ~0ull; // of folio.mapping: not a file's; all = not known

#define S_IFMT 0170000
#define S_IFBLK 0060000
#define LOOP_MAJOR 7

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct kernfs_node {
	u64 id;
};

struct cgroup {
	struct kernfs_node *kn;
};

struct cgroup_subsys_state {
	struct cgroup *cgroup;
};

struct blkcg {
	struct cgroup_subsys_state css;
};

struct blkcg_gq {
	struct blkcg *blkcg;
};

struct super_block___bio {
	u32 s_dev;
};

struct inode___bio {
	u16 i_mode;
	u32 i_rdev;
	unsigned long i_ino;
	struct super_block___bio *i_sb;
};

struct address_space___bio {
	struct inode___bio *host;
};

struct folio___bio {
	struct address_space___bio *mapping;
	unsigned long index;
};

// Of a tail page: where its folio begins, + 1 (folio_of).
struct page {
	unsigned long compound_info;
};

struct page___until_7_0 {
	unsigned long compound_head;
};

struct bio_vec {
	struct page *bv_page;
	u32 bv_offset;
};

struct bvec_iter___bio {
	u64 bi_sector;
	u32 bi_size;
	u32 bi_idx;
	u32 bi_offset; // within the piece bi_idx
};

struct bvec_iter___until_7_2 {
	u32 bi_bvec_done;
};

struct bio___until_7_2 {
	struct bvec_iter___until_7_2 bi_iter;
};

struct bio___bio {
	u32 bi_opf;
	struct bvec_iter___bio bi_iter;
	struct blkcg_gq *bi_blkg;
	struct bio_vec *bi_io_vec;
};

struct request___bio {
	struct bio___bio *bio;
};

// fs/btrfs/bio.h
struct btrfs_bio {
	void *end_io;
	void *private;
	struct bio bio;
};

// drivers/block/loop.c: follows the request
struct loop_cmd {
	struct kiocb iocb;
};

// Where an io_uring request has its task.
struct io_uring_task {
	struct task_struct *task;
};

struct io_kiocb___since_6_13 {
	struct io_uring_task *tctx;
};

struct io_kiocb___until_6_12 {
	struct task_struct *task;
};

// kernel/workqueue_internal.h, kernel/kthread.c
struct worker {
	void *current_func;
};

struct kthread {
	void *data;
};

struct task_struct___bio {
	u32 flags;
	void *worker_private;
};

#pragma clang attribute pop

// What was found; meaning of the fields: case::rows::BlockRow.
struct owner {
	u64 op_id;
	u64 owner_key;
	u64 stack_key;
	u64 inode;
	u64 file_offset_bytes;
	u64 cgroup;
	u32 file_device;
	u32 size_bytes; // of this bio
};

// The kiocb of the direct I/O that a bio belongs to; 0 = none. The chain is followed only through functions whose
// addresses were known when we loaded. A thread that waits for its bio does so on its stack (synchronous direct I/O on a
// raw device has no kiocb below): `waiting` is the address there.
// `end_io` and `private` are the bio's.
static __always_inline u64 bio_iocb(struct bio *bio, u64 end_io, u64 private, u64 *waiting)
{
	for (int depth = 0; depth < 4 && end_io == sym_bio_chain_endio; depth++) {
		bio = (void *)private;
		end_io = (u64)BPF_CORE_READ(bio, bi_end_io);
		private = (u64)BPF_CORE_READ(bio, bi_private);
	}
	if (!end_io)
		return 0;
	if (end_io == sym_iomap_dio_bio_end_io)
		return (u64)BPF_CORE_READ((struct iomap_dio *)private, iocb);
	if (end_io == sym_blkdev_bio_end_io)
		return (u64)BPF_CORE_READ((struct blkdev_dio *)private, iocb);
	if (end_io == sym_blkdev_bio_end_io_async) {
		struct blkdev_dio *dio = (void *)bio - bpf_core_field_offset(struct blkdev_dio, bio);
		return (u64)BPF_CORE_READ(dio, iocb);
	}
	if (end_io == sym_submit_bio_wait_endio || end_io == sym_bio_wait_end_io) {
		*waiting = private;
		return 0;
	}
	if (end_io == sym_btrfs_simple_end_io && bpf_core_field_exists(struct btrfs_bio, private)) {
		struct btrfs_bio *inner = (void *)bio - bpf_core_field_offset(struct btrfs_bio, bio);
		if ((u64)BPF_CORE_READ(inner, end_io) != sym_btrfs_dio_end_io)
			return 0;
		struct iomap_dio *dio = BPF_CORE_READ(inner, private);
		return (u64)BPF_CORE_READ(dio, iocb);
	}
	return 0;
}

static __always_inline s32 uring_tgid(u64 iocb)
{
	struct io_kiocb___since_6_13 *since = (void *)iocb;
	struct io_kiocb___until_6_12 *until = (void *)iocb;

	if (bpf_core_field_exists(since->tctx))
		return BPF_CORE_READ(since, tctx, task, tgid);
	if (bpf_core_field_exists(until->task))
		return BPF_CORE_READ(until, task, tgid);
	return 0;
}

// Our own operation: the user_data of the io_uring request whose direct I/O it is; 0 = none.
static __always_inline u64 own_op_id(u64 iocb)
{
	// A synchronous caller's pointer is something else entirely; then this is no known function.
	u64 complete = (u64)BPF_CORE_READ((struct kiocb *)iocb, ki_complete);

	if (!complete || (complete != sym_io_complete_rw && complete != sym_io_complete_rw_iopoll))
		return 0;
	if (uring_tgid(iocb) != join_tgid)
		return 0;
	return BPF_CORE_READ((struct io_kiocb *)iocb, cqe.user_data);
}

// The folio of a page; 0 = this kernel does not tell. A tail page says where its folio begins, with bit 0 set: the folio's
// address or, on some kernels since 7.1, a mask that makes it out of the tail's (include/linux/page-flags.h, set_compound_head).
// A mask has ones from some bit upwards, so what it lacks to zero is a power of two. Should that hold for an address, too,
// then the mask gives this address for every tail behind it.
static __always_inline u64 folio_of(struct page *page)
{
	struct page___until_7_0 *until = (void *)page;
	u64 info;

	if (bpf_core_field_exists(page->compound_info))
		info = BPF_CORE_READ(page, compound_info);
	else if (bpf_core_field_exists(until->compound_head))
		info = BPF_CORE_READ(until, compound_head);
	else
		return 0;
	if (!(info & 1))
		return (u64)page;
	info -= 1;
	u64 lacks = -info;
	return lacks & (lacks - 1) ? info : (u64)page & info;
}

// Bytes of the piece at bi_idx that are behind a bio; -1 = this kernel does not tell.
static __always_inline s64 bytes_done(struct bio___bio *bio)
{
	struct bio___until_7_2 *until = (void *)bio;

	if (bpf_core_field_exists(bio->bi_iter.bi_offset))
		return BPF_CORE_READ(bio, bi_iter.bi_offset);
	if (bpf_core_field_exists(until->bi_iter.bi_bvec_done))
		return BPF_CORE_READ(until, bi_iter.bi_bvec_done);
	return -1;
}

// The place in a file that a bio's data has in the page cache.
static __always_inline void look_at_folio(struct bio___bio *bio, struct owner *owner)
{
	u64 vec = (u64)BPF_CORE_READ(bio, bi_io_vec);
	u64 first = BPF_CORE_READ(bio, bi_iter.bi_idx);

	if (!vec || !owner->size_bytes)
		return;
	vec += first * bpf_core_type_size(struct bio_vec);
	struct page *page = BPF_CORE_READ((struct bio_vec *)vec, bv_page);
	if (!page)
		return;
	struct folio___bio *folio = (void *)folio_of(page);
	s64 done = bytes_done(bio);
	if (!folio || done < 0)
		return;
	u64 mapping = (u64)BPF_CORE_READ(folio, mapping);
	if (!mapping || mapping & mapping_flags)
		return;
	struct inode___bio *host = BPF_CORE_READ((struct address_space___bio *)mapping, host);
	if (!host)
		return;
	if ((BPF_CORE_READ(host, i_mode) & S_IFMT) == S_IFBLK) {
		owner->file_device = BPF_CORE_READ(host, i_rdev);
	} else {
		owner->inode = BPF_CORE_READ(host, i_ino);
		owner->file_device = BPF_CORE_READ(host, i_sb, s_dev);
	}
	u64 pages = ((u64)page - (u64)folio) / bpf_core_type_size(struct page) + BPF_CORE_READ(folio, index);
	owner->file_offset_bytes = (pages << (page_shift & 63)) + BPF_CORE_READ((struct bio_vec *)vec, bv_offset) + done;
}

// Finds the owner of a bio of owner->size_bytes. `files`: look into the page cache, too. Not static and not inline: the
// verifier then looks at it once, not once per call and turn of a loop, where its branches would multiply.
__noinline int find_owner(u64 address, u64 end_io, u64 private, u32 files, struct owner *owner)
{
	struct bio *bio = (void *)address;

	if (!owner)
		return 0;
	owner->op_id = 0;
	owner->owner_key = 0;
	owner->inode = 0;
	owner->file_offset_bytes = 0;
	owner->file_device = 0;
	u64 waiting = 0;
	u64 iocb = bio_iocb(bio, end_io, private, &waiting);
	if (iocb) {
		owner->owner_key = owner_of_kiocb(iocb);
		if (join_tgid)
			owner->op_id = own_op_id(iocb);
	} else if (waiting) {
		owner->owner_key = owner_key(waiting & ~(owner_stack_bytes - 1));
	} else if (files) {
		look_at_folio((void *)bio, owner);
	}
	return 0;
}

// The group that the I/O is accounted to: the submitter's, or that of who dirtied the page.
static __always_inline u64 bio_cgroup(struct request *rq)
{
	struct bio___bio *bio = ((struct request___bio *)rq)->bio;

	if (!bio || !bpf_core_field_exists(bio->bi_blkg))
		return 0;
	struct blkcg_gq *group = bio->bi_blkg;
	if (!group)
		return 0;
	struct cgroup *cgroup = group->blkcg->css.cgroup;
	return cgroup ? cgroup->kn->id : 0;
}

// The loop driver hands a request on as I/O of a kiocb that lies behind it. `request` must be a number to the verifier.
static __always_inline u64 loop_stack_key(u64 request)
{
	if (!bpf_core_field_exists(struct loop_cmd, iocb))
		return 0;
	return owner_key(request + bpf_core_type_size(struct request) + bpf_core_field_offset(struct loop_cmd, iocb));
}

// Whether the bios that this thread queues were held back by the I/O controller until now.
static __always_inline bool releases_throttled(struct task_struct *current)
{
	struct task_struct___bio *task = (void *)current;

	if (!(task->flags & pf_wq_worker) || !sym_blk_throtl_dispatch_work_fn)
		return 0;
	if (!bpf_core_field_exists(task->worker_private))
		return 0;
	struct kthread *thread = task->worker_private;
	struct worker *worker = BPF_CORE_READ(thread, data);
	return (u64)BPF_CORE_READ(worker, current_func) == sym_blk_throtl_dispatch_work_fn;
}
