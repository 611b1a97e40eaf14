// Writeback: who dirtied, who was made to pause, what flushers and journals did and for how long.
//
// Nothing here runs while nobody writes, but a test of two bits at each switch of tasks. A record is an interval or a
// moment; its meaning is that of case::rows::Writeback.
// All times are bpf_ktime_get_ns() = CLOCK_MONOTONIC.
#include "../bpf/kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

// What went otherwise than hoped. The order is that of `COUNTERS` in mod.rs.
enum counter {
	RING_FULL,   // a record that found no room
	INODES_FULL, // dirtied pages of an inode that found no room in `dirtied`
	TASKS_FULL,  // work of a thread that found no room in `tasks`
	SCOPE_FULL,  // a process that found no room in `scope`
	OWN,         // folios dirtied by our own threads, left out
	OWN_BYTES,
	COUNTERS,
};

#include "../bpf/probe.h"
#include "../bpf/chain.h"
#include "../bpf/pages.h"
#include "../bpf/scope.h"
#include "../bpf/writeback.h"

#define SLEEPERS (1 << 15)
#define DIRTIERS 4
#define NO_CAUSE 255

// Set by the loader.
const volatile u32 page_shift = 12;

// case::rows::Writeback
enum kind {
	THROTTLED,
	WORK,
	INODE_WRITTEN,
	DIRTIED,
	WAITED_FOR_PAGE,
	COMMIT,
	COMMIT_LOCKING,
	COMMIT_FLUSHING,
	COMMIT_LOGGING,
	CHECKPOINT,
	BUFFER_STALL,
	FSYNC,
	LOG_SPACE,
	LOG_FORCE,
	TREE_COMMIT,
	WBT_LATENCY,
	WBT_STEP,
	RECLAIM,
	COMPACTION,
};

// The twin is in layout.rs.
struct record {
	u64 start_ns;
	u64 end_ns;
	u64 inode;
	u64 bytes;
	u64 transaction;
	u64 rate_bytes_per_s;
	u32 device;
	s32 pid;
	s32 tid;
	u8 kind;
	u8 cause;
	u16 pad;
	u64 comm[2];
};

// A thread that is about to sleep for a known reason. Threads share a place if their numbers end alike.
struct sleeper {
	s32 tid; // 0 = nobody
	u32 device;
	u64 folio; // it waits for this one to be written; 0 = it is throttled
	u64 out_ns; // 0 = it does not sleep yet
	u64 inode;
	u64 bytes;
	u64 rate_bytes_per_s;
};
struct sleeper sleepers[SLEEPERS] SEC(".bss.sleepers");

// What a thread is at: flusher, journal, or a caller of fsync.
struct task {
	u64 work_ns;
	s64 work_pages;
	u64 commit_ns;
	u64 phase_ns; // of the commit
	u64 log_space_ns;
	u64 fsync_ns;
	u64 reclaim_ns;
	u64 compaction_ns;
	u32 blocks_logged;
	u8 cause;
	u8 phase; // 0 = none, or the kind of the commit's phase
	u8 datasync;
	u8 in_work;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192);
	__type(key, s32);
	__type(value, struct task);
} tasks SEC(".maps");

// Inodes that are being written back, by thread. The reader looks at the end for what is still under way.
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, s32);
	__type(value, struct record);
} writing SEC(".maps");

struct inode_key {
	u64 inode;
	u64 device;
};

struct dirtier {
	s32 pid; // 0 = nobody
	s32 tid;
	u64 bytes;
	u64 comm[2];
};

// Who dirtied an inode since it was last written back. The twin is in layout.rs.
struct dirtied {
	u64 first_ns;
	u64 last_ns;
	u64 other_bytes; // by further processes
	struct dirtier by[DIRTIERS];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 32768);
	__type(key, struct inode_key);
	__type(value, struct dirtied);
} dirtied SEC(".maps");

static __always_inline void comm_of(u64 *comm, struct task_struct *task)
{
	name_of(comm, task);
}

// A record of what the current thread did until now; start_ns 0 = only now.
static __always_inline void begin_record(struct record *record, enum kind kind, u64 start_ns)
{
	struct task_struct *task = bpf_get_current_task_btf();

	record->kind = kind;
	record->cause = NO_CAUSE;
	record->end_ns = bpf_ktime_get_ns();
	record->start_ns = start_ns ? start_ns : record->end_ns;
	record->pid = task->tgid;
	record->tid = task->pid;
	comm_of(record->comm, task);
}

