//! The committed BPF objects are what their sources compile to.
use std::path::{Path, PathBuf};
use std::process::Command;

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
        if noted != (compiler.clone(), headers.clone()) {
            println!("SKIP: {probe} was made by another compiler or with other libbpf headers: {noted:?}");
            return false;
        }
        true
    };
    let probes: Vec<String> = probes().into_iter().filter(made_here).collect();
    if probes.is_empty() {
        return;
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
}
