//! What people have at hand and whodisk does not read, and what to import instead: known by a line that it prints.
use crate::format::Head;

const OF_DISTRIBUTIONS: &str =
    "it tells no times of block requests; of distributions biolatency's are read: biolatency -D 1";
const OF_UNIX: &str =
    "of Solaris iostat -xn -T d 1 is read, of FreeBSD iostat -x 1; of sar only that of sysstat (Linux)";

const DISKSPD: &str = "diskspd's text";
const OF_DISKSPD: &str = "run diskspd with -Rxml -L -D1000";

const LEVELDB: &str = "LevelDB's LOG";
const OF_LEVELDB: &str =
    "it tells when LevelDB compacted, and not how long operations took: import what db_bench or YCSB printed, or trace its devices (biosnoop)";

const OF_RATES: &str =
    "it does not tell how long requests took: iostat -x -t 1 does; snapshots of /proc/diskstats hold the same counters";

/// What a line must hold (all of it), what prints it, and what to import instead.
const KNOWN: [(&[&str], &str, &str); 38] = [
    (
        &["==== All Devices ===="],
        "btt's summary",
        "import what blktrace wrote (DEVICE.blktrace.*), or blkparse's text",
    ),
    (
        &["Command Line: ", "diskspd"],
        DISKSPD,
        OF_DISKSPD,
    ),
    (&["%-ile", "Read (ms)", "Total (ms)"], DISKSPD, OF_DISKSPD),
    (
        &["thread |", "bytes", "I/Os", "I/O per s"],
        DISKSPD,
        OF_DISKSPD,
    ),
    (&["Level-0 table #"], LEVELDB, OF_LEVELDB),
    (&["Compacting ", "@", " + ", " files"], LEVELDB, OF_LEVELDB),
    (
        &["Compare file sync methods using "],
        "pg_test_fsync's report",
        "it holds a mean of each method; trace its calls with strace -f -y -T -ttt, or the devices below them with biosnoop",
    ),
    (
        &["Tracing fsync()s"],
        "what fsyncsnoop prints",
        "it has no moments; take the calls with strace -f -y -T -ttt -e trace=fsync,fdatasync, or with ext4slower 0 (xfsslower 0)",
    ),
    (
        &["KBytes", "Merged", "IOs", "SvcTim"],
        "collectl's table of disks (-sD)",
        "iostat -x -t 1 prints the same of each disk, and is read",
    ),
    (
        &["Smart Log for NVME device"],
        "nvme-cli's text",
        "take it with nvme smart-log DEVICE -o json",
    ),
    (
        &["% time", "usecs/call", "calls"],
        "the table of strace -c",
        "take the calls themselves: strace -f -y -T -ttt -o FILE COMMAND",
    ),
    (
        &["Tracing ", " operation latency... Hit Ctrl-C"],
        "what ext4dist and its kin print",
        "ext4slower 0 prints every operation; of distributions biolatency's are read",
    ),
    (
        &["Tracing ", " functions for "],
        "what funclatency prints",
        OF_DISTRIBUTIONS,
    ),
    (&["funclatency"], "what funclatency prints", OF_DISTRIBUTIONS),
    (
        &["Tracing run queue latency"],
        "what runqlat prints",
        OF_DISTRIBUTIONS,
    ),
    (&["runqlat"], "what runqlat prints", OF_DISTRIBUTIONS),
    (
        &["Tracing on-CPU time"],
        "what cpudist prints",
        OF_DISTRIBUTIONS,
    ),
    (&["cpudist"], "what cpudist prints", OF_DISTRIBUTIONS),
    (
        &["%busy", "avque", "r+w/s"],
        "sar -d of Solaris or another Unix",
        OF_UNIX,
    ),
    (
        &["device", "r+w/s", "blks/s"],
        "sar of macOS",
        "it does not tell how long requests took, nor does iostat of macOS",
    ),
    (
        &["device,r/s,w/s,"],
        "what iostat -r of Solaris prints",
        "take it without -r, and with moments: iostat -xn -T d 1",
    ),
    (
        &["r/i", "w/i", "kr/i"],
        "iostat -I of FreeBSD",
        "it counts since the machine's start: iostat -x 1, without -I, tells what devices do, and is read",
    ),
    (&["-dsk/"], "dstat's table", OF_RATES),
    (&["<--", "--Disks--"], "collectl's table", OF_RATES),
    (&["SunOS ", " 5."], "a log of Solaris", OF_UNIX),
    (&["kps", "tps", "serv"], "iostat of Solaris without -x", OF_UNIX),
    (
        &["KB/t", "tps", "MB/s"],
        "iostat of macOS or of a BSD without -x",
        "it does not tell how long requests took: on FreeBSD iostat -x 1 does, and is read; that of macOS has no such option",
    ),
    (
        &["% tm_act", "Kbps", "tps"],
        "iostat of AIX",
        "its columns are not read: whodisk import --as series reads a CSV of any columns, with --map",
    ),
    (
        &["PID", "COMM", "DISK", "I/O", "AVGms"],
        "biotop's table",
        "biosnoop prints every request",
    ),
    (
        &["COMM", "PID", "TYPE", "DEV", "BLOCK", "LATms"],
        "iosnoop of perf-tools",
        "take it with biosnoop, or with perf record -e 'block:*' and perf script",
    ),
    (
        &["procs -", "-memory-", "-cpu-"],
        "vmstat's table",
        "iostat -x -t 1 tells devices apart, and how long their requests took",
    ),
    (
        &["disk-", "-reads-", "-IO-"],
        "vmstat -d",
        "iostat -x -t 1 tells how long requests took; snapshots of /proc/diskstats hold the same counters",
    ),
    (
        &["\tawait\t"],
        "sadf -p",
        "the same as JSON: sadf -j -- -d, or as rows: sadf -d -- -d",
    ),
    (
        &["clat (", "min=", "stdev="],
        "fio's report",
        "run it with --output-format=json+, or with --write_lat_log=NAME for each operation",
    ),
    (
        &["): request=", " time="],
        "ioping's lines",
        "they have no moments: whodisk solve -- ioping ... records the same requests with theirs",
    ),
    (
        &["- Takes(s): ", ", TPM: "],
        "go-tpc's progress",
        "its operations are transactions of many statements; trace the database's devices instead",
    ),
    (
        &[" ms): ", "/", ") = "],
        "perf trace's lines",
        "take the calls with strace -f -y -T -ttt, or the requests with perf record -e 'block:*' and perf script",
    ),
    (
        &["sysbench ", " (using ", "LuaJIT"],
        "sysbench's report",
        "it holds no device's requests; trace the run with blktrace, or its calls with strace -f -y -T -ttt",
    ),
];

