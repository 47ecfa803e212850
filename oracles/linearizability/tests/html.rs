//! The page, drawn in headless Chromium where there is one.

#![expect(clippy::disallowed_methods, reason = "a browser reads real files")]

use std::process::Command;

use linearizability::models::CasRegister;
use linearizability::read::{FailedCas, Format, Model, Reading, Recorded, read};
use linearizability::{Options, check_keys, html};

fn page(text: &str) -> String {
    let reading = Reading {
        format: Format::Edn,
        model: Model::CasRegister,
        failed_cas: FailedCas::DidNotHappen,
        first: Some(0),
    };
    let file = read(text, &reading).expect("it is well formed");
    let Recorded::Register { history, first } = &file.history else { panic!("a register") };
    let spec = CasRegister { initial: *first };
    let verdicts = check_keys(&spec, history, &Options::default());
    html::page(&spec, history, &verdicts, &file.names, &file.processes, "a <history>")
}

/// The page after its script has run; `None` without a browser.
fn drawn(name: &str, page: &str) -> Option<String> {
    let path = std::env::temp_dir().join(format!("linearizability-{}-{name}.html", std::process::id()));
    std::fs::write(&path, page).expect("a page can be written");
    let url = format!("file://{}", path.display());
    let arguments =
        ["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=5000", "--dump-dom"];
    let output = Command::new("chromium").args(arguments).arg(url).output();
    let _ = std::fs::remove_file(&path);
    match output {
        Ok(output) => Some(String::from_utf8_lossy(&output.stdout).into_owned()),
        Err(_) => {
            println!("skipped: there is no chromium");
            None
        }
    }
}

#[test]
fn a_history_that_fails_at_its_first_operation_is_drawn() {
    let page = page("{:process 0 :type :invoke :f :read} {:process 0 :type :ok :f :read :value 3}");
    assert!(page.contains("Nobody had begun to write what was seen."));
    let Some(dom) = drawn("first", &page) else { return };
    assert!(dom.contains("data-drawn=\"yes\"") && dom.contains("class=\"op culprit\""), "{dom}");
    assert!(!dom.contains("class=\"point\""), "nothing is legal: {dom}");
}

#[test]
fn lanes_intervals_points_and_unknown_operations_are_drawn() {
    let page = page(
        "{:process 0 :type :invoke :f :write :value 1} {:process 0 :type :ok :f :write :value 1}
         {:process 2 :type :invoke :f :write :value \"</script><b>\"}
         {:process 1 :type :invoke :f :write :value 2} {:process 1 :type :ok :f :write :value 2}
         {:process 0 :type :invoke :f :read} {:process 0 :type :ok :f :read :value 1}",
    );
    assert!(!page.contains("<b>") && page.contains("a &lt;history&gt;"), "texts are escaped");
    let Some(dom) = drawn("lanes", &page) else { return };
    assert_eq!(dom.matches("<rect").count(), 4, "{dom}");
    assert_eq!(dom.matches("class=\"op culprit\"").count(), 2, "{dom}");
    assert_eq!(dom.matches("class=\"op part\"").count(), 1, "the write that was seen: {dom}");
    assert_eq!(dom.matches("class=\"op dim unknown\"").count(), 1, "{dom}");
    assert_eq!(dom.matches("class=\"point\"").count(), 2, "{dom}");
    assert_eq!(dom.matches("tabindex=\"0\"").count(), 5, "four operations and the history: {dom}");
}
