//! The example in the README is the file that is tested.

#[test]
fn the_readme_shows_the_example_as_it_is() {
    let readme = include_str!("../../README.md");
    let example = include_str!("own_protocol.rs");
    assert!(readme.contains(example.trim_end()), "copy sim-io/tests/own_protocol.rs into the README");
    assert!(example.lines().count() < 80);
}
