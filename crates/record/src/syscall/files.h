// Kernel types that this probe reads beyond those of kernel.h; the rules are told there.
#pragma once

#define MAP_TYPE_PERCPU_ARRAY 6 // uapi/linux/bpf.h

// uapi: a control block of libaio
struct iocb {
	u64 aio_data;
	u32 aio_key;
	u32 aio_rw_flags;
	u16 aio_lio_opcode;
	u16 aio_reqprio;
	u32 aio_fildes;
	u64 aio_buf;
	u64 aio_nbytes;
	u64 aio_offset;
	u64 aio_reserved2;
	u32 aio_flags;
	u32 aio_resfd;
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct thread_info {
	u32 status;
};

struct qstr {
	u32 hash;
	const unsigned char *name;
};

struct super_block;

struct dentry {
	struct dentry *d_parent;
	struct qstr d_name;
	struct super_block *d_sb;
};

struct vfsmount {
	struct dentry *mnt_root;
};

// fs/mount.h
struct mount {
	struct mount *mnt_parent;
	struct dentry *mnt_mountpoint;
	struct vfsmount mnt;
};

struct path {
	struct vfsmount *mnt;
	struct dentry *dentry;
};

struct backing_dev_info {
	void *dev; // NULL: nothing is behind it
};

struct super_block {
	u32 s_dev;
	unsigned long s_magic;
	struct backing_dev_info *s_bdi;
};

struct inode {
	u16 i_mode;
	u32 i_rdev;
	s64 i_size;
	unsigned long i_ino;
	struct super_block *i_sb;
};

struct file {
	u32 f_flags;
	s64 f_pos;
	struct inode *f_inode;
	struct path f_path;
	void *private_data;
};

struct vm_area_struct {
	unsigned long vm_start;
	unsigned long vm_pgoff;
	struct file *vm_file;
};

struct fdtable {
	u32 max_fds;
	struct file **fd;
};

#define PAGE_SHIFT 12 // on x86
#define DESCRIPTORS_INSIDE 64 // NR_OPEN_DEFAULT on 64 bits: the table that every files_struct begins with

struct files_struct {
	struct fdtable *fdt;
	struct file *fd_array[DESCRIPTORS_INSIDE];
};

// fs/aio.c
struct kioctx_table {
	u32 nr;
	struct kioctx *table[0];
};

struct mm_struct {
	struct kioctx_table *ioctx_table;
};

struct signal_struct {
	atomic_t live; // threads
};

struct fs_struct {
	struct path pwd;
};

struct task_struct___files {
	struct thread_info thread_info;
	void *stack;
	struct mm_struct *mm;
	struct fs_struct *fs;
	struct files_struct *files;
	struct signal_struct *signal;
	unsigned long nvcsw; // how often it gave up its CPU to sleep
};

// arch/x86
struct pt_regs {
	unsigned long di;
	unsigned long si;
	unsigned long dx;
	unsigned long r10;
	unsigned long r8;
	unsigned long r9;
	unsigned long orig_ax;
};

struct kiocb___files {
	s64 ki_pos;
};

struct io_cqe___files {
	s32 res;
	int fd; // until it is issued
};

struct io_kiocb___files {
	struct file *file;
	u8 opcode;
	u32 flags; // 64 bits since 6.8, of which these are the lower
	struct io_cqe___files cqe;
};

// io_uring/rw.c, io_uring/sync.c: what a request begins with
struct io_rw {
	struct kiocb___files kiocb;
	u64 addr;
	u32 len;
	u32 flags;
};

struct io_sync {
	s64 len;
	s64 off;
};

#pragma clang attribute pop

static __always_inline struct task_struct___files *more(struct task_struct *task)
{
	return (void *)task;
}
