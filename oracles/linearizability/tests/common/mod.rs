//! Histories for tests: an atomic object, clients around it, and now and then a lie.
//!
//! ```text
//!   invoke ── takes effect on the true state, some time later ── returns what it got
//!                                    │                             ├─ or what it could not have got (a lie)
//!                                    └─ or never                   └─ or nothing (unknown; may take effect late)
//! ```
//!
//! Without lies every history is linearizable by construction, however long.
//!
//! Invariants: a history is a function of its seed.
//! Not here: verdicts.

#![allow(dead_code, reason = "each test crate uses its part")]

use linearizability::models::kv::{self, Kv, Value};
use linearizability::models::{CasRegister, Mutex, Queue, Register, Set};
use linearizability::models::{collections, mutex, register};
use linearizability::{History, OpId, Spec};

/// SplitMix64.
pub struct Rng(pub u64);

impl Rng {
    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.word() % bound
    }

    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    pub fn per_million(&mut self, chance: u64) -> bool {
        self.below(1_000_000) < chance
    }
}

/// A specification that can also be asked and answered at random.
pub trait Subject: Spec {
    fn ask(&self, rng: &mut Rng, values: &mut Values) -> Self::Input;
    fn answer(&self, state: &Self::State, input: &Self::Input, rng: &mut Rng) -> Self::Output;
    /// An answer to this question that need not be true.
    fn lie(&self, input: &Self::Input, rng: &mut Rng, values: &mut Values) -> Self::Output;
    /// How many values there are, where they are not unique.
    fn few(&self) -> u64 {
        3
    }
}

/// Where values come from: all different, or few.
pub struct Values {
    pub unique: bool,
    pub few: u64,
    pub last: u64,
}

impl Values {
    pub fn fresh(&mut self, rng: &mut Rng) -> u64 {
        if self.unique {
            self.last += 1;
            self.last
        } else {
            1 + rng.below(self.few)
        }
    }

    pub fn known(&self, rng: &mut Rng) -> u64 {
        if self.unique { self.last.saturating_sub(rng.below(4)) } else { 1 + rng.below(self.few) }
    }
}

/// What a history is to be like.
#[derive(Clone, Copy)]
pub struct Shape {
    pub ops: usize,
    pub clients: u64,
    pub keys: u64,
    pub unique: bool,
    pub unknown_per_million: u64,
    pub failed_per_million: u64,
    pub lies_per_million: u64,
}

struct Pending<S: Spec> {
    id: OpId,
    key: u64,
    input: S::Input,
    output: Option<S::Output>,
    given_up: bool,
}

/// Runs clients against one atomic object per key.
pub fn generate<S: Subject>(spec: &S, shape: Shape, rng: &mut Rng) -> History<u64, S::Input, S::Output>
where
    S::Input: Clone,
{
    let mut history = History::new();
    let mut values = Values { unique: shape.unique, few: spec.few(), last: 0 };
    let mut states: Vec<S::State> = (0..shape.keys).map(|_| spec.initial()).collect();
    let mut pending: Vec<Pending<S>> = Vec::new();
    let mut now_ns = 0;
    loop {
        now_ns += 1 + rng.below(1_000_000);
        history.tick(now_ns);
        let may_start = history.len() < shape.ops;
        let busy = pending.iter().filter(|op| !op.given_up).count() as u64;
        if !may_start && busy == 0 {
            return history;
        }
        let choice = rng.below(shape.clients + 2);
        if may_start && choice < 2 && busy < shape.clients {
            let key = rng.below(shape.keys);
            let input = spec.ask(rng, &mut values);
            let id = history.invoke(busy as u32, key, input.clone());
            pending.push(Pending { id, key, input, output: None, given_up: false });
        } else if !pending.is_empty() {
            let at = rng.below(pending.len() as u64) as usize;
            let op = &mut pending[at];
            if op.output.is_none() && !op.given_up && rng.per_million(shape.failed_per_million) {
                history.fail(op.id);
                pending.swap_remove(at);
            } else if !op.given_up && rng.per_million(shape.unknown_per_million) {
                // Half of them have no effect unless they had one already.
                if rng.one_in(8) { /* pending for ever */
                } else {
                    history.unknown(op.id)
                }
                op.given_up = true;
                if op.output.is_some() || rng.one_in(2) {
                    pending.swap_remove(at);
                }
            } else if op.output.is_none() {
                let state = &mut states[op.key as usize];
                let output = spec.answer(state, &op.input, rng);
                *state = spec.step(state, &op.input, Some(&output)).expect("the true answer is legal");
                op.output = Some(output);
                if op.given_up {
                    pending.swap_remove(at);
                }
            } else {
                let mut op = pending.swap_remove(at);
                if rng.per_million(shape.lies_per_million) {
                    op.output = Some(spec.lie(&op.input, rng, &mut values));
                }
                history.complete(op.id, op.output.expect("it took effect"));
            }
        }
    }
}

