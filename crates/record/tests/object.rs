//! The committed BPF object is what its sources compile to.
use std::path::{Path, PathBuf};
use std::process::Command;

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

fn note(key: &str) -> String {
    let text = std::fs::read_to_string(sources().join("block/block.bpf.txt")).unwrap();
    let prefix = format!("# {key}: ");
    text.lines()
        .find_map(|line| line.strip_prefix(&prefix))
        .unwrap()
        .to_string()
}

#[test]
fn object_and_sources_have_the_noted_hashes() {
    let output = Command::new("sha256sum")
        .args(["--check", "--strict", "--quiet", "block/block.bpf.txt"])
        .current_dir(sources())
        .output()
        .expect("sha256sum (coreutils)");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{text}run `make bpf` and commit the object with its source"
    );
}

#[test]
fn object_is_rebuilt_byte_by_byte() {
    let first_line = |program: &str, arguments: &[&str]| {
        let output = Command::new(program).args(arguments).output().ok()?;
        String::from_utf8_lossy(&output.stdout)
            .lines()
            .next()
            .map(str::to_string)
    };
    let compiler = first_line("clang", &["--version"]);
    if compiler.as_deref() != Some(note("compiler").as_str()) {
        println!(
            "SKIP: the object was made by {}, here is {compiler:?}",
            note("compiler")
        );
        return;
    }
    let headers = first_line(
        "sh",
        &["-c", "cat /usr/include/bpf/*.h | sha256sum | cut -c 1-64"],
    );
    if headers.as_deref() != Some(note("headers").as_str()) {
        println!("SKIP: the object was made with other libbpf headers than those in /usr/include/bpf");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/build-bpf");
    let status = Command::new(script).arg(folder.path()).status().unwrap();
    assert!(status.success());
    let rebuilt = std::fs::read(folder.path().join("block/block.bpf.o")).unwrap();
    let committed = std::fs::read(sources().join("block/block.bpf.o")).unwrap();
    assert!(
        rebuilt == committed,
        "block.bpf.o differs from what its source compiles to"
    );
}
