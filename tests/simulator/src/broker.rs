//! The broker's side of commits, and what each broker believes the count to be.

use std::collections::BTreeMap;

use crate::store::Delta;

/// A commit on its way to the coordinator.
#[derive(Debug)]
pub(crate) struct Commit {
    pub(crate) id: u32,
    pub(crate) fence: u64,
    pub(crate) offset: i64,
    pub(crate) receipt: String,
    pub(crate) delta: Delta,
}

#[derive(Debug, Default, Clone)]
struct Id {
    fence: u64,
    committed: Option<(i64, String)>,
}

/// How a commit that was sent came out, as far as its sender knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    Pending,
    Committed,
    Fenced,
}

#[derive(Debug, Default)]
pub(crate) struct Coordinator {
    ids: BTreeMap<u32, Id>,
    flying: Vec<(i64, u64, Commit)>,
    answers: BTreeMap<u64, Answer>,
    next: u64,
    /// What readers of the output see, in the order of commits.
    pub(crate) outputs: Vec<(u32, Delta)>,
}

impl Coordinator {
    /// Takes a transactional id: whoever had it is fenced.
    pub(crate) fn init(&mut self, id: u32) -> u64 {
        let id = self.ids.entry(id).or_default();
        id.fence += 1;
        id.fence
    }

    pub(crate) fn committed(&self, id: u32) -> Option<(i64, String)> {
        self.ids.get(&id)?.committed.clone()
    }

    pub(crate) fn send(&mut self, lands: i64, commit: Commit) -> u64 {
        self.next += 1;
        self.flying.push((lands, self.next, commit));
        self.answers.insert(self.next, Answer::Pending);
        self.next
    }

    pub(crate) fn answer(&self, sent: u64) -> Answer {
        self.answers[&sent]
    }

    pub(crate) fn tick(&mut self, now: i64) {
        for (_, sent, commit) in self.flying.extract_if(.., |(at, ..)| *at <= now) {
            let id = self.ids.entry(commit.id).or_default();
            let answer = if id.fence == commit.fence {
                id.committed = Some((commit.offset, commit.receipt));
                self.outputs.push((commit.id, commit.delta));
                Answer::Committed
            } else {
                Answer::Fenced
            };
            self.answers.insert(sent, answer);
        }
    }
}

/// What the brokers answer when asked for the count.
#[derive(Debug)]
pub(crate) struct Metadata {
    views: Vec<Vec<(i64, u32)>>,
}

impl Metadata {
    pub(crate) fn new(count: u32) -> Self {
        Self {
            views: vec![vec![(0, count)]; 3],
        }
    }

    pub(crate) fn brokers(&self) -> usize {
        self.views.len()
    }

    pub(crate) fn learn(&mut self, broker: usize, at: i64, count: u32) {
        self.views[broker].push((at, count));
    }

    pub(crate) fn count(&self, broker: usize, now: i64) -> u32 {
        self.views[broker]
            .iter()
            .filter(|(at, _)| *at <= now)
            .map(|(_, count)| *count)
            .max()
            .unwrap()
    }
}
