// Which calls are storage operations, and where their arguments are.
#pragma once

// Where a system call has its file, place and size.
enum shape {
	SHAPE_NONE,
	SHAPE_DATA,       // (fd, buffer, bytes) at the file's position
	SHAPE_DATA_AT,    // (fd, buffer, bytes, offset)
	SHAPE_VECTOR,     // (fd, vectors, count) at the file's position
	SHAPE_VECTOR_AT,  // (fd, vectors, count, offset, 0, flags)
	SHAPE_FILE,       // (fd)
	SHAPE_RANGE,      // (fd, offset, bytes)
	SHAPE_ALLOCATE,   // (fd, mode, offset, bytes)
	SHAPE_ADVICE,     // (fd, offset, bytes, advice); wanted where it drops pages
	SHAPE_CONTROL,    // (fd, command); wanted where it drops pages
	SHAPE_COPY,       // (from, *offset, to, *offset, bytes)
	SHAPE_SENDFILE,   // (to, from, *offset, bytes)
	SHAPE_OPEN,       // gives a descriptor
	SHAPE_MAPPED,     // (address, bytes)
	SHAPE_ALL,        // ()
	SHAPE_URING,      // io_uring_enter
	SHAPE_AIO_SUBMIT, // (context, count, control blocks)
	SHAPE_AIO_REAP,   // (context, least, most, events)
	SHAPE_NAME,       // (name)
	SHAPE_NAME_AT,    // (folder, name)
	SHAPE_TO_NAME,    // (text, name)
	SHAPE_TO_NAME_AT, // (text, folder, name)
	SHAPE_LOOKED_AT,  // (fd) of a file or folder, which is looked at when the call ends
};

// schema::Op
enum op {
	OP_READ,
	OP_WRITE,
	OP_FLUSH,
	OP_DISCARD,
	OP_SYNC,
	OP_COPY,
	OP_OTHER,
	OP_OPEN = 14,
	OP_RENAME,
	OP_UNLINK,
	OP_MKDIR,
	OP_LINK,
	OP_TRUNCATE,
	OP_ALLOCATE,
	OP_DROP = 22,
	OP_CLOSE,
	OP_LOOKUP,
	OP_LIST,
	OP_ATTRIBUTE,
};

struct known {
	u8 shape;
	u8 op;
};

// Kinds of which most calls take a microsecond and wait for nothing, and which programs make by the hundred thousand: only those are recorded in
// which the thread slept.
static __always_inline bool is_kept_if_slept(u8 op)
{
	return op >= OP_CLOSE && op <= OP_ATTRIBUTE;
}

#define CALLS_MAX 512

