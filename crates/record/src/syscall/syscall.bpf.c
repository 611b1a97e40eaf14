// Storage operations as programs ask for them: system calls, io_uring requests, libaio control blocks. One record per
// operation, sent when it ends.
//
// What is known of an operation in flight gathers in a struct call. Those of system calls are kept by thread, since a
// thread is in one call at a time; those of io_uring and libaio by the address that stands for the request.
// All times are bpf_ktime_get_ns() = CLOCK_MONOTONIC.
#include "../bpf/kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>
#include "files.h"

// What went otherwise than hoped. The order is that of `COUNTERS` in layout.rs.
enum counter {
	RING_FULL,      // a name that found no room in the ring of names
	RECORDS_FULL,   // an operation that ended and found no room in its CPU's ring
	RECORDS_BUSY,   // or found another program writing to it
	TABLE_FULL,     // an operation that began and found no place
	VECTORS_CUT,    // operations of one io_submit or io_getevents beyond those that are looked at
	USER_UNREAD,    // operations whose control block could not be read
	OWN_CALLS,      // left out: our own threads'
	SKIPPED_KINDS,  // calls on pipes, sockets, terminals, and on directories what is no sync
	SKIPPED_MEMORY, // calls on files that have no device behind them
	SKIPPED_COMPAT, // calls of 32-bit programs
	SLOTS_OVERFLOW, // operations that lived in the overflow map
	NAMES_CUT,      // names too long or too deep
	SCOPE_FULL,     // a process that found no room in `scope`
	OUT_OF_SCOPE,   // calls that may be storage operations, of processes that are not looked at
	COUNTERS,
};
#include "../bpf/probe.h"
#include "../bpf/owner.h"
#include "../bpf/ring.h"
#include "../bpf/scope.h"
#include "shapes.h"
#include "call.h"
#include "names.h"

#define AIO_BATCH_MAX 512
#define AIO_CONTEXTS_MAX 256
#define VECTORS_MAX 1024
#define GIVEN_NAME_MAX 1024

// uapi
#define O_APPEND 02000
#define O_DSYNC 010000
#define O_DIRECT 040000
#define RWF_DSYNC 2
#define RWF_SYNC 4
#define RWF_NOWAIT 8
#define RWF_APPEND 16
#define IORING_ENTER_GETEVENTS 1
#define POSIX_FADV_DONTNEED 4
#define BLKFLSBUF 0x1261
#define AT_FDCWD -100
#define S_IFMT 0170000
#define S_IFDIR 0040000
#define S_IFBLK 0060000
#define S_IFREG 0100000
#define OVERLAYFS_SUPER_MAGIC 0x794c7630
#define TS_COMPAT 2
#define REQ_F_FIXED_FILE 1 // first of enum io_req_flags

// Set by the loader. What overlayfs keeps in the private data of a regular file: since 6.13 a struct of its own that begins with the real file, before
// that the real file (fs/overlayfs/file.c, `struct ovl_file`; as a module it is in no type information of the kernel itself).
const volatile bool overlay_wraps = 0;
#define OVERLAYS_MAX 2 // on each other

// What an operation's file is.
struct file_facts {
	u64 file;
	u64 node; // address of the inode
	u64 inode;
	u32 device;
	u32 flags;  // of struct call
	u32 opened; // O_*
	bool folders; // wanted, too
};

static __always_inline bool is_compat(struct task_struct *task)
{
#ifdef __TARGET_ARCH_x86
	return more(task)->thread_info.status & TS_COMPAT;
#else
	return 0;
#endif
}

// Whether operations of this task are wanted.
static __always_inline bool in_scope(struct task_struct *task)
{
	if (recording == OVER)
		return 0;
	if (scope_has(task->tgid))
		return 1;
	if (recording == DURING)
		count(OUT_OF_SCOPE, 1);
	return 0;
}

// An element by a constant place keeps its type; the argument of `asm` makes each unlike the others, or the compiler would
// read them all at one place that it computes.
#define INSIDE(n)                                                                                                     \
	case (n):                                                                                                      \
		file = files->fd_array[n];                                                                             \
		asm volatile("" : "+r"(file) : "i"(n));                                                                \
		return file
