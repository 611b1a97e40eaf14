//! The attribute `testing::test`: a macro has to be in a crate of its own.
use proc_macro::{TokenStream, TokenTree};

/// Registers a function without arguments as a test of its target, which `testing::main!()` runs.
///
/// `#[test("REASON")]` leaves it out unless `--ignored` or `--include-ignored` asks for it, as `#[ignore]` does elsewhere.
#[proc_macro_attribute]
pub fn test(left_out: TokenStream, function: TokenStream) -> TokenStream {
    let mut tokens = function.clone().into_iter();
    let is_fn = |token: &TokenTree| matches!(token, TokenTree::Ident(word) if word.to_string() == "fn");
    let name = match tokens.by_ref().find(is_fn).and(tokens.next()) {
        Some(TokenTree::Ident(name)) => name,
        _ => {
            return r##"compile_error!("#[test] stands before a function");"##
                .parse()
                .unwrap()
        }
    };
    let left_out = if left_out.is_empty() {
        "None".to_owned()
    } else {
        format!("Some({left_out})")
    };
    let registration = format!(
        "::testing::inventory::submit! {{ ::testing::Test {{ \
            module: module_path!(), name: stringify!({name}), left_out: {left_out}, run: {name} }} }}"
    );
    let mut all = function;
    all.extend(registration.parse::<TokenStream>().expect("it is Rust"));
    all
}
