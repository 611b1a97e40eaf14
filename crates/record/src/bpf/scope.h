// Which processes a probe looks at: one process and all that it and its descendants start, or every process.
#pragma once
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

// The process at the root, set by the loader; 0 = every process.
const volatile s32 scope_root = 0;

#define SCOPE_HINTS (1 << 16)

// Whether some process in the scope has a number that ends so. Most processes outside are told by this alone.
u8 scope_hints[SCOPE_HINTS] SEC(".bss.scope");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 32768);
	__type(key, s32);
	__type(value, u8);
} scope SEC(".maps");

// Whether a process may be in the scope.
static __always_inline bool scope_may_have(s32 tgid)
{
	return !scope_root || tgid == scope_root || scope_hints[(u32)tgid & (SCOPE_HINTS - 1)];
}

static __always_inline bool scope_has(s32 tgid)
{
	if (!scope_root || tgid == scope_root)
		return 1;
	return scope_may_have(tgid) && bpf_map_lookup_elem(&scope, &tgid);
}

// A process whose number was that of an ended one in the scope is taken out: its parent decides.
SEC("tp_btf/sched_process_fork")
int BPF_PROG(sched_process_fork, struct task_struct *parent, struct task_struct *child)
{
	s32 tgid = child->tgid;
	u8 one = 1;

	if (tgid == parent->tgid || tgid == scope_root)
		return 0;
	if (scope_has(parent->tgid)) {
		if (bpf_map_update_elem(&scope, &tgid, &one, BPF_ANY))
			count(SCOPE_FULL, 1);
		scope_hints[(u32)tgid & (SCOPE_HINTS - 1)] = 1;
	} else if (scope_may_have(tgid)) {
		bpf_map_delete_elem(&scope, &tgid);
	}
	return 0;
}
