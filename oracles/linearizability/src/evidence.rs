//! Evidence: the few operations of an illegal history that show that it is.
//!
//! ```text
//!   all operations ─ shortest illegal prefix, by bisection ─► window
//!                  ─ without reads that are not needed ─► ─ without values that are not needed ─► operations
//!                  ─ each left out once, soundly or not ─► culprits
//! ```
//!
//! Linearizability is closed under prefixes, hence the bisection; it begins at the deepest return that the search
//! got to, which is nearly always the answer. Leaving out a read, or all operations that touch a value, keeps a
//! legal history legal (see `Footprint`); so what is still illegal after it proves the whole illegal.
//!
//! Invariants: what is kept has been searched and found illegal, whatever the budget; less budget, longer evidence.
//! Not here: words (`explain.rs`).

use std::collections::BTreeMap;

use crate::case::{Atom, CaseOp, atoms};
use crate::check::decide;
use crate::history::OpId;
use crate::ranks::{Proof, Why};
use crate::search::{Progress, Search};
use crate::spec::{Role, Spec};

/// Nodes that may still be visited.
pub struct Budget {
    left: u64,
}

impl Budget {
    pub fn of(nodes: u64) -> Self {
        Budget { left: nodes }
    }

    pub fn left(&self) -> u64 {
        self.left
    }

    pub fn spend(&mut self, nodes: u64) {
        self.left = self.left.saturating_sub(nodes);
    }
}

/// What proves a violation. See [`crate::Violation`].
pub struct Evidence {
    pub last: OpId,
    pub last_event: u32,
    pub operations: Vec<OpId>,
    pub culprits: Vec<OpId>,
    /// The reason, where it is known, and the operations of which it speaks.
    pub why: Option<(Why, Vec<OpId>)>,
}

/// A window of more operations is not cut down when it came with a proof: it is mostly where values came from.
const SMALL: usize = 64;

/// How often in a row a proof may say where to look for the shortest prefix and not halve what is left, before it is
/// bisection's turn.
const PATIENCE: u32 = 2;

/// Cuts `ops`, which are illegal, down. `search` found that out; it calls the operations by their positions in `kept`.
pub fn find_evidence<S: Spec>(
    spec: &S,
    ops: &[CaseOp<'_, S::Input, S::Output>],
    search: &dyn Search,
    kept: &[OpId],
    budget: &mut Budget,
) -> Evidence {
    let mut court = Court { spec, budget };
    let proof = search.proof().map(|proof| NamedProof::of(proof, |op| kept[op as usize]));
    let (last, mut window, proof) = court.shortest_prefix(ops, search.deepest(), proof);
    let mut culprits = Vec::new();
    if let Some(proof) = &proof {
        window.retain(|op| proof.operations.binary_search(&op.id).is_ok());
    }
    if proof.is_none() || window.len() <= SMALL {
        // What a prepared search would forget is no evidence.
        crate::case::prepare(spec, &mut window);
        window = court.without_idle_reads(window);
        window = court.without_idle_values(window);
        window = court.without_idle_reads(window);
        culprits = court.culprits(&window);
    }
    let why = proof.as_ref().map(|proof| (proof.why, proof.culprits.clone()));
    if let Some(proof) = proof
        && culprits.is_empty()
    {
        culprits = proof.culprits;
        culprits.retain(|id| window.iter().any(|op| op.id == *id));
    }
    Evidence {
        last: last.id,
        last_event: last.returned,
        operations: window.iter().map(|op| op.id).collect(),
        culprits,
        why,
    }
}

type Op<'h, S> = CaseOp<'h, <S as Spec>::Input, <S as Spec>::Output>;
type Ops<'h, S> = Vec<Op<'h, S>>;
type Shortest<'h, S> = (Op<'h, S>, Ops<'h, S>, Option<NamedProof>);

/// A proof that knows its operations by name.
struct NamedProof {
    operations: Vec<OpId>,
    culprits: Vec<OpId>,
    why: Why,
}

impl NamedProof {
    fn of(proof: &Proof, name: impl Fn(u32) -> OpId) -> Self {
        let named = |ops: &[u32]| ops.iter().map(|op| name(*op)).collect();
        NamedProof { operations: named(&proof.operations), culprits: named(&proof.culprits), why: proof.why }
    }
}

/// Where subsets are tried.
struct Court<'a, S> {
    spec: &'a S,
    budget: &'a mut Budget,
}

