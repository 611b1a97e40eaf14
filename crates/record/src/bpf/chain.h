// Programs of several probes at one tracepoint. The kernel calls the first, and each goes on to the next by a tail call, which is a
// jump: being called costs more than what most of them do. The loader (load.rs) attaches the first and puts the others into
// the chains; where nobody follows the jump is none.
//
// The place in the program array must be no constant to the verifier. For a constant one the kernel makes a direct jump, and
// patches the instructions of the calling program whenever the array changes: while they run (docs/decisions/0123). Read from
// memory, it is one more load and an indirect jump, and nothing is ever patched.
#pragma once
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

// Always 0: the only place that an array has.
volatile u32 chain_place SEC(".bss.chain");

// A program that calls `body` and goes on. Programs that nobody follows need not be made so.
#define CHAINED_PROGRAM(hook, body, parameters...)                                                                    \
	struct {                                                                                                       \
		__uint(type, BPF_MAP_TYPE_PROG_ARRAY);                                                                 \
		__uint(max_entries, 1);                                                                                \
		__type(key, u32);                                                                                      \
		__type(value, u32);                                                                                    \
	} next_##hook SEC(".maps");                                                                                    \
                                                                                                                       \
	SEC("tp_btf/" #hook)                                                                                           \
	int BPF_PROG(hook, ##parameters)                                                                               \
	{                                                                                                              \
		body;                                                                                                  \
		bpf_tail_call(ctx, &next_##hook, chain_place);                                                                \
		return 0;                                                                                              \
	}
