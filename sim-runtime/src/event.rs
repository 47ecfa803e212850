//! `tracing` events of any code in the simulation, captured in the order of the records.
//!
//!   tracing::info!(term, "leader_elected") ──► Event { node, time, name, fields } + a record for the digest
//!
//! An event's *name* is its message, or the `name:` it was declared with. Fields keep their type and are
//! asked for by name.
//!
//! Invariants: an event enters the behaviour digest with all its fields; no span is kept (it would need
//! identity across awaits, which tasks have already).
//! Not here: who reads them (`invariant.rs`).

use std::fmt::{self, Debug};

use tracing_core::field::{Field, Visit};
use tracing_core::span::{Attributes, Id, Record as SpanRecord};
use tracing_core::{Dispatch, Interest, Level, Metadata, Subscriber, dispatcher};

use crate::context;
use crate::node::{NodeId, Owner};
use crate::rng::{hash_bytes, mix};
use crate::trace::EventCaptured;

/// A field's value.
#[derive(Clone, PartialEq, Debug)]
pub enum Value {
    /// An unsigned integer.
    U64(u64),
    /// A signed integer.
    I64(i64),
    /// A truth value.
    Bool(bool),
    /// A string, or anything else as it prints.
    Text(String),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::U64(value) => write!(f, "{value}"),
            Self::I64(value) => write!(f, "{value}"),
            Self::Bool(value) => write!(f, "{value}"),
            Self::Text(text) => write!(f, "{text:?}"),
        }
    }
}

impl Value {
    fn digest(&self, seed: u64) -> u64 {
        match self {
            Self::U64(value) => mix(seed, *value),
            Self::I64(value) => mix(mix(seed, 1), *value as u64),
            Self::Bool(value) => mix(mix(seed, 2), u64::from(*value)),
            Self::Text(text) => hash_bytes(mix(seed, 3), text.as_bytes()),
        }
    }
}

/// What an event does not have, or has otherwise.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FieldError {
    /// No such field.
    #[error("event {event:?} has no field {field:?}; it has {has:?}")]
    Missing {
        /// The event's name.
        event: String,
        /// The field asked for.
        field: String,
        /// The fields that it has.
        has: Vec<&'static str>,
    },
    /// The field is of another type.
    #[error("field {field:?} of event {event:?} is {is}, not {wanted}")]
    Type {
        /// The event's name.
        event: String,
        /// The field asked for.
        field: String,
        /// Its value as it prints.
        is: String,
        /// The type asked for.
        wanted: &'static str,
    },
}

/// One captured event.
#[derive(Clone, Debug)]
pub struct Event {
    /// Global virtual time.
    pub time_ns: u64,
    /// At which node.
    pub node: NodeId,
    /// In which incarnation.
    pub incarnation: u32,
    /// Its message, or the `name:` it was declared with.
    pub name: String,
    /// The module that it comes from.
    pub target: &'static str,
    /// How loud it is.
    pub level: Level,
    fields: Vec<(&'static str, Value)>,
}

impl Event {
    /// All fields, in the order of their declaration.
    pub fn fields(&self) -> &[(&'static str, Value)] {
        &self.fields
    }

    fn get(&self, field: &str) -> Result<&Value, FieldError> {
        let found = self.fields.iter().find(|(name, _)| *name == field);
        found.map(|(_, value)| value).ok_or_else(|| FieldError::Missing {
            event: self.name.clone(),
            field: field.to_owned(),
            has: self.fields.iter().map(|(name, _)| *name).collect(),
        })
    }

    fn wrong(&self, field: &str, value: &Value, wanted: &'static str) -> FieldError {
        FieldError::Type {
            event: self.name.clone(),
            field: field.to_owned(),
            is: format!("{value:?}"),
            wanted,
        }
    }

    /// An integer field that is not negative.
    ///
    /// # Errors
    /// When there is no such field, or it is something else.
    pub fn u64(&self, field: &str) -> Result<u64, FieldError> {
        match self.get(field)? {
            Value::U64(value) => Ok(*value),
            Value::I64(value) if *value >= 0 => Ok(*value as u64),
            other => Err(self.wrong(field, other, "u64")),
        }
    }

    /// An integer field.
    ///
    /// # Errors
    /// When there is no such field, or it is something else.
    pub fn i64(&self, field: &str) -> Result<i64, FieldError> {
        match self.get(field)? {
            Value::I64(value) => Ok(*value),
            Value::U64(value) if *value <= i64::MAX as u64 => Ok(*value as i64),
            other => Err(self.wrong(field, other, "i64")),
        }
    }

    /// A truth value.
    ///
    /// # Errors
    /// When there is no such field, or it is something else.
    pub fn bool(&self, field: &str) -> Result<bool, FieldError> {
        match self.get(field)? {
            Value::Bool(value) => Ok(*value),
            other => Err(self.wrong(field, other, "bool")),
        }
    }

    /// A text field (also what was recorded with `?` or `%`).
    ///
    /// # Errors
    /// When there is no such field, or it is something else.
    pub fn text(&self, field: &str) -> Result<&str, FieldError> {
        match self.get(field)? {
            Value::Text(value) => Ok(value),
            other => Err(self.wrong(field, other, "text")),
        }
    }

    /// In one line, for a person.
    pub(crate) fn text_line(&self) -> String {
        let fields: Vec<String> = self.fields.iter().map(|(name, value)| format!("{name}={value}")).collect();
        format!("{:?} {}", self.name, fields.join(" "))
    }

    fn digest(&self) -> u64 {
        let start = hash_bytes(hash_bytes(0, self.target.as_bytes()), self.name.as_bytes());
        self.fields.iter().fold(start, |seed, (name, value)| value.digest(hash_bytes(seed, name.as_bytes())))
    }
}

/// The events of one run that are still held.
#[derive(Debug, Default)]
pub(crate) struct Events {
    events: Vec<Event>,
    base: u64,
}

const RECENT: usize = 1_024;

impl Events {
    pub(crate) fn since(&self, ordinal: u64) -> &[Event] {
        let from = ordinal.saturating_sub(self.base).min(self.events.len() as u64);
        &self.events[from as usize..]
    }