#define INSIDE_8(n)                                                                                                   \
	INSIDE(n);                                                                                                     \
	INSIDE(n + 1);                                                                                                 \
	INSIDE(n + 2);                                                                                                 \
	INSIDE(n + 3);                                                                                                 \
	INSIDE(n + 4);                                                                                                 \
	INSIDE(n + 5);                                                                                                 \
	INSIDE(n + 6);                                                                                                 \
	INSIDE(n + 7)

// The file of one of a program's first descriptors, as long as it never had more: then it is read as it is, and so is all
// that it points to. A helper costs more than all of that, and it takes five to nine to look at a file.
static __always_inline struct file *file_inside(struct files_struct *files, u32 fd)
{
	struct file *file;

	switch (fd) {
		INSIDE_8(0);
		INSIDE_8(8);
		INSIDE_8(16);
		INSIDE_8(24);
		INSIDE_8(32);
		INSIDE_8(40);
		INSIDE_8(48);
		INSIDE_8(56);
	}
	return NULL;
}

// Reads a field as it is where the verifier knows the pointer's type, or else by a helper.
#define GET(pointer, field) (typed ? (pointer)->field : BPF_CORE_READ(pointer, field))

// The file that one of overlayfs passes everything on to: its numbers are those that requests and pages have. Its own stay where the real one is not known.
// Whether storage is behind it.
static __noinline int look_through_overlay(u64 address, struct file_facts *facts)
{
	struct super_block *super = NULL;
	struct inode *inode = NULL;

	if (!facts)
		return 0;
	for (u32 i = 0; i < OVERLAYS_MAX && (!super || BPF_CORE_READ(super, s_magic) == OVERLAYFS_SUPER_MAGIC); i++) {
		u64 real = (u64)BPF_CORE_READ((struct file *)address, private_data);

		if (overlay_wraps && real)
			bpf_probe_read_kernel(&real, sizeof(real), (void *)real);
		if (!real)
			break;
		address = real;
		inode = BPF_CORE_READ((struct file *)address, f_inode);
		super = BPF_CORE_READ(inode, i_sb);
	}
	if (!super)
		return 1;
	if (!BPF_CORE_READ(super, s_bdi, dev) && BPF_CORE_READ(super, s_magic) != OVERLAYFS_SUPER_MAGIC) {
		count(SKIPPED_MEMORY, 1);
		return 0;
	}
	facts->node = (u64)inode;
	facts->inode = BPF_CORE_READ(inode, i_ino);
	facts->device = BPF_CORE_READ(super, s_dev);
	return 1;
}

// Whether a file is one that storage is behind; fills in the facts if so.
static __always_inline bool facts_of(struct file *file, struct file_facts *facts, const bool typed)
{
	struct inode *inode = GET(file, f_inode);
	u32 kind = GET(inode, i_mode) & S_IFMT;

	facts->flags = 0;
	facts->file = (u64)file;
	facts->node = (u64)inode;
	if (kind == S_IFREG || (kind == S_IFDIR && facts->folders)) {
		struct super_block *super = GET(inode, i_sb);
		struct backing_dev_info *bdi = GET(super, s_bdi);
		facts->inode = GET(inode, i_ino);
		facts->device = GET(super, s_dev);
		// Memory file systems share a backing device that is none. So does overlayfs, which passes everything on to
		// another one.
		if (!GET(bdi, dev)) {
			if (GET(super, s_magic) != OVERLAYFS_SUPER_MAGIC) {
				count(SKIPPED_MEMORY, 1);
				return 0;
			}
			if (kind == S_IFREG && !look_through_overlay((u64)file, facts))
				return 0;
		}
	} else if (kind == S_IFBLK) {
		facts->inode = 0;
		facts->device = GET(inode, i_rdev);
		facts->flags |= FLAG_BLOCK_DEVICE;
	} else {
		count(SKIPPED_KINDS, 1);
		return 0;
	}
	facts->opened = GET(file, f_flags);
	return 1;
}

static __noinline int look_at_file(u64 address, struct file_facts *facts)
{
	return facts && facts_of((void *)address, facts, 0);
}

