//! A fault of a slow disk of any text: what is read and written out again is the same fault.
#![no_main]
use libfuzzer_sys::fuzz_target;
use slowdisk::Fault;

fuzz_target!(|text: &str| {
    if let Ok(fault) = Fault::parse(text) {
        let again = Fault::parse(&fault.to_string()).expect("what we write we can read");
        assert_eq!(again, fault);
    }
});