impl<S: Spec> Court<'_, S> {
    /// Whether these operations are illegal on their own; `None` when the budget ends first.
    fn is_illegal(&mut self, ops: Ops<'_, S>) -> Option<bool> {
        self.judge(ops).0
    }

    fn judge(&mut self, mut ops: Ops<'_, S>) -> (Option<bool>, Option<NamedProof>) {
        if self.budget.left() == 0 {
            return (None, None);
        }
        // A subset is paid for by its length too, or many cheap searches would cost more than the budget says.
        self.budget.spend(ops.len() as u64 / 4);
        let mut search = decide(self.spec, &mut ops);
        let progress = search.run(self.budget.left());
        self.budget.spend(search.nodes());
        match progress {
            Progress::Illegal => {
                let proof = search.proof().map(|proof| NamedProof::of(proof, |op| ops[op as usize].id));
                (Some(true), proof)
            }
            Progress::Legal => (Some(false), None),
            Progress::OutOfNodes => (None, None),
        }
    }

    /// The operation that returns last in the shortest illegal prefix, that prefix, and the proof that it is.
    fn shortest_prefix<'h>(
        &mut self,
        ops: &[CaseOp<'h, S::Input, S::Output>],
        deepest: u32,
        mut proof: Option<NamedProof>,
    ) -> Shortest<'h, S> {
        let mut returns: Vec<_> = ops.iter().filter(|op| !op.is_unknown()).copied().collect();
        returns.sort_unstable_by_key(|op| op.returned);
        let prefix = |at: usize| -> Ops<'h, S> {
            ops.iter().filter_map(|op| op.until(returns[at].returned)).collect()
        };
        // Where the operations of a proof have returned, the prefix is mostly illegal (unless it needs a later answer
        // which says that something did not happen), and mostly not before.
        let end_of = |proof: &NamedProof| {
            let named = ops.iter().filter(|op| proof.operations.binary_search(&op.id).is_ok());
            let last = named.filter(|op| !op.is_unknown()).map(|op| op.returned).max();
            last.map_or(returns.len() - 1, |last| returns.partition_point(|op| op.returned < last))
        };
        // Legal before `legal_below`, illegal at `illegal`. Without a proof the first guess is where the search got to.
        let (mut legal_below, mut illegal) = (deepest as usize, returns.len() - 1);
        let mut guess = legal_below;
        let mut disappointments = 0;
        while legal_below < illegal {
            let end = proof.as_ref().filter(|_| disappointments < PATIENCE).map(&end_of);
            let is_hint = end.is_some_and(|end| end >= legal_below);
            if let Some(end) = end.filter(|_| is_hint) {
                // Right before it first: mostly legal, and where it is not, a proof that ends earlier comes of it.
                guess = end.min(illegal).saturating_sub(1).max(legal_below);
            }
            let middle = legal_below + (illegal - legal_below) / 2;
            match self.judge(prefix(guess)) {
                (Some(true), earlier) => (illegal, proof) = (guess, earlier),
                (Some(false), _) => legal_below = guess + 1,
                (None, _) => break,
            }
            let has_halved = illegal <= middle || legal_below > middle;
            disappointments = if is_hint && !has_halved { disappointments + 1 } else { 0 };
            guess = legal_below + (illegal - legal_below) / 2;
        }
        (returns[illegal], prefix(illegal), proof)
    }

    fn without_idle_reads<'h>(&mut self, window: Ops<'h, S>) -> Ops<'h, S> {
        let reads = window.iter().filter(|op| op.is_read).map(|op| vec![op.id]).collect();
        self.without_idle(window, reads)
    }

    /// Values whose operations all may go: linked where one operation touches several.
    fn without_idle_values<'h>(&mut self, window: Ops<'h, S>) -> Ops<'h, S> {
        let prints: Vec<_> =
            window.iter().map(|op| self.spec.footprint(op.call.input, op.call.output)).collect();
        if prints.iter().any(|print| print.opaque) {
            return window;
        }
        let mut links = Links::default();
        for (position, print) in prints.iter().enumerate() {
            for atom in atoms(print.sees).chain(atoms(print.writes)) {
                links.link(position, atom);
            }
        }
        let mut groups: BTreeMap<usize, Vec<OpId>> = BTreeMap::new();
        for (position, op) in window.iter().enumerate() {
            groups.entry(links.root(position)).or_default().push(op.id);
        }
        for (position, print) in prints.iter().enumerate() {
            if print.role == Role::Fixed {
                groups.remove(&links.root(position));
            }
        }
        self.without_idle(window, groups.into_values().collect())
    }

    /// Leaves out as many of the units as possible, largest runs first, while the rest stays illegal.
    fn without_idle<'h>(&mut self, mut window: Ops<'h, S>, mut units: Vec<Vec<OpId>>) -> Ops<'h, S> {
        let mut run = units.len().div_ceil(2);
        while run > 0 {
            let mut from = 0;
            while from < units.len() {
                let to = (from + run).min(units.len());
                let mut out: Vec<OpId> = units[from..to].iter().flatten().copied().collect();
                out.sort_unstable();
                let rest: Ops<'h, S> =
                    window.iter().filter(|op| out.binary_search(&op.id).is_err()).copied().collect();
                match self.is_illegal(rest.clone()) {
                    Some(true) => {
                        window = rest;
                        units.drain(from..to);
                    }
                    Some(false) => from = to,
                    None => return window,
                }
            }
            run = if run == 1 { 0 } else { run.div_ceil(2) };
        }
        window
    }

    /// Operations without any one of which the rest is legal. Leaving out a write alone proves nothing, but it
    /// points: where an append is missing from a list, that append and that list are the only culprits.
    fn culprits(&mut self, window: &[CaseOp<'_, S::Input, S::Output>]) -> Vec<OpId> {
        let mut culprits = Vec::new();
        for suspect in window {
            let rest = window.iter().filter(|op| op.id != suspect.id).copied().collect();
            match self.is_illegal(rest) {
                Some(true) => {}
                Some(false) => culprits.push(suspect.id),
                None => break,
            }
        }
        culprits
    }
}

/// Sets of operations that share values.
#[derive(Default)]
struct Links {
    first_with: BTreeMap<Atom, usize>,
    parents: BTreeMap<usize, usize>,
}

impl Links {
    fn root(&self, mut position: usize) -> usize {
        while let Some(parent) = self.parents.get(&position) {
            position = *parent;
        }
        position
    }

    fn link(&mut self, position: usize, atom: Atom) {
        let other = *self.first_with.entry(atom).or_insert(position);
        let (a, b) = (self.root(position), self.root(other));
        if a != b {
            self.parents.insert(a.max(b), a.min(b));
        }
    }
}
