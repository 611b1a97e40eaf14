//! What blkparse prints among its events.
use case::sealed::{Names, SealWriter};
use import::Request;

fn records_and_rows(text: &str) -> Result<(u64, u64), String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.txt");
    std::fs::write(&path, text).unwrap();
    let mut writer = SealWriter::create(folder.path()).unwrap();
    let request = Request {
        files: vec![path],
        ..Request::default()
    };
    import::import(&request, &mut writer, &mut Names::default(), &mut |_| {})
        .map(|summary| (summary.records, summary.rows))
        .map_err(|error| error.to_string())
}

const EVENTS: &str = "  8,0    3        1     0.000000000   697  Q   W 223490 + 8 [kjournald]
  8,0    3        2     0.000001829   697  D   W 223490 + 8 [kjournald]
  8,0    3        3     0.000101829     0  C   W 223490 + 8 [0]
";

#[test]
fn its_messages_are_no_events() {
    let text = format!("Input file sda.blktrace.0 added\n{EVENTS}Input file sda.blktrace.1 added\n");
    assert_eq!(records_and_rows(&text), Ok((1, 1)));
    assert_eq!(records_and_rows(EVENTS), Ok((1, 1)));
}

#[test]
fn what_is_nearly_an_event_is_told() {
    for wrong in [
        "8,,0 3 4 0.000201829 0 C W 223490 + 8 [0]",
        "8,0 3 4 0..000201829 0 C W 1 + 8 [0]",
        "Input file sda.blktrace.0",
    ] {
        let error = records_and_rows(&format!("{EVENTS}{wrong}\n")).unwrap_err();
        assert!(error.contains("line 4") && error.contains("an event"), "{error}");
    }
}
