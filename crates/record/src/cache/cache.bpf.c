// The page cache as its readers see it: what was there, what had to be brought, what they waited for, and what became
// of pages that were brought in advance.
//
// A hit costs one lookup in a hash table and sends nothing: its reader's counters are read by user space once a second.
// Records are sent for waits, for runs of pages brought, and for prefetched pages once all of a chunk are gone.
// All times are bpf_ktime_get_ns() = CLOCK_MONOTONIC. An index counts pages of a file.
#include "../bpf/kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

// What went otherwise than hoped. The order is that of `COUNTERS` in mod.rs.
enum counter {
	RING_FULL,    // a record that found no room
	READERS_FULL, // reads of a thread and file that found no room in `readers`
	CHUNKS_FULL,  // prefetched pages that found no room in `chunks`
	SLEEPER_LOST, // a wait whose place was taken by another thread
	SCOPE_FULL,   // a process that found no room in `scope`
	OWN,          // lookups of our own threads, left out
	COUNTERS,
};

#include "../bpf/probe.h"
#include "../bpf/chain.h"
#include "../bpf/pages.h"
#include "../bpf/scope.h"

#define READERS_MAX 32768
// From here on a thread gives up the reader it made last before it makes another one.
#define READERS_MANY (READERS_MAX / 4 * 3)
#define CHUNKS_MAX 65536
#define CHUNK_PAGES_LOG2 7
#define CHUNK_PAGES (1 << CHUNK_PAGES_LOG2)
// Chunks that one event looks at, at most: 32 MiB.
#define CHUNKS_PER_EVENT 64
#define SLEEPERS (1 << 15)
#define INODES (1 << 12)

// Set by the loader.
const volatile u32 page_shift = 12;
// This kernel does not say when it reads ahead (before 6.17 or so): pages that no write adds were brought by reads.
const volatile bool readahead_untold = 0;

struct reader_key {
	u64 inode;
	u32 device;
	s32 tid;
};

// Adjacent pages brought by one call, so far.
struct run {
	u64 time_ns;
	u64 index;
	u32 pages;
	u32 demanded;
	u32 folio_pages;
	u32 kind; // case::rows::Readahead
};

// A wait, until it is known which page was waited for.
struct wait {
	u64 start_ns;
	u64 end_ns;
	u64 wait_ns; // 0 = there is none
	u64 index;
	u64 last;
};

// A thread that reads a file. Only that thread changes it.
struct reader {
	u64 born; // tells readers with the same key apart
	u64 reads;
	u64 asked;
	u64 missed;
	u64 waits;
	u64 wait_ns;
	// The read call it is in, or was in last
	u64 call;
	u64 index; // of its last lookup
	u64 last;
	u64 marked; // pages before this one are no longer counted as prefetched and unread
	u64 brought_begin; // pages that the call `brought_call` had brought itself
	u64 brought_end;
	u64 brought_call;
	// Readahead it is in
	u64 window_begin;
	u64 window_end;
	u64 demand_begin;
	u64 demand_end;
	struct run run;
	struct wait wait;
	s32 pid;
	u32 kind;
};

enum readahead { SYNC, ASYNC, OTHER };
enum waited { MISSED, IN_FLIGHT, FAULT };

// Records; the twins are in layout.rs. `what` comes first in each.
enum what { WAIT = 1, RUN, USE, READER };

struct wait_record {
	u32 what;
	u32 kind; // enum waited
	struct reader_key key;
	struct wait wait;
	u64 waited;
	s32 pid;
	u32 pad;
};

struct run_record {
	u32 what;
	s32 pid;
	struct reader_key key;
	struct run run;
};

// A reader as it is now; user space makes the same of those that it looks up.
struct reader_record {
	u32 what;
	u32 gone; // it is deleted
	u64 time_ns;
	struct reader_key key;
	struct reader reader;
};

// Prefetched and unread pages of an aligned piece of a file.
struct chunk_key {
	u64 inode;
	u32 device;
	u32 number; // of the chunk in the file
};

struct chunk {
	u64 unread[CHUNK_PAGES / 64];
	u64 start_ns;
	u32 prefetched;
	u32 used;
	u32 wasted;
	u32 gone; // its record was sent
};

