//! Programs that serve storage from user space: FUSE file systems, what lies on them, ublk devices, and network block devices and
//! iSCSI disks with a server on this host.
//!
//! They are a part of the storage path. Whoever waits for a CPU while such a program works for him was not robbed of it.
use crate::host::{attribute, key_of, names_in, text};
use std::collections::BTreeMap;
use std::fs::File;
use std::net::IpAddr;
use std::os::fd::AsRawFd;
use std::path::Path;

/// What a FUSE server holds open.
const FUSE: &str = "/dev/fuse";
/// What a ublk server holds open; its number follows, which is also that of the block device `ublkbN`.
const UBLK: &str = "/dev/ublkc";
/// ioctl of include/uapi/linux/loop.h.
const LOOP_GET_STATUS64: libc::Ioctl = 0x4C05;
/// Bytes of struct loop_info64, which begins with the device number of the file system that the backing file is on.
const LOOP_INFO64_BYTES: usize = 232;

/// Process id -> block devices and mount points of this host that it serves now.
pub fn of_this_host() -> BTreeMap<String, Vec<String>> {
    servers(Path::new("/"))
}

/// Process id -> block devices and mount points that it serves.
pub(crate) fn servers(root: &Path) -> BTreeMap<String, Vec<String>> {
    let mut servers: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let block = root.join("sys/block");
    let mut needs_files = false;
    // Sockets of servers, as links in /proc/PID/fd name them, and the device behind each.
    let mut served_over: Vec<(String, String)> = Vec::new();
    for name in names_in(&block) {
        // Only network block devices have it.
        if let Some(pid) = attribute(&block.join(&name).join("pid")) {
            served_over.extend(
                peers_of(root, &pid)
                    .into_iter()
                    .map(|socket| (socket, name.clone())),
            );
            servers.entry(pid).or_default().push(name);
        } else if name.starts_with("ublkb") {
            needs_files = true;
        } else if let Some(listens) = iscsi_portal(root, &name) {
            served_over.push((listens, name));
        }
    }
    let connections = fuse_connections(root);
    // Looking at every open file of the host is for those who need it.
    if needs_files || !connections.is_empty() || !served_over.is_empty() {
        let files = open_files(root);
        for (pid, file) in &files {
            if let Some(number) = file.strip_prefix(UBLK) {
                servers
                    .entry(pid.clone())
                    .or_default()
                    .push(format!("ublkb{number}"));
            }
            let over = served_over.iter().filter(|(socket, _)| file == socket);
            let names = over.map(|(_, name)| name.clone());
            for name in names {
                servers.entry(pid.clone()).or_default().push(name);
            }
        }
        for (pid, numbers) in fuse_servers(root, &files) {
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

/// Number of a FUSE connection (minor of its file system's device number; the major is 0) -> what stands on it.
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

/// Process id and path of every file that a process of this host holds open: `socket:[4711]`, `/dev/fuse`.
fn open_files(root: &Path) -> Vec<(String, String)> {
    let proc = root.join("proc");
    let is_number = |name: &String| name.bytes().all(|b| b.is_ascii_digit());
    let mut files = Vec::new();
    for pid in names_in(&proc).into_iter().filter(is_number) {
        let folder = proc.join(&pid).join("fd");
        for file in names_in(&folder) {
            let at = std::fs::read_link(folder.join(&file)).ok();
            if let Some(at) = at.and_then(|at| at.into_os_string().into_string().ok()) {
                // FUSE tells more by the number of the open file.
                let at = if at == FUSE { format!("{FUSE} {file}") } else { at };
                files.push((pid.clone(), at));
            }
        }
    }
    files
}

/// Processes that serve FUSE, each with the numbers of its connections as far as the kernel tells.
fn fuse_servers(root: &Path, files: &[(String, String)]) -> BTreeMap<String, Vec<String>> {
    let mut servers = BTreeMap::new();
    for (pid, file) in files {
        if let Some(("/dev/fuse", number)) = file.split_once(' ') {
            let info = root.join("proc").join(pid).join("fdinfo").join(number);
            let numbers: &mut Vec<String> = servers.entry(pid.clone()).or_default();
            numbers.extend(key_of(&text(&info).unwrap_or_default(), "fuse_connection"));
        }
    }
    servers
}

/// A row of /proc/net/tcp: both ends as the kernel writes them (`0100007F:0CBC`), state, and inode of the socket.
struct Tcp {
    local: String,
    remote: String,
    listens: bool,
    inode: String,
}

fn tcp(root: &Path) -> Vec<Tcp> {
    let tables = ["proc/net/tcp", "proc/net/tcp6"].map(|path| text(&root.join(path)).unwrap_or_default());
    let rows = tables.iter().flat_map(|table| table.lines().skip(1));
    rows.filter_map(|row| {
        let fields: Vec<&str> = row.split_whitespace().collect();
        Some(Tcp {
            local: fields.get(1)?.to_string(),
            remote: fields.get(2)?.to_string(),
            listens: *fields.get(3)? == "0A",
            inode: fields.get(9)?.to_string(),
        })
    })
    .collect()
}

/// The other ends of a process's connections within this host, as links in /proc/PID/fd name them.
fn peers_of(root: &Path, pid: &str) -> Vec<String> {
    let folder = root.join("proc").join(pid).join("fd");
    let links = names_in(&folder).into_iter();
    let own: Vec<String> = links
        .filter_map(|file| std::fs::read_link(folder.join(file)).ok())
        .filter_map(|at| at.into_os_string().into_string().ok())
        .collect();
    let sockets = tcp(root);
    let mine = |socket: &&Tcp| own.contains(&format!("socket:[{}]", socket.inode)) && !socket.listens;
    let ends: Vec<(&str, &str)> = sockets
        .iter()
        .filter(mine)
        .map(|socket| (socket.remote.as_str(), socket.local.as_str()))
        .collect();
    let others = sockets
        .iter()
        .filter(|socket| ends.contains(&(socket.local.as_str(), socket.remote.as_str())));
    others
        .map(|socket| format!("socket:[{}]", socket.inode))
        .collect()
}

/// The socket that listens where an iSCSI disk's session goes to, if that is on this host.
fn iscsi_portal(root: &Path, disk: &str) -> Option<String> {
    // ../devices/platform/host2/session1/target2:0:0/2:0:0:1/block/sda
    let place = std::fs::read_link(root.join("sys/block").join(disk)).ok()?;
    let session = place
        .components()
        .filter_map(|part| part.as_os_str().to_str())
        .find_map(|part| part.strip_prefix("session"))?
        .to_owned();
    let folder = root.join(format!("sys/class/iscsi_connection/connection{session}:0"));
    let port: u16 = attribute(&folder.join("port"))?.parse().ok()?;
    let address = attribute(&folder.join("address"))?;
    let sockets = tcp(root);
    // An address is of this host if a socket of it has it, or if it is a loopback address.
    let here = address.parse::<IpAddr>().is_ok_and(|ip| match ip {
        IpAddr::V4(ip) => {
            let kernel = format!("{:08X}:", u32::from_ne_bytes(ip.octets()));
            ip.is_loopback() || sockets.iter().any(|socket| socket.local.starts_with(&kernel))
        }
        IpAddr::V6(ip) => ip.is_loopback(),
    });
    let suffix = format!(":{port:04X}");
    let mut listening = sockets
        .iter()
        .filter(|socket| socket.listens && socket.local.ends_with(&suffix));
    let inode = listening
        .next()
        .map(|socket| format!("socket:[{}]", socket.inode));
    inode.filter(|_| here)
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
    fn servers_of_ublk_and_of_connections_within_the_host() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        put(root, "sys/block/ublkb3/size", "8\n");
        link(root, "proc/51/fd/4", "/dev/ublkc3");
        link(root, "proc/52/fd/4", "/dev/null");
        // A client of nbd, connected to a server on this host, and an iSCSI disk that another one serves.
        put(root, "sys/block/nbd0/pid", "61\n");
        link(root, "proc/61/fd/3", "socket:[901]");
        link(root, "proc/62/fd/5", "socket:[902]");
        link(
            root,
            "sys/block/sda",
            "../devices/platform/host2/session1/target2:0:0/2:0:0:1/block/sda",
        );
        put(
            root,
            "sys/class/iscsi_connection/connection1:0/address",
            "127.0.0.1\n",
        );
        put(root, "sys/class/iscsi_connection/connection1:0/port", "3260\n");
        link(root, "proc/71/fd/6", "socket:[903]");
        let row = |local: &str, remote: &str, state: &str, inode: &str| {
            format!("   0: {local} {remote} {state} 00000000:00000000 00:00000000 00000000     0        0 {inode} 1\n")
        };
        let table = [
            row("0100007F:8000", "0100007F:2A31", "01", "901"),
            row("0100007F:2A31", "0100007F:8000", "01", "902"),
            row("00000000:0CBC", "00000000:0000", "0A", "903"),
        ];
        put(
            root,
            "proc/net/tcp",
            &format!("  sl  local_address\n{}", table.concat()),
        );
        let known = expected(&[
            ("51", &["ublkb3"]),
            ("61", &["nbd0"]),
            ("62", &["nbd0"]),
            ("71", &["sda"]),
        ]);
        assert_eq!(servers(root), known);
        // A target elsewhere.
        put(
            root,
            "sys/class/iscsi_connection/connection1:0/address",
            "192.0.2.7\n",
        );
        assert!(!servers(root).contains_key("71"));
    }

    #[test]
    fn a_host_without_such_servers() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(servers(folder.path()), BTreeMap::new());
    }
}