static __always_inline void send(struct record *record)
{
	send_event(record, sizeof(*record));
}

static __always_inline struct task *task_find(void)
{
	s32 tid = bpf_get_current_task_btf()->pid;

	return bpf_map_lookup_elem(&tasks, &tid);
}

static __always_inline struct task *task_make(void)
{
	static const struct task empty;
	s32 tid = bpf_get_current_task_btf()->pid;
	struct task *task = bpf_map_lookup_elem(&tasks, &tid);

	if (task)
		return task;
	if (bpf_map_update_elem(&tasks, &tid, &empty, BPF_ANY)) {
		count(TASKS_FULL, 1);
		return NULL;
	}
	return bpf_map_lookup_elem(&tasks, &tid);
}

// The disk behind a file system's writeback; 0 where there is none, or more than one.
static __always_inline u32 disk_of(struct bdi_writeback *wb)
{
	return BPF_CORE_READ(wb, bdi, owner, devt);
}

// ---- threads that are held back ----

static __always_inline struct sleeper *sleeper_arm(struct task_struct *task)
{
	struct sleeper *sleeper = &sleepers[(u32)task->pid & (SLEEPERS - 1)];

	sleeper->tid = task->pid;
	sleeper->out_ns = 0;
	sleeper->inode = 0;
	sleeper->folio = 0;
	sleeper->bytes = 0;
	sleeper->rate_bytes_per_s = 0;
	return sleeper;
}

static __always_inline int throttle(struct bdi_writeback *wb, u64 rate_pages, u64 dirtied_pages, s64 pause)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct sleeper *sleeper;

	// It tells, too, of threads that need not pause.
	if (!recording || pause <= 0 || !scope_has(task->tgid))
		return 0;
	sleeper = sleeper_arm(task);
	sleeper->device = disk_of(wb);
	sleeper->bytes = dirtied_pages << page_shift;
	sleeper->rate_bytes_per_s = rate_pages << page_shift;
	return 0;
}

SEC("tp_btf/balance_dirty_pages")
int BPF_PROG(balance_dirty_pages)
{
	if (bpf_core_field_exists(struct trace_event_raw_balance_dirty_pages, wb_setpoint))
		return throttle((void *)ctx[0], ctx[3], ctx[4], ctx[6]);
	return throttle((void *)ctx[0], ctx[7], ctx[8], ctx[10]);
}

SEC("tp_btf/folio_wait_writeback")
int BPF_PROG(folio_wait_writeback, struct folio *folio, struct address_space *mapping)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct sleeper *sleeper;

	if (!recording || !scope_has(task->tgid))
		return 0;
	sleeper = sleeper_arm(task);
	sleeper->folio = (u64)folio;
	if (mapping) {
		sleeper->inode = inode_number(mapping->host);
		sleeper->device = inode_device(mapping->host);
	}
	return 0;
}

static __always_inline bool is_written(u64 folio)
{
	u32 bit = bpf_core_enum_value(enum pageflags___writeback, PG_writeback);
	u64 flags = 0;

	bpf_probe_read_kernel(&flags, sizeof(flags), (void *)folio);
	return !(flags & (1ull << (bit & 63)));
}

static __always_inline void sleep_begin(struct task_struct *task)
{
	struct sleeper *sleeper = &sleepers[(u32)task->pid & (SLEEPERS - 1)];

	if (sleeper->tid != task->pid)
		return;
	// The page may have been written before the thread slept: then it sleeps for something else.
	if (sleeper->folio && is_written(sleeper->folio))
		sleeper->tid = 0;
	else
		sleeper->out_ns = bpf_ktime_get_ns();
}

static __always_inline void sleep_end(struct task_struct *task)
{
	struct sleeper *sleeper = &sleepers[(u32)task->pid & (SLEEPERS - 1)];
	struct record record = {};

	if (sleeper->tid != task->pid || !sleeper->out_ns)
		return;
	record.kind = sleeper->folio ? WAITED_FOR_PAGE : THROTTLED;
	record.cause = NO_CAUSE;
	record.start_ns = sleeper->out_ns;
	record.end_ns = bpf_ktime_get_ns();
	record.inode = sleeper->inode;
	record.device = sleeper->device;
	record.bytes = sleeper->bytes;
	record.rate_bytes_per_s = sleeper->rate_bytes_per_s;
	record.pid = task->tgid;
	record.tid = task->pid;
	comm_of(record.comm, task);
	sleeper->tid = 0;
	send(&record);
}

