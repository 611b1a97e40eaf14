// Which processes a probe looks at: those that the recorder named (`scope_change`) and all that they and their
// descendants start, or every process. Include it where `enum counter` has SCOPE_FULL and `count` is defined.
#pragma once
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

// Set by the loader; 0 = every process.
const volatile bool scope_limited = 0;

#define SCOPE_HINTS (1 << 16)

// Whether some process in the scope has a number that ends so. Most processes outside are told by this alone.
u8 scope_hints[SCOPE_HINTS] SEC(".bss.scope");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__type(key, s32);
	__type(value, u8);
} scope SEC(".maps");

// Whether a process may be in the scope.
static __always_inline bool scope_may_have(s32 tgid)
{
	return !scope_limited || scope_hints[(u32)tgid & (SCOPE_HINTS - 1)];
}

static __always_inline bool scope_has(s32 tgid)
{
	return !scope_limited || (scope_may_have(tgid) && bpf_map_lookup_elem(&scope, &tgid));
}

static __always_inline void scope_add(s32 tgid)
{
	u8 one = 1;

	if (bpf_map_update_elem(&scope, &tgid, &one, BPF_ANY))
		count(SCOPE_FULL, 1);
	scope_hints[(u32)tgid & (SCOPE_HINTS - 1)] = 1;
}

// A process whose number was that of an ended one in the scope is taken out: its parent decides.
static __always_inline void scope_fork(s32 parent, s32 child)
{
	if (!scope_limited || child == parent)
		return;
	if (scope_has(parent))
		scope_add(child);
	else if (scope_may_have(child))
		bpf_map_delete_elem(&scope, &child);
}

#ifndef SCOPE_FORKS_ELSEWHERE
SEC("tp_btf/sched_process_fork")
int BPF_PROG(sched_process_fork, struct task_struct *parent, struct task_struct *child)
{
	scope_fork(parent->tgid, child->tgid);
	return 0;
}
#endif

#define SCOPE_ADD (1ull << 32)

// Run by user space, never attached: args[0] is a process, with SCOPE_ADD if it is to be in the scope.
SEC("raw_tp/scope_change")
int scope_change(struct bpf_raw_tracepoint_args *ctx)
{
	s32 tgid = (s32)ctx->args[0];

	if (ctx->args[0] & SCOPE_ADD)
		scope_add(tgid);
	else
		bpf_map_delete_elem(&scope, &tgid);
	return 0;
}