impl Subject for Register {
    fn ask(&self, rng: &mut Rng, values: &mut Values) -> register::Input {
        if rng.one_in(2) { register::Input::Read } else { register::Input::Write(values.fresh(rng)) }
    }

    fn answer(&self, state: &u64, input: &register::Input, _: &mut Rng) -> register::Output {
        match input {
            register::Input::Read => register::Output::Value(*state),
            _ => register::Output::Written,
        }
    }

    fn lie(&self, input: &register::Input, rng: &mut Rng, values: &mut Values) -> register::Output {
        match input {
            register::Input::Read => register::Output::Value(values.known(rng)),
            _ => register::Output::Written,
        }
    }
}

impl Subject for CasRegister {
    fn ask(&self, rng: &mut Rng, values: &mut Values) -> register::Input {
        match rng.below(3) {
            0 => register::Input::Read,
            1 => register::Input::Write(values.fresh(rng)),
            _ => register::Input::CompareAndSwap(values.known(rng), values.fresh(rng)),
        }
    }

    fn answer(&self, state: &u64, input: &register::Input, _: &mut Rng) -> register::Output {
        match input {
            register::Input::Read => register::Output::Value(*state),
            register::Input::Write(_) => register::Output::Written,
            register::Input::CompareAndSwap(expected, _) => register::Output::Swapped(expected == state),
        }
    }

    fn lie(&self, input: &register::Input, rng: &mut Rng, values: &mut Values) -> register::Output {
        match input {
            register::Input::Read => register::Output::Value(values.known(rng)),
            register::Input::Write(_) => register::Output::Written,
            register::Input::CompareAndSwap(..) => register::Output::Swapped(rng.one_in(2)),
        }
    }
}

impl Subject for Set {
    fn ask(&self, rng: &mut Rng, values: &mut Values) -> collections::SetInput {
        match rng.below(3) {
            0 => collections::SetInput::Add(values.fresh(rng)),
            1 => collections::SetInput::Remove(values.known(rng)),
            _ => collections::SetInput::Contains(values.known(rng)),
        }
    }

    fn answer(&self, state: &Self::State, input: &collections::SetInput, _: &mut Rng) -> bool {
        match input {
            collections::SetInput::Add(element) => !state.contains(element),
            collections::SetInput::Remove(element) | collections::SetInput::Contains(element) => {
                state.contains(element)
            }
        }
    }

    fn lie(&self, _: &collections::SetInput, rng: &mut Rng, _: &mut Values) -> bool {
        rng.one_in(2)
    }
}

impl Subject for Queue {
    fn ask(&self, rng: &mut Rng, values: &mut Values) -> collections::QueueInput {
        match rng.below(2) {
            0 => collections::QueueInput::Enqueue(values.fresh(rng)),
            _ => collections::QueueInput::Dequeue,
        }
    }