struct use_record {
	u32 what;
	u32 pad;
	struct chunk_key key;
	u64 end_ns;
	struct chunk chunk;
};

// What a thread is waiting for, or has waited for since its last lookup. Threads share a place if their numbers end alike.
struct sleeper {
	s32 tid;
	s32 call_number;
	u64 call;
	u64 out_ns; // 0 = it is running
	u64 start_ns;
	u64 end_ns;
	u64 wait_ns;
	// The last page fault that looked into a file, and how many its thread had ended before it
	u64 fault_number;
	u64 fault_inode;
	u64 fault_index;
	u64 fault_ns;
	u32 fault_device;
	u32 readahead; // whether it may be in a readahead
	struct reader_key made; // the reader it made last
};

struct sleeper sleepers[SLEEPERS] SEC(".bss.sleepers");
// Prefetched and unread pages by a hash of the inode: while zero, there is nothing to mark.
s64 unread_pages[INODES] SEC(".bss.unread");
// Readers made and not given up. User space counts those that it deletes.
u64 readers_made SEC(".bss.readers") = 0;
u64 readers_deleted SEC(".data.deleted") = 0;

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, READERS_MAX);
	__type(key, struct reader_key);
	__type(value, struct reader);
} readers SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, CHUNKS_MAX);
	__type(key, struct chunk_key);
	__type(value, struct chunk);
} chunks SEC(".maps");

static __always_inline u64 least(u64 a, u64 b)
{
	return a < b ? a : b;
}

static __always_inline u64 most(u64 a, u64 b)
{
	return a > b ? a : b;
}

static __always_inline struct sleeper *sleeper_of(s32 tid)
{
	return &sleepers[(u32)tid & (SLEEPERS - 1)];
}

// Whether a thread is still in the fault that looked into a file last. Other faults sleep, too (a write to a mapped page waits for the file
// system): they look into no file, and the one before them may be long over.
static __always_inline bool in_fault(struct sleeper *sleeper, struct task_struct *task)
{
	return sleeper->fault_ns && sleeper->fault_number == faults_ended(task);
}

// The place of a thread, taken from whoever had it before.
static __always_inline struct sleeper *sleeper_take(s32 tid)
{
	struct sleeper *sleeper = sleeper_of(tid);

	if (sleeper->tid != tid) {
		if (sleeper->out_ns)
			count(SLEEPER_LOST, 1);
		sleeper->tid = tid;
		sleeper->out_ns = 0;
		sleeper->wait_ns = 0;
		sleeper->fault_ns = 0;
		sleeper->readahead = 0;
		sleeper->made.tid = 0;
	}
	return sleeper;
}

static __always_inline s64 *unread_of(u64 inode, u32 device)
{
	return &unread_pages[((inode ^ device) * 0x9E3779B97F4A7C15ull >> 52) & (INODES - 1)];
}

// ---- prefetched pages: chunks ----

static __always_inline u64 bits(u32 begin, u32 end)
{
	u64 below_end = end >= 64 ? ~0ull : (1ull << end) - 1;

	return begin >= 64 ? 0 : below_end & ~((1ull << begin) - 1);
}

// Bits of word `word` of a chunk for its pages from `begin` to before `end`.
static __always_inline u64 word_bits(u32 word, u32 begin, u32 end)
{
	u32 base = word * 64;

	if (end <= base)
		return 0;
	return bits(begin > base ? begin - base : 0, end - base);
}

static __always_inline u32 ones(u64 x)
{
	x -= x >> 1 & 0x5555555555555555ull;
	x = (x & 0x3333333333333333ull) + (x >> 2 & 0x3333333333333333ull);
	x = (x + (x >> 4)) & 0x0f0f0f0f0f0f0f0full;
	return x * 0x0101010101010101ull >> 56;
}

// Functions that are neither static nor inlined are verified once, not at every call, where loops around them would
// multiply their branches. Linux 6.1 takes no key of a map from a caller: they copy it.