static __always_inline void switch_threads(bool preempted, struct task_struct *prev, struct task_struct *next)
{
	if (in_iowait(prev) && !preempted)
		sleep_begin(prev);
	if (in_iowait(next))
		sleep_end(next);
}

CHAINED_PROGRAM(sched_switch, switch_threads(preempted, prev, next), bool preempted, struct task_struct *prev,
		struct task_struct *next)

// ---- threads that make room in memory for themselves ----

// Threads of the kernel that do it for everybody (kcompactd) are not told.
static __always_inline struct task *task_in_need(bool make)
{
	struct task_struct *task = bpf_get_current_task_btf();

	if (!recording || !scope_has(task->tgid) || !((struct task_struct___memory *)task)->mm ||
	    is_own_comm(comm_start(task)))
		return NULL;
	return make ? task_make() : task_find();
}

static __always_inline void need_ended(u64 *begin_ns, enum kind kind, u64 bytes)
{
	struct record record = {};

	if (!*begin_ns)
		return;
	begin_record(&record, kind, *begin_ns);
	record.bytes = bytes;
	*begin_ns = 0;
	send(&record);
}

static __always_inline int reclaim_begin(void)
{
	struct task *task = task_in_need(1);

	if (task)
		task->reclaim_ns = bpf_ktime_get_ns();
	return 0;
}

static __always_inline int reclaim_end(u64 pages)
{
	struct task *task = task_in_need(0);

	if (task)
		need_ended(&task->reclaim_ns, RECLAIM, pages << page_shift);
	return 0;
}

SEC("tp_btf/mm_vmscan_direct_reclaim_begin")
int BPF_PROG(mm_vmscan_direct_reclaim_begin)
{
	return reclaim_begin();
}

SEC("tp_btf/mm_vmscan_direct_reclaim_end")
int BPF_PROG(mm_vmscan_direct_reclaim_end, unsigned long pages)
{
	return reclaim_end(pages);
}

// The same for the limit of a control group.
SEC("tp_btf/mm_vmscan_memcg_reclaim_begin")
int BPF_PROG(mm_vmscan_memcg_reclaim_begin)
{
	return reclaim_begin();
}

SEC("tp_btf/mm_vmscan_memcg_reclaim_end")
int BPF_PROG(mm_vmscan_memcg_reclaim_end, unsigned long pages)
{
	return reclaim_end(pages);
}

SEC("tp_btf/mm_compaction_begin")
int BPF_PROG(mm_compaction_begin)
{
	struct task *task = task_in_need(1);

	if (task)
		task->compaction_ns = bpf_ktime_get_ns();
	return 0;
}

SEC("tp_btf/mm_compaction_end")
int BPF_PROG(mm_compaction_end)
{
	struct task *task = task_in_need(0);

	if (task)
		need_ended(&task->compaction_ns, COMPACTION, 0);
	return 0;
}

// ---- who dirties ----

static __always_inline struct dirtied *dirtied_of(struct inode_key *key)
{
	static const struct dirtied empty;
	struct dirtied *entry = bpf_map_lookup_elem(&dirtied, key);

	if (entry)
		return entry;
	bpf_map_update_elem(&dirtied, key, &empty, BPF_NOEXIST);
	entry = bpf_map_lookup_elem(&dirtied, key);
	if (entry)
		entry->first_ns = bpf_ktime_get_ns();
	return entry;
}

static __always_inline bool dirtier_add(struct dirtier *dirtier, struct task_struct *task, u64 bytes)
{
	s32 pid = task->tgid;

	if (dirtier->pid != pid) {
		if (dirtier->pid || __sync_val_compare_and_swap(&dirtier->pid, 0, pid))
			return 0;
		comm_of(dirtier->comm, task);
	}
	dirtier->tid = task->pid;
	__sync_fetch_and_add(&dirtier->bytes, bytes);
	return 1;
}

