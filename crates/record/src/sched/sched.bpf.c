// What threads that do I/O wait for when they do not run: a CPU, the kernel, a signal, their control group.
//
// A thread is in scope once it submits a bio, sleeps for I/O, or waits for io_uring completions; and all threads of
// the processes named to us and their descendants are; others are not, where only those are asked for. Of each thread in scope every wait of at least min_ns is sent when
// it ends; shorter ones are counted. Of threads that serve a device by software (processes in `servers`, workers of the kernel that complete its
// requests) only the waits for a CPU, and stops, are. All times are bpf_ktime_get_ns() = CLOCK_MONOTONIC.
#include "../bpf/kernel.h"

// The order is that of `COUNTERS` in mod.rs.
enum counter {
	RING_FULL,
	MAP_FULL,   // threads in scope that found no room in the table
	END_UNSEEN, // waits whose end was not seen (see `leave`)
	SHORT,      // waits below min_ns
	SHORT_NS,
	THREADS, // threads that came into scope
	SCOPE_FULL, // a process that found no room in `scope`
	COUNTERS,
};
#include "../bpf/probe.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>
#define SCOPE_FORKS_ELSEWHERE
#include "../bpf/scope.h"

// Set by the loader.
const volatile u64 min_ns = 10000;
const volatile u64 stack_pause_ns = 1000000; // looks at one thread's stack are this far apart
const volatile bool scope_only = 0;	     // threads of other processes are not looked at
const volatile u64 sched_text_start = 0;     // functions that only wait (linker section .sched.text)
const volatile u64 sched_text_end = 0;
const volatile u64 wbt_start = 0; // rq_qos_wait: a submitter that writeback throttling or io.latency holds back
const volatile u64 wbt_end = 0;
const volatile u64 cost_start = 0; // ioc_rqos_throttle: the same by io.cost
const volatile u64 cost_end = 0;
const volatile u64 waker_min_ns = 100000;   // who ended shorter sleeps is not looked at
const volatile u64 irqentry_text_start = 0; // where interrupts enter the kernel (linker section .irqentry.text); 0 = not known
const volatile u64 irqentry_text_end = 0;

#define SERVERS_MAX 16
const volatile s32 servers[SERVERS_MAX]; // processes that serve storage from user space; the rest is 0

#define SERVING_WORK_MAX 3
const volatile u64 serving_work[SERVING_WORK_MAX]; // functions by which workers of the kernel serve such a device; 0 = not known

#define THREADS_MAX 32768
#define FRAMES 16
#define WAKER_FRAMES 64 // a request may complete through many layers before it wakes who waits for it
#define CPUS_MAX 1024
#define RUNS 8 // kept per CPU; a power of two
#define LONG_RUN_NS 10000000 // longer ones are kept apart, or many short ones would push them out

// linux/sched.h
#define TASK_INTERRUPTIBLE 0x1
#define TASK_UNINTERRUPTIBLE 0x2
#define TASK_STOPPED 0x4
#define TASK_TRACED 0x8
#define TASK_DEAD 0x80
#define TASK_FROZEN 0x8000
#define EXIT_DEAD 0x10
#define EXIT_ZOMBIE 0x20
#define PF_WQ_WORKER 0x20
#define PF_KTHREAD 0x200000
#define JOBCTL_TRAP_FREEZE (1 << 23)
// trace/events/lock.h
#define LCB_F_SPIN 1
#define LCB_F_READ 2
#define LCB_F_WRITE 4
#define LCB_F_RT 8
#define LCB_F_PERCPU 16
#define LCB_F_MUTEX 32

// case::rows::SchedState
enum wait_state { WOKEN, PREEMPTED, THROTTLED, SLEEPING, UNINTERRUPTIBLE, STOPPED, TRACED, FROZEN };
// case::rows::SchedReason
enum wait_reason { NO_REASON, IO, MUTEX, READ_LOCK, WRITE_LOCK, RT_MUTEX, PERCPU_READ_LOCK };

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct cfs_rq {
	u64 throttled_clock_pelt_time;
	int throttle_count;
};

struct sched_entity {
	struct cfs_rq *cfs_rq;
	u64 sum_exec_runtime;
};

struct sched_info {
	u64 run_delay;
};