// By number on x86-64 (arch/x86/entry/syscalls/syscall_64.tbl).
static const struct known known_calls[CALLS_MAX] = {
	[0] = { SHAPE_DATA, OP_READ }, // read
	[1] = { SHAPE_DATA, OP_WRITE }, // write
	[2] = { SHAPE_OPEN, OP_OPEN }, // open
	[3] = { SHAPE_FILE, OP_CLOSE }, // close
	[4] = { SHAPE_NAME, OP_LOOKUP }, // stat
	[5] = { SHAPE_LOOKED_AT, OP_LOOKUP }, // fstat
	[6] = { SHAPE_NAME, OP_LOOKUP }, // lstat
	[16] = { SHAPE_CONTROL, OP_DROP }, // ioctl
	[17] = { SHAPE_DATA_AT, OP_READ }, // pread64
	[18] = { SHAPE_DATA_AT, OP_WRITE }, // pwrite64
	[19] = { SHAPE_VECTOR, OP_READ }, // readv
	[20] = { SHAPE_VECTOR, OP_WRITE }, // writev
	[21] = { SHAPE_NAME, OP_LOOKUP }, // access
	[26] = { SHAPE_MAPPED, OP_SYNC }, // msync
	[40] = { SHAPE_SENDFILE, OP_COPY }, // sendfile
	[74] = { SHAPE_FILE, OP_SYNC }, // fsync
	[75] = { SHAPE_FILE, OP_SYNC }, // fdatasync
	[76] = { SHAPE_NAME, OP_TRUNCATE }, // truncate
	[77] = { SHAPE_FILE, OP_TRUNCATE }, // ftruncate
	[78] = { SHAPE_LOOKED_AT, OP_LIST }, // getdents
	[82] = { SHAPE_NAME, OP_RENAME }, // rename
	[83] = { SHAPE_NAME, OP_MKDIR }, // mkdir
	[84] = { SHAPE_NAME, OP_UNLINK }, // rmdir
	[85] = { SHAPE_OPEN, OP_OPEN }, // creat
	[86] = { SHAPE_NAME, OP_LINK }, // link
	[87] = { SHAPE_NAME, OP_UNLINK }, // unlink
	[88] = { SHAPE_TO_NAME, OP_LINK }, // symlink
	[89] = { SHAPE_NAME, OP_LOOKUP }, // readlink
	[90] = { SHAPE_NAME, OP_ATTRIBUTE }, // chmod
	[91] = { SHAPE_LOOKED_AT, OP_ATTRIBUTE }, // fchmod
	[92] = { SHAPE_NAME, OP_ATTRIBUTE }, // chown
	[93] = { SHAPE_LOOKED_AT, OP_ATTRIBUTE }, // fchown
	[94] = { SHAPE_NAME, OP_ATTRIBUTE }, // lchown
	[132] = { SHAPE_NAME, OP_ATTRIBUTE }, // utime
	[162] = { SHAPE_ALL, OP_SYNC }, // sync
	[188] = { SHAPE_NAME, OP_ATTRIBUTE }, // setxattr
	[189] = { SHAPE_NAME, OP_ATTRIBUTE }, // lsetxattr
	[190] = { SHAPE_LOOKED_AT, OP_ATTRIBUTE }, // fsetxattr
	[191] = { SHAPE_NAME, OP_LOOKUP }, // getxattr
	[192] = { SHAPE_NAME, OP_LOOKUP }, // lgetxattr
	[193] = { SHAPE_LOOKED_AT, OP_LOOKUP }, // fgetxattr
	[194] = { SHAPE_NAME, OP_LOOKUP }, // listxattr
	[195] = { SHAPE_NAME, OP_LOOKUP }, // llistxattr
	[196] = { SHAPE_LOOKED_AT, OP_LOOKUP }, // flistxattr
	[197] = { SHAPE_NAME, OP_ATTRIBUTE }, // removexattr
	[198] = { SHAPE_NAME, OP_ATTRIBUTE }, // lremovexattr
	[199] = { SHAPE_LOOKED_AT, OP_ATTRIBUTE }, // fremovexattr
	[208] = { SHAPE_AIO_REAP, OP_OTHER }, // io_getevents
	[209] = { SHAPE_AIO_SUBMIT, OP_OTHER }, // io_submit
	[217] = { SHAPE_LOOKED_AT, OP_LIST }, // getdents64
	[221] = { SHAPE_ADVICE, OP_DROP }, // fadvise64
	[235] = { SHAPE_NAME, OP_ATTRIBUTE }, // utimes
	[257] = { SHAPE_OPEN, OP_OPEN }, // openat
	[258] = { SHAPE_NAME_AT, OP_MKDIR }, // mkdirat
	[260] = { SHAPE_NAME_AT, OP_ATTRIBUTE }, // fchownat
	[261] = { SHAPE_NAME_AT, OP_ATTRIBUTE }, // futimesat
	[262] = { SHAPE_NAME_AT, OP_LOOKUP }, // newfstatat
	[263] = { SHAPE_NAME_AT, OP_UNLINK }, // unlinkat
	[264] = { SHAPE_NAME_AT, OP_RENAME }, // renameat
	[265] = { SHAPE_NAME_AT, OP_LINK }, // linkat
	[266] = { SHAPE_TO_NAME_AT, OP_LINK }, // symlinkat
	[267] = { SHAPE_NAME_AT, OP_LOOKUP }, // readlinkat
	[268] = { SHAPE_NAME_AT, OP_ATTRIBUTE }, // fchmodat
	[269] = { SHAPE_NAME_AT, OP_LOOKUP }, // faccessat
	[277] = { SHAPE_RANGE, OP_SYNC }, // sync_file_range
	[280] = { SHAPE_NAME_AT, OP_ATTRIBUTE }, // utimensat
	[285] = { SHAPE_ALLOCATE, OP_ALLOCATE }, // fallocate
	[295] = { SHAPE_VECTOR_AT, OP_READ }, // preadv
	[296] = { SHAPE_VECTOR_AT, OP_WRITE }, // pwritev
	[306] = { SHAPE_FILE, OP_SYNC }, // syncfs
	[316] = { SHAPE_NAME_AT, OP_RENAME }, // renameat2
	[326] = { SHAPE_COPY, OP_COPY }, // copy_file_range
	[327] = { SHAPE_VECTOR_AT, OP_READ }, // preadv2
	[328] = { SHAPE_VECTOR_AT, OP_WRITE }, // pwritev2
	[332] = { SHAPE_NAME_AT, OP_LOOKUP }, // statx
	[333] = { SHAPE_AIO_REAP, OP_OTHER }, // io_pgetevents
	[426] = { SHAPE_URING, OP_OTHER }, // io_uring_enter
	[437] = { SHAPE_OPEN, OP_OPEN }, // openat2
	[439] = { SHAPE_NAME_AT, OP_LOOKUP }, // faccessat2
	[452] = { SHAPE_NAME_AT, OP_ATTRIBUTE }, // fchmodat2
};