// Pages of a chunk that were just prefetched.
__noinline int chunk_add(struct chunk_key *of, u32 begin, u32 end)
{
	struct chunk_key copy, *key = &copy;
	struct chunk *chunk;

	if (!of)
		return 0;
	copy = *of;
	chunk = bpf_map_lookup_elem(&chunks, key);
	if (!chunk || chunk->gone) {
		struct chunk fresh = { .start_ns = bpf_ktime_get_ns() };

		if (bpf_map_update_elem(&chunks, key, &fresh, BPF_ANY)) {
			count(CHUNKS_FULL, end - begin);
			return 0;
		}
		chunk = bpf_map_lookup_elem(&chunks, key);
		if (!chunk)
			return 0;
	}
	for (u32 word = 0; word < CHUNK_PAGES / 64; word++)
		__sync_fetch_and_or(&chunk->unread[word], word_bits(word, begin, end));
	__sync_fetch_and_add(&chunk->prefetched, end - begin);
	__sync_fetch_and_add(unread_of(key->inode, key->device), (s64)end - begin);
	return 0;
}

static __always_inline void chunk_send(struct chunk_key *key, struct chunk *chunk)
{
	struct use_record record = { .what = USE };

	record.key = *key;
	record.chunk = *chunk;
	record.end_ns = bpf_ktime_get_ns();
	send_event(&record, sizeof(record));
	bpf_map_delete_elem(&chunks, key);
}

// Pages of a chunk that were read, or evicted. The last one takes the chunk away.
__noinline int chunk_take(struct chunk_key *of, u32 begin, u32 end, bool evicted)
{
	struct chunk_key copy, *key = &copy;
	struct chunk *chunk;
	u32 taken = 0;
	u64 left = 0;

	if (!of)
		return 0;
	copy = *of;
	chunk = bpf_map_lookup_elem(&chunks, key);
	if (!chunk)
		return 0;
	for (u32 word = 0; word < CHUNK_PAGES / 64; word++) {
		u64 wanted = word_bits(word, begin, end);
		u64 had = chunk->unread[word];

		if (had & wanted) {
			had = __sync_fetch_and_and(&chunk->unread[word], ~wanted);
			taken += ones(had & wanted);
		}
		left |= had & ~wanted;
	}
	if (!taken)
		return 0;
	__sync_fetch_and_add(evicted ? &chunk->wasted : &chunk->used, taken);
	__sync_fetch_and_add(unread_of(key->inode, key->device), -(s64)taken);
	if (!left && !__sync_val_compare_and_swap(&chunk->gone, 0, 1))
		chunk_send(key, chunk);
	return 0;
}

enum change { ADD, USED, EVICTED };

// Pages from `begin` to before `end`, chunk by chunk; returns where it stopped.
static __always_inline u64 chunks_change(u64 inode, u32 device, u64 begin, u64 end, enum change change)
{
	struct chunk_key key = { .inode = inode, .device = device };

	for (u32 i = 0; i < CHUNKS_PER_EVENT && begin < end; i++) {
		u64 first = begin >> CHUNK_PAGES_LOG2 << CHUNK_PAGES_LOG2;
		u64 stop = least(end, first + CHUNK_PAGES);

		key.number = begin >> CHUNK_PAGES_LOG2;
		if (change == ADD)
			chunk_add(&key, begin - first, stop - first);
		else
			chunk_take(&key, begin - first, stop - first, change == EVICTED);
		begin = stop;
	}
	return begin;
}

// ---- readers ----

static __always_inline void key_of(struct reader_key *key, struct inode *inode, s32 tid)
{
	key->inode = inode_number(inode);
	key->device = inode_device(inode);
	key->tid = tid;
}

static __always_inline void run_send(struct reader_key *key, struct reader *reader)
{
	struct run_record record = { .what = RUN, .pid = reader->pid };

	record.key = *key;
	record.run = reader->run;
	send_event(&record, sizeof(record));
	reader->run.pages = 0;
}

// Ends the run of pages that a reader has brought: sends it, and notes what of it was prefetched (of other readahead that
// was noted page by page, since it may take long until the run ends).
__noinline int run_end(struct reader_key *key, struct reader *reader)
{
	if (!key || !reader || !reader->run.pages)
		return 0;
	u64 begin = reader->run.index;
	u64 end = begin + reader->run.pages;
	u64 before = least(end, most(begin, reader->demand_begin));
	u64 after = most(before, least(end, reader->demand_end));

	reader->run.demanded = after - before;
	if (reader->run.kind != OTHER) {
		if (after > before) {
			reader->brought_begin = least(reader->brought_begin, before);
			reader->brought_end = most(reader->brought_end, after);
			reader->missed += after - before;
		}
		chunks_change(key->inode, key->device, begin, before, ADD);
		chunks_change(key->inode, key->device, after, end, ADD);
	}
	run_send(key, reader);
	return 0;
}

