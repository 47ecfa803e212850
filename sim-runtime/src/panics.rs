//! Panics of simulated code: findings, with the place where they happened.

use std::any::Any;
use std::cell::RefCell;
use std::sync::Once;

use crate::context;
use crate::executor::describe;
use crate::rng::hash_bytes;
use crate::trace::TaskPanicked;
use crate::verdict::Category;
use crate::world::Handle;

thread_local! {
    static CAPTURED: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Panics of simulated code are findings, not noise on the terminal: the hook notes the place and is silent
/// while a world runs on the thread; elsewhere the previous hook speaks.
pub(crate) fn capture_panics() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if context::try_current().is_none() {
                return before(info);
            }
            let place = info.location().map_or_else(|| "an unknown place".to_owned(), ToString::to_string);
            let _ = CAPTURED.try_with(|slot| slot.replace(Some(place)));
        }));
    });
}

/// The text that a panic carried.
pub(crate) fn payload_text(payload: &(dyn Any + Send)) -> &str {
    if let Some(text) = payload.downcast_ref::<&'static str>() {
        text
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text
    } else {
        "a panic without text"
    }
}

impl Handle {
    /// A panic was caught: the run's verdict. Returns the text with its place.
    #[cold]
    pub(crate) fn note_panic(&self, message: &str) -> String {
        let core = &self.core;
        let place = CAPTURED.with(|slot| slot.take()).unwrap_or_else(|| "an unknown place".to_owned());
        let current = core.current.get();
        let who = match current.slot() {
            Some(slot) => describe(core, slot),
            None => format!("code outside any task, on behalf of {}", current.owner.node),
        };
        let text = format!("{who}: panicked at {place}: {message}");
        self.emit(TaskPanicked { digest: hash_bytes(0, text.as_bytes()) });
        self.fail(Category::Crash, "panic", &place, text.clone());
        if core.options.panic_ends_run {
            core.end();
        }
        text
    }
}
