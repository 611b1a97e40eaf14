//! What people have at hand and whodisk does not read, and what to import instead: known by a line that it prints.
use crate::format::Head;
use crate::formats::fio_columns;

const OF_DISTRIBUTIONS: &str =
    "it tells no times of block requests; of distributions biolatency's are read: biolatency -D 1";
const OF_UNIX: &str =
    "of Solaris iostat -xn -T d 1 is read, of FreeBSD iostat -x 1; of sar only that of sysstat (Linux)";

const DISKSPD: &str = "diskspd's text";
const OF_DISKSPD: &str = "run diskspd with -Rxml -L -D1000";

const LEVELDB: &str = "LevelDB's LOG";
const OF_LEVELDB: &str =
    "it tells when LevelDB compacted, and not how long operations took: import what db_bench or YCSB printed, or trace its devices (biosnoop)";

const SYSBENCH: &str = "sysbench's report";
const OF_SYSBENCH: &str =
    "it holds no device's requests; trace the run with blktrace, or its calls with strace -f -y -T -ttt";

const HTTP: &str = "a web server's log of requests";
const OF_HTTP: &str =
    "a table of when each request came and how long it took is read: --as ops --map 'start=COLUMN:s,latency=COLUMN:ms'; of the storage below it, biosnoop's rows are";

const KERNEL: &str = "the kernel's log";
const OF_KERNEL: &str =
    "it names errors and resets of drives, and not how long requests took: trace them (biosnoop); of a drive's own counters smartctl -j -x DEVICE is read";

const POSTGRESQL: &str = "PostgreSQL's log";
const OF_QUERIES: &str =
    "a query makes many requests or none: trace the server's devices (biosnoop), or its calls with strace -f -y -T -ttt -p PID; pgbench -l is read";

const ETCD: &str = "etcd's log";
const OF_ETCD: &str =
    "it tells only what was slow; trace its calls with strace -f -y -T -ttt -e trace=fdatasync,pwrite64,write -p PID, or its devices with biosnoop";

const NFS: &str = "a client's counters of NFS";
const OF_NFS: &str =
    "of their means nothing is read; nfsslower 0 prints every operation, with how long it took, and strace -f -y -T -ttt every call";

const OF_IOPING: &str =
    "they have no moments: whodisk solve -- ioping ... records the same requests with theirs";

const OF_PERF_TRACE: &str =
    "take the calls with strace -f -y -T -ttt, or the requests with perf record -e 'block:*' and perf script";

const OF_SADF: &str = "the same as JSON: sadf -j -- -d, or as rows: sadf -d -- -d";

const OF_RATES: &str =
    "it does not tell how long requests took: iostat -x -t 1 does; snapshots of /proc/diskstats hold the same counters";