// Begins to collect what a call brings, unless it does already.
static __always_inline void brought_of(struct reader *reader, u64 call)
{
	if (reader->brought_call == call)
		return;
	reader->brought_call = call;
	reader->brought_begin = ~0ull;
	reader->brought_end = 0;
}

static __always_inline void wait_send(struct reader_key *key, struct reader *reader, u64 waited)
{
	struct wait_record record = { .what = WAIT, .pid = reader->pid, .waited = waited };
	bool own = waited >= reader->brought_begin && waited < reader->brought_end;

	record.kind = own ? MISSED : IN_FLIGHT;
	record.key = *key;
	record.wait = reader->wait;
	send_event(&record, sizeof(record));
	reader->wait.wait_ns = 0;
}

// Sends a reader away and makes room for another.
static __always_inline void reader_give_up(struct reader_key *key)
{
	struct reader *reader = bpf_map_lookup_elem(&readers, key);
	struct reader_record *record;

	if (!reader)
		return;
	run_end(key, reader);
	record = bpf_ringbuf_reserve(&events, sizeof(*record), 0);
	if (record) {
		record->what = READER;
		record->gone = 1;
		record->time_ns = bpf_ktime_get_ns();
		record->key = *key;
		record->reader = *reader;
		bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
	} else {
		count(RING_FULL, 1);
	}
	if (!bpf_map_delete_elem(&readers, key))
		__sync_fetch_and_sub(&readers_made, 1);
}

// A new reader, if its thread is in the scope and not one of ours.
static __noinline struct reader *reader_make(struct reader_key *key)
{
	static const struct reader fresh = { .brought_begin = ~0ull, .kind = OTHER };
	struct task_struct *task = bpf_get_current_task_btf();
	struct reader *reader;

	if (!key || !scope_has(task->tgid))
		return NULL;
	if (is_own_comm(*(u64 *)&task->comm[0])) {
		count(OWN, 1);
		return NULL;
	}
	struct sleeper *sleeper = sleeper_take(key->tid);
	if (readers_made - readers_deleted >= READERS_MANY && sleeper->made.tid == key->tid) {
		struct reader_key made = sleeper->made;
		reader_give_up(&made);
	}
	if (bpf_map_update_elem(&readers, key, &fresh, BPF_NOEXIST)) {
		count(READERS_FULL, 1);
		return NULL;
	}
	__sync_fetch_and_add(&readers_made, 1);
	sleeper->made = *key;
	reader = bpf_map_lookup_elem(&readers, key);
	if (reader) {
		reader->born = bpf_ktime_get_ns();
		reader->pid = task->tgid;
	}
	return reader;
}

static __always_inline struct reader *reader_of(struct reader_key *key, struct task_struct *task)
{
	struct reader *reader;

	if (!scope_may_have(task->tgid))
		return NULL;
	reader = bpf_map_lookup_elem(&readers, key);
	return reader ? reader : reader_make(key);
}

// Whether a thread has slept for I/O in the call that it is in, and no lookup has ended since.
static __always_inline bool slept_in(struct sleeper *sleeper, struct task_struct *task, u64 call)
{
	return sleeper->tid == task->pid && sleeper->wait_ns && sleeper->call == call &&
	       sleeper->call_number == call_number(task);
}

// The wait that ended just before this lookup, if the same call waited.
static __always_inline void take_wait(struct reader *reader, struct task_struct *task, u64 call)
{
	struct sleeper *sleeper = sleeper_of(task->pid);

	if (sleeper->tid != task->pid || !sleeper->wait_ns)
		return;
	if (slept_in(sleeper, task, call)) {
		reader->wait.start_ns = sleeper->start_ns;
		reader->wait.end_ns = sleeper->end_ns;
		reader->wait.wait_ns = sleeper->wait_ns;
		reader->wait.index = reader->index;
		reader->wait.last = reader->last;
		reader->waits++;
		reader->wait_ns += sleeper->wait_ns;
	}
	sleeper->wait_ns = 0;
}

