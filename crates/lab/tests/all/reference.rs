//! `docs/reference/lab.md` lists every table, key and fault, as the code has them.
use lab::keys::{Key, Schema};
use lab::scenario::{fault_schemas, ROOT_KEYS, SCHEMAS};

const BEGIN: &str = "<!-- reference: begin -->";
const END: &str = "<!-- reference: end -->";

fn rows(keys: &[Key], text: &mut String) {
    text.push_str("| key | value | default | meaning |\n|---|---|---|---|\n");
    for key in keys {
        let default = match key.default {
            "" => String::new(),
            default => format!("`{default}`"),
        };
        text.push_str(&format!(
            "| `{}` | {} | {default} | {} |\n",
            key.name,
            key.kind.expected(),
            key.meaning
        ));
    }
}

fn tables(title: &str, schemas: &[Schema], text: &mut String) {
    for schema in schemas {
        text.push_str(&format!("\n### {title}{}\n\n{}\n\n", schema.name, schema.about));
        if schema.keys.is_empty() {
            text.push_str("No keys of its own.\n");
        } else {
            rows(schema.keys, text);
        }
    }
}

fn reference() -> String {
    let mut text = String::from("\nKeys beside the tables:\n\n");
    rows(&ROOT_KEYS, &mut text);
    tables("Table ", &SCHEMAS, &mut text);
    let load = Schema {
        name: "load.NAME",
        about: "Load that is not the workload's; any number of them.",
        keys: &lab::components::load::KEYS,
    };
    tables("Table ", &[load], &mut text);
    text.push_str(
        "\nFaults are tables `[fault.NAME]` with `kind`, and `enabled = false` to leave one out:\n",
    );
    tables("Fault ", &fault_schemas(), &mut text);
    text.push('\n');
    text
}

/// `WHODISK_WRITE_REFERENCE=1 cargo test -p whodisk-lab --test all reference` writes it.
#[test]
fn the_document_lists_every_key() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/lab.md");
    let text = std::fs::read_to_string(&path).expect("docs/reference/lab.md");
    let begin = text.find(BEGIN).expect("the begin mark") + BEGIN.len();
    let end = text.find(END).expect("the end mark");
    let expected = reference();
    if std::env::var_os("WHODISK_WRITE_REFERENCE").is_some() {
        let written = format!("{}{expected}{}", &text[..begin], &text[end..]);
        return std::fs::write(&path, written).expect("docs/reference/lab.md can be written");
    }
    assert!(
        text[begin..end] == expected,
        "docs/reference/lab.md differs from the code; WHODISK_WRITE_REFERENCE=1 cargo test -p whodisk-lab --test all reference writes it"
    );
}
