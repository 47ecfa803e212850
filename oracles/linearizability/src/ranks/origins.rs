//! Origins: which operation left what another one saw.
//!
//! A *node* is a state that some operation left; it is named by that operation ([`Origins::beginning`] is the state
//! before all). An operation is *in play* if it certainly took effect: it was answered, or somebody saw what it
//! left. All other unknown operations are forgotten, which is sound because nobody's answer needs them.
//!
//! ```text
//!   longest list seen   [ 5 , 6 , 7 ]        of every first element there is one longest list, and all
//!   left by              put  append append   others that begin so must be its prefixes
//! ```
//!
//! Invariants: everything found here to be illegal is so because of values with one writer each.
//! Not here: the order of time, which this file does not look at but for deletes.

use super::{Ops, Stop, Why, illegal};
use crate::intern::Interner;
use crate::schedule::NONE;
use crate::spec::{Shape, Whole};

const NUMBER: u32 = 0;
const ELEMENT: u32 = 1;

/// The parent of a node that was stored whatever was there.
pub const ANYTHING: u32 = u32::MAX - 1;

struct Longest<'h> {
    /// Who saw it.
    op: u32,
    list: &'h [u64],
    /// Where its part of `prefixes` begins.
    begins: u32,
}

pub struct Origins<'o, 'h> {
    ops: &'o Ops<'h>,
    pub first: Whole<'static>,
    values: Interner<(u32, u64)>,
    /// By value: the operation that writes it.
    writers: Vec<u32>,
    /// By value: whether several operations write it.
    repeated: Vec<bool>,
    /// By operation: the node that it read, or [`NONE`].
    pub read: Vec<u32>,
    /// By operation: the node that it built on, [`ANYTHING`], or [`NONE`] if it left no node or is not in play.
    pub parent: Vec<u32>,
    /// By operation: one that shows that it happened, and, of an append, where.
    witness: Vec<u32>,
    /// Of all lists that begin with the same element: the longest that was seen.
    longest: Vec<Longest<'h>>,
    /// By element: the longest list that has it, by position in `longest`.
    list_of: Vec<u32>,
    /// Of all longest lists, one after the other: who left the prefix that ends with each element, or [`NONE`].
    prefixes: Vec<u32>,
    numbers_seen: Vec<(u32, u64)>,
    lists_seen: Vec<(u32, &'h [u64])>,
    /// The last return of an operation that saw nothing there.
    absent_until: Option<u32>,
    /// An operation that saw an empty list, which nobody stored.
    empty_seen: u32,
    first_delete: u32,
}

impl<'o, 'h> Origins<'o, 'h> {
    pub fn new(ops: &'o Ops<'h>, first: Whole<'static>) -> Self {
        let n = ops.len() as usize;
        Origins {
            ops,
            first,
            values: Interner::with_capacity(n),
            writers: Vec::with_capacity(n),
            repeated: Vec::with_capacity(n),
            read: vec![NONE; n],
            parent: vec![NONE; n],
            witness: vec![NONE; n],
            longest: Vec::new(),
            list_of: Vec::new(),
            prefixes: Vec::new(),
            numbers_seen: Vec::with_capacity(n),
            lists_seen: Vec::new(),
            absent_until: None,
            empty_seen: NONE,
            first_delete: NONE,
        }
    }

    /// The node before all operations.
    pub fn beginning(&self) -> u32 {
        self.ops.len()
    }

    /// Finds all origins.
    pub fn find(&mut self) -> Result<(), Stop> {
        self.collect()?;
        self.find_numbers()?;
        let lists = std::mem::take(&mut self.lists_seen);
        let which = self.lay_lists(&lists)?;
        self.find_numbers()?;
        if self.empty_seen != NONE {
            return illegal(&[self.empty_seen], Why::NeverWritten);
        }
        if !self.lists_seen.is_empty() {
            // An unknown swap from a list is needed for another list: rare, and circular here.
            return Err(Stop::Unsure);
        }
        for ((op, list), which) in lists.iter().zip(which) {
            let node = self.node_of(*op, list, which)?;
            self.links(*op, node);
        }
        // Tombstones read alike, so nobody may have seen absence once one could be there.
        match self.absent_until {
            Some(until) if until > self.first_delete => Err(Stop::Unsure),
            _ => Ok(()),
        }
    }