struct task_struct___sched {
	int pid;
	int tgid;
	char comm[16];
	u32 flags;
	unsigned long jobctl;
	unsigned in_iowait : 1;
	struct sched_entity se;
	struct sched_info sched_info;
	bool throttled; // since 6.18
};

struct work_struct___sched {
	void *func;
};

#pragma clang attribute pop

// What goes to user space; its twin is in mod.rs.
struct wait {
	u64 start_ns; // 0 = the thread runs
	u64 end_ns;
	u64 place; // kernel address at which it is blocked; 0 = not looked at
	u64 comm[2];
	u64 by_comm[2];
	u64 waker[2]; // command name of the thread that ended a long sleep
	s32 tid;
	s32 pid;
	s32 by_pid;
	s32 waker_pid;
	s32 waker_tid; // 0 = not seen, or an interrupt did
	u16 cpu;
	u8 state;
	u8 reason;
};

struct thread {
	struct wait wait;
	u64 run_delay;	 // the kernel's own account when the wait began
	u64 throttled_ns; // of its run queue, likewise
	u64 ran_ns;	 // CPU time, likewise
	u64 stack_ns;	 // last look at its stack
	u32 contention;	 // flags of the lock it is about to wait for
	u8 of_command;
	u8 kernel;
	u8 held_back; // at the last look, by a queue's controller
	u8 serves;    // by software; what it sleeps for is nobody's operation
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, THREADS_MAX);
	__type(key, u32);
	__type(value, struct thread);
} threads SEC(".maps");

// Threads of the table that were looked for lately, by the end of their number: most bios come from the same few.
#define FOUND (1 << 12)
u32 found[FOUND] SEC(".bss.found");

// Who ran on a CPU, and since when.
struct run {
	u64 start_ns;
	u64 comm[2];
	s32 pid;
	u32 pad;
};

// One that has ended.
struct long_run {
	struct run run;
	u64 end_ns;
};

struct cpu_runs {
	struct run runs[RUNS];
	struct long_run long_runs[RUNS];
	u64 next;
	u64 next_long;
	u64 pad[6];
};

struct cpu_runs cpu_runs[CPUS_MAX] SEC(".bss.runs");

// The stack of a waker.
struct waker_stack {
	u64 frames[WAKER_FRAMES];
};

struct waker_stack waker_stacks[CPUS_MAX] SEC(".bss.stacks");

// Not a typedef: the loader looks for a type of that name in the kernel.
#define task_t struct task_struct___sched

static __always_inline struct thread *find(u32 tid)
{
	return bpf_map_lookup_elem(&threads, &tid);
}

static __always_inline void set_comm(u64 *to, task_t *task)
{
	name_of(to, task);
}

static __noinline int learn(task_t *task, bool of_command)
{
	static const struct thread empty;
	u32 tid;

	if (!task)
		return 0;
	tid = BPF_CORE_READ(task, pid);
	u64 comm = 0;
	bpf_core_read(&comm, sizeof(comm), &task->comm);
	if (!tid || is_own_comm(comm))
		return 0;
	if (bpf_map_update_elem(&threads, &tid, &empty, BPF_NOEXIST)) {
		if (!find(tid))
			count(MAP_FULL, 1);
		return 0;
	}
	struct thread *thread = find(tid);
	if (!thread)
		return 0;
	count(THREADS, 1);
	thread->of_command = of_command;
	thread->kernel = !!(BPF_CORE_READ(task, flags) & PF_KTHREAD);
	return 0;
}

static __always_inline bool is_server(s32 tgid)
{
	for (u32 i = 0; i < SERVERS_MAX && servers[i]; i++)
		if (servers[i] == tgid)
			return 1;
	return 0;
}

// One that submits I/O itself has sleeps that matter, whomever it serves.
static __always_inline void learn_current(void)
{
	task_t *task = (void *)bpf_get_current_task_btf();

	u32 tid = task->pid;
	u32 *lately = &found[tid & (FOUND - 1)];

	if (*lately == tid)
		return;
	struct thread *thread = find(tid);
	if (thread) {
		*lately = tid;
		if (!scope_only || scope_has(task->tgid))
			thread->serves = 0;
	} else if (!scope_only || scope_has(task->tgid))
		learn(task, 0);
}