// Whether a descriptor is that of a file that storage is behind; fills in the facts if so.
static __always_inline bool look_at_descriptor(struct task_struct *task, u32 fd, struct file_facts *facts)
{
	struct files_struct *files = more(task)->files;
	u64 address = 0;

	if (!files)
		return 0;
	struct fdtable *table = files->fdt;
	if (!table || fd >= table->max_fds)
		return 0;
	// A table that had to grow is larger.
	if (table->max_fds == DESCRIPTORS_INSIDE) {
		struct file *file = file_inside(files, fd);
		return file && facts_of(file, facts, 1);
	}
	bpf_probe_read_kernel(&address, sizeof(address), table->fd + fd);
	return address && look_at_file(address, facts);
}

// What is mapped at an address of a program.
struct mapped {
	u64 address;
	u64 file; // 0: none is
	u64 offset;
	u64 looked;
};

static long look_at_mapped(struct task_struct *task, struct vm_area_struct *area, void *context)
{
	struct mapped *mapped = context;

	mapped->looked = 1;
	mapped->file = (u64)area->vm_file;
	mapped->offset = mapped->address - area->vm_start + (area->vm_pgoff << PAGE_SHIFT);
	return 0;
}

// Whether a file that storage is behind is mapped there, or it cannot be told, as while the mappings change; fills in what is known.
static __always_inline bool look_at_address(struct task_struct *task, struct mapped *mapped, struct file_facts *facts)
{
	bpf_find_vma(task, mapped->address, look_at_mapped, mapped, 0);
	if (mapped->file)
		return look_at_file(mapped->file, facts);
	count(SKIPPED_KINDS, mapped->looked);
	return !mapped->looked;
}

static __always_inline void set_file(struct call *call, struct file_facts *facts)
{
	call->inode = facts->inode;
	call->device = facts->device;
	call->flags |= facts->flags;
	if (facts->opened & O_DIRECT)
		call->flags |= FLAG_DIRECT;
	if (call->op == OP_WRITE && facts->opened & O_DSYNC)
		call->flags |= FLAG_SYNC;
	if (call->op == OP_WRITE && facts->opened & O_APPEND)
		call->flags |= FLAG_APPEND;
	if (!is_named(facts->device, facts->inode))
		name_file(facts->file, facts->device, facts->inode, 0);
}

// Flags of one operation (RWF_*).
static __always_inline void set_rwf(struct call *call, u32 rwf)
{
	if (call->op == OP_WRITE && rwf & (RWF_DSYNC | RWF_SYNC))
		call->flags |= FLAG_SYNC;
	if (call->op == OP_WRITE && rwf & RWF_APPEND)
		call->flags |= FLAG_APPEND;
	if (rwf & RWF_NOWAIT)
		call->flags |= FLAG_NOWAIT;
}

static __always_inline void set_append_offset(struct call *call, struct file_facts *facts)
{
	struct inode *inode = (void *)facts->node;

	if (call->flags & FLAG_APPEND)
		call->offset = BPF_CORE_READ(inode, i_size);
}

// Bytes that an array of vectors asks for. This and some further functions are not static: the verifier then looks at them
// once, not once per call or turn of a loop, where their branches would multiply.
__noinline u64 vector_bytes(u64 vectors, u32 vector_count)
{
	u64 sum = 0, bytes;

	for (u32 i = 0; i < VECTORS_MAX && i < vector_count; i++) {
		if (bpf_probe_read_user(&bytes, sizeof(bytes), (void *)(vectors + 16 * i + 8)))
			return SIZE_UNREAD;
		sum += bytes;
	}
	return sum;
}

static __always_inline void set_size(struct call *call, u64 bytes)
{
	call->size = bytes;
	if (bytes == SIZE_UNREAD) {
		call->size = 0;
		call->flags |= FLAG_SIZE_UNSEEN;
	}
}

static __always_inline u64 read_user_u64(u64 address)
{
	u64 value = 0;

	if (address)
		bpf_probe_read_user(&value, sizeof(value), (void *)address);
	return value;
}

static __always_inline u64 position(struct file_facts *facts)
{
	struct file *file = (void *)facts->file;

	return BPF_CORE_READ(file, f_pos);
}