    /// Who writes what, and what those saw that were answered.
    fn collect(&mut self) -> Result<(), Stop> {
        for op in 0..self.ops.len() {
            let known = !self.ops.is_unknown(op);
            match self.ops.shapes[op as usize] {
                Shape::Read(seen) => self.sees(op, seen)?,
                Shape::Store(value) => {
                    self.writes(op, value)?;
                    if known {
                        self.parent[op as usize] = ANYTHING;
                    }
                }
                Shape::Swap(from, to) => {
                    self.writes(op, to)?;
                    if known {
                        self.sees(op, from)?;
                    }
                }
                Shape::Append(element) => {
                    self.write(op, (ELEMENT, element));
                    if known {
                        // Until somebody is found who saw it.
                        self.parent[op as usize] = ANYTHING;
                    }
                }
                Shape::Never => return illegal(&[op], Why::WrongAnswer),
                Shape::Missed(_) | Shape::MetNumber | Shape::Idle | Shape::Other => {}
            }
        }
        Ok(())
    }

    fn writes(&mut self, op: u32, value: Whole<'h>) -> Result<(), Stop> {
        match value {
            Whole::Number(number) => self.write(op, (NUMBER, number)),
            // It grows into the same lists as absence does.
            Whole::List([]) => return Err(Stop::Unsure),
            Whole::List(list) => list.iter().for_each(|element| self.write(op, (ELEMENT, *element))),
            Whole::Absent => {
                self.first_delete = self.first_delete.min(self.ops.invoked[op as usize]);
            }
        }
        Ok(())
    }

    fn write(&mut self, op: u32, value: (u32, u64)) {
        let id = self.values.intern(value) as usize;
        if id == self.writers.len() {
            self.writers.push(op);
            self.repeated.push(false);
        } else {
            self.repeated[id] = true;
        }
    }

    /// Notes what an operation in play saw.
    fn sees(&mut self, op: u32, seen: Whole<'h>) -> Result<(), Stop> {
        match seen {
            Whole::Number(number) => self.numbers_seen.push((op, number)),
            Whole::List([]) => self.empty_seen = self.empty_seen.min(op),
            Whole::List(list) => self.lists_seen.push((op, list)),
            Whole::Absent if self.first == Whole::Absent => {
                self.saw_absence(op);
                self.links(op, self.beginning());
            }
            Whole::Absent => return Err(Stop::Unsure),
        }
        Ok(())
    }

    fn saw_absence(&mut self, op: u32) {
        self.absent_until = self.absent_until.max(Some(self.ops.returned[op as usize]));
    }

    /// Notes the node that an operation saw.
    fn links(&mut self, op: u32, node: u32) {
        match self.ops.shapes[op as usize] {
            Shape::Swap(..) => self.parent[op as usize] = node,
            _ => self.read[op as usize] = node,
        }
    }

    fn find_numbers(&mut self) -> Result<(), Stop> {
        let mut next = 0;
        while let Some(&(op, number)) = self.numbers_seen.get(next) {
            next += 1;
            let is_first = self.first == Whole::Number(number);
            let node = match self.values.get(&(NUMBER, number)) {
                None if is_first => self.beginning(),
                None => return illegal(&[op], Why::NeverWritten),
                Some(_) if is_first => return Err(Stop::Unsure),
                Some(value) => self.writer(value)?,
            };
            if node != self.beginning() {
                self.needs(node, op)?;
            }
            self.links(op, node);
        }
        self.numbers_seen.clear();
        Ok(())
    }

    fn writer(&self, value: u32) -> Result<u32, Stop> {
        if self.repeated[value as usize] { Err(Stop::Unsure) } else { Ok(self.writers[value as usize]) }
    }

    /// Puts the writer of something seen into play.
    fn needs(&mut self, writer: u32, because_of: u32) -> Result<(), Stop> {
        if !self.ops.is_unknown(writer) || self.witness[writer as usize] != NONE {
            return Ok(());
        }
        self.witness[writer as usize] = because_of;
        match self.ops.shapes[writer as usize] {
            Shape::Swap(from, _) => self.sees(writer, from)?,
            Shape::Store(_) => self.parent[writer as usize] = ANYTHING,
            // Where it was appended is found with the list.
            _ => {}
        }
        Ok(())
    }