// How long the thread's run queue has been throttled so far.
static __always_inline u64 throttled_ns(task_t *task)
{
	if (!bpf_core_field_exists(task->se.cfs_rq->throttled_clock_pelt_time))
		return 0;
	return task->se.cfs_rq->throttled_clock_pelt_time;
}

static __always_inline bool is_throttled(task_t *task)
{
	if (bpf_core_field_exists(task->throttled))
		return task->throttled;
	if (bpf_core_field_exists(task->se.cfs_rq->throttle_count))
		return task->se.cfs_rq->throttle_count > 0;
	return 0;
}

static __always_inline u64 run_delay(task_t *task)
{
	if (!bpf_core_field_exists(task->sched_info.run_delay))
		return 0;
	return task->sched_info.run_delay;
}

static __always_inline u8 blocked_state(task_t *task, u32 state)
{
	if (state & TASK_FROZEN || task->jobctl & JOBCTL_TRAP_FREEZE)
		return FROZEN;
	if (state & TASK_TRACED)
		return TRACED;
	if (state & TASK_STOPPED)
		return STOPPED;
	return state & TASK_UNINTERRUPTIBLE ? UNINTERRUPTIBLE : SLEEPING;
}

static __always_inline u8 blocked_reason(struct thread *thread, task_t *task)
{
	u32 lock = thread->contention;

	if (BPF_CORE_READ_BITFIELD(task, in_iowait))
		return IO;
	if (lock & LCB_F_MUTEX)
		return MUTEX;
	if (lock & LCB_F_READ)
		return lock & LCB_F_PERCPU ? PERCPU_READ_LOCK : READ_LOCK;
	if (lock & LCB_F_WRITE)
		return WRITE_LOCK;
	return lock & LCB_F_RT ? RT_MUTEX : NO_REASON;
}

// The first function on this CPU's stack that does not merely wait: what /proc/PID/wchan would show.
static __noinline u64 waiting_place(void *ctx)
{
	u64 frames[FRAMES] = {};
	bool waiting = 0;

	if (!ctx || bpf_get_stack(ctx, frames, sizeof(frames), 0) < 0)
		return 0;
	for (u32 i = 0; i < FRAMES; i++) {
		bool waits = frames[i] >= sched_text_start && frames[i] < sched_text_end;
		if (waiting && !waits)
			return frames[i];
		waiting |= waits;
	}
	return 0;
}

static __always_inline bool holds_back(u64 place)
{
	return (place >= wbt_start && place < wbt_end) || (place >= cost_start && place < cost_end);
}

static __always_inline void begin(struct thread *thread, task_t *task, u8 state, u64 now)
{
	struct wait *wait = &thread->wait;

	wait->end_ns = 0;
	wait->place = 0;
	wait->reason = NO_REASON;
	wait->by_pid = 0;
	wait->by_comm[0] = 0;
	wait->by_comm[1] = 0;
	wait->waker[0] = 0;
	wait->waker[1] = 0;
	wait->waker_pid = 0;
	wait->waker_tid = 0;
	wait->tid = task->pid;
	wait->pid = task->tgid;
	wait->cpu = bpf_get_smp_processor_id();
	wait->state = state;
	set_comm(wait->comm, task);
	thread->run_delay = run_delay(task);
	thread->throttled_ns = throttled_ns(task);
	thread->ran_ns = task->se.sum_exec_runtime;
	wait->start_ns = now;
}

static __always_inline void end(struct thread *thread, u64 now)
{
	struct wait *wait = &thread->wait;
	u64 duration_ns = now - wait->start_ns;

	// What a kernel thread, or a server of storage, sleeps for is nobody's operation, except that it cannot submit; who is stopped serves nobody.
	if (duration_ns < min_ns) {
		count(SHORT, 1);
		count(SHORT_NS, duration_ns);
	} else if (!((thread->kernel || thread->serves) && wait->state >= SLEEPING && wait->state < STOPPED &&
		     !(wait->place && thread->held_back))) {
		wait->end_ns = now;
		send_event(wait, sizeof(*wait));
	}
	wait->start_ns = 0;
}

static __always_inline struct cpu_runs *this_cpu(void)
{
	return &cpu_runs[bpf_get_smp_processor_id() & (CPUS_MAX - 1)];
}