// Place and size of a system call. `mapped`: where in its file what it names by an address is.
static __always_inline void set_extent(struct call *call, struct pt_regs *regs, struct file_facts *facts, u64 mapped)
{
	switch (call->shape) {
	case SHAPE_DATA:
		call->offset = position(facts);
		call->size = regs->dx;
		break;
	case SHAPE_DATA_AT:
		call->offset = regs->r10;
		call->size = regs->dx;
		break;
	case SHAPE_VECTOR:
		call->offset = position(facts);
		set_size(call, vector_bytes(regs->si, regs->dx));
		break;
	case SHAPE_VECTOR_AT:
		call->offset = regs->r10;
		if (call->call == CALL_PREADV2 || call->call == CALL_PWRITEV2) {
			set_rwf(call, regs->r9);
			if (regs->r10 == ~0ul)
				call->offset = position(facts);
		}
		set_size(call, vector_bytes(regs->si, regs->dx));
		break;
	case SHAPE_RANGE:
	case SHAPE_ADVICE:
		call->offset = regs->si;
		call->size = regs->dx;
		break;
	case SHAPE_ALLOCATE:
		call->offset = regs->dx;
		call->size = regs->r10;
		break;
	case SHAPE_COPY:
		call->offset = regs->si ? read_user_u64(regs->si) : position(facts);
		call->size = regs->r8;
		break;
	case SHAPE_SENDFILE:
		call->offset = regs->dx ? read_user_u64(regs->dx) : position(facts);
		call->size = regs->r10;
		break;
	case SHAPE_MAPPED:
		call->offset = mapped;
		call->size = regs->si;
		break;
	}
	set_append_offset(call, facts);
}

static __always_inline struct kioctx_table *aio_table(void)
{
	struct task_struct___files *task = more(bpf_get_current_task_btf());

	if (!bpf_core_field_exists(task->mm->ioctx_table))
		return NULL;
	return BPF_CORE_READ(task, mm, ioctx_table);
}

// A context by its place in the table; 0 unless it is the one that the program knows by `user_id`.
static __always_inline u64 aio_context_at(struct kioctx_table *table, u32 index, u64 user_id)
{
	u64 first = (u64)table + bpf_core_field_offset(struct kioctx_table, table);
	struct kioctx *context = NULL;

	bpf_probe_read_kernel(&context, sizeof(context), (void *)(first + index * sizeof(u64)));
	return context && BPF_CORE_READ(context, user_id) == user_id ? (u64)context : 0;
}

// The kernel's object behind a libaio context, which the program knows by the address of a ring that begins with the
// context's place in a table. Before its first use the ring is not in the program's page table.
__noinline u64 aio_context(u64 user_id)
{
	struct kioctx_table *table = aio_table();
	u32 index;

	if (!table)
		return 0;
	u32 contexts = BPF_CORE_READ(table, nr);
	if (!bpf_probe_read_user(&index, sizeof(index), (void *)user_id))
		return index < contexts ? aio_context_at(table, index, user_id) : 0;
	for (u32 i = 0; i < AIO_CONTEXTS_MAX && i < contexts; i++) {
		u64 context = aio_context_at(table, i, user_id);
		if (context)
			return context;
	}
	count(USER_UNREAD, 1);
	return 0;
}

// One control block that a thread is about to submit. Whether io_submit will have done it when it returns: what goes through the page
// cache is done by the submitter itself, a sync is handed to a worker.
__noinline int aio_begin(u64 context, u64 address, u64 now)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct file_facts facts = {};
	struct iocb block;

	if (bpf_probe_read_user(&block, sizeof(block), (void *)address)) {
		count(USER_UNREAD, 1);
		return 0;
	}
	u32 command = block.aio_lio_opcode;
	if (command >= COMMANDS_MAX || known_commands[command].shape == SHAPE_NONE)
		return 0;
	facts.folders = known_commands[command].op == OP_SYNC;
	if (!look_at_descriptor(task, block.aio_fildes, &facts))
		return 0;
	u64 key = owner_aio(context, address);
	struct call *call = call_take(&requests, key, task, now);
	if (!call)
		return 0;
	call->via = VIA_AIO;
	call->call = command;
	call->op = known_commands[command].op;
	call->user_data = block.aio_data;
	set_file(call, &facts);
	if (call->op != OP_SYNC) {
		call->offset = block.aio_offset;
		set_rwf(call, block.aio_rw_flags);
		if (known_commands[command].shape == SHAPE_VECTOR_AT)
			set_size(call, vector_bytes(block.aio_buf, block.aio_nbytes));
		else
			call->size = block.aio_nbytes;
		set_append_offset(call, &facts);
	}
	if (call->flags & FLAG_DIRECT)
		call->owner_key = owner_key(key);
	return call->op != OP_SYNC && !(call->flags & FLAG_DIRECT);
}

