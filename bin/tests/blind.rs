//! "`oracles` never names `Mutant`": what judges must not know what is planted.

use std::fs;
use std::path::Path;

fn sources(folder: &Path, found: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(folder).expect("the folder is there") {
        let path = entry.expect("it can be read").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).expect("source code is text");
            found.push((path.display().to_string(), text));
        }
    }
}

#[test]
fn the_oracles_know_no_planted_defect() {
    let oracles = Path::new(env!("CARGO_MANIFEST_DIR")).join("../oracles");
    let mut found = Vec::new();
    for folder in ["src", "linearizability/src"] {
        sources(&oracles.join(folder), &mut found);
    }
    assert!(found.len() > 10, "{} files", found.len());
    for (file, text) in found {
        assert!(!text.contains("Mutant"), "{file} names `Mutant`");
    }
}
