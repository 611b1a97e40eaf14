//! A scenario of the lab of any text: read, or refused with a sentence.
#![no_main]
use lab::scenario::Scenario;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Err(error) = Scenario::parse("scenario.toml", text, &[]) {
        assert!(error.to_string().contains("scenario.toml"), "{error}");
    }
});