    fn answer(
        &self,
        state: &Self::State,
        input: &collections::QueueInput,
        _: &mut Rng,
    ) -> collections::QueueOutput {
        match input {
            collections::QueueInput::Enqueue(_) => collections::QueueOutput::Enqueued,
            collections::QueueInput::Dequeue => collections::QueueOutput::Dequeued(state.front().copied()),
        }
    }

    fn lie(
        &self,
        input: &collections::QueueInput,
        rng: &mut Rng,
        values: &mut Values,
    ) -> collections::QueueOutput {
        match input {
            collections::QueueInput::Enqueue(_) => collections::QueueOutput::Enqueued,
            collections::QueueInput::Dequeue if rng.one_in(3) => collections::QueueOutput::Dequeued(None),
            collections::QueueInput::Dequeue => collections::QueueOutput::Dequeued(Some(values.known(rng))),
        }
    }
}

impl Subject for Mutex {
    fn ask(&self, rng: &mut Rng, _: &mut Values) -> mutex::Input {
        if rng.one_in(2) { mutex::Input::Acquire } else { mutex::Input::Release }
    }

    fn answer(&self, held: &bool, input: &mutex::Input, _: &mut Rng) -> bool {
        *held == (*input == mutex::Input::Release)
    }

    fn lie(&self, _: &mutex::Input, rng: &mut Rng, _: &mut Values) -> bool {
        rng.one_in(2)
    }
}

/// Which questions a key-value client asks, in shares.
pub struct Mix {
    pub get: u64,
    pub put: u64,
    pub append: u64,
    pub cas: u64,
    pub delete: u64,
    /// Values put and swapped in are lists in one of so many cases (0: never).
    pub lists_one_in: u64,
    /// Whether failed swaps may hide what they found.
    pub refusals: bool,
    /// One in so many appends is a put of a new list instead (0: none).
    pub restart_one_in: u64,
    /// How many values there are, where they are not unique.
    pub few: u64,
}

impl Mix {
    const NONE: Mix = Mix {
        get: 0,
        put: 0,
        append: 0,
        cas: 0,
        delete: 0,
        lists_one_in: 0,
        refusals: false,
        restart_one_in: 0,
        few: 3,
    };
    pub const PUTS: Mix = Mix { get: 50, put: 50, ..Mix::NONE };
    pub const FIVE_VALUES: Mix = Mix { get: 30, put: 30, cas: 40, few: 5, ..Mix::NONE };
    pub const RESTARTED: Mix = Mix { get: 50, append: 50, restart_one_in: 100, ..Mix::NONE };
    /// Lists and compare-and-swap on one key.
    pub const BOTH: Mix = Mix { get: 40, put: 10, append: 25, cas: 25, lists_one_in: 2, ..Mix::NONE };
    pub const REGISTER: Mix = Mix { get: 40, put: 20, cas: 40, ..Mix::NONE };
    pub const LIST: Mix = Mix { get: 50, append: 50, ..Mix::NONE };
    pub const ALL: Mix =
        Mix { get: 30, put: 15, append: 25, cas: 20, delete: 10, lists_one_in: 2, ..Mix::NONE };
    pub const HIDING: Mix = Mix { refusals: true, ..Mix::ALL };
}

/// The key-value model under some mix. A new type, so that mixes are subjects.
pub struct Mixed(pub Mix);

impl Spec for Mixed {
    type Input = kv::Input;
    type Output = kv::Output;
    type State = Option<Value>;
    type Machine<'h> = <Kv as Spec>::Machine<'h>;