SEC("tp_btf/writeback_dirty_folio")
int BPF_PROG(writeback_dirty_folio, struct folio *folio, struct address_space *mapping)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct inode_key key = {};
	u64 bytes;

	if (!recording || !mapping)
		return 0;
	bytes = (u64)folio_pages(folio) << page_shift;
	if (is_own_comm(*(u64 *)&task->comm[0])) {
		count(OWN, 1);
		count(OWN_BYTES, bytes);
		return 0;
	}
	key.inode = inode_number(mapping->host);
	key.device = inode_device(mapping->host);
	struct dirtied *entry = dirtied_of(&key);
	if (!entry) {
		count(INODES_FULL, 1);
		return 0;
	}
	entry->last_ns = bpf_ktime_get_ns();
	for (u32 i = 0; i < DIRTIERS; i++)
		if (dirtier_add(&entry->by[i], task, bytes))
			return 0;
	__sync_fetch_and_add(&entry->other_bytes, bytes);
	return 0;
}

// Tells who dirtied an inode that is being written back.
static __noinline bool dirtied_send(struct inode_key *key)
{
	struct record record = { .kind = DIRTIED, .cause = NO_CAUSE };
	struct dirtied *entry;

	if (!key)
		return 0;
	entry = bpf_map_lookup_elem(&dirtied, key);
	if (!entry)
		return 0;
	record.start_ns = entry->first_ns;
	record.end_ns = entry->last_ns;
	record.inode = key->inode;
	record.device = key->device;
	for (u32 i = 0; i < DIRTIERS && entry->by[i].pid; i++) {
		record.pid = entry->by[i].pid;
		record.tid = entry->by[i].tid;
		record.bytes = entry->by[i].bytes;
		record.comm[0] = entry->by[i].comm[0];
		record.comm[1] = entry->by[i].comm[1];
		send(&record);
	}
	if (entry->other_bytes) {
		record.pid = -1;
		record.tid = -1;
		record.bytes = entry->other_bytes;
		record.comm[0] = 0;
		record.comm[1] = 0;
		send(&record);
	}
	bpf_map_delete_elem(&dirtied, key);
	return 1;
}

// ---- flushers ----

SEC("tp_btf/writeback_start")
int BPF_PROG(writeback_start, struct bdi_writeback *wb, struct wb_writeback_work *work)
{
	struct task *task = recording ? task_make() : NULL;

	if (!task)
		return 0;
	task->work_ns = bpf_ktime_get_ns();
	task->work_pages = work->nr_pages;
	task->cause = work->reason;
	task->in_work = 1;
	return 0;
}

SEC("tp_btf/writeback_written")
int BPF_PROG(writeback_written, struct bdi_writeback *wb, struct wb_writeback_work *work)
{
	struct task *task = recording ? task_find() : NULL;
	struct record record = {};

	if (!task || !task->in_work)
		return 0;
	begin_record(&record, WORK, task->work_ns);
	record.device = work->sb ? BPF_CORE_READ(work, sb, s_dev) : disk_of(wb);
	record.cause = task->cause;
	if (task->work_pages > work->nr_pages)
		record.bytes = (u64)(task->work_pages - work->nr_pages) << page_shift;
	task->in_work = 0;
	send(&record);
	return 0;
}

SEC("tp_btf/writeback_single_inode_start")
int BPF_PROG(writeback_single_inode_start, struct inode *inode)
{
	struct record record = {};

	if (!recording)
		return 0;
	begin_record(&record, INODE_WRITTEN, 0);
	record.inode = inode_number(inode);
	record.device = inode_device(inode);
	if (bpf_map_update_elem(&writing, &record.tid, &record, BPF_ANY))
		count(TASKS_FULL, 1);
	return 0;
}

SEC("tp_btf/writeback_single_inode")
int BPF_PROG(writeback_single_inode, struct inode *inode, struct writeback_control *wbc, u64 nr_to_write)
{
	struct task *task = recording ? task_find() : NULL;
	s32 tid = bpf_get_current_task_btf()->pid;
	struct record *begun = recording ? bpf_map_lookup_elem(&writing, &tid) : NULL;
	struct record record = {};
	struct inode_key key = {};

	if (!begun)
		return 0;
	key.inode = inode_number(inode);
	key.device = inode_device(inode);
	bool known = dirtied_send(&key);
	begin_record(&record, INODE_WRITTEN, begun->start_ns);
	bpf_map_delete_elem(&writing, &tid);
	record.inode = key.inode;
	record.device = key.device;
	if (task && task->in_work)
		record.cause = task->cause;
	s64 written = (s64)nr_to_write - wbc->nr_to_write;
	if (written > 0)
		record.bytes = (u64)written << page_shift;
	// Neither data nor a dirtier: the inode's time stamps.
	if (written > 0 || known)
		send(&record);
	return 0;
}

