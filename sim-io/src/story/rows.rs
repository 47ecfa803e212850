//! Rows: deeds that are told in one line.
//!
//!   sending, and its receipt where nothing comes between them at the receiver ──► one row with an arrow
//!   the same message to several, one after the other                          ──► one row with several arrows
//!
//! Invariant: at each node, rows are in the order in which things happened there.

use std::collections::{BTreeMap, BTreeSet};

use sim_runtime::NodeId;

use super::deeds::{Deed, Deeds, Passage};
use super::devices::millis;

/// One line of an account.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Row {
    /// The first record of it.
    pub ordinal: u64,
    pub time_ns: u64,
    /// Who acts.
    pub node: NodeId,
    pub mark: char,
    /// Arrows: the other end, and whether it is where the arrow points.
    pub arrows: Vec<(NodeId, bool)>,
    pub struck: Vec<NodeId>,
    /// Other nodes that do the same at the same instant.
    pub also: Vec<NodeId>,
    pub text: String,
    /// How lines of nodes are drawn from this row on.
    pub line: Option<char>,
    /// The text of a message, when it may be joined by the same to somebody else.
    body: Option<String>,
    /// Notes of receipts.
    notes: Vec<String>,
}

/// A message that takes longer than this has its time told.
const SLOW_NS: u64 = 10_000_000;

/// Puts the deeds that are shown into rows.
pub(super) fn arrange(deeds: &Deeds, shown: &BTreeSet<u64>, each_record: bool) -> Vec<Row> {
    let at_node = by_node(deeds, shown);
    let mut rows: Vec<Row> = Vec::new();
    // Receipts that were told with their sending.
    let mut told = BTreeSet::new();
    for &ordinal in shown {
        if told.contains(&ordinal) {
            continue;
        }
        let deed = &deeds[ordinal];
        let row = match &deed.passage {
            Passage::None => plain(ordinal, deed),
            Passage::Received { from, sent, alone } => {
                received(deeds, ordinal, deed, *from, sent.filter(|_| *alone))
            }
            Passage::Sent { to, arrivals, lost } => {
                let arrival = arrivals.iter().find(|arrival| shown.contains(arrival)).copied();
                let together = arrival.filter(|arrival| {
                    !each_record && at_once(&at_node[&deeds[*arrival].node], ordinal, *arrival, &told)
                });
                told.extend(together);
                sent(deeds, ordinal, deed, *to, (together, arrival.is_some()), *lost)
            }
        };
        match rows.last_mut() {
            Some(last) if !each_record && last.takes(&row) => last.join(row),
            _ => rows.push(row),
        }
    }
    rows.iter_mut().for_each(|row| row.finish(deeds));
    rows
}

/// The deeds shown of each node, in order.
fn by_node(deeds: &Deeds, shown: &BTreeSet<u64>) -> BTreeMap<NodeId, Vec<u64>> {
    let mut at_node: BTreeMap<NodeId, Vec<u64>> = BTreeMap::new();
    for ordinal in shown {
        at_node.entry(deeds[*ordinal].node).or_default().push(*ordinal);
    }
    at_node
}

/// Whether nothing comes between a sending and its receipt at the receiver.
fn at_once(receivers: &[u64], sent: u64, arrival: u64, told: &BTreeSet<u64>) -> bool {
    !receivers.iter().any(|deed| (sent + 1..arrival).contains(deed) && !told.contains(deed))
}

fn plain(ordinal: u64, deed: &Deed) -> Row {
    Row {
        ordinal,
        time_ns: deed.time_ns,
        node: deed.node,
        mark: deed.told.mark,
        arrows: Vec::new(),
        struck: deed.told.struck.clone(),
        also: Vec::new(),
        text: deed.told.text.clone(),
        line: deed.told.line,
        body: None,
        notes: Vec::new(),
    }
}

fn sent(
    deeds: &Deeds,
    ordinal: u64,
    deed: &Deed,
    to: NodeId,
    (together, arrives): (Option<u64>, bool),
    lost: Option<&str>,
) -> Row {
    let mut notes = Vec::new();
    match together.map(|arrival| &deeds[arrival]) {
        Some(arrival) => {
            let took_ns = arrival.time_ns - deed.time_ns;
            if took_ns > SLOW_NS {
                notes.push(format!("arrives at {}", millis(arrival.time_ns)));
            }
            notes.extend(Some(arrival.told.note.clone()).filter(|note| !note.is_empty()));
        }
        None if arrives => notes.push("on its way".to_owned()),
        None => notes.extend(lost.map(str::to_owned)),
    }
    Row {
        mark: 'o',
        arrows: vec![(to, true)],
        body: Some(deed.told.text.clone()),
        notes,
        ..plain(ordinal, deed)
    }
}

fn received(deeds: &Deeds, ordinal: u64, deed: &Deed, from: NodeId, sent: Option<u64>) -> Row {
    let (from_name, name) = (deeds.name(from), deeds.name(deed.node));
    let when =
        sent.map_or_else(String::new, |sent| format!(", sent at {} (#{sent})", millis(deeds[sent].time_ns)));
    let note = if deed.told.note.is_empty() { String::new() } else { format!(" [{}]", deed.told.note) };
    let text = format!("{name} receives from {from_name}: {}{note}{when}", deed.told.text);
    Row { text, arrows: vec![(from, false)], ..plain(ordinal, deed) }
}

impl Row {
    /// Whether `next` says the same to somebody else, or the same happens to another node at that instant.
    fn takes(&self, next: &Self) -> bool {
        if self.body.is_none() {
            let is_alike = (self.time_ns, self.mark, self.line) == (next.time_ns, next.mark, next.line);
            return is_alike && self.line.is_some() && next.body.is_none() && self.text == next.text;
        }
        self.node == next.node && self.body == next.body && self.notes == next.notes
    }

    fn join(&mut self, next: Self) {
        if self.body.is_none() {
            self.also.push(next.node);
        }
        self.arrows.extend(next.arrows);
        self.arrows.sort_unstable();
        self.arrows.dedup();
    }

    /// Puts the text of a message together.
    fn finish(&mut self, deeds: &Deeds) {
        let Some(body) = self.body.take() else {
            if self.arrows.is_empty() {
                let nodes = [self.node].into_iter().chain(self.also.iter().copied());
                let who: String =
                    nodes.filter(|node| *node != NodeId::HOST).map(|node| deeds.name(node) + " ").collect();
                let struck: Vec<String> = self.struck.iter().map(|node| deeds.name(*node)).collect();
                let of = if struck.is_empty() { String::new() } else { format!(" of {}", struck.join(" ")) };
                self.text = format!("{who}{}{of}", self.text);
            }
            return;
        };
        let to: Vec<String> = self.arrows.iter().map(|(to, _)| deeds.name(*to)).collect();
        let notes: String = self.notes.iter().map(|note| format!(" [{note}]")).collect();
        self.text = format!("{}→{} {body}{notes}", deeds.name(self.node), to.join(","));
    }
}