static __always_inline void note_run(task_t *task, u64 now)
{
	struct cpu_runs *cpu = this_cpu();
	struct run *ended = &cpu->runs[(cpu->next - 1) & (RUNS - 1)];

	// Nobody waits for an idle CPU.
	if (ended->pid && now - ended->start_ns >= LONG_RUN_NS) {
		struct long_run *kept = &cpu->long_runs[cpu->next_long++ & (RUNS - 1)];

		kept->run = *ended;
		kept->end_ns = now;
	}
	struct run *run = &cpu->runs[cpu->next++ & (RUNS - 1)];

	run->start_ns = now;
	run->pid = task->tgid;
	set_comm(run->comm, task);
}

static __always_inline void set_by_run(struct wait *wait, struct run *run)
{
	wait->by_pid = run->pid;
	wait->by_comm[0] = run->comm[0];
	wait->by_comm[1] = run->comm[1];
}

// Who ran longest on this CPU since the wait began, as far back as its runs are kept: a few of any length, and as many long ones.
static __noinline int set_longest_run(struct wait *wait, u64 now)
{
	struct cpu_runs *cpu = this_cpu();
	u64 next = cpu->next, end_ns = now, longest_ns = 0;

	if (!wait)
		return 0;
	for (u32 i = 1; i <= RUNS; i++) {
		struct run *run = &cpu->runs[(next - i) & (RUNS - 1)];
		u64 start_ns = run->start_ns > wait->start_ns ? run->start_ns : wait->start_ns;

		if (!run->start_ns || end_ns <= start_ns)
			break;
		if (end_ns - start_ns > longest_ns) {
			longest_ns = end_ns - start_ns;
			set_by_run(wait, run);
		}
		end_ns = run->start_ns;
	}
	for (u32 i = 0; i < RUNS; i++) {
		struct long_run *kept = &cpu->long_runs[i];
		u64 start_ns = kept->run.start_ns > wait->start_ns ? kept->run.start_ns : wait->start_ns;

		if (kept->end_ns > start_ns && kept->end_ns - start_ns > longest_ns) {
			longest_ns = kept->end_ns - start_ns;
			set_by_run(wait, &kept->run);
		}
	}
	return 0;
}

static __always_inline void set_by(struct wait *wait, task_t *task)
{
	wait->by_pid = task->tgid;
	set_comm(wait->by_comm, task);
}

// A thread arrived on a CPU.
static __always_inline void arrive(task_t *task, u64 now)
{
	struct thread *thread = find(task->pid);

	if (!thread || !thread->wait.start_ns)
		return;
	struct wait *wait = &thread->wait;
	u32 cpu = bpf_get_smp_processor_id();
	// One that was preempted on another CPU keeps who did it.
	if (now - wait->start_ns >= min_ns && (wait->state == WOKEN || wait->cpu == cpu))
		set_longest_run(wait, now);
	wait->cpu = cpu;
	if (wait->state <= PREEMPTED && throttled_ns(task) > thread->throttled_ns)
		wait->state = THROTTLED;
	end(thread, now);
}

// A thread in scope leaves its CPU although its last wait has not ended: its arrival was not shown to us, nor perhaps that it was
// woken. The kernel's own accounts tell how long it ran since, and how long it waited for a CPU before. They are kept by another
// clock: what they are off by less than is told of a wait is no contradiction.
static __always_inline void end_unseen(struct thread *thread, task_t *task, u64 now)
{
	u64 start_ns = thread->wait.start_ns;
	u64 waited_ns = run_delay(task) - thread->run_delay;
	u64 arrived_ns = now - (task->se.sum_exec_runtime - thread->ran_ns);
	bool slept = thread->wait.state >= SLEEPING;

	// One that was woken while it ran already had nothing to wait for: it ran before, too.
	if (!slept)
		arrived_ns = waited_ns ? start_ns + waited_ns : arrived_ns < start_ns ? start_ns : arrived_ns;
	else if (arrived_ns < start_ns + waited_ns && arrived_ns + min_ns >= start_ns + waited_ns)
		arrived_ns = start_ns + waited_ns;
	if (arrived_ns > now + min_ns || arrived_ns < start_ns + waited_ns) {
		count(END_UNSEEN, 1);
		thread->wait.start_ns = 0;
		return;
	}
	if (arrived_ns > now)
		arrived_ns = now;
	if (slept) {
		end(thread, arrived_ns - waited_ns);
		begin(thread, task, WOKEN, arrived_ns - waited_ns);
	}
	end(thread, arrived_ns);
}