// ---- jbd2 and ext4 ----

static __always_inline void journal_record(struct record *record, struct journal_s *journal, struct transaction_s *of)
{
	record->device = journal->j_fs_dev->bd_dev;
	record->transaction = of->t_tid;
}

// Ends the phase that a commit is in, and begins the next (0 = none).
static __always_inline void phase(struct journal_s *journal, struct transaction_s *of, u8 next)
{
	struct task *task = recording ? task_find() : NULL;
	struct record record = {};

	if (!task || !task->commit_ns)
		return;
	if (task->phase) {
		begin_record(&record, task->phase, task->phase_ns);
		journal_record(&record, journal, of);
		send(&record);
	}
	task->phase = next;
	task->phase_ns = bpf_ktime_get_ns();
}

SEC("tp_btf/jbd2_start_commit")
int BPF_PROG(jbd2_start_commit, struct journal_s *journal, struct transaction_s *of)
{
	struct task *task = recording ? task_make() : NULL;

	if (!task)
		return 0;
	task->commit_ns = bpf_ktime_get_ns();
	task->phase = 0;
	task->blocks_logged = 0;
	return 0;
}

SEC("tp_btf/jbd2_commit_locking")
int BPF_PROG(jbd2_commit_locking, struct journal_s *journal, struct transaction_s *of)
{
	phase(journal, of, COMMIT_LOCKING);
	return 0;
}

SEC("tp_btf/jbd2_commit_flushing")
int BPF_PROG(jbd2_commit_flushing, struct journal_s *journal, struct transaction_s *of)
{
	phase(journal, of, COMMIT_FLUSHING);
	return 0;
}

SEC("tp_btf/jbd2_commit_logging")
int BPF_PROG(jbd2_commit_logging, struct journal_s *journal, struct transaction_s *of)
{
	phase(journal, of, COMMIT_LOGGING);
	return 0;
}

SEC("tp_btf/jbd2_run_stats")
int BPF_PROG(jbd2_run_stats, u32 device, u64 transaction, struct transaction_run_stats_s *stats)
{
	struct task *task = recording ? task_find() : NULL;

	if (task)
		task->blocks_logged = stats->rs_blocks_logged;
	return 0;
}

SEC("tp_btf/jbd2_end_commit")
int BPF_PROG(jbd2_end_commit, struct journal_s *journal, struct transaction_s *of)
{
	struct task *task = recording ? task_find() : NULL;
	struct record record = {};

	if (!task || !task->commit_ns)
		return 0;
	phase(journal, of, 0);
	begin_record(&record, COMMIT, task->commit_ns);
	journal_record(&record, journal, of);
	record.bytes = (u64)task->blocks_logged * (u32)journal->j_blocksize;
	task->commit_ns = 0;
	send(&record);
	return 0;
}

SEC("tp_btf/jbd2_checkpoint_stats")
int BPF_PROG(jbd2_checkpoint_stats, u32 device, u64 transaction, struct transaction_chp_stats_s *stats)
{
	struct record record = {};
	u32 blocks = stats->cs_written;

	if (!recording || !blocks)
		return 0;
	begin_record(&record, CHECKPOINT, 0);
	record.device = device;
	record.transaction = (u32)transaction;
	record.bytes = (u64)blocks << page_shift;
	send(&record);
	return 0;
}

SEC("tp_btf/jbd2_lock_buffer_stall")
int BPF_PROG(jbd2_lock_buffer_stall, u32 device, u64 stall_ms)
{
	struct record record = {};

	if (!recording)
		return 0;
	begin_record(&record, BUFFER_STALL, 0);
	record.start_ns -= stall_ms * 1000000;
	record.device = device;
	send(&record);
	return 0;
}

SEC("tp_btf/ext4_sync_file_enter")
int BPF_PROG(ext4_sync_file_enter, struct file *file, int datasync)
{
	struct task *task = recording ? task_make() : NULL;

	if (!task)
		return 0;
	task->fsync_ns = bpf_ktime_get_ns();
	task->datasync = datasync != 0;
	return 0;
}

