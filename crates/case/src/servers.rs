//! Programs that serve storage from user space: FUSE file systems, what lies on them, and network block devices.
//!
//! They are a part of the storage path. Whoever waits for a CPU while such a program works for him was not robbed of it.
use crate::host::{attribute, key_of, names_in, text};
use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;

/// What a FUSE server holds open.
const FUSE: &str = "/dev/fuse";
/// ioctl of include/uapi/linux/loop.h.
const LOOP_GET_STATUS64: libc::Ioctl = 0x4C05;
/// Bytes of struct loop_info64, which begins with the device number of the file system that the backing file is on.
const LOOP_INFO64_BYTES: usize = 232;

/// Process id -> block devices and mount points that it serves.
pub(crate) fn servers(root: &Path) -> BTreeMap<String, Vec<String>> {
    let mut servers: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let block = root.join("sys/block");
    for name in names_in(&block) {
        // Only network block devices have it.
        if let Some(pid) = attribute(&block.join(&name).join("pid")) {
            servers.entry(pid).or_default().push(name);
        }
    }
    // Looking at every open file of the host is for those who need it.
    let connections = fuse_connections(root);
    if !connections.is_empty() {
        for (pid, numbers) in fuse_servers(root) {
            let of_number = |number: &String| connections.get(number).cloned().unwrap_or_default();
            // Older kernels do not tell which connection it is: then any of them.
            let served: Vec<String> = match numbers.is_empty() {
                true => connections.values().flatten().cloned().collect(),
                false => numbers.iter().flat_map(of_number).collect(),
            };
            servers.entry(pid).or_default().extend(served);
        }
    }
    for served in servers.values_mut() {
        served.sort();
        served.dedup();
    }
    servers.retain(|_, served| !served.is_empty());
    servers
}

/// Number of a FUSE connection (minor of its file system's device number, whose major is 0) -> what stands on it.
fn fuse_connections(root: &Path) -> BTreeMap<String, Vec<String>> {
    let mut connections: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut stands = |device: Option<&str>, name: String| {
        if let Some(number) = device.and_then(|device| device.strip_prefix("0:")) {
            connections.entry(number.to_owned()).or_default().push(name);
        }
    };
    // `36 35 0:39 / /mnt/point rw,relatime shared:1 - fuse.sshfs source options`, proc(5).
    let mounts = text(&root.join("proc/self/mountinfo")).unwrap_or_default();
    for line in mounts.lines() {
        let (before, after) = line.split_once(" - ").unwrap_or((line, ""));
        let kind = after.split(' ').next().unwrap_or_default();
        if kind == "fuse" || kind == "fuseblk" || kind.starts_with("fuse.") {
            let fields: Vec<&str> = before.split(' ').collect();
            let target = fields.get(4).copied().unwrap_or_default();
            stands(fields.get(2).copied(), crate::host::unescape_octal(target));
        }
    }
    for name in names_in(&root.join("sys/block")) {
        if root
            .join("sys/block")
            .join(&name)
            .join("loop/backing_file")
            .is_file()
        {
            // Its backing file may have no path any more, and its file system no mount: the loop device keeps both.
            let device = backing_device(&root.join("dev").join(&name));
            stands(device.as_deref(), name);
        }
    }
    // File systems in memory have such numbers, too. Where FUSE tells its connections, those are all.
    let known = names_in(&root.join("sys/fs/fuse/connections"));
    if !known.is_empty() {
        connections.retain(|number, _| known.contains(number));
    }
    connections
}

/// `major:minor` of the file system that the file below a loop device is on.
fn backing_device(loop_device: &Path) -> Option<String> {
    let device = File::open(loop_device).ok()?;
    let mut info = [0_u64; LOOP_INFO64_BYTES.div_ceil(8)];
    // SAFETY: the kernel fills a struct loop_info64, for which there is room.
    let status = unsafe { libc::ioctl(device.as_raw_fd(), LOOP_GET_STATUS64, info.as_mut_ptr()) };
    let number = info[0];
    (status == 0).then(|| format!("{}:{}", libc::major(number), libc::minor(number)))
}

/// Processes that serve FUSE, each with the numbers of its connections as far as the kernel tells.
fn fuse_servers(root: &Path) -> BTreeMap<String, Vec<String>> {
    let proc = root.join("proc");
    let mut servers = BTreeMap::new();
    let is_number = |name: &String| name.bytes().all(|b| b.is_ascii_digit());
    for pid in names_in(&proc).into_iter().filter(is_number) {
        let folder = proc.join(&pid);
        for file in names_in(&folder.join("fd")) {
            if !std::fs::read_link(folder.join("fd").join(&file)).is_ok_and(|at| at == Path::new(FUSE)) {
                continue;
            }
            let info = text(&folder.join("fdinfo").join(&file)).unwrap_or_default();
            let numbers: &mut Vec<String> = servers.entry(pid.clone()).or_default();
            numbers.extend(key_of(&info, "fuse_connection"));
        }
    }
    servers
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::test_tree::{link, put};

    const MOUNTINFO: &str = "22 1 254:0 / / rw - ext4 /dev/vda rw\n\
                             36 22 0:39 / /mnt/far\\040away rw shared:1 - fuse.sshfs me@there rw\n\
                             37 22 0:40 / /mnt/other rw - fuse me rw\n\
                             38 22 0:41 / /sys/fs/fuse/connections rw - fusectl fusectl rw\n";

    fn host() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        put(root, "proc/self/mountinfo", MOUNTINFO);
        put(root, "sys/fs/fuse/connections/39/waiting", "0\n");
        put(root, "sys/fs/fuse/connections/40/waiting", "0\n");
        put(root, "sys/block/nbd0/pid", "77\n");
        for (pid, file) in [("91", "3"), ("91", "4"), ("92", "3")] {
            link(root, &format!("proc/{pid}/fd/{file}"), FUSE);
        }
        link(root, "proc/93/fd/0", "/dev/null");
        folder
    }

    fn expected(entries: &[(&str, &[&str])]) -> BTreeMap<String, Vec<String>> {
        let owned = |served: &&[&str]| served.iter().map(|s| s.to_string()).collect();
        entries
            .iter()
            .map(|(pid, served)| (pid.to_string(), owned(served)))
            .collect()
    }

    #[test]
    fn servers_by_what_they_serve() {
        let folder = host();
        for (pid, file, number) in [("91", "3", "39"), ("91", "4", "39"), ("92", "3", "40")] {
            let text = format!("pos:\t0\nfuse_connection:\t{number}\n");
            put(folder.path(), &format!("proc/{pid}/fdinfo/{file}"), &text);
        }
        let known = expected(&[
            ("77", &["nbd0"]),
            ("91", &["/mnt/far away"]),
            ("92", &["/mnt/other"]),
        ]);
        assert_eq!(servers(folder.path()), known);
    }

    #[test]
    fn where_the_kernel_does_not_tell_the_connection_it_may_be_any() {
        let folder = host();
        let any: &[&str] = &["/mnt/far away", "/mnt/other"];
        let known = expected(&[("77", &["nbd0"]), ("91", any), ("92", any)]);
        assert_eq!(servers(folder.path()), known);
    }

    #[test]
    fn a_host_without_such_servers() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(servers(folder.path()), BTreeMap::new());
    }
}
