// Who is behind direct I/O, as one number that two probes compute alike without knowing of each other.
//
// Direct I/O carries a kiocb from the call down to the bio. An io_uring request begins with its kiocb. A control block of
// libaio is known to its submitter by the context and the address it has in the program. The kiocb of a synchronous
// call lies on the kernel stack of its thread. So each kind has an address that both ends can tell: the request, context
// and control block, or the stack.
//
// Cases hold only a keyed hash of it: kernel addresses are nobody's business. The hash is one to one; an address is used
// again once its operation has ended, so a key belongs to an operation only together with its time.
#pragma once

// Set by the loader, the same for every probe of a recording.
const volatile u64 owner_secret_add = 0;
const volatile u64 owner_secret_mul = 1; // odd
const volatile u64 owner_stack_bytes = 16384; // of a kernel stack (THREAD_SIZE), to which stacks are aligned
const volatile u64 sym_aio_complete_rw = 0;

// `address` must be a number to the verifier, not a pointer. Never 0 but for one address in 2^64.
static __always_inline u64 owner_key(u64 address)
{
	u64 x = (address + owner_secret_add) * owner_secret_mul;

	return x ^ x >> 32;
}

// What stands for a control block of libaio: its context (kernel) and its address (user).
static __always_inline u64 owner_aio(u64 context, u64 control_block)
{
	return context ^ (control_block << 20 | control_block >> 44);
}

// The key of the operation that this kiocb belongs to. `iocb` must be a number to the verifier.
static __always_inline u64 owner_of_kiocb(u64 iocb)
{
	u64 complete = (u64)BPF_CORE_READ((struct kiocb *)iocb, ki_complete);
	struct aio_kiocb *aio = (void *)iocb;

	if (!complete)
		return owner_key(iocb & ~(owner_stack_bytes - 1));
	if (complete == sym_aio_complete_rw)
		return owner_key(owner_aio((u64)BPF_CORE_READ(aio, ki_ctx), BPF_CORE_READ(aio, ki_res.obj)));
	return owner_key(iocb);
}