/// What a line must hold (all of it), what prints it, and what to import instead.
const KNOWN: [(&[&str], &str, &str); 75] = [
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
        OF_SADF,
    ),
    (
        &["clat (", "min=", "stdev="],
        "fio's report",
        "run it with --output-format=json+, or with --write_lat_log=NAME for each operation",
    ),
    (
        &["): request=", " time="],
        "ioping's lines",
        OF_IOPING,
    ),
    (
        &["- Takes(s): ", ", TPM: "],
        "go-tpc's progress",
        "its operations are transactions of many statements; trace the database's devices instead",
    ),
    (
        &[" ms): ", "/", ") = "],
        "perf trace's lines",
        OF_PERF_TRACE,
    ),
    (
        &["sysbench ", " (using ", "LuaJIT"],
        SYSBENCH,
        OF_SYSBENCH,
    ),
    // Of version 1, and before.
    (&["s ] thds: ", " tps: ", " qps: "], SYSBENCH, OF_SYSBENCH),
    (&["s] threads: ", " tps: ", "response time: "], SYSBENCH, OF_SYSBENCH),
    (
        &["UID", "PID", "Command"],
        "pidstat's table",
        "it tells what each process read and wrote, not how long requests took: biosnoop prints every request, with its process",
    ),
    (
        &["Total DISK READ"],
        "iotop's table",
        "it tells what each process read and wrote, not how long requests took: biosnoop prints every request, with its process",
    ),
    (
        &["capacity", "operations", "bandwidth"],
        "what zpool iostat prints",
        "iostat -x -t 1 tells how long requests of the pool's disks took, and biosnoop each of them",
    ),
    (&["ops/s", "rpc bklog"], NFS, OF_NFS),
    (&["retrans", "avg RTT (ms)"], NFS, OF_NFS),
    (&[" mounted on ", "with fstype nfs"], NFS, OF_NFS),
    (
        &["# Query_time: ", "Lock_time: "],
        "MySQL's log of slow queries",
        OF_QUERIES,
    ),
    (&[" LOG:  duration: ", " ms"], POSTGRESQL, OF_QUERIES),
    (&[" LOG:  checkpoint "], POSTGRESQL, OF_QUERIES),
    (&[" LOG:  starting PostgreSQL "], POSTGRESQL, OF_QUERIES),
    (&["slow fdatasync"], ETCD, OF_ETCD),
    (&["apply request took too long"], ETCD, OF_ETCD),
    (&["\"GET ", " HTTP/"], HTTP, OF_HTTP),
    (&["\"HEAD ", " HTTP/"], HTTP, OF_HTTP),
    (&["\"POST ", " HTTP/"], HTTP, OF_HTTP),
    (&["\"PUT ", " HTTP/"], HTTP, OF_HTTP),
    (&["I/O error, dev "], KERNEL, OF_KERNEL),
    (&["hostbyte=DID_"], KERNEL, OF_KERNEL),
    (&["nvme nvme", " timeout, "], KERNEL, OF_KERNEL),
    (
        &["blocked for more than", " seconds"],
        KERNEL,
        OF_KERNEL,
    ),
    (
        &["interval", "i/o", "MB/sec", "bytes"],
        "Vdbench's report",
        "it holds means of intervals; trace the devices that it measured with biosnoop or blktrace",
    ),
    (
        &["DSK |", " avio "],
        "atop's text",
        "iostat -x -t 1 tells the same of each disk, and is read",
    ),
    (
        &["ioping statistics ---"],
        "ioping's lines",
        OF_IOPING,
    ),
    (
        &["Summary of events:"],
        "perf trace's lines",
        OF_PERF_TRACE,
    ),
    (
        &["PID", "COMM", "FD", "ERR", "PATH"],
        "opensnoop's table",
        "it does not tell how long opening took: strace -f -y -T -ttt -e trace=open,openat does",
    ),
    (
        &["stress-ng: "],
        "stress-ng's report",
        "it holds no requests; trace the run with biosnoop, or its calls with strace -f -y -T -ttt",
    ),
    (
        &["Sequential Output", "Sequential Input"],
        "bonnie++'s report",
        "it holds no requests; trace the run with biosnoop, or its calls with strace -f -y -T -ttt",
    ),
    (
        &["Iozone: Performance Test"],
        "iozone's report",
        "it holds no requests; trace the run with biosnoop, or its calls with strace -f -y -T -ttt",
    ),
    (
        &["Timing ", " disk reads: "],
        "what hdparm prints",
        "it holds one rate; fio's logs hold every operation (--write_lat_log=NAME --log_offset=1)",
    ),
    (
        &[" bytes (", " copied, "],
        "what dd prints",
        "it holds one rate; fio's logs hold every operation (--write_lat_log=NAME --log_offset=1)",
    ),
    (
        &["CrystalDiskMark "],
        "CrystalDiskMark's report",
        OF_DISKSPD,
    ),
    (&["\tall\t%usr\t"], "sadf -p", OF_SADF),
    (&["\tall\t%user\t"], "sadf -p", OF_SADF),
    (&["\tLINUX-RESTART\t"], "sadf -p", OF_SADF),
    (&["<!DOCTYPE svg"], "a picture (sadf -g draws such ones)", OF_SADF),
];