#define CALL_PREADV2 327
#define CALL_PWRITEV2 328

#define OPCODES_MAX 64

// By io_uring opcode (uapi/linux/io_uring.h).
static const struct known known_opcodes[OPCODES_MAX] = {
	[1] = { SHAPE_VECTOR_AT, OP_READ }, // READV
	[2] = { SHAPE_VECTOR_AT, OP_WRITE }, // WRITEV
	[3] = { SHAPE_FILE, OP_SYNC }, // FSYNC
	[4] = { SHAPE_DATA_AT, OP_READ }, // READ_FIXED
	[5] = { SHAPE_DATA_AT, OP_WRITE }, // WRITE_FIXED
	[8] = { SHAPE_RANGE, OP_SYNC }, // SYNC_FILE_RANGE
	[17] = { SHAPE_ALLOCATE, OP_ALLOCATE }, // FALLOCATE
	[18] = { SHAPE_OPEN, OP_OPEN }, // OPENAT
	[22] = { SHAPE_DATA_AT, OP_READ }, // READ
	[23] = { SHAPE_DATA_AT, OP_WRITE }, // WRITE
	[28] = { SHAPE_OPEN, OP_OPEN }, // OPENAT2
	[60] = { SHAPE_VECTOR_AT, OP_READ }, // READV_FIXED
	[61] = { SHAPE_VECTOR_AT, OP_WRITE }, // WRITEV_FIXED
};

// Not 16: a table of 32 bytes would go to a section of its own, which loaders do not know.
#define COMMANDS_MAX 24

// By command of a libaio control block (uapi/linux/aio_abi.h).
static const struct known known_commands[COMMANDS_MAX] = {
	[0] = { SHAPE_DATA_AT, OP_READ }, // PREAD
	[1] = { SHAPE_DATA_AT, OP_WRITE }, // PWRITE
	[2] = { SHAPE_FILE, OP_SYNC }, // FSYNC
	[3] = { SHAPE_FILE, OP_SYNC }, // FDSYNC
	[7] = { SHAPE_VECTOR_AT, OP_READ }, // PREADV
	[8] = { SHAPE_VECTOR_AT, OP_WRITE }, // PWRITEV
};
