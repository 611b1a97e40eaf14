// Kernel types of writeback and of journals. The rules of kernel.h hold here, too.
#pragma once
#include "pages.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct device {
	u32 devt;
};

struct backing_dev_info {
	struct device *owner; // the disk; NULL where there is no one disk
};

struct bdi_writeback {
	struct backing_dev_info *bdi;
};

enum wb_reason { WB_REASON_BACKGROUND };

struct wb_writeback_work {
	long nr_pages;
	struct super_block *sb;
	enum wb_reason reason;
};

struct writeback_control {
	long nr_to_write;
};

// Its fields tell which arguments the tracepoint balance_dirty_pages has.
struct trace_event_raw_balance_dirty_pages {
	unsigned long wb_setpoint; // `bdi_setpoint` where it has twelve
};

struct block_device {
	u32 bd_dev;
};

struct journal_s {
	struct block_device *j_fs_dev;
	int j_blocksize;
};

struct transaction_s {
	u32 t_tid;
};

struct transaction_run_stats_s {
	u32 rs_blocks_logged;
};

struct transaction_chp_stats_s {
	u32 cs_written;
};

struct ext4_inode_info {
	struct inode vfs_inode;
	u32 i_sync_tid;
	u32 i_datasync_tid;
};

struct xfs_mount {
	struct super_block *m_super;
};

struct xfs_inode {
	struct xfs_mount *i_mount;
	struct inode i_vnode;
};

struct xlog {
	struct xfs_mount *l_mp;
};

struct btrfs_commit_stats {
	u64 last_commit_dur; // ns
};

struct btrfs_fs_info {
	struct super_block *sb;
	struct btrfs_commit_stats commit_stats; // since 6.1
};

struct task_struct___memory {
	void *mm; // NULL = a thread of the kernel
};

#pragma clang attribute pop

enum pageflags___writeback { PG_writeback = 1 };