/// What a file is, and what to import instead; None: it is unknown.
pub fn known(head: &Head) -> Option<(&'static str, &'static str)> {
    let (_, what, instead) = KNOWN
        .iter()
        .find(|(marks, _, _)| head.has_line(|line| marks.iter().all(|mark| line.contains(mark))))?;
    Some((what, instead))
}

/// What a file without any mark looks like, and what to do; None: like nothing.
pub fn looks_like(head: &Head) -> Option<(String, &'static str)> {
    if fio_columns::look_like(head) {
        return Some((
            "lines as in fio's logs, in a file with another name".into(),
            "its name alone says what the values are: rename it as fio does, NAME_lat.1.log (latencies), NAME_bw.1.log (KiB/s) or NAME_iops.1.log; \
             or --as fio-lat",
        ));
    }
    if let Some(members) = members_of_lines(head) {
        return Some((
            format!("lines of JSON with the members {members}"),
            "make a table of those that tell when, and how long it took, and import that: jq -r '[.MEMBER, .MEMBER] | @csv' FILE, a line with their names above it, \
             --as ops --map 'start=MEMBER:iso,latency=MEMBER:ms'",
        ));
    }
    let columns = columns_of_table(head)?;
    let shown = columns
        .iter()
        .take(COLUMNS_SHOWN)
        .copied()
        .collect::<Vec<_>>()
        .join(", ");
    let more = if columns.len() > COLUMNS_SHOWN {
        ", ..."
    } else {
        ""
    };
    Some((
        format!("a table with the columns {shown}{more}"),
        "say what its columns are: --as series --map 'device=COLUMN,t=COLUMN:s,latency=COLUMN:ms' where rows are samples, \
         --as ops --map 'start=COLUMN:s,latency=COLUMN:ms' where each is an operation",
    ))
}

const COLUMNS_SHOWN: usize = 6;

/// The names of members, if the first lines are objects of JSON, each of them whole and with a number.
fn members_of_lines(head: &Head) -> Option<String> {
    let mut objects = head.filled_lines().take(2).map(|line| {
        let object: serde_json::Map<String, serde_json::Value> = serde_json::from_str(line).ok()?;
        object
            .values()
            .any(serde_json::Value::is_number)
            .then_some(object)
    });
    let (first, _) = (objects.next()??, objects.next()??);
    let names: Vec<&str> = first.keys().take(2 * COLUMNS_SHOWN).map(String::as_str).collect();
    Some(names.join(", "))
}