static __always_inline void sync_record(struct record *record, struct inode *inode, u64 start_ns)
{
	begin_record(record, FSYNC, start_ns);
	record->inode = BPF_CORE_READ(inode, i_ino);
	record->device = BPF_CORE_READ(inode, i_sb, s_dev);
}

SEC("tp_btf/ext4_sync_file_exit")
int BPF_PROG(ext4_sync_file_exit, struct inode *inode, int result)
{
	struct task *task = recording ? task_find() : NULL;
	struct record record = {};

	if (!task || !task->fsync_ns)
		return 0;
	sync_record(&record, inode, task->fsync_ns);
	task->fsync_ns = 0;
	struct ext4_inode_info *info = (void *)inode - bpf_core_field_offset(struct ext4_inode_info, vfs_inode);
	record.transaction =
		task->datasync ? BPF_CORE_READ(info, i_datasync_tid) : BPF_CORE_READ(info, i_sync_tid);
	send(&record);
	return 0;
}

// ---- xfs and btrfs ----

SEC("tp_btf/xfs_file_fsync")
int BPF_PROG(xfs_file_fsync, struct xfs_inode *ip)
{
	struct inode *inode = (void *)ip + bpf_core_field_offset(struct xfs_inode, i_vnode);
	struct record record = {};

	if (!recording)
		return 0;
	sync_record(&record, inode, 0);
	send(&record);
	return 0;
}

SEC("tp_btf/xfs_log_force")
int BPF_PROG(xfs_log_force, struct xfs_mount *mount)
{
	struct record record = {};

	if (!recording)
		return 0;
	begin_record(&record, LOG_FORCE, 0);
	record.device = mount->m_super->s_dev;
	send(&record);
	return 0;
}

SEC("tp_btf/xfs_log_grant_sleep")
int BPF_PROG(xfs_log_grant_sleep, struct xlog *log)
{
	struct task *task = recording ? task_make() : NULL;

	if (task)
		task->log_space_ns = bpf_ktime_get_ns();
	return 0;
}

SEC("tp_btf/xfs_log_grant_wake")
int BPF_PROG(xfs_log_grant_wake, struct xlog *log)
{
	struct task *task = recording ? task_find() : NULL;
	struct record record = {};

	if (!task || !task->log_space_ns)
		return 0;
	begin_record(&record, LOG_SPACE, task->log_space_ns);
	task->log_space_ns = 0;
	record.device = log->l_mp->m_super->s_dev;
	send(&record);
	return 0;
}

SEC("tp_btf/btrfs_sync_file")
int BPF_PROG(btrfs_sync_file, struct file *file)
{
	struct record record = {};

	if (!recording)
		return 0;
	sync_record(&record, file->f_inode, 0);
	send(&record);
	return 0;
}

SEC("tp_btf/btrfs_transaction_commit")
int BPF_PROG(btrfs_transaction_commit, struct btrfs_fs_info *info)
{
	struct record record = {};

	if (!recording)
		return 0;
	begin_record(&record, TREE_COMMIT, 0);
	record.device = info->sb->s_dev;
	if (bpf_core_field_exists(info->commit_stats))
		record.start_ns -= info->commit_stats.last_commit_dur;
	send(&record);
	return 0;
}

// ---- writeback throttling of a device ----

// A record of what no thread did: whoever runs was only interrupted.
static __always_inline void device_record(struct record *record, enum kind kind, struct backing_dev_info *bdi)
{
	begin_record(record, kind, 0);
	record->device = bdi->owner->devt;
	record->pid = -1;
	record->tid = -1;
	record->comm[0] = 0;
	record->comm[1] = 0;
}

SEC("tp_btf/wbt_lat")
int BPF_PROG(wbt_lat, struct backing_dev_info *bdi, u64 latency_ns)
{
	struct record record = {};

	if (!recording)
		return 0;
	device_record(&record, WBT_LATENCY, bdi);
	record.start_ns -= latency_ns;
	send(&record);
	return 0;
}

SEC("tp_btf/wbt_step")
int BPF_PROG(wbt_step, struct backing_dev_info *bdi, void *message, int step)
{
	struct record record = {};

	if (!recording)
		return 0;
	device_record(&record, WBT_STEP, bdi);
	record.cause = (u8)step;
	send(&record);
	return 0;
}