// Whether some of the operations go through the page cache.
__noinline int aio_submit(u64 context, u64 blocks, u64 wanted, u64 now)
{
	u64 address;
	u32 cached = 0;

	if (!context || (s64)wanted <= 0)
		return 0;
	for (u32 i = 0; i < AIO_BATCH_MAX && i < wanted; i++) {
		if (bpf_probe_read_user(&address, sizeof(address), (void *)(blocks + 8 * i))) {
			count(USER_UNREAD, wanted - i);
			return 0;
		}
		cached |= aio_begin(context, address, now);
	}
	if (wanted > AIO_BATCH_MAX)
		count(VECTORS_CUT, wanted - AIO_BATCH_MAX);
	return cached;
}

// A control block that the kernel did not take.
__noinline int aio_forget(u64 context, u64 address)
{
	struct call *call = call_find(&requests, owner_aio(context, address));

	if (call)
		call_release(call);
	return 0;
}

__noinline int aio_refused(u64 context, u64 blocks, u64 taken, u64 wanted)
{
	u64 address;

	for (u32 i = 0; i < AIO_BATCH_MAX && taken + i < wanted; i++) {
		if (bpf_probe_read_user(&address, sizeof(address), (void *)(blocks + 8 * (taken + i))))
			return 0;
		aio_forget(context, address);
	}
	return 0;
}

// One event that a thread has reaped.
__noinline int aio_end(u64 context, u64 address, u64 now)
{
	struct io_event event;

	if (bpf_probe_read_user(&event, sizeof(event), (void *)address)) {
		count(USER_UNREAD, 1);
		return 0;
	}
	struct call *call = call_find(&requests, owner_aio(context, event.obj));
	if (!call)
		return 0;
	call->flags |= FLAG_END_IS_REAP;
	call_send(call, now, event.res);
	call_release(call);
	return 0;
}

__noinline int aio_reap(u64 context, u64 events, s64 reaped, u64 now)
{
	for (u32 i = 0; i < AIO_BATCH_MAX && i < reaped; i++)
		aio_end(context, events + i * sizeof(struct io_event), now);
	if (reaped > AIO_BATCH_MAX)
		count(VECTORS_CUT, reaped - AIO_BATCH_MAX);
	return 0;
}

// The descriptor of a call's file; -1 = it has none.
static __always_inline s64 descriptor(u32 shape, struct pt_regs *regs)
{
	switch (shape) {
	case SHAPE_OPEN:
	case SHAPE_MAPPED:
	case SHAPE_ALL:
	case SHAPE_URING:
	case SHAPE_AIO_SUBMIT:
	case SHAPE_AIO_REAP:
	case SHAPE_NAME:
	case SHAPE_NAME_AT:
	case SHAPE_TO_NAME:
	case SHAPE_TO_NAME_AT:
	case SHAPE_LOOKED_AT:
		return -1;
	case SHAPE_SENDFILE:
		return (u32)regs->si;
	}
	return (u32)regs->di;
}

// Whether a call is a storage operation, by its number and what it asks for. An io_uring_enter that asks for no completion returns with what is
// there, and has waited for nothing.
static __always_inline bool is_wanted(u32 shape, struct pt_regs *regs)
{
	switch (shape) {
	case SHAPE_NONE:
		return 0;
	case SHAPE_URING:
		return regs->dx && regs->r10 & IORING_ENTER_GETEVENTS;
	case SHAPE_ADVICE:
		return (u32)regs->r10 == POSIX_FADV_DONTNEED;
	case SHAPE_CONTROL:
		return (u32)regs->si == BLKFLSBUF;
	}
	return 1;
}

