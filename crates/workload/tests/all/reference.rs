//! The reference in `docs/how-to/workload.md` and the examples say what the code does.
use std::path::{Path, PathBuf};
use workload::spec::KEYS;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn table() -> String {
    let mut text = String::from("| key | value | default | range | meaning |\n|---|---|---|---|---|\n");
    for key in KEYS {
        let row = [
            &format!("`{}`", key.name),
            key.value,
            key.default,
            key.range,
            key.meaning,
        ];
        text += &format!("| {} |\n", row.join(" | "));
    }
    text
}

/// `UPDATE_REFERENCE=1 cargo test -p whodisk-workload --test all reference` writes the table anew.
#[test]
fn the_reference_lists_every_key() {
    let path = root().join("docs/how-to/workload.md");
    let text = std::fs::read_to_string(&path).expect("docs/how-to/workload.md");
    let (begin, end) = ("<!-- keys -->\n", "<!-- end of keys -->\n");
    let from = text.find(begin).expect("mark of the table's begin") + begin.len();
    let to = text.find(end).expect("mark of the table's end");
    if std::env::var_os("UPDATE_REFERENCE").is_some() {
        let new = format!("{}{}{}", &text[..from], table(), &text[to..]);
        std::fs::write(&path, new).expect("docs/how-to/workload.md can be written");
        return;
    }
    assert_eq!(
        &text[from..to],
        table(),
        "docs/how-to/workload.md is not what spec.rs says"
    );
}

/// Every TOML block of the reference is a specification that parses.
#[test]
fn the_examples_of_the_reference_parse() {
    let text =
        std::fs::read_to_string(root().join("docs/how-to/workload.md")).expect("docs/how-to/workload.md");
    let blocks: Vec<&str> = text
        .split("```toml\n")
        .skip(1)
        .filter_map(|rest| rest.split("```").next())
        .collect();
    assert!(!blocks.is_empty(), "the reference shows no specification");
    for block in blocks {
        workload::Spec::parse(block, "docs/how-to/workload.md")
            .unwrap_or_else(|error| panic!("{error}\n{block}"));
    }
}

#[test]
fn the_shipped_examples_parse() {
    let mut seen = 0;
    for entry in std::fs::read_dir(root().join("examples")).expect("examples/") {
        let path = entry.expect("an entry of examples/").path();
        // Experiments and copies are read by other parts; tests of theirs do that.
        let is_specification = || {
            std::fs::read_to_string(&path)
                .is_ok_and(|text| !text.contains("[experiment]") && !text.contains("\nmethod = "))
        };
        if path.extension().is_some_and(|extension| extension == "toml") && is_specification() {
            workload::Spec::read(&path).unwrap_or_else(|error| panic!("{error}"));
            seen += 1;
        }
    }
    assert!(seen >= 5, "only {seen} examples");
}

#[test]
fn the_vm_server_is_iometers() {
    let spec = workload::Spec::read(&root().join("examples/iometer-vm-server.toml")).expect("the example");
    assert_eq!((spec.read_ppm, spec.random_ppm), (600_000, 550_000));
    assert_eq!(
        (spec.workers, spec.queue_depth, spec.block_size_max()),
        (4, 16, 4096)
    );
}