// A thread leaves its CPU to `next`.
static __always_inline void leave(void *ctx, task_t *task, task_t *next, u32 state, u64 now)
{
	struct thread *thread = find(task->pid);

	if (!thread) {
		if (state & (TASK_DEAD | EXIT_DEAD | EXIT_ZOMBIE))
			return;
		bool of_command = scope_limited && scope_has(task->tgid);
		bool serves = !of_command && is_server(task->tgid);
		if (!of_command && !serves && (scope_only || !(state && BPF_CORE_READ_BITFIELD(task, in_iowait))))
			return;
		learn(task, of_command);
		thread = find(task->pid);
		if (!thread)
			return;
		thread->serves = serves;
	}
	if (thread->wait.start_ns)
		end_unseen(thread, task, now);
	if (!state) {
		begin(thread, task, is_throttled(task) ? THROTTLED : PREEMPTED, now);
		set_by(&thread->wait, next);
		return;
	}
	begin(thread, task, blocked_state(task, state), now);
	thread->wait.reason = blocked_reason(thread, task);
	// Who was held back is likely to be so again, for less than the pause.
	bool look = now - thread->stack_ns >= stack_pause_ns || thread->held_back;
	if (sched_text_start && look && ((!thread->kernel && !thread->serves) || thread->wait.reason == IO)) {
		thread->stack_ns = now;
		thread->wait.place = waiting_place(ctx);
		thread->held_back = holds_back(thread->wait.place);
	}
}

SEC("tp_btf/sched_switch")
int BPF_PROG(sched_switch, bool preempt, task_t *prev, task_t *next, u32 prev_state)
{
	if (!recording)
		return 0;
	u64 now = bpf_ktime_get_ns();
	// 0 is the idle task.
	if (prev->pid)
		leave(ctx, prev, next, preempt ? 0 : prev_state, now);
	if (next->pid)
		arrive(next, now);
	note_run(next, now);
	return 0;
}

// Where a long sleep was that began too soon after the last look: its stack is still what it was. The kernel leaves its scheduler's own functions
// out of another thread's stack.
static __always_inline u64 slept_at(task_t *task)
{
	u64 frames[2] = {};

	return bpf_get_task_stack((void *)task, frames, sizeof(frames), 0) < 0 ? 0 : frames[0];
}

// Whether what runs on this CPU was called by an interrupt: then its task is anybody. A softirq that a thread runs itself is mostly its own doing: what it
// sends over the loopback interface wakes its receiver there.
static __noinline bool in_interrupt(void *ctx)
{
	struct waker_stack *stack = &waker_stacks[bpf_get_smp_processor_id() & (CPUS_MAX - 1)];
	long bytes = ctx ? bpf_get_stack(ctx, stack->frames, sizeof(stack->frames), 0) : 0;

	for (u32 i = 0; i < WAKER_FRAMES; i++) {
		u64 frame = stack->frames[i];

		if ((long)(i * sizeof(u64)) >= bytes)
			break;
		if (frame >= irqentry_text_start && frame < irqentry_text_end)
			return 1;
	}
	// Without a stack nothing is known.
	return bytes <= 0;
}

// Comes from where the waker runs; what follows when the thread can run may come from an interrupt of another CPU.
SEC("tp_btf/sched_waking")
int BPF_PROG(sched_waking, task_t *task)
{
	if (!recording)
		return 0;
	struct thread *thread = find(task->pid);

	if (!thread || thread->kernel || thread->serves)
		return 0;
	struct wait *wait = &thread->wait;

	// What a thread waits for I/O for ends by a completion, which is nobody's.
	if (!wait->start_ns || (wait->state != SLEEPING && wait->state != UNINTERRUPTIBLE) || wait->reason == IO)
		return 0;
	if (bpf_ktime_get_ns() - wait->start_ns < waker_min_ns)
		return 0;
	task_t *waker = (void *)bpf_get_current_task_btf();

	// 0 is the idle task, which only interrupts make work.
	if (!waker->pid || !irqentry_text_start || in_interrupt(ctx))
		return 0;
	wait->waker_tid = waker->pid;
	wait->waker_pid = waker->tgid;
	set_comm(wait->waker, waker);
	return 0;
}

