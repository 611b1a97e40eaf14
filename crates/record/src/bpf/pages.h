// Kernel types of files, their pages and the calls of a thread, for the probes of page cache and writeback. The rules of
// kernel.h hold here, too.
#pragma once
#include "kernel.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct super_block {
	u32 s_dev;
};

struct inode {
	u16 i_mode;
	u32 i_rdev;
	struct super_block *i_sb;
	unsigned long i_ino;
	s64 i_size;
};

struct address_space {
	struct inode *host;
};

// The number of pages moved and changed its name: `_folio_nr_pages` until 6.13, `_nr_pages` since.
struct folio {
	struct address_space *mapping;
	unsigned long index;
	u32 _nr_pages;
};

struct folio___until_6_13 {
	u32 _folio_nr_pages;
};

struct task_io_accounting {
	u64 syscr; // reads that this thread has ended
};

struct task_struct___pages {
	int pid;
	int tgid;
	unsigned long min_flt;
	unsigned long maj_flt;
	u32 in_iowait : 1;
	struct task_io_accounting ioac;
};

struct file {
	struct inode *f_inode;
	struct address_space *f_mapping;
	s64 f_pos;
};

struct fdtable {
	u32 max_fds;
	struct file **fd;
};

struct files_struct {
	struct fdtable *fdt;
};

struct task_struct___files {
	struct files_struct *files;
};

// The registers with which a thread entered the kernel.
struct pt_regs {
	u64 orig_ax; // x86
	u64 di;
	u64 r10;
};

struct pt_regs___arm64 {
	s32 syscallno;
};

#pragma clang attribute pop

enum pageflags { PG_head = 6 };

#define S_IFMT 0170000
#define S_IFBLK 0060000

static __always_inline bool is_block_device(struct inode *inode)
{
	return (inode->i_mode & S_IFMT) == S_IFBLK;
}

// Numbers of a file: its inode and file system; of a block device: 0 and its own.
static __always_inline u64 inode_number(struct inode *inode)
{
	return is_block_device(inode) ? 0 : inode->i_ino;
}

static __always_inline u32 inode_device(struct inode *inode)
{
	return is_block_device(inode) ? inode->i_rdev : inode->i_sb->s_dev;
}

// A thread that is not in a system call, but in an exception.
#define NO_CALL ((s32)-1)

// Number of the system call that a thread is in; NO_CALL in a page fault of user code.
static __always_inline s32 call_number(struct task_struct *task)
{
	struct pt_regs *regs = (void *)bpf_task_pt_regs(task);

	if (bpf_core_field_exists(regs->orig_ax))
		return (s32)regs->orig_ax;
	return ((struct pt_regs___arm64 *)regs)->syscallno;
}

// Reads that a thread has ended: the same number twice means the same call. Zero where the kernel does not account.
static __always_inline u64 reads_ended(struct task_struct *task)
{
	struct task_struct___pages *of = (void *)task;

	return bpf_core_field_exists(of->ioac) ? of->ioac.syscr : 0;
}

// Page faults that a thread has ended: the same number twice means the same fault (mm/memory.c, mm_account_fault).
static __always_inline u64 faults_ended(struct task_struct *task)
{
	struct task_struct___pages *of = (void *)task;

	return of->min_flt + of->maj_flt;
}

static __always_inline bool in_iowait(struct task_struct *task)
{
	return BPF_CORE_READ_BITFIELD((struct task_struct___pages *)task, in_iowait);
}

static __always_inline u32 folio_pages(struct folio *folio)
{
	u32 head = bpf_core_enum_value(enum pageflags, PG_head);
	// The flags are a folio's first word, as they are a page's; their type has changed.
	u64 flags = *(u64 *)folio;

	if (!(flags & (1ull << (head & 63))))
		return 1;
	if (bpf_core_field_exists(folio->_nr_pages))
		return folio->_nr_pages;
	return ((struct folio___until_6_13 *)folio)->_folio_nr_pages;
}

// Calls that read from where the file stands, and calls that are told where (x86-64).
enum { CALL_READ = 0, CALL_PREAD = 17, CALL_READV = 19, CALL_PREADV = 295, CALL_PREADV2 = 327 };

// Where in a file the read begins that a thread is in, in bytes; -1 if it is in no such call, or reads another file.
static __always_inline s64 read_begin(struct task_struct *task, struct inode *inode)
{
	struct pt_regs *regs = (void *)bpf_task_pt_regs(task);
	struct fdtable *table;
	struct file *file;
	s32 call;

	if (!bpf_core_field_exists(regs->orig_ax))
		return -1;
	call = (s32)regs->orig_ax;
	if (call != CALL_READ && call != CALL_READV && call != CALL_PREAD && call != CALL_PREADV && call != CALL_PREADV2)
		return -1;
	table = ((struct task_struct___files *)task)->files->fdt;
	if ((u32)regs->di >= table->max_fds ||
	    bpf_probe_read_kernel(&file, sizeof(file), table->fd + (u32)regs->di) ||
	    BPF_CORE_READ(file, f_mapping, host) != inode)
		return -1;
	// The second version reads from where the file stands if it is told -1.
	if (call == CALL_READ || call == CALL_READV || (call == CALL_PREADV2 && (s64)regs->r10 < 0))
		return BPF_CORE_READ(file, f_pos);
	return regs->r10;
}
