//! What needs a process of its own: being killed, and a kernel that forbids io_uring.
use case::raw::RawReader;
use case::rows::AppRow;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use workload::{RunOptions, Spec};

const FOLDER: &str = "WHODISK_TEST_FOLDER";
const SPEC: &str = "WHODISK_TEST_SPEC";
/// `io_uring` or `large_files`.
const FORBID: &str = "WHODISK_TEST_FORBID";

/// Not a test of its own: the child of the other tests, which runs what its environment says.
#[test]
fn child() {
    let Some(folder) = std::env::var_os(FOLDER) else {
        return;
    };
    match std::env::var(FORBID).as_deref() {
        Ok("io_uring") => forbid_io_uring(),
        Ok("large_files") => forbid_large_files(),
        _ => {}
    }
    let spec = Spec::parse(&std::env::var(SPEC).expect("a specification"), "test").expect("a good one");
    let stop = AtomicBool::new(false);
    let result = workload::run(
        &spec,
        Path::new(&folder),
        RunOptions {
            stop: &stop,
            progress: None,
        },
    );
    match result {
        Ok(summary) => eprintln!("{} operations", summary.ops),
        Err(error) => eprintln!("refused: {error}"),
    }
}

fn start(folder: &Path, spec: &str, forbid: &str) -> Child {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command
        .args(["--exact", "process::child", "--nocapture"])
        .env(FOLDER, folder)
        .env(SPEC, spec);
    command.env(FORBID, forbid);
    command
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("a child")
}

/// Lets io_uring_setup fail with EPERM in this process, as container profiles do.
fn forbid_io_uring() {
    let step = |code: u32, jt, jf, k| libc::sock_filter {
        code: code as u16,
        jt,
        jf,
        k,
    };
    let mut steps = [
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        step(
            libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
            0,
            1,
            libc::SYS_io_uring_setup as u32,
        ),
        step(
            libc::BPF_RET | libc::BPF_K,
            0,
            0,
            libc::SECCOMP_RET_ERRNO | libc::EPERM as u32,
        ),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog {
        len: steps.len() as u16,
        filter: steps.as_mut_ptr(),
    };
    // SAFETY: the program outlives the calls. The filter concerns this thread and those it starts.
    let installed = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &program) == 0
    };
    assert!(installed, "seccomp: {}", std::io::Error::last_os_error());
}

/// Lets every file end at 1 MiB, as a full disk would.
fn forbid_large_files() {
    let limit = libc::rlimit {
        rlim_cur: 1 << 20,
        rlim_max: 1 << 20,
    };
    // SAFETY: plain calls; the limit is valid.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
        assert_eq!(libc::setrlimit(libc::RLIMIT_FSIZE, &limit), 0);
    }
}

/// The rows of a stream that may lack its end.
fn good_rows(stream: &Path) -> Vec<AppRow> {
    let mut reader = RawReader::<AppRow>::open(stream).expect("a readable stream");
    let (mut rows, mut batch) = (Vec::new(), Vec::new());
    while reader.next_batch(&mut batch).expect("a batch") {
        rows.append(&mut batch);
    }
    rows
}

#[test]
fn a_log_that_cannot_grow_ends_the_run_and_keeps_its_rows() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let spec = "[workload]\ntargets = [\"null\"]\nqueue_depth = 64\nworkers = 2\nduration = \"1h\"";
    let child = start(folder.path(), spec, "large_files");
    let Output { stderr, .. } = child.wait_with_output().expect("its output");
    let said = String::from_utf8_lossy(&stderr);
    assert!(
        said.contains("refused: ") && said.contains(".arrows: cannot write raw batch"),
        "{said}"
    );
    assert!(!said.contains("panicked"), "{said}");
    // Which worker's log is full first depends on who got the CPUs: it is the one that the message names.
    let refused = (0..2)
        .map(|worker| folder.path().join(format!("app/worker-{worker:03}.arrows")))
        .find(|stream| said.contains(&*stream.to_string_lossy()))
        .unwrap_or_else(|| panic!("no log is named: {said}"));
    let rows = good_rows(&refused);
    assert!(rows.len() > 10_000, "{} rows", rows.len());
    assert!(
        rows.windows(2).all(|pair| pair[1].op_id == pair[0].op_id + 1),
        "no holes"
    );
}

#[test]
fn a_killed_run_loses_less_than_the_last_second() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let spec = "[workload]\ntargets = [\"null\"]\nrate = \"1000/s\"\nqueue_depth = 4\nduration = \"1h\"";
    let mut child = start(folder.path(), spec, "");
    let stream = folder.path().join("app/worker-000.arrows");
    let deadline = Instant::now() + Duration::from_secs(20);
    while !stream.exists() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(5));
    }
    std::thread::sleep(Duration::from_millis(2300));
    child.kill().expect("SIGKILL");
    let killed_ns = workload::clock::mono_ns();
    child.wait().expect("the end of the child");

    let rows = good_rows(&stream);
    let last = rows.last().expect("rows");
    assert!(
        killed_ns - last.reap_ns < 1_000_000_000,
        "{} ms lost",
        (killed_ns - last.reap_ns) / 1_000_000
    );
    assert!(
        rows.windows(2).all(|pair| pair[1].op_id == pair[0].op_id + 1),
        "no holes"
    );
    assert!(
        !folder.path().join("app/workload.json").exists(),
        "only a finished run has a summary"
    );
}

#[test]
fn forbidden_io_uring_is_explained() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let target = folder.path().join("target");
    let spec = format!(
        "[workload]\ntargets = [{target:?}]\nfile_size = \"1MiB\"\nio = \"buffered\"\nworkers = 3\noperations = 10"
    );
    let Output { stderr, .. } = start(folder.path(), &spec, "io_uring")
        .wait_with_output()
        .expect("its output");
    let said = String::from_utf8_lossy(&stderr);
    assert!(
        said.contains("refused: io_uring: cannot set up a ring: Operation not permitted"),
        "{said}"
    );
    assert!(
        said.contains("seccomp") || said.contains("io_uring_disabled"),
        "{said}"
    );
    assert!(!said.contains("panicked"), "{said}");
}