// Where readahead is untold: what a read has brought is known by the pages it asked for.
static __always_inline void run_was_read(struct reader *reader, u64 index, u64 last)
{
	struct run *run = &reader->run;

	reader->demand_begin = index;
	reader->demand_end = last + 1;
	run->kind = run->index <= last && index < run->index + run->pages ? SYNC : ASYNC;
	reader->kind = run->kind;
}

// ---- what the kernel tells ----

// The first page that the call asks for. If it finds some pages and has to wait for the next one, which is being
// brought, the kernel hands it those pages without a word, and tells of the next one only (filemap_get_pages, where
// filemap_update_page returns AOP_TRUNCATED_PAGE).
static __always_inline u64 first_of_call(struct task_struct *task, struct inode *inode, u64 index)
{
	s64 begin = read_begin(task, inode);

	return begin < 0 ? index : least(index, (u64)begin >> page_shift);
}

// Whether a page of the file may be on its way: one read ahead and noted as such, or brought by this reader and not yet
// noted, or one that it waited for, whoever brought it. Elsewhere the kernel tells of a call's first page.
static __always_inline bool may_be_on_its_way(struct reader *reader, struct task_struct *task, u64 call, s64 unread)
{
	return unread > 0 || reader->run.pages || slept_in(sleeper_of(task->pid), task, call);
}

// A thread has pages of a file in its hands, beginning at `index`, after any wait for them. A call that asks for many
// comes again, with a later index and the same last one.
SEC("tp_btf/mm_filemap_get_pages")
int BPF_PROG(mm_filemap_get_pages, struct address_space *mapping, u64 index, u64 last)
{
	if (!recording)
		return 0;
	struct task_struct *task = bpf_get_current_task_btf();
	struct inode *inode = mapping->host;
	struct reader_key key;
	key_of(&key, inode, task->pid);
	s64 size = inode->i_size;
	if (size > 0)
		last = least(last, (u64)(size - 1) >> page_shift);
	last = most(last, index);
	s64 unread = *unread_of(key.inode, key.device);
	struct reader *reader = reader_of(&key, task);
	if (!reader) {
		if (unread > 0)
			chunks_change(key.inode, key.device, index, last + 1, USED);
		return 0;
	}
	u64 call = reads_ended(task);
	bool again = reader->call == call && reader->last == last && index > reader->index;
	if (reader->wait.wait_ns)
		wait_send(&key, reader, again ? index - 1 : reader->last);
	if (!again) {
		u64 first = index;

		if (may_be_on_its_way(reader, task, call, unread))
			first = first_of_call(task, inode, index);

		reader->reads++;
		reader->asked += last - first + 1;
		reader->call = call;
		reader->last = last;
		reader->marked = first;
		brought_of(reader, call);
	}
	reader->index = index;
	if (reader->run.pages) {
		if (readahead_untold)
			run_was_read(reader, index, last);
		run_end(&key, reader);
	}
	if (reader->kind != OTHER) {
		reader->kind = OTHER;
		reader->demand_begin = 0;
		reader->demand_end = 0;
		sleeper_take(task->pid)->readahead = 0;
	}
	take_wait(reader, task, call);
	if (unread > 0 && reader->marked <= last)
		reader->marked = chunks_change(key.inode, key.device, reader->marked, last + 1, USED);
	return 0;
}

static __always_inline int readahead_begin(struct inode *inode, u64 index, u64 asked, enum readahead kind)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct reader_key key;

	if (!recording)
		return 0;
	key_of(&key, inode, task->pid);
	struct reader *reader = reader_of(&key, task);
	if (!reader)
		return 0;
	u64 call = reads_ended(task);
	// The next call begins: what the one before waited for, it waited for until its end.
	if (reader->wait.wait_ns && reader->call != call)
		wait_send(&key, reader, reader->last);
	run_end(&key, reader);
	brought_of(reader, call);
	bool fault = call_number(task) == NO_CALL;
	reader->kind = fault ? OTHER : kind;
	reader->demand_begin = index;
	reader->demand_end = index + (fault ? 1 : asked);
	reader->window_begin = index;
	reader->window_end = index + asked;
	sleeper_take(task->pid)->readahead = 1;
	return 0;
}

