//! The page, drawn and used in headless Chromium where there is one.

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
    assert!(page.contains("No operation writes 3."));
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

/// What a user does, and what comes of it, as `name=value` pairs: a script of the test, run after the page's own.
const USE: &str = r#"
const view = document.querySelector(".history");
const seen = [];
const say = (name, value) => seen.push(name + "=" + value);
const width = () => view.querySelector("svg").getBoundingClientRect().width;
const key = (key, target = view) =>
  target.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
const middle = () => (view.scrollLeft + view.clientWidth / 2 - 70) / (width() - 90);
const drawn = width();
key("Home");
say("home", view.scrollLeft);
key("ArrowRight"); key("ArrowRight");
say("right", view.scrollLeft);
key("ArrowLeft");
say("left", view.scrollLeft);
key("End");
say("end", view.scrollLeft > 0 && view.scrollLeft + view.clientWidth >= view.scrollWidth - 1);
view.scrollLeft = (view.scrollWidth - view.clientWidth) / 2;
const before = middle();
key("+");
say("wider", (width() / drawn).toFixed(1));
say("stays", Math.abs(middle() - before) < 0.01);
key("-");
say("as-before", Math.abs(width() - drawn) < 1);
say("other-keys", key("a") && !key("-"));
const wheel = (ctrlKey) => view.dispatchEvent(
  new WheelEvent("wheel", { deltaY: -1, ctrlKey, clientX: 200, bubbles: true, cancelable: true }));
const narrow = width();
say("plain-wheel-scrolls", wheel(false) && width() === narrow);
say("wheel-zooms", !wheel(true) && width() > narrow);
view.scrollLeft = 300;
const drag = (kind, clientX) => view.dispatchEvent(new PointerEvent(kind, { clientX, bubbles: true }));
drag("pointerdown", 400); drag("pointermove", 350);
say("dragged", view.scrollLeft);
drag("pointerup", 350); drag("pointermove", 100);
say("let-go", view.scrollLeft);
const ops = [...view.querySelectorAll(".op")];
say("reachable", ops.every((op) => { op.focus(); return document.activeElement === op; }));
say("named", ops.every((op) => op.getAttribute("aria-label").includes("begun at")));
ops[1].focus();
key("+", ops[1]);
say("keeps-focus", document.activeElement.dataset.at);
for (let i = 0; i < 60; i++) key("-");
say("least", width() > 70);
for (let i = 0; i < 90; i++) key("+");
say("most", width() < 1e7 && view.querySelectorAll(".op").length);
const result = document.body.appendChild(document.createElement("pre"));
result.textContent = "used: " + seen.join(" ");
"#;

/// What `USE` found on a page, or why it did not get to its end.
fn used(name: &str, page: &str) -> Option<String> {
    let page = page.replace("</body>", &format!("<script>{{{USE}}}</script></body>"));
    let dom = drawn(name, &page)?;
    let (_, found) = dom.rsplit_once("used: ").unwrap_or_else(|| panic!("the script failed: {dom}"));
    Some(found.split('<').next().unwrap_or_default().to_owned())
}

#[test]
fn keys_wheel_and_pointer_zoom_and_move_and_every_operation_can_be_reached() {
    let mut text = String::new();
    for value in 0..100 {
        let process = value % 3;
        text += &format!("{{:process {process} :type :invoke :f :write :value {value}}}");
        text += &format!("{{:process {process} :type :ok :f :write :value {value}}}\n");
    }
    text += "{:process 1 :type :invoke :f :read} {:process 1 :type :ok :f :read :value 5}";
    let Some(found) = used("use", &page(&text)) else { return };
    let expected = "home=0 right=160 left=80 end=true wider=1.4 stays=true as-before=true other-keys=true \
                    plain-wheel-scrolls=true wheel-zooms=true dragged=350 let-go=350 reachable=true named=true \
                    keeps-focus=1 least=true most=101";
    assert_eq!(found, expected);
}

/// One operation is narrower than the window, so there is nowhere to move; zooming and focus work all the same.
#[test]
fn a_history_that_fails_at_its_first_operation_can_be_used_like_any_other() {
    let page = page(
        "{:process 0 :type :invoke :f :read} {:process 0 :type :ok :f :read :value 3}
         {:process 1 :type :invoke :f :write :value 3}",
    );
    let Some(found) = used("first-use", &page) else { return };
    for part in ["home=0", "wider=1.3", "as-before=true", "wheel-zooms=true", "reachable=true", "most=2"] {
        assert!(found.split(' ').any(|pair| pair == part), "{part}: {found}");
    }
}
