//! The committed BPF objects are what their sources compile to.
use std::path::{Path, PathBuf};
use std::process::Command;
use testing::test;

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

/// Every probe with a kernel program, as `<probe>/<probe>`.
fn probes() -> Vec<String> {
    let folders = std::fs::read_dir(sources()).unwrap().map(|entry| entry.unwrap());
    let named = folders.filter_map(|folder| {
        let name = folder.file_name().into_string().ok()?;
        let stem = format!("{name}/{name}");
        sources().join(format!("{stem}.bpf.c")).is_file().then_some(stem)
    });
    let found: Vec<String> = named.collect();
    assert!(found.contains(&"block/block".to_string()), "{found:?}");
    found
}

fn note(probe: &str, key: &str) -> String {
    let text = std::fs::read_to_string(sources().join(format!("{probe}.bpf.txt"))).unwrap();
    let prefix = format!("# {key}: ");
    text.lines()
        .find_map(|line| line.strip_prefix(&prefix))
        .unwrap()
        .to_string()
}

#[test]
fn objects_and_sources_have_the_noted_hashes() {
    for probe in probes() {
        let output = Command::new("sha256sum")
            .args(["--check", "--strict", "--quiet", &format!("{probe}.bpf.txt")])
            .current_dir(sources())
            .output()
            .expect("sha256sum (coreutils)");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success(),
            "{probe}: {text}run `make bpf` and commit the object with its source"
        );
    }
}

#[test]
fn objects_are_rebuilt_byte_by_byte() {
    let first_line = |program: &str, arguments: &[&str]| {
        let output = Command::new(program).args(arguments).output().ok()?;
        String::from_utf8_lossy(&output.stdout)
            .lines()
            .next()
            .map(str::to_string)
    };
    let compiler = first_line("clang", &["--version"]);
    let headers = first_line(
        "sh",
        &["-c", "cat /usr/include/bpf/*.h | sha256sum | cut -c 1-64"],
    );
    let made_here = |probe: &String| {
        let noted = (Some(note(probe, "compiler")), Some(note(probe, "headers")));
        noted == (compiler.clone(), headers.clone())
    };
    let (probes, others): (Vec<String>, Vec<String>) = probes().into_iter().partition(made_here);
    if probes.is_empty() {
        testing::skip("the objects were made by another compiler or with other libbpf headers");
    }
    let folder = tempfile::tempdir().unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/build-bpf");
    let status = Command::new(script).arg(folder.path()).status().unwrap();
    assert!(status.success());
    for probe in probes {
        let object = format!("{probe}.bpf.o");
        let rebuilt = std::fs::read(folder.path().join(&object)).unwrap();
        let committed = std::fs::read(sources().join(&object)).unwrap();
        assert!(
            rebuilt == committed,
            "{object} differs from what its source compiles to"
        );
    }
    if !others.is_empty() {
        testing::skip(format!(
            "made by another compiler or with other libbpf headers: {}",
            others.join(", ")
        ));
    }
}

/// For a tail call to a constant place the kernel patches the calling program whenever its program array changes, be it
/// running or not (docs/why/decisions/0123).
#[test]
fn no_program_is_called_on_at_a_constant_place() {
    const CALL_ON: [u8; 8] = [0x85, 0, 0, 0, 12, 0, 0, 0]; // bpf_tail_call
    const LOAD_32: u8 = 0x61;
    let mut calls = 0;
    for probe in probes() {
        let object = std::fs::read(sources().join(format!("{probe}.bpf.o"))).unwrap();
        let (instructions, _) = object.as_chunks::<8>();
        let found = instructions.iter().enumerate();
        for (at, _) in found.filter(|(_, instruction)| **instruction == CALL_ON) {
            calls += 1;
            // The third argument is the place, in register 3; the low half of the second byte is the target.
            let mut before = instructions[..at].iter().rev().take(8);
            let set = before.find(|instruction| instruction[1] & 0xf == 3);
            let set = set.unwrap_or_else(|| panic!("{probe}: nothing sets the place"));
            assert_eq!(
                set[0], LOAD_32,
                "{probe}: the place is not read from memory: {set:02x?}"
            );
        }
    }
    assert!(calls >= 7, "{calls} calls: where are the chains of bpf/chain.h?");
}