struct file_ra_state___sized {
	u32 size;
} __attribute__((preserve_access_index));

SEC("tp_btf/page_cache_sync_ra")
int BPF_PROG(page_cache_sync_ra, struct inode *inode, u64 index, void *state, u64 asked)
{
	return readahead_begin(inode, index, asked, SYNC);
}

SEC("tp_btf/page_cache_async_ra")
int BPF_PROG(page_cache_async_ra, struct inode *inode, u64 index, void *state, u64 asked)
{
	return readahead_begin(inode, index, asked, ASYNC);
}

// The pages that readahead is about to look for; what is missing of them will be brought.
static __always_inline int readahead_window(struct inode *inode, u64 index, u64 pages)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct reader_key key;

	if (!recording)
		return 0;
	key_of(&key, inode, task->pid);
	struct reader *reader = reader_of(&key, task);
	if (!reader)
		return 0;
	struct sleeper *sleeper = sleeper_take(task->pid);
	if (reader->kind == OTHER) {
		bool fault = call_number(task) == NO_CALL && in_fault(sleeper, task);

		run_end(&key, reader);
		reader->demand_begin = fault ? sleeper->fault_index : 0;
		reader->demand_end = fault ? sleeper->fault_index + 1 : 0;
	}
	reader->window_begin = index;
	reader->window_end = index + pages;
	sleeper->readahead = 1;
	return 0;
}

SEC("tp_btf/page_cache_ra_unbounded")
int BPF_PROG(page_cache_ra_unbounded, struct inode *inode, u64 index, u64 pages)
{
	return readahead_window(inode, index, pages);
}

SEC("tp_btf/page_cache_ra_order")
int BPF_PROG(page_cache_ra_order, struct inode *inode, u64 index, struct file_ra_state___sized *state)
{
	return readahead_window(inode, index, state->size);
}

// Calls that write, truncate or allocate, and so add pages that nobody reads from the device (x86-64).
static __always_inline bool may_write(s32 call)
{
	return call == 1 || call == 18 || call == 20 || call == 296 || call == 328 || call == 285 || call == 76 ||
	       call == 77;
}

static __always_inline void run_grow(struct reader_key *key, struct reader *reader, u64 index, u32 pages)
{
	struct run *run = &reader->run;

	if (run->pages && (index != run->index + run->pages || run->kind != reader->kind))
		run_end(key, reader);
	if (!run->pages) {
		run->time_ns = bpf_ktime_get_ns();
		run->index = index;
		run->demanded = 0;
		run->folio_pages = 0;
		run->kind = reader->kind;
	}
	run->pages += pages;
	run->folio_pages = most(run->folio_pages, pages);
}

SEC("tp_btf/mm_filemap_add_to_page_cache")
int BPF_PROG(mm_filemap_add_to_page_cache, struct folio *folio)
{
	if (!recording)
		return 0;
	struct task_struct *task = bpf_get_current_task_btf();
	struct sleeper *sleeper = sleeper_of(task->pid);
	if (readahead_untold) {
		if (!scope_may_have(task->tgid) || may_write(call_number(task)))
			return 0;
	} else if (sleeper->tid != task->pid || !sleeper->readahead) {
		return 0;
	}
	struct reader_key key;
	key_of(&key, folio->mapping->host, task->pid);
	struct reader *reader = reader_of(&key, task);
	u64 index = folio->index;
	u32 pages = folio_pages(folio);
	if (!reader)
		return 0;
	if (!readahead_untold && (index + pages <= reader->window_begin || index >= reader->window_end))
		return 0;
	if (readahead_untold) {
		// Nothing else may tell that the next call began.
		u64 call = reads_ended(task);
		if (reader->brought_call != call)
			run_end(&key, reader);
		brought_of(reader, call);
	}
	run_grow(&key, reader, index, pages);
	if (reader->kind == OTHER && !readahead_untold &&
	    !(reader->demand_begin <= index && index + pages <= reader->demand_end))
		chunks_change(key.inode, key.device, index, index + pages, ADD);
	return 0;
}

