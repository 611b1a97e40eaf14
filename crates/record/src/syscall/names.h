// Names of files: sent once for each, and again when an open finds another name.
#pragma once

#define NAMES_LOG2 14
#define DEPTH_MAX 64
#define TEXT_MAX 4096
#define NAME_MAX 256

// A path, its components from the last to the first, each with a NUL. The twin is in layout.rs.
struct name_record {
	u64 time_ns;
	u64 inode;
	u32 device;
	u32 cut; // not all of it: too deep or too long
	char text[TEXT_MAX + NAME_MAX];
};

// A walk from a file up to the root, through mount points.
struct walk {
	u64 entry;
	u64 root; // of the mount it is in
	u64 mount;
	u32 bytes; // of text
	u32 pad;
	struct name_record record;
};

struct {
	__uint(type, MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct walk);
} walks SEC(".maps");

struct file_id {
	u64 inode;
	u32 device;
	u32 hash; // 0 in keys
};

// Files named lately: one look for most operations.
struct file_id named[1 << NAMES_LOG2] SEC(".bss.named");

// All files named, with a hash of the name.
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, struct file_id);
	__type(value, u32);
} names SEC(".maps");

static __always_inline struct file_id *named_place(u32 device, u64 inode)
{
	u32 mix = ((u32)inode + device * 31) * 0x9E3779B1u;

	return &named[mix >> (32 - NAMES_LOG2)];
}

static __always_inline bool is_named(u32 device, u64 inode)
{
	struct file_id *id = named_place(device, inode);

	return id->inode == inode && id->device == device;
}

static __always_inline struct walk *this_walk(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&walks, &zero);
}

enum { GO_ON, ARRIVED, CUT };

// One step up. Not static: the verifier then looks at it once, not once per turn of the loop.
__noinline int walk_step(void)
{
	struct walk *walk = this_walk();

	if (!walk)
		return CUT;
	struct dentry *entry = (void *)walk->entry;
	struct dentry *parent = BPF_CORE_READ(entry, d_parent);
	if (walk->entry == walk->root) {
		struct mount *mount = (void *)walk->mount;
		struct mount *outer = BPF_CORE_READ(mount, mnt_parent);
		if (outer == mount || !outer)
			return ARRIVED;
		walk->entry = (u64)BPF_CORE_READ(mount, mnt_mountpoint);
		walk->mount = (u64)outer;
		walk->root = (u64)BPF_CORE_READ(outer, mnt.mnt_root);
		return GO_ON;
	}
	if (parent == entry || !parent)
		return ARRIVED;
	u32 used = walk->bytes;
	if (used > TEXT_MAX - 1)
		return CUT;
	long length = bpf_probe_read_kernel_str(&walk->record.text[used], NAME_MAX, BPF_CORE_READ(entry, d_name.name));
	if (length <= 0)
		return CUT;
	walk->bytes = used + length;
	walk->entry = (u64)parent;
	return GO_ON;
}

// Appends the components of a path to the walk's record.
static __always_inline void walk_path(struct walk *walk, struct vfsmount *inner, struct dentry *entry)
{
	int state = GO_ON;

	walk->entry = (u64)entry;
	walk->root = (u64)BPF_CORE_READ(inner, mnt_root);
	walk->mount = (u64)inner - bpf_core_field_offset(struct mount, mnt);
	for (u32 depth = 0; depth < DEPTH_MAX; depth++) {
		state = walk_step();
		if (state != GO_ON)
			break;
	}
	walk->record.cut = state != ARRIVED;
	if (state != ARRIVED)
		count(NAMES_CUT, 1);
}

// Sends the walk's record.
static __always_inline bool walk_send(struct walk *walk)
{
	u32 bytes = walk->bytes;

	if (bytes > TEXT_MAX + NAME_MAX - 1)
		return 0;
	bytes += __builtin_offsetof(struct name_record, text);
	if (bpf_ringbuf_output(&events, &walk->record, bytes, BPF_RB_NO_WAKEUP)) {
		count(RING_FULL, 1);
		return 0;
	}
	return 1;
}

// Sends a file's name unless it is known. `again`: also if it is known by another name.
static __noinline int name_file(u64 address, u32 device, u64 inode, u32 again)
{
	struct file *file = (void *)address;
	struct file_id id = { .inode = inode, .device = device };
	struct dentry *entry = BPF_CORE_READ(file, f_path.dentry);
	u32 hash = BPF_CORE_READ(entry, d_name.hash) ^ (u32)((u64)BPF_CORE_READ(entry, d_parent) >> 6);
	u32 *known;

	known = bpf_map_lookup_elem(&names, &id);
	if (known && (!again || *known == hash)) {
		*named_place(device, inode) = id;
		return 0;
	}
	// A file that was opened by its handle has no name as long as nobody looks for it by one.
	if (BPF_CORE_READ(entry, d_parent) == entry && BPF_CORE_READ(file, f_path.mnt, mnt_root) != entry) {
		*named_place(device, inode) = id;
		return 0;
	}
	struct walk *walk = this_walk();
	if (!walk)
		return 0;
	walk->record.time_ns = bpf_ktime_get_ns();
	walk->record.inode = inode;
	walk->record.device = device;
	walk->bytes = 0;
	walk_path(walk, BPF_CORE_READ(file, f_path.mnt), BPF_CORE_READ(file, f_path.dentry));
	if (!walk_send(walk))
		return 0;
	bpf_map_update_elem(&names, &id, &hash, BPF_ANY);
	*named_place(device, inode) = id;
	return 0;
}