SEC("tp_btf/sys_enter")
int BPF_PROG(sys_enter, struct pt_regs *regs, long id)
{
	u64 number = id;

	if (number >= CALLS_MAX)
		return 0;
	u32 shape = known_calls[number].shape;
	if (!is_wanted(shape, regs))
		return 0;
	struct task_struct *task = bpf_get_current_task_btf();
	if (!in_scope(task))
		return 0;
	if (is_compat(task)) {
		count(SKIPPED_COMPAT, 1);
		return 0;
	}
	struct file_facts facts = { .folders = known_calls[number].op == OP_SYNC };
	s64 fd = descriptor(shape, regs);
	if (fd >= 0 && !look_at_descriptor(task, fd, &facts))
		return 0;
	struct mapped mapped = { .address = regs->di };
	if (shape == SHAPE_MAPPED && !look_at_address(task, &mapped, &facts))
		return 0;
	u64 now = bpf_ktime_get_ns();
	struct call *call = call_take(&threads, task->pid, task, now);
	if (!call)
		return 0;
	call->call = number;
	call->shape = shape;
	call->op = known_calls[number].op;
	if (fd >= 0 || mapped.file)
		set_file(call, &facts);
	switch (shape) {
	case SHAPE_URING:
		call->via = VIA_WAIT;
		call->size = regs->dx;
		break;
	case SHAPE_AIO_SUBMIT:
		call->via = VIA_WAIT;
		call->argument = aio_context(regs->di);
		call->size = regs->si;
		call->offset = regs->dx;
		call->cached = aio_submit(call->argument, call->offset, call->size, now);
		break;
	case SHAPE_AIO_REAP:
		call->via = VIA_WAIT;
		call->argument = aio_context(regs->di);
		call->offset = regs->r10;
		break;
	default:
		call->argument = more(task)->nvcsw;
		set_extent(call, regs, &facts, mapped.offset);
		if (call->flags & FLAG_DIRECT)
			// A number, as the helper gives it. What is read directly is a pointer to some verifiers (7.3), which refuse its
			// product.
			call->owner_key = owner_key((u64)BPF_CORE_READ(more(task), stack));
	}
	return 0;
}

// Whether an open gave a file that storage is behind, or failed, which may have cost as much. Folders count where it slept.
static __always_inline bool set_opened(struct call *call, struct task_struct *task, s64 result, bool slept)
{
	struct file_facts facts = { .folders = slept };

	if (result < 0)
		return 1;
	if (!look_at_descriptor(task, result, &facts))
		return 0;
	call->inode = facts.inode;
	call->device = facts.device;
	call->flags |= facts.flags;
	if (facts.opened & O_DIRECT)
		call->flags |= FLAG_DIRECT;
	name_file(facts.file, facts.device, facts.inode, 1);
	return 1;
}

