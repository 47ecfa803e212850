//! Logs: entries that enter a log, leave it, are committed and applied.

use oracles::records::{Applied, Executed};
use raft_async::trace as raft;
use sim_io::story::{Told, Weight};
use sim_runtime::trace::Record;

use super::facts::{Applies, Claims, Logged};
use super::shadow::{Held, ways};
use super::teller::{Teller, detail};
use super::words;

impl Teller {
    pub(super) fn of_logs(&mut self, at: u64, record: &Record) -> Option<Told> {
        let node = u64::from(record.node.0);
        if let Some(raft::EntryAppended { index, term, digest }) = record.get() {
            Some(self.appends(at, record, index, (term, digest)))
        } else if let Some(raft::EntryWritten { index, term, file, .. }) = record.get() {
            self.server(node).written(index, file);
            detail(format!("writes entry {index}/{term}"))
        } else if let Some(raft::LogTruncated { from, .. }) = record.get() {
            let prefix_log = self.log_of(node, from.saturating_sub(1));
            let server = self.server(node);
            let lost = server.cut(from);
            let append = server.append;
            let prefix =
                prefix_log.iter().fold(0, |log, (term, digest)| raft::extend_log_digest(log, *term, *digest));
            for (index, held) in (from..).zip(&lost) {
                let Held { term, digest, .. } = *held;
                self.facts.dropped.push(Logged { node: record.node.0, index, term, digest, prefix, at });
            }
            let entries = (from..).zip(&lost).map(|(index, held)| self.entry(index, held.term, held.digest));
            let text = format!("cuts off its log from {from} on: {}", few(entries));
            Some(Told::new(Weight::Cause, text).after(ways(append)))
        } else if let Some(raft::CommitAdvanced { index, term, entry_term }) = record.get() {
            Some(self.commits(at, record, index, term, entry_term))
        } else if let Some(Applied { index, term, digest, reply, .. }) = record.get() {
            let text = format!("applies {}", self.entry(index, term, digest));
            self.facts.applies.push(Applies { node: record.node.0, index, term, digest, reply, at });
            let log = self.log_of(node, index);
            let server = self.server(node);
            let appended = server.held(index).and_then(|held| held.appended);
            let causes = [server.commit_of(index), appended];
            if log.len() as u64 == index {
                let term = server.term;
                self.facts.claims.push(Claims { node: record.node.0, term, at, log });
            }
            Some(Told::new(Weight::Cause, text).after(causes.into_iter().flatten()))
        } else {
            let Executed { session, sequence, index } = record.get()?;
            let call = (session, sequence);
            let before = self.facts.executes.iter().filter(|(n, life, known, ..)| {
                (*n, *life, *known) == (record.node.0, record.incarnation, call)
            });
            let again =
                before.map(|(.., index, _)| format!("; it did so for entry {index} before")).next_back();
            self.facts.executes.push((record.node.0, record.incarnation, call, index, at));
            let text = format!(
                "carries out {} for entry {index}{}",
                self.facts.call(call),
                again.unwrap_or_default()
            );
            let appended = self.server(node).held(index).and_then(|held| held.appended);
            let commit = self.server(node).commit_of(index);
            Some(Told::new(Weight::Cause, text).after(appended.into_iter().chain(commit)))
        }
    }

    fn entry(&self, index: u64, term: u64, digest: u64) -> String {
        format!("{} {}", words::entry(index, term), self.facts.command(digest))
    }

    fn appends(&mut self, at: u64, record: &Record, index: u64, (term, digest): (u64, u64)) -> Told {
        let node = u64::from(record.node.0);
        let is_own = self.server(node).leads;
        let call = self.facts.commands.get(&digest).map(|(_, call)| *call);
        let leaders = if is_own { None } else { self.origin(index, term, digest) };
        let server = self.server(node);
        let request = call.and_then(|call| server.requests.get(&call)).map(|request| request.received);
        let causes: Vec<u64> = match (is_own, request) {
            (true, Some(request)) => ways(Some(request)).collect(),
            (true, None) => server.leader.into_iter().collect(),
            (false, _) => ways(server.append).collect(),
        };
        server.append(index, Held { term, digest, appended: Some(at), synced: None });
        let log = self.log_of(node, index);
        let prefix = log.iter().fold(0, |log, (term, digest)| raft::extend_log_digest(log, *term, *digest));
        self.facts.appended.push(Logged { node: record.node.0, index, term, digest, prefix, at });
        // What was committed before it got there is taken for committed now.
        let (commit, own_term) = (self.server(node).commit, self.server(node).term);
        if index <= commit {
            self.facts.claims.push(Claims { node: record.node.0, term: own_term, at, log });
        }
        let text = format!("appends {} to its log", self.entry(index, term, digest));
        Told::new(Weight::Cause, text).after(causes.into_iter().chain(leaders))
    }

    /// Where an entry entered a log first.
    fn origin(&self, index: u64, term: u64, digest: u64) -> Option<u64> {
        let same = |logged: &&Logged| (logged.index, logged.term, logged.digest) == (index, term, digest);
        self.facts.appended.iter().find(same).map(|logged| logged.at)
    }

    fn commits(&mut self, at: u64, record: &Record, index: u64, term: u64, entry_term: u64) -> Told {
        let node = u64::from(record.node.0);
        let log = self.log_of(node, index);
        if log.len() as u64 == index {
            self.facts.claims.push(Claims { node: record.node.0, term, at, log });
        }
        // Of a follower: the leader's commit that it was told of.
        let others = self.nodes.iter().filter(|(other, _)| **other != node);
        let told_by = others.filter_map(|(_, server)| server.commit_of(index)).min();
        let server = self.server(node);
        server.commit = index;
        server.commits.push((index, at));
        let what = if entry_term == 0 {
            format!("{index} (which is not in its log)")
        } else {
            words::entry(index, entry_term)
        };
        let told = if server.leads {
            let vouching = server.vouching(index);
            let names: Vec<String> = [node]
                .into_iter()
                .chain(vouching.iter().map(|(follower, _)| *follower))
                .map(|n| format!("n{n}"))
                .collect();
            let text =
                format!("takes all up to {what} for committed in term {term}: it is on {}", names.join(" "));
            Told::new(Weight::Cause, text).after(ways(vouching.into_iter().map(|(_, way)| way)))
        } else {
            let text = format!("takes all up to {what} for committed in term {term}");
            Told::new(Weight::Cause, text).after(ways(server.append).chain(told_by))
        };
        told.counted("commits")
    }
}

/// The first of them, and how many more.
fn few(names: impl Iterator<Item = String>) -> String {
    let mut names: Vec<String> = names.collect();
    let more = names.len().saturating_sub(4);
    names.truncate(4);
    if more > 0 {
        names.push(format!("and {more} more"));
    }
    names.join(", ")
}
