//! An access specification of any text: read, or refused with a sentence.
#![no_main]
use libfuzzer_sys::fuzz_target;
use workload::Spec;

fuzz_target!(|text: &str| {
    if let Err(error) = Spec::parse(text, "spec.toml") {
        assert!(error.to_string().contains("spec.toml"), "{error}");
    }
});