// The name that a call was given. Its file is perhaps not there any more, so a number of its own stands for it: bit 63 is set. Of a name
// that begins at the root the reader finds the device; of another one it is that of the folder where the name begins.
// Returns whether storage is behind that, as far as is known here. The call is over: the kernel has read the name.
static __noinline int set_name(struct call *call, s32 folder, u64 address)
{
	struct task_struct___files *task = more(bpf_get_current_task_btf());
	struct walk *walk = this_walk();
	struct vfsmount *mount = NULL;
	struct dentry *entry = NULL;
	char first = 0;

	if (!call || !walk)
		return 1;
	if (bpf_probe_read_user(&first, sizeof(first), (void *)address)) {
		count(USER_UNREAD, 1);
		return 1;
	}
	if (first == '/') {
		address++;
	} else if (folder == AT_FDCWD) {
		mount = BPF_CORE_READ(task, fs, pwd.mnt);
		entry = BPF_CORE_READ(task, fs, pwd.dentry);
	} else {
		struct fdtable *table = BPF_CORE_READ(task, files, fdt);
		struct file *file = NULL;

		if ((u32)folder >= BPF_CORE_READ(table, max_fds))
			return 0;
		bpf_probe_read_kernel(&file, sizeof(file), BPF_CORE_READ(table, fd) + (u32)folder);
		if (!file)
			return 0;
		mount = BPF_CORE_READ(file, f_path.mnt);
		entry = BPF_CORE_READ(file, f_path.dentry);
	}
	if (entry) {
		struct super_block *super = BPF_CORE_READ(entry, d_sb);

		if (!BPF_CORE_READ(super, s_bdi, dev) && BPF_CORE_READ(super, s_magic) != OVERLAYFS_SUPER_MAGIC) {
			count(SKIPPED_MEMORY, 1);
			return 0;
		}
		call->device = BPF_CORE_READ(super, s_dev);
	}
	long length = bpf_probe_read_user_str(walk->record.text, GIVEN_NAME_MAX, (void *)address);
	if (length <= 0) {
		count(USER_UNREAD, 1);
		return 1;
	}
	walk->bytes = length;
	walk->record.cut = 0;
	if (entry)
		walk_path(walk, mount, entry);
	call->inode = 1ull << 63 | (call->start_ns * 0x9E3779B97F4A7C15ull ^ (u64)call->tid << 20) >> 1;
	walk->record.time_ns = call->start_ns;
	walk->record.inode = call->inode;
	walk->record.device = call->device;
	walk_send(walk);
	return 1;
}

// Whether the descriptor of a call that is over is that of a file or folder that storage is behind.
static __noinline int set_looked_at(struct call *call, u32 fd)
{
	struct file_facts facts = { .folders = 1 };

	if (!call || !look_at_descriptor(bpf_get_current_task_btf(), fd, &facts))
		return 0;
	set_file(call, &facts);
	return 1;
}

// Whether a call that takes a folder and a name was given none: it then is one of the descriptor's own file (futimens, AT_EMPTY_PATH).
static __always_inline bool is_nameless(u64 address)
{
	char first = 0;

	return !address || (!bpf_probe_read_user(&first, sizeof(first), (void *)address) && !first);
}

SEC("tp_btf/sys_exit")
int BPF_PROG(sys_exit, struct pt_regs *regs, long result)
{
	u64 number = regs->orig_ax;

	if (number >= CALLS_MAX || recording == OVER)
		return 0;
	u32 shape = known_calls[number].shape;
	if (!is_wanted(shape, regs))
		return 0;
	struct task_struct *task = bpf_get_current_task_btf();
	struct call *call = call_find(&threads, task->pid);
	if (!call)
		return 0;
	bool slept = call->argument != more(task)->nvcsw;
	if (!slept && is_kept_if_slept(call->op)) {
		call_release(call);
		return 0;
	}
	u64 now = bpf_ktime_get_ns();
	bool send = 1;
	switch (call->shape) {
	case SHAPE_OPEN:
		send = set_opened(call, task, result, slept);
		break;
	case SHAPE_LOOKED_AT:
		send = set_looked_at(call, regs->di);
		break;
	case SHAPE_NAME:
		send = set_name(call, AT_FDCWD, regs->di);
		break;
	case SHAPE_NAME_AT:
		send = is_nameless(regs->si) ? set_looked_at(call, regs->di) : set_name(call, regs->di, regs->si);
		break;
	case SHAPE_TO_NAME:
		send = set_name(call, AT_FDCWD, regs->si);
		break;
	case SHAPE_TO_NAME_AT:
		send = set_name(call, regs->si, regs->dx);
		break;
	case SHAPE_AIO_SUBMIT:
		// Those of its operations are known by their common start.
		send = call->cached;
		if (call->argument && result < (s64)call->size)
			aio_refused(call->argument, call->offset, result < 0 ? 0 : result, call->size);
		break;
	case SHAPE_AIO_REAP:
		send = 0;
		if (call->argument)
			aio_reap(call->argument, call->offset, result, now);
		break;
	}
	if (send)
		call_send(call, now, result);
	call_release(call);
	return 0;
}

