//! The attribute `#[sim_runtime::test]`; what it does is said there, and done by `sim_runtime::testing`.
//!
//!   #[test(seeds = 9)] async fn name() {..}  ──►  #[test] fn name() { async fn name() {..}  testing::run_main(..,
//! name) }
//!
//! Attributes of the function go to the outer one, so that `#[ignore]` and `#[should_panic]` mean what they mean on any
//! test. The tokens of the function stay as they are, so that errors point at them. That little is read by hand.

use proc_macro::{Delimiter, Group, TokenStream, TokenTree};

/// See `sim_runtime::test`.
#[proc_macro_attribute]
pub fn test(arguments: TokenStream, item: TokenStream) -> TokenStream {
    match expand(arguments, item) {
        Ok(expanded) => expanded,
        Err(problem) => format!("::core::compile_error!({problem:?});").parse().expect("it is Rust"),
    }
}

/// How often a test is run, and how many seeds are checked for determinism.
struct Arguments {
    seeds: u64,
    check_determinism: u64,
}

/// Seeds that are checked when nothing says how many.
const CHECKED: u64 = 3;

fn read(arguments: TokenStream) -> Result<Arguments, String> {
    let mut read = Arguments { seeds: 100, check_determinism: 0 };
    let text = arguments.to_string();
    for argument in text.split(',').map(str::trim).filter(|argument| !argument.is_empty()) {
        let (name, value) = match argument.split_once('=') {
            Some((name, value)) => (name.trim(), Some(value.trim())),
            None => (argument, None),
        };
        let number = |value: &str| {
            let number = value.replace('_', "").parse::<u64>().ok().filter(|number| *number > 0);
            number.ok_or_else(|| format!("`{name} = {value}`: a whole number from 1 on is wanted"))
        };
        match (name, value) {
            ("seeds", Some(value)) => read.seeds = number(value)?,
            ("check_determinism", Some(value)) => read.check_determinism = number(value)?,
            ("check_determinism", None) => read.check_determinism = CHECKED,
            _ => return Err(format!("`{argument}`: `seeds = N` and `check_determinism` are known")),
        }
    }
    Ok(read)
}

fn expand(arguments: TokenStream, item: TokenStream) -> Result<TokenStream, String> {
    let Arguments { seeds, check_determinism } = read(arguments)?;
    let tokens: Vec<TokenTree> = item.into_iter().collect();
    let is_word =
        |token: &TokenTree, word: &str| matches!(token, TokenTree::Ident(ident) if ident.to_string() == word);
    let function = tokens.iter().position(|token| is_word(token, "fn")).ok_or("a function is wanted")?;
    let attributes = attributes_of(&tokens);
    let name = tokens.get(function + 1).ok_or("a function has a name")?.to_string();
    let is_async = tokens[attributes..function].iter().any(|token| is_word(token, "async"));
    match tokens.get(function + 2) {
        Some(TokenTree::Group(group)) if group.stream().is_empty() => {}
        _ => return Err(format!("`{name}` is given nothing, so it takes no arguments")),
    }
    let run = if is_async { "run_main" } else { "run_scenario" };
    let call = format!(
        "::sim_runtime::testing::{run}(&::sim_runtime::testing::Test {{ \
             name: {name:?}, module: ::core::module_path!(), package: ::core::env!(\"CARGO_PKG_NAME\"), \
             seeds: {seeds}, check_determinism: {check_determinism} }}, {name});"
    );
    let call: TokenStream = call.parse().map_err(|error| format!("{error:?}"))?;
    let (before, inner) = tokens.split_at(attributes);
    let body: TokenStream = inner.iter().cloned().chain(call).collect();
    let outer = format!("#[::core::prelude::v1::test] fn {name}()");
    let outer: TokenStream = outer.parse().map_err(|error| format!("{error:?}"))?;
    let body = TokenTree::Group(Group::new(Delimiter::Brace, body));
    Ok(before.iter().cloned().chain(outer).chain([body]).collect())
}

/// How many tokens at the beginning are attributes: pairs of `#` and brackets.
fn attributes_of(tokens: &[TokenTree]) -> usize {
    let is_attribute = |pair: &[TokenTree]| {
        matches!(pair, [TokenTree::Punct(hash), TokenTree::Group(group)]
            if hash.as_char() == '#' && group.delimiter() == Delimiter::Bracket)
    };
    2 * tokens.chunks(2).take_while(|pair| is_attribute(pair)).count()
}
