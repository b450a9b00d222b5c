//! What holds in every world.

use stateright::Property;
use turbine_protocol::start::Guarantee;

use crate::checked::Scope;
use crate::volume::{Files, Volume, state_of_first};
use crate::world::{MAIN, Node, Phase, Recovery, Step, World};

pub(crate) const STATE_IS_ITS_POSITION: &str =
    "state is what a fold of the records before its position gives, running or after any crash";
pub(crate) const NOTHING_MISSING: &str = "the journal has everything that the store's files lack";
pub(crate) const REFUSED_FOR_CAUSE: &str = "a task refuses to start only where something was lost";
pub(crate) const COMES_TO_AN_END: &str = "once faults stop, everything is committed";
pub(crate) const OUTPUTS_ONCE: &str =
    "every record is in the committed outputs once, in order, up to the committed offset";
pub(crate) const BROKER_DECIDES: &str = "a life goes on with exactly what the broker has committed";
pub(crate) const STATE_IS_THE_COMMITTED: &str =
    "the life that may write has folded nothing twice or past what was committed";
pub(crate) const OUTPUTS_BEFORE_STATE: &str = "state that is durable has its outputs";
pub(crate) const OFFSET_AFTER_STATE: &str =
    "the group's offset never runs ahead of the durable state";
pub(crate) const GAP_BOUNDED: &str = "nobody goes on over a gap that is larger than was allowed";
pub(crate) const OVERTAKEN_STOPS: &str =
    "a process that finds itself overtaken does not take its task back";

pub(crate) fn all(guarantee: Guarantee) -> Vec<Property<Scope>> {
    let mut all = vec![
        Property::always(STATE_IS_ITS_POSITION, state_is_its_position),
        Property::always(NOTHING_MISSING, nothing_missing),
        Property::always(REFUSED_FOR_CAUSE, Scope::refusals_have_a_cause),
        Property::always(COMES_TO_AN_END, Scope::ends),
        Property::sometimes("everything is committed", |scope: &Scope, world: &World| {
            world.broker.truth == scope.records
        }),
    ];
    all.extend(match guarantee {
        Guarantee::ExactlyOnce => vec![
            Property::always(OUTPUTS_ONCE, |_: &Scope, world: &World| {
                world.outputs_are_the_first(world.broker.truth)
            }),
            Property::always(BROKER_DECIDES, |_: &Scope, world: &World| !world.disagreed),
            Property::always(STATE_IS_THE_COMMITTED, state_is_the_committed),
            Property::always(GAP_BOUNDED, |scope: &Scope, world: &World| {
                let within = |gap| scope.bound.is_none_or(|bound| gap <= bound);
                recovering(world).all(|(_, recovery)| within(recovery.older.gap()))
            }),
            Property::always(OVERTAKEN_STOPS, |_: &Scope, world: &World| {
                recovering(world).all(|(node, _)| !node.has_run)
            }),
        ],
        Guarantee::AtLeastOnce => vec![
            Property::always(OUTPUTS_BEFORE_STATE, outputs_before_state),
            Property::always(OFFSET_AFTER_STATE, offset_after_state),
            Property::sometimes("a task is started again", |_: &Scope, world: &World| {
                world.starts > 1
            }),
        ],
    });
    all
}

fn is_folded(files: Files) -> bool {
    files.is_folded()
}

fn volumes(world: &World) -> impl Iterator<Item = &Volume> {
    let nodes = world.nodes.iter().flatten();
    nodes.filter_map(|node| node.volume.as_ref())
}

fn recovering(world: &World) -> impl Iterator<Item = (&Node, &Recovery)> {
    let nodes = world.nodes.iter().flatten();
    nodes.filter_map(|node| match &node.phase {
        Phase::Recovering(recovery) => Some((node, recovery)),
        _ => None,
    })
}

fn state_is_its_position(_: &Scope, world: &World) -> bool {
    let nodes = world.nodes.iter().flatten();
    let running = nodes.filter_map(|node| match &node.phase {
        Phase::Running(run) | Phase::Cancelling(run) => Some(run),
        _ => None,
    });
    let live = running.into_iter().all(|run| {
        is_folded(run.done) && run.live == state_of_first(run.position, run.done.missing)
    });
    let again = world.nodes.iter().flatten().all(|node| match &node.phase {
        Phase::Recovering(recovery) => is_folded(recovery.files),
        _ => true,
    });
    live && again
        && volumes(world).all(|volume| {
            [volume.found(false), volume.worst().found(false)]
                .into_iter()
                .flatten()
                .all(|found| {
                    let mut with_prepared = found.files;
                    if let Some(prepared) = &found.prepared {
                        with_prepared.absorb(prepared);
                    }
                    is_folded(found.files) && is_folded(with_prepared)
                })
        })
}

fn nothing_missing(_: &Scope, world: &World) -> bool {
    volumes(world).all(|volume| volume.found(false).is_ok() && volume.worst().found(false).is_ok())
}

/// What the newest life holds before it commits is what was committed; from then on it is what was committed with it.
fn state_is_the_committed(_: &Scope, world: &World) -> bool {
    use turbine_protocol::transaction::TransactionStep as T;
    let Some(run) = world.run(MAIN) else {
        return true;
    };
    let truth = world.broker.truth;
    if !world.broker.hears(run.fence) {
        return true;
    }
    match run.step {
        Step::Transaction(T::Open | T::Prepared | T::OffsetSent) => {
            truth == run.done.reach.position
        }
        Step::Transaction(T::Committing) => {
            truth == run.done.reach.position || truth == run.position
        }
        Step::Transaction(T::Committed) => truth == run.position,
        Step::Transaction(T::Done | T::Abandoned) | Step::Commit(_) => true,
    }
}

fn outputs_before_state(_: &Scope, world: &World) -> bool {
    volumes(world).all(|volume| {
        volume.found(false).is_ok_and(|found| {
            let needed: u16 = (0..found.files.reach.position)
                .map(|record| 1 << record)
                .sum();
            world.broker.seen & needed == needed
        })
    })
}

/// Of one life after another; a second one that runs beside has no volume in common with it.
fn offset_after_state(_: &Scope, world: &World) -> bool {
    let [Some(task), None] = &world.nodes else {
        return true;
    };
    let (Some(volume), Some(committed)) = (&task.volume, world.broker.committed) else {
        return true;
    };
    world.harm.is_some()
        || volume
            .worst()
            .found(false)
            .is_ok_and(|found| committed.offset <= crate::world::at(found.files.reach.position))
}