static __always_inline void wake(task_t *task)
{
	struct thread *thread = find(task->pid);

	if (!thread)
		return;
	u64 now = bpf_ktime_get_ns();
	if (thread->wait.start_ns) {
		struct wait *wait = &thread->wait;

		if (wait->state < SLEEPING)
			return;
		bool look = wait->state <= UNINTERRUPTIBLE && !wait->place && now - wait->start_ns >= stack_pause_ns;
		if (sched_text_start && look && ((!thread->kernel && !thread->serves) || wait->reason == IO))
			wait->place = slept_at(task);
		end(thread, now);
		begin(thread, task, WOKEN, now);
	}
}

SEC("tp_btf/sched_wakeup")
int BPF_PROG(sched_wakeup, task_t *task)
{
	if (recording)
		wake(task);
	return 0;
}

SEC("tp_btf/sched_wakeup_new")
int BPF_PROG(sched_wakeup_new, task_t *task)
{
	struct thread *thread;

	if (!recording)
		return 0;
	thread = find(task->pid);
	if (thread)
		begin(thread, task, WOKEN, bpf_ktime_get_ns());
	return 0;
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(sched_process_fork, task_t *parent, task_t *child)
{
	scope_fork(parent->tgid, child->tgid);
	if (recording && scope_limited && scope_has(child->tgid))
		learn(child, 1);
	return 0;
}

// Who executes a program is called as that from then on, though it has had its CPU for longer.
SEC("tp_btf/sched_process_exec")
int BPF_PROG(sched_process_exec, task_t *task)
{
	struct cpu_runs *cpu = this_cpu();
	struct run *run = &cpu->runs[(cpu->next - 1) & (RUNS - 1)];

	if (run->pid == task->tgid)
		set_comm(run->comm, task);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(sched_process_exit, task_t *task)
{
	u32 tid = task->pid;
	struct thread *thread = find(tid);

	// It runs, so its last wait is over, whether that was shown to us or not.
	if (recording && thread && thread->wait.start_ns)
		end_unseen(thread, task, bpf_ktime_get_ns());
	if (found[tid & (FOUND - 1)] == tid)
		found[tid & (FOUND - 1)] = 0;
	bpf_map_delete_elem(&threads, &tid);
	return 0;
}

SEC("tp_btf/block_bio_queue")
int BPF_PROG(block_bio_queue)
{
	if (recording)
		learn_current();
	return 0;
}

static __always_inline void learn_serving(task_t *task)
{
	if (find(task->pid))
		return;
	learn(task, 0);
	struct thread *thread = find(task->pid);
	if (thread)
		thread->serves = 1;
}

// Both are attached where devices are served by software: a worker of the kernel that completes a request there, or hands it to who serves
// the device, may be late for want of a CPU.
SEC("tp_btf/block_rq_complete")
int BPF_PROG(block_rq_complete)
{
	task_t *task = (void *)bpf_get_current_task_btf();

	if (recording && task->flags & PF_WQ_WORKER)
		learn_serving(task);
	return 0;
}

SEC("tp_btf/workqueue_execute_start")
int BPF_PROG(workqueue_execute_start, struct work_struct___sched *work)
{
	u64 func = recording ? (u64)BPF_CORE_READ(work, func) : 0;

	for (u32 i = 0; func && i < SERVING_WORK_MAX; i++)
		if (serving_work[i] == func)
			learn_serving((void *)bpf_get_current_task_btf());
	return 0;
}

SEC("tp_btf/io_uring_cqring_wait")
int BPF_PROG(io_uring_cqring_wait)
{
	if (recording)
		learn_current();
	return 0;
}

SEC("tp_btf/contention_begin")
int BPF_PROG(contention_begin, void *lock, u32 flags)
{
	struct thread *thread;

	if (!recording || flags & LCB_F_SPIN)
		return 0;
	thread = find((u32)bpf_get_current_pid_tgid());
	if (thread)
		thread->contention = flags;
	return 0;
}

SEC("tp_btf/contention_end")
int BPF_PROG(contention_end)
{
	struct thread *thread;

	if (!recording)
		return 0;
	thread = find((u32)bpf_get_current_pid_tgid());
	if (thread)
		thread->contention = 0;
	return 0;
}