    fn initial(&self) -> Option<Value> {
        Kv.initial()
    }
    fn step(
        &self,
        state: &Self::State,
        input: &kv::Input,
        output: Option<&kv::Output>,
    ) -> Option<Self::State> {
        Kv.step(state, input, output)
    }
    fn footprint<'a>(
        &self,
        input: &'a kv::Input,
        output: Option<&'a kv::Output>,
    ) -> linearizability::spec::Footprint<'a> {
        Kv.footprint(input, output)
    }
    fn compile<'h>(
        &'h self,
        calls: Vec<linearizability::spec::Call<'h, kv::Input, kv::Output>>,
    ) -> Self::Machine<'h> {
        Kv.compile(calls)
    }
    fn shape<'a>(
        &self,
        input: &'a kv::Input,
        output: Option<&'a kv::Output>,
    ) -> linearizability::spec::Shape<'a> {
        Kv.shape(input, output)
    }
    fn phrase(&self, input: &kv::Input, output: Option<&kv::Output>) -> linearizability::spec::Phrase {
        Kv.phrase(input, output)
    }
}

impl Mixed {
    fn new_value(&self, rng: &mut Rng, values: &mut Values) -> Value {
        if self.0.lists_one_in == 0 || !rng.one_in(self.0.lists_one_in) {
            return Value::Register(values.fresh(rng));
        }
        let length = rng.below(3);
        Value::List((0..length).map(|_| values.fresh(rng)).collect())
    }

    fn some_value(&self, rng: &mut Rng, values: &mut Values) -> Option<Value> {
        let may_be_list = self.0.append > 0 || self.0.lists_one_in > 0;
        match rng.below(if may_be_list { 5 } else { 3 }) {
            0 => None,
            1 | 2 => Some(Value::Register(values.known(rng))),
            _ => {
                let length = rng.below(3);
                Some(Value::List((0..length).map(|_| values.known(rng)).collect()))
            }
        }
    }
}

impl Subject for Mixed {
    fn few(&self) -> u64 {
        self.0.few
    }

    fn ask(&self, rng: &mut Rng, values: &mut Values) -> kv::Input {
        let mix = &self.0;
        let mut ticket = rng.below(mix.get + mix.put + mix.append + mix.cas + mix.delete);
        let mut drawn = |share: u64| {
            let hit = ticket < share;
            ticket = ticket.wrapping_sub(share);
            hit
        };
        if drawn(mix.get) {
            kv::Input::Get
        } else if drawn(mix.put) {
            kv::Input::Put(self.new_value(rng, values))
        } else if drawn(mix.append) {
            if mix.restart_one_in > 0 && rng.one_in(mix.restart_one_in) {
                return kv::Input::Put(Value::List(vec![values.fresh(rng)]));
            }
            kv::Input::Append(values.fresh(rng))
        } else if drawn(mix.cas) {
            let expected = self.some_value(rng, values);
            kv::Input::CompareAndSwap { expected, new: self.new_value(rng, values) }
        } else {
            kv::Input::Delete
        }
    }

    fn answer(&self, state: &Option<Value>, input: &kv::Input, rng: &mut Rng) -> kv::Output {
        match input {
            kv::Input::Get => kv::Output::Value(state.clone()),
            kv::Input::Put(_) | kv::Input::Delete => kv::Output::Written,
            kv::Input::Append(_) if matches!(state, Some(Value::Register(_))) => kv::Output::Refused,
            kv::Input::Append(_) => kv::Output::Written,
            kv::Input::CompareAndSwap { expected, .. } if expected == state => kv::Output::Swapped,
            kv::Input::CompareAndSwap { .. } if self.0.refusals && rng.one_in(2) => kv::Output::Refused,
            kv::Input::CompareAndSwap { .. } => kv::Output::Unequal(state.clone()),
        }
    }

    fn lie(&self, input: &kv::Input, rng: &mut Rng, values: &mut Values) -> kv::Output {
        match input {
            kv::Input::Get => kv::Output::Value(self.some_value(rng, values)),
            kv::Input::CompareAndSwap { .. } if rng.one_in(3) => kv::Output::Swapped,
            kv::Input::CompareAndSwap { .. } => kv::Output::Unequal(self.some_value(rng, values)),
            kv::Input::Append(_) if rng.one_in(8) => kv::Output::Refused,
            _ => kv::Output::Written,
        }
    }
}