/// The names in a first line that has as many cells as the second, in which numbers stand.
fn columns_of_table(head: &Head) -> Option<Vec<&str>> {
    let mut lines = head.filled_lines();
    let (header, row) = (lines.next()?, lines.next()?);
    let cell = |cell: &str| cell.trim().trim_matches('"').to_owned();
    let is_number = |text: &str| cell(text).parse::<f64>().is_ok();
    let is_name = |text: &&str| {
        let name = cell(text);
        name.starts_with(|letter: char| letter.is_alphabetic() || "_#%".contains(letter)) && name.len() <= 64
    };
    [',', ';', '\t'].into_iter().find_map(|mark| {
        let names: Vec<&str> = header.split(mark).collect();
        let cells: Vec<&str> = row.split(mark).collect();
        let is_table = names.len() > 1
            && names.len() == cells.len()
            && names.iter().all(is_name)
            && cells.iter().any(|cell| is_number(cell));
        is_table.then(|| names.iter().map(|name| name.trim().trim_matches('"')).collect())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Head;

    #[test]
    fn tables_and_logs_of_fio_under_another_name_are_told() {
        let of = |text: &str| {
            let head = Head {
                name: "log".into(),
                bytes: text.as_bytes().to_vec(),
            };
            looks_like(&head).map(|(found, _)| found)
        };
        for mark in [",", ";", "\t"] {
            let table = format!("\"target\"{mark}time{mark}read iops\nd:{mark}5{mark}1.5\n");
            let found = of(&table).unwrap();
            assert_eq!(found, "a table with the columns target, time, read iops");
        }
        assert!(of("0, 51192, 1, 4096, 0\n0, 46675, 1, 4096, 0\n")
            .unwrap()
            .contains("fio's logs"));
        assert_eq!(
            of("{\"ts\":\"2026-11-27T10:00:00Z\",\"ms\":1.5}\n{\"ts\":\"2026-11-27T10:00:01Z\",\"ms\":2}\n")
                .unwrap(),
            "lines of JSON with the members ms, ts"
        );
        for text in [
            "",
            "{\"a\": 1}\n",
            "{\"a\": 1}\n{\"a\":\n",
            "{\"a\": \"b\"}\n{\"a\": \"c\"}\n",
            "a,b\n",
            "a,b\n1,2,3\n",
            "1,2\n3,4\n",
            "This, and that\nand, more\n",
        ] {
            assert_eq!(of(text), None, "{text}");
        }
    }

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
                "[ 93s ] thds: 56 tps: 43.01 qps: 1397.23 (r/w/o: 645.10/662.11/90.01) lat (ms,95%): 2680.11 err/s 1.00 reconn/s: 0.00",
                "sysbench's report",
            ),
            (
                "[  10s] threads: 16, tps: 331.20, reads/s: 4647.68, writes/s: 1325.09, response time: 92.06ms (95%)",
                "sysbench's report",
            ),
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
                "10:00:01      UID       PID   kB_rd/s   kB_wr/s kB_ccwr/s iodelay  Command",
                "pidstat's table",
            ),
            (
                "              capacity     operations     bandwidth    total_wait",
                "what zpool iostat prints",
            ),
            (
                "read:   ops/s   kB/s   kB/op   retrans   avg RTT (ms)   avg exe (ms)",
                "a client's counters of NFS",
            ),
            (
                "device nfs:/a mounted on /mnt with fstype nfs4 statvers=1.1",
                "a client's counters of NFS",
            ),
            (
                "# Query_time: 2.000312  Lock_time: 0.000010  Rows_sent: 1  Rows_examined: 10",
                "MySQL's log of slow queries",
            ),
            (
                "2026-11-27 10:00:00.123 UTC [19] LOG:  duration: 12.5 ms  statement: SELECT 1",
                "PostgreSQL's log",
            ),
            (
                "{\"level\":\"warn\",\"msg\":\"slow fdatasync\",\"took\":\"1.2s\"}",
                "etcd's log",
            ),
            (
                "192.0.2.1 - - [27/Nov/2026:10:00:01 +0000] \"GET /a HTTP/1.1\" 200 5 rt=0.012",
                "a web server's log of requests",
            ),
            (
                "[  812.123460] blk_update_request: I/O error, dev sdb, sector 8 op 0x0:(READ)",
                "the kernel's log",
            ),
            (
                "             interval        i/o   MB/sec   bytes   read     resp",
                "Vdbench's report",
            ),
            (
                "DSK |          sda | busy     52% | read     120 | avio 8.10 ms |",
                "atop's text",
            ),
            ("--- /tmp (ext4 /dev/vda 252 GiB) ioping statistics ---", "ioping's lines"),
            (" Summary of events:", "perf trace's lines"),
            ("PID    COMM               FD ERR PATH", "opensnoop's table"),
            ("512 bytes (512 B) copied, 0.0001 s, 5.1 MB/s", "what dd prints"),
            (
                "host\t31\t2026-11-27 10:00:19 UTC\tall\t%usr\t2.15",
                "sadf -p",
            ),
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
