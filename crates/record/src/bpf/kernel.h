// The few kernel types that our probes read, by field name.
//
// Every record below is relocated when it is loaded (CO-RE): order, gaps and sizes here mean nothing,
// only the names of structs and fields and the width of a field do. So no header generated from one
// kernel is needed, and one object serves every kernel that still has the fields. A field that some kernel
// lacks must be guarded with bpf_core_field_exists.
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef signed int s32;
typedef signed long long s64;
typedef _Bool bool;

// Names that bpf_helpers.h expects.
typedef u8 __u8;
typedef u16 __u16;
typedef u32 __u32;
typedef u64 __u64;
typedef s32 __s32;
typedef s64 __s64;
typedef u16 __be16;
typedef u32 __be32;
typedef u32 __wsum;

#define NULL ((void *)0)

// Values of the stable user interface (uapi/linux/bpf.h).
enum { BPF_ANY = 0, BPF_NOEXIST = 1 };
enum {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PROG_ARRAY = 3,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_RINGBUF = 27,
};
enum { BPF_F_MMAPABLE = 1 << 10 };
enum { BPF_RB_NO_WAKEUP = 1 };

// uapi: what becomes of a control block of libaio
struct io_event {
	u64 data;
	u64 obj; // the control block
	s64 res;
	s64 res2;
};

// uapi: what a raw tracepoint program is given
struct bpf_raw_tracepoint_args {
	u64 args[1];
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct gendisk {
	int major;
	int first_minor;
};

struct request_queue {
	struct gendisk *disk;
};

struct blk_mq_hw_ctx {
	u32 queue_num;
};

struct bvec_iter {
	u32 bi_size;
};

struct bio {
	struct bio *bi_next;
	struct bvec_iter bi_iter;
	void *bi_end_io;
	void *bi_private;
};

typedef struct {
	int counter;
} atomic_t;

struct request {
	struct request_queue *q;
	struct blk_mq_hw_ctx *mq_hctx;
	u32 cmd_flags;
	u32 rq_flags;
	u32 __data_len;
	u64 __sector;
	struct bio *bio;
	struct bio *biotail;
	atomic_t ref; // 0 = free
};

struct irqaction {
	struct irqaction *next;
};

struct task_struct {
	int pid;
	int tgid;
	char comm[16];
};

struct kiocb {
	void *ki_complete;
};

// fs/aio.c
struct kioctx {
	unsigned long user_id;
};

struct aio_kiocb {
	struct kioctx *ki_ctx;
	struct io_event ki_res;
};

// fs/iomap/direct-io.c
struct iomap_dio {
	struct kiocb *iocb;
};

// block/fops.c
struct blkdev_dio {
	struct kiocb *iocb;
	struct bio bio;
};

// io_uring: a read or write begins with its kiocb, so a kiocb's address is its io_kiocb's.
struct io_cqe {
	u64 user_data;
};

struct io_kiocb {
	struct io_cqe cqe;
};

#pragma clang attribute pop