SEC("tp_btf/mm_filemap_delete_from_page_cache")
int BPF_PROG(mm_filemap_delete_from_page_cache, struct folio *folio)
{
	struct inode *inode = folio->mapping->host;
	u64 number = inode_number(inode);
	u32 device = inode_device(inode);

	if (recording && *unread_of(number, device) > 0)
		chunks_change(number, device, folio->index, folio->index + folio_pages(folio), EVICTED);
	return 0;
}

SEC("tp_btf/mm_filemap_map_pages")
int BPF_PROG(mm_filemap_map_pages, struct address_space *mapping, u64 first, u64 last)
{
	struct inode *inode = mapping->host;
	u64 number = inode_number(inode);
	u32 device = inode_device(inode);

	if (recording && *unread_of(number, device) > 0)
		chunks_change(number, device, first, last + 1, USED);
	return 0;
}

SEC("tp_btf/mm_filemap_fault")
int BPF_PROG(mm_filemap_fault, struct address_space *mapping, u64 index)
{
	if (!recording)
		return 0;
	struct task_struct *task = bpf_get_current_task_btf();
	struct inode *inode = mapping->host;
	struct sleeper *sleeper = sleeper_take(task->pid);
	// Outside of calls, what was slept before this fault is no part of it: faults that look into no file sleep, too.
	if (call_number(task) == NO_CALL)
		sleeper->wait_ns = 0;
	sleeper->fault_inode = inode_number(inode);
	sleeper->fault_device = inode_device(inode);
	sleeper->fault_index = index;
	sleeper->fault_ns = bpf_ktime_get_ns();
	sleeper->fault_number = faults_ended(task);
	if (*unread_of(sleeper->fault_inode, sleeper->fault_device) > 0)
		chunks_change(sleeper->fault_inode, sleeper->fault_device, index, index + 1, USED);
	return 0;
}

static __always_inline void fault_send(struct sleeper *sleeper, struct task_struct *task)
{
	struct wait_record record = { .what = WAIT, .kind = FAULT, .pid = task->tgid };

	if (!scope_has(task->tgid))
		return;
	record.key.inode = sleeper->fault_inode;
	record.key.device = sleeper->fault_device;
	record.key.tid = task->pid;
	// From when the fault looked into the file: what it asked the device for is then within its time.
	record.wait.start_ns = sleeper->fault_ns;
	record.wait.end_ns = sleeper->end_ns;
	record.wait.wait_ns = sleeper->wait_ns;
	record.wait.index = sleeper->fault_index;
	record.wait.last = sleeper->fault_index;
	record.waited = sleeper->fault_index;
	send_event(&record, sizeof(record));
	sleeper->wait_ns = 0;
}

static __always_inline void sleep_begin(struct task_struct *task)
{
	struct sleeper *sleeper;
	s32 number;
	u64 call;

	if (!scope_may_have(task->tgid))
		return;
	sleeper = sleeper_take(task->pid);
	number = call_number(task);
	call = reads_ended(task);
	if (sleeper->call != call || sleeper->call_number != number)
		sleeper->wait_ns = 0;
	sleeper->call = call;
	sleeper->call_number = number;
	sleeper->out_ns = bpf_ktime_get_ns();
	if (!sleeper->wait_ns)
		sleeper->start_ns = sleeper->out_ns;
}

static __always_inline void sleep_end(struct task_struct *task)
{
	struct sleeper *sleeper = sleeper_of(task->pid);

	if (sleeper->tid != task->pid || !sleeper->out_ns)
		return;
	sleeper->end_ns = bpf_ktime_get_ns();
	sleeper->wait_ns += sleeper->end_ns - sleeper->out_ns;
	sleeper->out_ns = 0;
	if (sleeper->call_number == NO_CALL && in_fault(sleeper, task))
		fault_send(sleeper, task);
}

// A thread waits for I/O from when it leaves its CPU, marked so, until it is on one again, still marked.
static __always_inline void switch_threads(bool preempted, struct task_struct *prev, struct task_struct *next)
{
	if (!recording)
		return;
	if (in_iowait(prev) && !preempted)
		sleep_begin(prev);
	if (in_iowait(next))
		sleep_end(next);
}

CHAINED_PROGRAM(sched_switch, switch_threads(preempted, prev, next), bool preempted, struct task_struct *prev,
		struct task_struct *next)
