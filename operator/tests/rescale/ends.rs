//! What must hold of whole worlds: that one owner writes, and that the end is reached.

use std::hash::{DefaultHasher, Hash, Hasher};

use turbine_crds::status::RescaleStep;

use crate::happens::{Checked, Happens};
use crate::world::{Operator, State, Up, first_layout};

impl Checked {
    /// Whether a world without further faults comes to rest where it should.
    pub(crate) fn ends(&self, state: &State) -> bool {
        let mut state = state.clone();
        state.operators = [Operator::Idle, Operator::Idle];
        state.former = None;
        for pod in state
            .pods
            .values_mut()
            .filter(|pod| pod.up == Up::Unreachable)
        {
            pod.up = Up::Answers;
        }
        let mut path = Vec::new();
        for _ in 0..200 {
            let mut hasher = DefaultHasher::new();
            state.hash(&mut hasher);
            let print = hasher.finish();
            if self.ends.lock().unwrap().contains(&print) {
                break;
            }
            path.push(print);
            if !self.round(&mut state) {
                if !self.rests(&state) {
                    return false;
                }
                break;
            }
        }
        if path.len() >= 200 {
            return false;
        }
        self.ends.lock().unwrap().extend(path);
        true
    }

    /// Everything that is due happens once; false if nothing was.
    fn round(&self, state: &mut State) -> bool {
        let before = state.clone();
        let pods: Vec<i32> = state.pods.keys().copied().collect();
        let mut all = vec![Happens::Late, Happens::CountSpreads, Happens::Controller];
        for pod in pods {
            all.extend([Happens::Follow(pod), Happens::Work(pod)]);
        }
        if self.scope.foreign.is_some() {
            all.push(Happens::Ask(0));
        }
        all.push(Happens::Look(0));
        all.extend([Happens::Act(0); 16]);
        for happens in all {
            if let Some(next) = self.after(state, happens) {
                *state = next;
            }
        }
        state.operators = [Operator::Idle, Operator::Idle];
        state.former = None;
        let waits = state
            .status
            .rescale
            .as_ref()
            .is_some_and(|plan| plan.step == RescaleStep::OldStateReleased);
        if *state == before && waits && !state.deleting {
            state.ticks += 1;
        }
        *state != before
    }

    /// The last spec is laid out and all its tasks run; or it is refused and those of the former do.
    fn rests(&self, state: &State) -> bool {
        if state.deleting {
            return true;
        }
        let scope = &self.scope;
        let layout = state
            .status
            .layout
            .as_deref()
            .map_or_else(|| first_layout(scope), Clone::clone);
        let over = state.status.rescale.as_ref().is_none_or(|plan| plan.over());
        let (partitions, replicas) = scope.edits[usize::from(state.edits)];
        let partitions = partitions.unwrap_or(state.topic.counts[0]);
        let laid = layout.subscriptions[0].partitions;
        let running: usize = state.pods.values().map(|pod| pod.tasks.len()).sum();
        let all_run = running == usize::try_from(laid).unwrap();
        let as_asked = laid == partitions && layout.replicas == replicas;
        let refused = state.misplaced
            || state.topic.counts[0] > partitions
            || (state.topic.foreign && ![laid, partitions].contains(&state.topic.counts[0]));
        all_run && ((over && (as_asked || refused)) || (refused && laid != partitions))
    }
}

/// Plans of one epoch are one plan; and no task of an older epoch that could still commit runs beside one of a newer.
pub(crate) fn one_owner(model: &Checked, state: &State) -> bool {
    let heard: Vec<_> = state
        .pods
        .values()
        .filter_map(|pod| pod.heard.as_deref())
        .chain(state.status.rescale.as_deref())
        .collect();
    let one_plan = heard.iter().all(|one| {
        heard.iter().all(|other| {
            one.epoch != other.epoch
                || (one.subscriptions[0].to, &one.subscriptions[0].pods)
                    == (other.subscriptions[0].to, &other.subscriptions[0].pods)
        })
    });
    let newest = state
        .pods
        .values()
        .filter(|pod| !pod.tasks.is_empty())
        .map(|pod| pod.epoch)
        .max()
        .unwrap_or_default();
    let fenced = state.pods.values().all(|pod| {
        pod.epoch == newest
            || pod.tasks.iter().all(|partition| {
                let receipt = state.receipts.get(partition);
                model.scope.exactly_once && receipt.is_some_and(|of| of.epoch > pod.epoch)
            })
    });
    let mut tasks: Vec<(i64, i32)> = state
        .pods
        .values()
        .flat_map(|pod| pod.tasks.iter().map(|partition| (pod.epoch, *partition)))
        .collect();
    let all = tasks.len();
    tasks.sort_unstable();
    tasks.dedup();
    one_plan && fenced && tasks.len() == all
}

/// What a worker heard under a number nobody knows otherwise.
pub(crate) fn one_record(_: &Checked, state: &State) -> bool {
    let heard: Vec<_> = state
        .pods
        .values()
        .filter_map(|pod| pod.heard.as_deref())
        .collect();
    heard.iter().all(|one| {
        heard
            .iter()
            .all(|other| one.number() != other.number() || one == other)
    })
}