    /// Lays down the longest lists; says of every list which of those it must be a prefix of.
    fn lay_lists(&mut self, lists: &[(u32, &'h [u64])]) -> Result<Vec<u32>, Stop> {
        // By the value of the first element.
        let mut index = vec![NONE; self.writers.len()];
        let mut which = Vec::with_capacity(lists.len());
        for (op, list) in lists {
            let Some(begin) = self.values.get(&(ELEMENT, list[0])) else {
                return illegal(&[*op], Why::NeverWritten);
            };
            let at = &mut index[begin as usize];
            if *at == NONE {
                *at = self.longest.len() as u32;
                self.longest.push(Longest { op: *op, list, begins: 0 });
            }
            let longest = &mut self.longest[*at as usize];
            if longest.list.len() < list.len() {
                (longest.op, longest.list) = (*op, list);
            }
            which.push(*at);
        }
        self.list_of = vec![NONE; self.writers.len()];
        for at in 0..self.longest.len() {
            self.longest[at].begins = self.prefixes.len() as u32;
            self.lay(at as u32, self.longest[at].op, self.longest[at].list)?;
        }
        Ok(which)
    }

    /// Finds who left every prefix of a list that `op` saw.
    fn lay(&mut self, at: u32, op: u32, list: &'h [u64]) -> Result<(), Stop> {
        let mut ids = Vec::with_capacity(list.len());
        for element in list {
            let Some(id) = self.values.get(&(ELEMENT, *element)) else {
                return illegal(&[op], Why::NeverWritten);
            };
            self.writer(id)?;
            ids.push(id as usize);
        }
        for id in &ids {
            let other = std::mem::replace(&mut self.list_of[*id], at);
            if other == at {
                return illegal(&[op, self.writers[*id]], Why::Twice);
            }
            if other != NONE {
                // In two lists that began differently.
                return illegal(&[op, self.longest[other as usize].op, self.writers[*id]], Why::TwoLists);
            }
        }
        let mut node = self.beginning();
        let mut length = 0;
        while length < list.len() {
            let writer = self.writers[ids[length]];
            self.needs(writer, op)?;
            match self.ops.shapes[writer as usize] {
                Shape::Append(_) => {
                    if length == 0 {
                        self.saw_absence(writer);
                    }
                    self.parent[writer as usize] = node;
                    self.witness[writer as usize] = op;
                    length += 1;
                }
                Shape::Store(Whole::List(stored)) | Shape::Swap(_, Whole::List(stored))
                    if length == 0 && list.starts_with(stored) =>
                {
                    length = stored.len();
                    // What is shorter was never there.
                    self.prefixes.resize(self.prefixes.len() + length - 1, NONE);
                }
                // What was stored as one list shows up inside another.
                _ => return illegal(&[op, writer], Why::PartOfAList),
            }
            self.prefixes.push(writer);
            node = writer;
        }
        Ok(())
    }

    /// The node of a list that `op` saw.
    fn node_of(&self, op: u32, list: &[u64], which: u32) -> Result<u32, Stop> {
        let longest = &self.longest[which as usize];
        if !longest.list.starts_with(list) {
            return illegal(&[op, longest.op], Why::TwoLists);
        }
        let prefixes = &self.prefixes[longest.begins as usize..];
        match prefixes[list.len() - 1] {
            NONE => {
                // A part of what was stored at once was never there.
                let whole = prefixes.iter().copied().find(|writer| *writer != NONE);
                illegal(&[op, whole.expect("a longest list ends with what somebody left")], Why::PartOfAList)
            }
            writer => Ok(writer),
        }
    }

    /// These operations with all that show where the values that they saw came from, and that they happened.
    pub fn with_sources(&self, culprits: &[u32]) -> Vec<u32> {
        let mut is_in = vec![false; self.ops.len() as usize];
        let mut all = Vec::new();
        let mut add = |op: u32, all: &mut Vec<u32>| {
            if op != NONE && !std::mem::replace(&mut is_in[op as usize], true) {
                all.push(op);
            }
        };
        culprits.iter().for_each(|op| add(*op, &mut all));
        let mut next = 0;
        while let Some(&op) = all.get(next) {
            next += 1;
            add(self.witness[op as usize], &mut all);
            let (Shape::Read(seen) | Shape::Swap(seen, _)) = self.ops.shapes[op as usize] else { continue };
            let (kind, values) = match &seen {
                Whole::Absent => continue,
                Whole::Number(number) => (NUMBER, std::slice::from_ref(number)),
                Whole::List(list) => (ELEMENT, *list),
            };
            for value in values {
                if let Some(id) = self.values.get(&(kind, *value)) {
                    add(self.writers[id as usize], &mut all);
                }
            }
        }
        all.sort_unstable();
        all
    }
}
