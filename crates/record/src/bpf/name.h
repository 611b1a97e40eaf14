// The name that a thread goes by.
#pragma once
#include "kernel.h"
#include <bpf/bpf_helpers.h>

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct task_struct___name {
	char comm[16];
	struct task_struct___name *group_leader;
};

#pragma clang attribute pop

// How the kernel calls the threads that it starts for a program's io_uring ("iou-wrk-4711", "iou-sqp-4711"): "iou-".
#define URING_THREAD 0x2d756f69u
// Our own threads: "whodisk-".
#define OWN_THREAD 0x2d6b7369646f6877ull

static __always_inline u64 comm_start(void *task)
{
	return *(u64 *)&((struct task_struct___name *)task)->comm[0];
}

// A thread's own name; of one that the kernel started for an io_uring the name of its program, which never asked for such a
// thread. Our own engine's keep theirs: its program is called as the recorder is.
static __always_inline void name_of(u64 *comm, void *of)
{
	struct task_struct___name *task = of;

	if ((u32)comm_start(task) == URING_THREAD && comm_start(task->group_leader) != OWN_THREAD)
		task = task->group_leader;
	comm[0] = *(u64 *)&task->comm[0];
	comm[1] = *(u64 *)&task->comm[8];
}