static __always_inline int uring_begin(struct io_kiocb *req)
{
	u32 opcode = ((struct io_kiocb___files *)req)->opcode;

	if (opcode >= OPCODES_MAX || known_opcodes[opcode].shape == SHAPE_NONE)
		return 0;
	struct task_struct *task = bpf_get_current_task_btf();
	if (!in_scope(task))
		return 0;
	u64 now = bpf_ktime_get_ns();
	u32 shape = known_opcodes[opcode].shape;
	struct io_kiocb___files *request = (void *)req;
	struct file_facts facts = { .folders = known_opcodes[opcode].op == OP_SYNC };
	bool has_file = 0;
	// A registered file is looked at when the request completes.
	if (shape != SHAPE_OPEN && !(request->flags & REQ_F_FIXED_FILE)) {
		if (!look_at_descriptor(task, request->cqe.fd, &facts))
			return 0;
		has_file = 1;
	}
	struct call *call = call_take(&requests, (u64)req, task, now);
	if (!call)
		return 0;
	call->via = VIA_URING;
	call->call = opcode;
	call->shape = shape;
	call->op = known_opcodes[opcode].op;
	call->user_data = req->cqe.user_data;
	if (has_file)
		set_file(call, &facts);
	call->has_file = has_file;
	struct io_rw *rw = (void *)req;
	struct io_sync *range = (void *)req;
	switch (shape) {
	case SHAPE_DATA_AT:
	case SHAPE_VECTOR_AT:
		call->offset = rw->kiocb.ki_pos;
		if (call->offset == ~0ull && has_file)
			call->offset = position(&facts);
		set_rwf(call, rw->flags);
		call->size = rw->len;
		if (shape == SHAPE_VECTOR_AT)
			set_size(call, vector_bytes(rw->addr, call->size));
		if (has_file)
			set_append_offset(call, &facts);
		break;
	case SHAPE_RANGE:
	case SHAPE_ALLOCATE:
		call->offset = range->off;
		call->size = range->len;
		break;
	}
	// Stored and read back, the address is a number to the verifier.
	if (shape == SHAPE_DATA_AT || shape == SHAPE_VECTOR_AT)
		call->owner_key = owner_key(*(volatile u64 *)&call->key);
	return 0;
}

SEC("tp_btf/io_uring_submit_req")
int BPF_PROG(io_uring_submit_req, struct io_kiocb *req)
{
	return uring_begin(req);
}

// Its name before 6.4.
SEC("tp_btf/io_uring_submit_sqe")
int BPF_PROG(io_uring_submit_sqe, struct io_kiocb *req)
{
	return uring_begin(req);
}

SEC("tp_btf/io_uring_queue_async_work")
int BPF_PROG(io_uring_queue_async_work, struct io_kiocb *req)
{
	struct call *call = call_find(&requests, (u64)req);

	if (call)
		call->flags |= FLAG_WORKER;
	return 0;
}

SEC("tp_btf/io_uring_complete")
int BPF_PROG(io_uring_complete, void *ring_context, void *request)
{
	struct io_kiocb___files *req = request;

	if (!request || recording == OVER)
		return 0;
	struct call *call = call_find(&requests, (u64)request);
	if (!call)
		return 0;
	u64 now = bpf_ktime_get_ns();
	s32 result = BPF_CORE_READ(req, cqe.res);
	bool send = 1;
	if (call->shape == SHAPE_OPEN) {
		send = set_opened(call, bpf_get_current_task_btf(), result, 0);
	} else if (!call->has_file) {
		struct file_facts facts = { .folders = call->op == OP_SYNC };
		send = look_at_file((u64)BPF_CORE_READ(req, file), &facts);
		if (send)
			set_file(call, &facts);
	}
	if (!(call->flags & FLAG_DIRECT))
		call->owner_key = 0;
	if (send)
		call_send(call, now, result);
	call_release(call);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(sched_process_exit, struct task_struct *task)
{
	struct call *call = call_find(&threads, task->pid);
	s32 tgid = task->tgid;

	if (recording == OVER)
		return 0;
	if (call) {
		call_send_unended(call);
		call_release(call);
	}
	if (scope_limited && more(task)->signal->live.counter == 0)
		bpf_map_delete_elem(&scope, &tgid);
	return 0;
}