    /// The ordinal of the first that is held.
    pub(crate) fn first_held(&self) -> u64 {
        self.base
    }

    pub(crate) fn len(&self) -> u64 {
        self.base + self.events.len() as u64
    }

    /// Called after the invariants have seen all.
    pub(crate) fn forget_distant(&mut self, keep: bool) {
        if !keep && self.events.len() >= 2 * RECENT {
            let gone = self.events.len() - RECENT;
            self.events.drain(..gone);
            self.base += gone as u64;
        }
    }
}

struct Collect {
    message: Option<String>,
    fields: Vec<(&'static str, Value)>,
}

impl Collect {
    fn add(&mut self, field: &Field, value: Value) {
        match (field.name(), value) {
            ("message", Value::Text(text)) => self.message = Some(text),
            (name, value) => self.fields.push((name, value)),
        }
    }
}

impl Visit for Collect {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.add(field, Value::Text(format!("{value:?}")));
    }
    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, Value::Text(value.to_owned()));
    }
    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field, Value::U64(value));
    }
    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, Value::I64(value));
    }
    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, Value::Bool(value));
    }
}

/// Hands events to the world that runs on the thread. One for the whole process: it has no state.
struct Capture;

impl Subscriber for Capture {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        if metadata.is_event() { Interest::always() } else { Interest::never() }
    }
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event()
    }
    fn new_span(&self, _span: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _span: &Id, _values: &SpanRecord<'_>) {}
    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}
    fn enter(&self, _span: &Id) {}
    fn exit(&self, _span: &Id) {}

    fn event(&self, event: &tracing_core::Event<'_>) {
        let Some(handle) = context::try_current() else { return };
        if handle.core.observing.get() {
            // What an invariant logs is no event of the run.
            return;
        }
        let mut collect = Collect { message: None, fields: Vec::new() };
        event.record(&mut collect);
        let metadata = event.metadata();
        let name = collect.message.unwrap_or_else(|| metadata.name().to_owned());
        let Owner { node, incarnation } = handle.owner();
        let event = Event {
            time_ns: handle.now_ns(),
            node,
            incarnation,
            name,
            target: metadata.target(),
            level: *metadata.level(),
            fields: collect.fields,
        };
        let digest = event.digest();
        if let Some(scout) = &handle.core.scout {
            scout.event(&event);
        }
        let text = handle.core.tape.as_ref().map(|_| event.text_line());
        let ordinal = {
            let mut events = handle.core.events.borrow_mut();
            events.events.push(event);
            events.len() - 1
        };
        handle.emit(EventCaptured { ordinal, digest });
        if let (Some(tape), Some(text)) = (&handle.core.tape, text) {
            tape.event(text);
        }
    }
}

thread_local! {
    static DISPATCH: Dispatch = Dispatch::new(Capture);
}

/// Captures the events of this thread until the guard is dropped.
pub(crate) fn subscribe() -> dispatcher::DefaultGuard {
    DISPATCH.with(dispatcher::set_default)
}