/// What a file is, and what to import instead; None: it is unknown.
pub fn known(head: &Head) -> Option<(&'static str, &'static str)> {
    let (_, what, instead) = KNOWN
        .iter()
        .find(|(marks, _, _)| head.has_line(|line| marks.iter().all(|mark| line.contains(mark))))?;
    Some((what, instead))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Head;

    #[test]
    fn what_to_import_instead_is_told() {
        let of = |text: &str| {
            let head = Head {
                name: "log".into(),
                bytes: text.as_bytes().to_vec(),
            };
            known(&head).map(|(what, _)| what)
        };
        assert_eq!(
            of("\n==================== All Devices ====================\n"),
            Some("btt's summary")
        );
        assert_eq!(
            of("% time     seconds  usecs/call     calls    errors syscall\n"),
            Some("the table of strace -c")
        );
        assert_eq!(
            of("Tracing ext4 operation latency... Hit Ctrl-C to end.\n"),
            Some("what ext4dist and its kin print")
        );
        assert_eq!(
            of("[Current] PAYMENT - Takes(s): 10.0, Count: 130, TPM: 780.6, Sum(ms): 3189\n"),
            Some("go-tpc's progress")
        );
        assert_eq!(
            of("4 KiB <<< /tmp (ext4 /dev/vda 252 GiB): request=1 time=270.6 us (warmup)\n"),
            Some("ioping's lines")
        );
        assert_eq!(
            of("     clat (usec): min=55, max=13271, avg=70.10, stdev=120.59\n"),
            Some("fio's report")
        );
        assert_eq!(
            of("host\t10\t2026-11-27 10:00:01\tdev8-0\tawait\t1.20\n"),
            Some("sadf -p")
        );
        assert_eq!(
            of("     0.032 ( 0.016 ms): cat/1234 pread64(fd: 3, buf: 0x7f, count: 4096) = 4096\n"),
            Some("perf trace's lines")
        );
        for (line, what) in [
            (
                "# funclatency '/srv/nginx:ngx_process_events_and_timers' -m",
                "what funclatency prints",
            ),
            (
                "Tracing 1 functions for \"vfs_read\"... Hit Ctrl-C to end.",
                "what funclatency prints",
            ),
            (
                "23:59:44 device %busy avque r+w/s blks/s avwait avserv",
                "sar -d of Solaris or another Unix",
            ),
            ("07:39:12   device    r+w/s    blks/s", "sar of macOS"),
            (
                "device,r/s,w/s,kr/s,kw/s,wait,actv,svc_t,%w,%b,",
                "what iostat -r of Solaris prints",
            ),
            (
                "device           r/i         w/i         kr/i         kw/i qlen   tsvc_t/i      sb/i",
                "iostat -I of FreeBSD",
            ),
            ("----system---- --dsk/sda-----dsk/sda1--", "dstat's table"),
            ("-dsk/total- -net/total- ---paging--", "dstat's table"),
            (
                "#<--------CPU--------><----------Disks-----------><----------Network---------->",
                "collectl's table",
            ),
            (
                "SunOS unknown 5.10 Generic_141445-09 i86pc    04/19/2011",
                "a log of Solaris",
            ),
            (
                " tin tout kps tps serv  kps tps serv   us sy wt id",
                "iostat of Solaris without -x",
            ),
            (
                "    KB/t tps  MB/s     KB/t tps  MB/s  us sy id   1m   5m   15m",
                "iostat of macOS or of a BSD without -x",
            ),
            (
                "  %-ile |  Read (ms) | Write (ms) | Total (ms)",
                "diskspd's text",
            ),
            (
                "thread |       bytes     |     I/Os     |    MiB/s   |  I/O per s |  AvgLat  | LatStdDev |  file",
                "diskspd's text",
            ),
            (
                "2020/11/08-21:12:38.431084 139807829738368 Level-0 table #1266: started",
                "LevelDB's LOG",
            ),
            (
                "2020/11/08-21:12:38.675164 139807828801280 Compacting 9@0 + 10@1 files",
                "LevelDB's LOG",
            ),
            (
                "Compare file sync methods using one 8kB write:",
                "pg_test_fsync's report",
            ),
            ("Tracing fsync()s. Ctrl-C to end.", "what fsyncsnoop prints"),
            (
                "#Time     Name       KBytes Merged  IOs Size  Wait  KBytes Merged  IOs Size  Wait  RWSize  QLen  Wait SvcTim Util",
                "collectl's table of disks (-sD)",
            ),
            (
                "Disks:        % tm_act     Kbps      tps    Kb_read   Kb_wrtn",
                "iostat of AIX",
            ),
        ] {
            assert_eq!(of(&format!("\n{line}\n")), Some(what), "{line}");
        }
        assert_eq!(
            (of(""), of("Tracing block device I/O... Hit Ctrl-C to end.\n")),
            (None, None)
        );
    }
}
