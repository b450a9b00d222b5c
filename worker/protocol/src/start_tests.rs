use rstest::rstest;
use turbine_keygroups::{Partition, RawPartitionCount};
use uuid::Uuid;

use super::*;
use crate::entry::{EntryChecksum, Frontier};
use crate::epochs::StoreEpoch;
use crate::fault::Fault;
use crate::layout::Task;
use crate::receipt::{HandedOut, Retrace};

const OURS: u128 = 1;
const THEIRS: u128 = 2;

fn at(offset: i64) -> Offset {
    offset.try_into().unwrap()
}

fn identity(app: &str, lineage: u128, epoch: i64) -> StoreIdentity {
    StoreIdentity::new(
        app.parse().unwrap(),
        Lineage::new(Uuid::from_u128(lineage)),
        &Task {
            subscription: "s".parse().unwrap(),
            partition: Partition::try_from(3).unwrap(),
        },
        StoreEpoch::try_from(epoch).unwrap(),
        RawPartitionCount::try_from(12).unwrap(),
        "user".to_owned(),
    )
}

fn store(number: i64, position: i64) -> StoreEvidence {
    StoreEvidence::Present(StoreProgress {
        identity: identity("a", OURS, 1),
        number: number.try_into().unwrap(),
        checksum: EntryChecksum(u32::try_from(number).unwrap()),
        position: at(position),
        by_transaction: false,
        cleanly_stopped: false,
        history: Some(History(8)),
        prepared: None,
    })
}

fn receipt(lineage: u128, epoch: i64, number: i64) -> Receipt {
    Receipt {
        lineage: Lineage::new(Uuid::from_u128(lineage)),
        store_epoch: epoch.try_into().unwrap(),
        number: number.try_into().unwrap(),
        checksum: EntryChecksum(u32::try_from(number).unwrap()),
        frontier: Frontier(None),
        retrace: Some(Retrace {
            history: History(8),
            rows: 70,
            closed: HandedOut::All,
        }),
    }
}

fn committed(offset: i64, receipt: Receipt) -> BrokerEvidence {
    BrokerEvidence::of(Some((at(offset), &receipt.to_string())))
}

const STOP: Recovery = Recovery {
    policy: OnCrashRecovery::Stop,
    halt_if_gap_exceeds: None,
    deterministic: true,
    has_run: false,
};

/// Nothing was ever there; the log holds 100 to 500.
fn first_start() -> StartInputs {
    StartInputs {
        assigned: identity("a", OURS, 1),
        layout_epoch: 1.try_into().unwrap(),
        on_foreign: OnForeign::Refuse,
        guarantee: Guarantee::AtLeastOnce,
        recovery: STOP,
        on_retention_gap: OnRetentionGap::Stop,
        volume: None,
        store: StoreEvidence::Absent,
        broker: BrokerEvidence::Nothing,
        log: LogBounds::new(at(100), at(500)).unwrap(),
        start_from: StartFrom::Earliest,
    }
}

fn marker(app: &str, lineage: u128, epoch: i64) -> VolumeMarker {
    VolumeMarker {
        app_id: app.parse().unwrap(),
        lineage: Lineage::new(Uuid::from_u128(lineage)),
        layout_epoch: epoch.try_into().unwrap(),
    }
}

fn resumed(offset: i64) -> StartDecision {
    StartDecision::Resume {
        offset: at(offset),
        prepared: PreparedFate::None,
        notice: None,
        gap: None,
    }
}

/// As [`resumed`], from a commit whose receipt the broker does not have.
fn lagging(offset: i64, receipt: i64) -> StartDecision {
    StartDecision::Resume {
        offset: at(offset),
        prepared: PreparedFate::None,
        notice: Some(Notice::ReceiptLags {
            store: at(offset),
            receipt: at(receipt),
        }),
        gap: None,
    }
}

fn fresh_at(offset: i64, origin: FreshOrigin) -> StartDecision {
    StartDecision::Fresh {
        offset: at(offset),
        origin,
        discard_store: false,
        gap: None,
    }
}

fn refusal(inputs: &StartInputs) -> StartRefusal {
    match decide(inputs) {
        StartDecision::Refuse(refusal) => refusal,
        other => panic!("expected a refusal, got {other:?}"),
    }
}

#[rstest]
#[case(StartFrom::Earliest, 100)]
#[case(StartFrom::Latest, 500)]
#[case(StartFrom::Timestamp { found: Some(Offset::try_from(321).unwrap()) }, 321)]
#[case(StartFrom::Timestamp { found: None }, 500)]
fn a_first_start_follows_the_policy(#[case] start_from: StartFrom, #[case] expected: i64) {
    let inputs = StartInputs {
        start_from,
        ..first_start()
    };
    assert_eq!(decide(&inputs), fresh_at(expected, FreshOrigin::StartFrom));
}

#[test]
fn with_state_neither_policy_nor_group_offset_counts() {
    for broker in [
        BrokerEvidence::Nothing,
        BrokerEvidence::of(Some((at(200), ""))),
        committed(200, receipt(OURS, 1, 5)),
    ] {
        let inputs = StartInputs {
            store: store(5, 200),
            broker,
            start_from: StartFrom::Latest,
            ..first_start()
        };
        assert_eq!(decide(&inputs), resumed(200));
    }
}

/// At least once, a crash may fall between an entry and its receipt; after a change of the guarantee the receipt may lag still.
#[rstest]
fn a_receipt_that_was_never_committed_is_told(
    #[values(Guarantee::AtLeastOnce, Guarantee::ExactlyOnce)] guarantee: Guarantee,
) {
    let inputs = StartInputs {
        guarantee,
        store: store(5, 200),
        broker: committed(150, receipt(OURS, 1, 4)),
        ..first_start()
    };
    assert_eq!(decide(&inputs), lagging(200, 150));
}

#[rstest]
#[case::ahead(499, "")]
#[case::behind(150, "set by a tool")]
#[case::outside_the_log(10, "")]
fn a_group_offset_that_somebody_set_is_overwritten_and_both_are_told(
    #[case] set: i64,
    #[case] metadata: &str,
) {
    let inputs = StartInputs {
        store: store(5, 200),
        broker: BrokerEvidence::of(Some((at(set), metadata))),
        ..first_start()
    };
    assert_eq!(
        decide(&inputs),
        StartDecision::Resume {
            offset: at(200),
            prepared: PreparedFate::None,
            notice: Some(Notice::OffsetOverwritten {
                store: at(200),
                group: at(set),
            }),
            gap: None,
        }
    );
}

#[test]
fn a_start_that_got_no_further_than_its_receipt_keeps_its_first_offset() {
    // `latest` was 150 then and would be 500 now.
    let inputs = StartInputs {
        broker: committed(150, receipt(OURS, 1, 0)),
        start_from: StartFrom::Latest,
        ..first_start()
    };
    assert_eq!(decide(&inputs), fresh_at(150, FreshOrigin::EarlierStart));
    let made = StartInputs {
        store: store(0, 150),
        ..inputs
    };
    assert_eq!(decide(&made), resumed(150));
}

#[test]
fn an_offset_without_receipt_counts_where_there_is_no_state() {
    let inputs = StartInputs {
        broker: BrokerEvidence::of(Some((at(150), "some tool"))),
        ..first_start()
    };
    assert_eq!(decide(&inputs), fresh_at(150, FreshOrigin::CommittedOffset));
}

#[test]
fn state_known_to_have_existed_is_never_replaced_by_an_empty_store() {
    let lost = StartInputs {
        broker: committed(200, receipt(OURS, 1, 5)),
        ..first_start()
    };
    assert!(matches!(refusal(&lost), StartRefusal::StateMissing { .. }));
    let emptied = StartInputs {
        store: store(0, 100),
        ..lost
    };
    assert!(matches!(
        refusal(&emptied),
        StartRefusal::StateMissing { .. }
    ));
}

#[test]
fn an_older_copy_of_the_store_goes_on_from_its_own_position_and_says_so() {
    let inputs = StartInputs {
        store: store(3, 150),
        broker: committed(200, receipt(OURS, 1, 5)),
        ..first_start()
    };
    assert_eq!(
        decide(&inputs),
        StartDecision::Resume {
            offset: at(150),
            prepared: PreparedFate::None,
            notice: Some(Notice::OlderStore {
                store: at(150),
                receipt: at(200),
            }),
            gap: None,
        }
    );
}

#[rstest]
#[case::other_checksum(Receipt { checksum: EntryChecksum(99), ..receipt(OURS, 1, 5) }, 200)]
#[case::other_offset(receipt(OURS, 1, 5), 201)]
fn two_histories_with_one_number_stop_exactly_once_and_at_least_once_the_store_counts(
    #[case] receipt: Receipt,
    #[case] offset: i64,
) {
    let inputs = |guarantee| StartInputs {
        store: store(5, 200),
        broker: committed(offset, receipt),
        guarantee,
        ..first_start()
    };
    assert!(matches!(
        refusal(&inputs(Guarantee::ExactlyOnce)),
        StartRefusal::OtherHistory { .. }
    ));
    assert_eq!(
        decide(&inputs(Guarantee::AtLeastOnce)),
        StartDecision::Resume {
            offset: at(200),
            prepared: PreparedFate::None,
            notice: Some(Notice::OtherHistory {
                store: at(200),
                receipt: at(offset),
            }),
            gap: None,
        }
    );
}

#[test]
fn the_bound_holds_where_another_history_reaches_further() {
    let inputs = |offset| StartInputs {
        store: store(5, 200),
        broker: committed(offset, receipt(OURS, 1, 5)),
        recovery: Recovery {
            halt_if_gap_exceeds: Some(50),
            ..STOP
        },
        ..first_start()
    };
    assert!(matches!(decide(&inputs(250)), StartDecision::Resume { .. }));
    assert_eq!(refusal(&inputs(251)).reason(), "GapExceedsBound");
}

/// The receipt is that of another life, so nothing says that what is prepared was written.
#[test]
fn at_least_once_a_prepared_entry_counts_only_by_its_own_receipt() {
    let inputs = StartInputs {
        store: prepared(5, 200, 220),
        broker: committed(
            220,
            Receipt {
                checksum: EntryChecksum(99),
                ..receipt(OURS, 1, 6)
            },
        ),
        ..first_start()
    };
    assert!(matches!(
        decide(&inputs),
        StartDecision::Resume {
            prepared: PreparedFate::Cancel,
            notice: Some(Notice::OlderStore { .. }),
            ..
        }
    ));
}

#[test]
fn a_gap_names_the_offsets_that_are_gone() {
    let inputs = StartInputs {
        store: store(5, 100),
        log: LogBounds::new(at(200), at(500)).unwrap(),
        ..first_start()
    };
    let text = refusal(&inputs).to_string();
    assert!(text.contains("offsets 100 to 199 are gone"), "{text}");
    assert!(text.contains("`input.onRetentionGap: accept`"), "{text}");
}

/// The log begins at 100. An older store has policies of its own.
#[rstest]
#[case::nothing_gone(store(5, 100), BrokerEvidence::Nothing, resumed(100))]
#[case::unread(store(5, 40), committed(40, receipt(OURS, 1, 5)), StartDecision::Resume {
    offset: at(100),
    prepared: PreparedFate::None,
    notice: None,
    gap: Some(Gap { from: at(40), to: at(100) }),
})]
#[case::prepared_and_committed(
    prepared(3, 40, 60),
    committed(60, receipt(OURS, 1, 4)),
    StartDecision::Resume {
        offset: at(100),
        prepared: PreparedFate::Apply,
        notice: None,
        gap: Some(Gap { from: at(60), to: at(100) }),
    }
)]
#[case::an_earlier_start(
    StoreEvidence::Absent,
    committed(99, receipt(OURS, 1, 0)),
    StartDecision::Fresh {
        offset: at(100),
        origin: FreshOrigin::EarlierStart,
        discard_store: false,
        gap: Some(Gap { from: at(99), to: at(100) }),
    }
)]
fn a_gap_that_is_accepted_is_gone_over_and_told(
    #[case] store: StoreEvidence,
    #[case] broker: BrokerEvidence,
    #[case] expected: StartDecision,
    #[values(Guarantee::AtLeastOnce, Guarantee::ExactlyOnce)] guarantee: Guarantee,
) {
    let asked = |on_retention_gap| StartInputs {
        on_retention_gap,
        store: store.clone(),
        broker: match (&broker, guarantee) {
            (BrokerEvidence::Nothing, Guarantee::ExactlyOnce) => {
                committed(100, receipt(OURS, 1, 5))
            }
            _ => broker.clone(),
        },
        guarantee,
        ..first_start()
    };
    let is_gap = !matches!(expected, StartDecision::Resume { gap: None, .. });
    assert_eq!(
        matches!(
            decide(&asked(OnRetentionGap::Stop)),
            StartDecision::Refuse(StartRefusal::RetentionGap { .. })
        ),
        is_gap
    );
    assert_eq!(decide(&asked(OnRetentionGap::Accept)), expected);
}

/// A log that is shorter than what was read has no gap.
#[test]
fn a_position_beyond_the_end_is_refused_whatever_is_accepted() {
    let inputs = StartInputs {
        on_retention_gap: OnRetentionGap::Accept,
        store: store(5, 501),
        ..first_start()
    };
    assert_eq!(refusal(&inputs).reason(), "PositionBeyondEnd");
}

#[test]
fn a_topic_made_anew_is_noticed_by_its_end() {
    let log = LogBounds::new(at(0), at(10)).unwrap();
    let with_state = StartInputs {
        store: store(5, 200),
        log,
        ..first_start()
    };
    assert!(matches!(
        refusal(&with_state),
        StartRefusal::BeyondEnd { .. }
    ));
    let without = StartInputs {
        broker: committed(200, receipt(OURS, 1, 0)),
        log,
        ..first_start()
    };
    assert!(matches!(refusal(&without), StartRefusal::BeyondEnd { .. }));
}

#[test]
fn the_ends_of_the_log_are_within_it() {
    for position in [100, 500] {
        let inputs = StartInputs {
            store: store(5, position),
            ..first_start()
        };
        assert_eq!(decide(&inputs), resumed(position));
    }
}

#[test]
fn an_old_assignment_never_runs_again() {
    let volume_ahead = StartInputs {
        volume: Some(marker("a", OURS, 2)),
        store: store(5, 200),
        ..first_start()
    };
    assert!(matches!(
        refusal(&volume_ahead),
        StartRefusal::OldAssignment { .. }
    ));
    let sealed = StartInputs {
        store: store(5, 200),
        broker: committed(200, receipt(OURS, 2, 0)),
        ..first_start()
    };
    assert!(matches!(
        refusal(&sealed),
        StartRefusal::OldAssignment { .. }
    ));
}

#[test]
fn a_rebalance_keeps_the_store_of_an_earlier_epoch() {
    let inputs = StartInputs {
        layout_epoch: 7.try_into().unwrap(),
        volume: Some(marker("a", OURS, 6)),
        store: store(5, 200),
        broker: committed(200, receipt(OURS, 1, 5)),
        ..first_start()
    };
    assert_eq!(decide(&inputs), resumed(200));
}

#[test]
fn another_apps_volume_is_refused_even_if_leavings_are_to_be_discarded() {
    let inputs = StartInputs {
        on_foreign: OnForeign::Discard,
        volume: Some(marker("b", THEIRS, 1)),
        ..first_start()
    };
    let text = refusal(&inputs).to_string();
    assert!(text.contains("app `b`") && text.contains("`a`"), "{text}");
}

/// Everything that another life of the app can have left behind.
fn leavings() -> [StartInputs; 3] {
    [
        StartInputs {
            volume: Some(marker("a", THEIRS, 9)),
            ..first_start()
        },
        StartInputs {
            broker: committed(200, receipt(THEIRS, 9, 5)),
            ..first_start()
        },
        StartInputs {
            store: StoreEvidence::Present(StoreProgress {
                identity: identity("a", THEIRS, 1),
                number: 5.try_into().unwrap(),
                checksum: EntryChecksum(5),
                position: at(200),
                by_transaction: false,
                cleanly_stopped: false,
                history: None,
                prepared: None,
            }),
            ..first_start()
        },
    ]
}

#[test]
fn another_lineage_is_refused_wherever_it_shows() {
    for inputs in leavings() {
        let text = refusal(&inputs).to_string();
        assert!(text.contains("state.onRecreate"), "{text}");
    }
}

#[test]
fn another_lineage_is_left_out_if_the_owner_says_so() {
    for inputs in leavings() {
        let has_store = inputs.store != StoreEvidence::Absent;
        let inputs = StartInputs {
            on_foreign: OnForeign::Discard,
            ..inputs
        };
        assert_eq!(
            decide(&inputs),
            StartDecision::Fresh {
                offset: at(100),
                origin: FreshOrigin::StartFrom,
                discard_store: has_store,
                gap: None,
            }
        );
    }
}

#[test]
fn a_store_of_another_key_or_count_is_refused_with_both_values() {
    let mut found = identity("a", OURS, 1);
    found.key = "tenant".to_owned();
    found.partitions = RawPartitionCount::try_from(6).unwrap();
    found.key_groups = 720;
    let inputs = StartInputs {
        store: StoreEvidence::Present(StoreProgress {
            identity: found,
            number: 1.try_into().unwrap(),
            checksum: EntryChecksum(1),
            position: at(200),
            by_transaction: false,
            cleanly_stopped: false,
            history: None,
            prepared: None,
        }),
        on_foreign: OnForeign::Discard,
        ..first_start()
    };
    let text = refusal(&inputs).to_string();
    for words in [
        "`tenant`, expected `user`",
        "`6`, expected `12`",
        "`720`, expected `960`",
    ] {
        assert!(text.contains(words), "{text}");
    }
}

#[test]
fn a_receipt_of_a_later_version_is_not_taken_for_none() {
    let inputs = StartInputs {
        broker: BrokerEvidence::of(Some((at(200), "v2:whatever"))),
        ..first_start()
    };
    assert!(matches!(
        refusal(&inputs),
        StartRefusal::NewerReceipt { .. }
    ));
}

/// Both guarantees: a switch back to at least once finds such stores too.
#[rstest]
#[case::its_receipt_counts(committed(220, receipt(OURS, 1, 6)), PreparedFate::Apply, 220)]
#[case::the_one_before_counts(committed(200, receipt(OURS, 1, 5)), PreparedFate::Cancel, 200)]
fn the_receipt_decides_whether_a_prepared_entry_counts(
    #[case] broker: BrokerEvidence,
    #[case] fate: PreparedFate,
    #[case] position: i64,
    #[values(Guarantee::AtLeastOnce, Guarantee::ExactlyOnce)] guarantee: Guarantee,
) {
    let inputs = StartInputs {
        store: prepared(5, 200, 220),
        broker,
        guarantee,
        ..first_start()
    };
    assert_eq!(
        decide(&inputs),
        StartDecision::Resume {
            offset: at(position),
            prepared: fate,
            notice: None,
            gap: None,
        }
    );
}

/// A store that has committed `number` and prepared the next one.
fn prepared(number: i64, position: i64, next: i64) -> StoreEvidence {
    match (store(number, position), store(number + 1, next)) {
        (StoreEvidence::Present(done), StoreEvidence::Present(prepared)) => {
            StoreEvidence::Present(StoreProgress {
                prepared: Some(Box::new(prepared)),
                ..done
            })
        }
        other => panic!("{other:?}"),
    }
}

#[rstest]
#[case::other_content(committed(220, Receipt { checksum: EntryChecksum(9), ..receipt(OURS, 1, 6) }))]
#[case::other_offset(committed(221, receipt(OURS, 1, 6)))]
fn a_receipt_of_the_prepared_number_and_another_content_is_another_history(
    #[case] broker: BrokerEvidence,
) {
    let inputs = StartInputs {
        store: prepared(5, 200, 220),
        broker,
        guarantee: Guarantee::ExactlyOnce,
        ..first_start()
    };
    assert!(matches!(
        refusal(&inputs),
        StartRefusal::OtherHistory { .. }
    ));
}

#[test]
fn exactly_once_does_not_go_on_where_it_cannot_tell_what_was_written() {
    let exactly_once = |store, broker| StartInputs {
        store,
        broker,
        guarantee: Guarantee::ExactlyOnce,
        ..first_start()
    };
    let behind = exactly_once(store(3, 150), committed(200, receipt(OURS, 1, 5)));
    assert!(matches!(refusal(&behind), StartRefusal::StoreBehind { .. }));
    let behind = exactly_once(prepared(3, 150, 170), committed(200, receipt(OURS, 1, 5)));
    assert!(matches!(refusal(&behind), StartRefusal::StoreBehind { .. }));
    for broker in [
        BrokerEvidence::Nothing,
        BrokerEvidence::of(Some((at(180), "set by a tool"))),
    ] {
        for store in [store(5, 200), prepared(5, 200, 220), prepared(0, 200, 220)] {
            let missing = exactly_once(store, broker.clone());
            assert!(matches!(
                refusal(&missing),
                StartRefusal::ReceiptMissing { .. }
            ));
        }
    }
    // Made and never committed: the crash came before the first receipt.
    assert_eq!(
        decide(&exactly_once(store(0, 200), BrokerEvidence::Nothing)),
        resumed(200)
    );
}

/// A store of another history: the second life had fewer commits that reach further, or the offsets were set back.
#[rstest]
#[case::reaches_further(false, 400, true)]
#[case::was_committed_exactly_once(true, 150, true)]
#[case::at_least_once_may_lag(false, 150, false)]
fn exactly_once_a_receipt_behind_the_store_is_of_another_life(
    #[case] by_transaction: bool,
    #[case] offset: i64,
    #[case] refused: bool,
) {
    let StoreEvidence::Present(found) = store(5, 200) else {
        panic!("a store");
    };
    let inputs = |guarantee| StartInputs {
        store: StoreEvidence::Present(StoreProgress {
            by_transaction,
            ..found.clone()
        }),
        broker: committed(offset, receipt(OURS, 1, 3)),
        guarantee,
        ..first_start()
    };
    if refused {
        let inputs = inputs(Guarantee::ExactlyOnce);
        assert!(matches!(
            refusal(&inputs),
            StartRefusal::ReceiptBehind { .. }
        ));
    } else {
        assert_eq!(
            decide(&inputs(Guarantee::ExactlyOnce)),
            lagging(200, offset)
        );
    }
    let expected = if offset > 200 {
        resumed(200)
    } else {
        lagging(200, offset)
    };
    assert_eq!(decide(&inputs(Guarantee::AtLeastOnce)), expected);
}

/// The store stands at commit 3 and offset 150, the receipt at commit 5 and offset 200.
fn older(recovery: Recovery) -> StartInputs {
    StartInputs {
        store: store(3, 150),
        broker: committed(200, receipt(OURS, 1, 5)),
        guarantee: Guarantee::ExactlyOnce,
        recovery,
        ..first_start()
    }
}

fn by(policy: OnCrashRecovery) -> Recovery {
    Recovery { policy, ..STOP }
}

#[test]
fn what_an_older_store_lacks_is_replayed_or_accepted_as_asked_for() {
    let lacks = OlderStore {
        number: 3.try_into().unwrap(),
        position: at(150),
        committed: CommittedReceipt {
            offset: at(200),
            receipt: receipt(OURS, 1, 5),
        },
    };
    assert_eq!(lacks.gap(), 50);
    assert_eq!(OnCrashRecovery::default(), OnCrashRecovery::Replay);
    let replay = older(by(OnCrashRecovery::Replay));
    assert_eq!(decide(&replay), StartDecision::Replay(lacks));
    let with_prepared = StartInputs {
        store: prepared(3, 150, 170),
        ..replay
    };
    assert_eq!(decide(&with_prepared), StartDecision::Replay(lacks));
    let accept = older(by(OnCrashRecovery::Accept));
    assert_eq!(decide(&accept), StartDecision::Accept(lacks));
    let stop = older(by(OnCrashRecovery::Stop));
    assert_eq!(refusal(&stop), lacks.refusal(NotRecovered::Asked));
    assert_eq!(
        lacks.settled(),
        Settled {
            number: 5.try_into().unwrap(),
            checksum: EntryChecksum(5),
            position: at(200),
            by_transaction: true,
        }
    );
}

fn why(inputs: &StartInputs) -> NotRecovered {
    match refusal(inputs) {
        StartRefusal::StoreBehind { why, .. } => why,
        other => panic!("{other}"),
    }
}

/// Whoever has gone on since may be running, whatever the spec says.
#[test]
fn a_process_that_ran_the_task_and_was_overtaken_takes_nothing_back() {
    for policy in [OnCrashRecovery::Replay, OnCrashRecovery::Accept] {
        let recovery = Recovery {
            has_run: true,
            ..by(policy)
        };
        assert_eq!(why(&older(recovery)), NotRecovered::Overtaken);
    }
}

#[test]
fn a_receipt_that_does_not_come_from_the_store_by_the_log_is_not_replayed_to() {
    let replay = older(by(OnCrashRecovery::Replay));
    let of = |retrace| StartInputs {
        broker: committed(
            200,
            Receipt {
                retrace,
                ..receipt(OURS, 1, 5)
            },
        ),
        ..replay.clone()
    };
    assert_eq!(why(&of(None)), NotRecovered::NotSaid);
    let other = Retrace {
        history: History(9),
        rows: 70,
        closed: HandedOut::All,
    };
    assert_eq!(why(&of(Some(other))), NotRecovered::OtherHistory);
    let StoreEvidence::Present(found) = store(3, 150) else {
        panic!("a store");
    };
    let unsaid = StartInputs {
        store: StoreEvidence::Present(StoreProgress {
            history: None,
            ..found
        }),
        ..replay
    };
    assert_eq!(why(&unsaid), NotRecovered::OtherHistory);
}

#[test]
fn only_what_gives_the_same_again_is_replayed() {
    let recovery = Recovery {
        deterministic: false,
        ..by(OnCrashRecovery::Replay)
    };
    assert_eq!(why(&older(recovery)), NotRecovered::OtherRules);
    let accept = Recovery {
        policy: OnCrashRecovery::Accept,
        ..recovery
    };
    assert!(matches!(decide(&older(accept)), StartDecision::Accept(_)));
}

#[test]
fn a_replay_needs_every_record_between_and_an_acceptance_the_ones_behind() {
    let log = |start, end| LogBounds::new(at(start), at(end)).unwrap();
    for (bounds, replays, accepts) in [
        (log(150, 200), None, None),
        (log(151, 200), Some("RetentionGap"), None),
        (
            log(150, 199),
            Some("PositionBeyondEnd"),
            Some("PositionBeyondEnd"),
        ),
        (log(201, 300), Some("RetentionGap"), Some("RetentionGap")),
    ] {
        for (policy, expected) in [
            (OnCrashRecovery::Replay, replays),
            (OnCrashRecovery::Accept, accepts),
        ] {
            let inputs = StartInputs {
                log: bounds,
                // Says nothing of what an older store lacks.
                on_retention_gap: OnRetentionGap::Accept,
                ..older(by(policy))
            };
            let reason = match decide(&inputs) {
                StartDecision::Refuse(refusal) => Some(refusal.reason()),
                _ => None,
            };
            assert_eq!(reason, expected, "{policy:?} of {bounds:?}");
        }
    }
}

#[rstest]
#[case(OnCrashRecovery::Replay, Guarantee::ExactlyOnce)]
#[case(OnCrashRecovery::Accept, Guarantee::ExactlyOnce)]
#[case(OnCrashRecovery::Stop, Guarantee::AtLeastOnce)]
fn a_gap_above_the_bound_stops_and_names_it(
    #[case] policy: OnCrashRecovery,
    #[case] guarantee: Guarantee,
) {
    let bounded = |bound| StartInputs {
        guarantee,
        ..older(Recovery {
            halt_if_gap_exceeds: Some(bound),
            ..by(policy)
        })
    };
    assert!(!matches!(decide(&bounded(50)), StartDecision::Refuse(_)));
    let text = refusal(&bounded(49)).to_string();
    assert!(
        text.contains("50 offsets") && text.contains("`haltIfGapExceeds` is 49"),
        "{text}"
    );
}

/// Neither an empty store nor another history is an older store.
#[test]
fn nothing_but_an_older_store_is_recovered() {
    let replay = older(by(OnCrashRecovery::Replay));
    for (store, broker, reason) in [
        (StoreEvidence::Absent, replay.broker.clone(), "StateMissing"),
        (store(0, 150), replay.broker.clone(), "StateMissing"),
        (store(5, 199), replay.broker.clone(), "OtherHistory"),
        (
            store(3, 150),
            committed(149, receipt(OURS, 1, 5)),
            "StoreBehindReceipt",
        ),
    ] {
        for policy in [OnCrashRecovery::Replay, OnCrashRecovery::Accept] {
            let inputs = StartInputs {
                store: store.clone(),
                broker: broker.clone(),
                ..older(by(policy))
            };
            assert_eq!(refusal(&inputs).reason(), reason);
        }
    }
}

#[test]
fn a_store_that_was_stopped_cleanly_outlives_its_receipt() {
    let stopped = |evidence| match evidence {
        StoreEvidence::Present(found) => StoreEvidence::Present(StoreProgress {
            cleanly_stopped: true,
            ..found
        }),
        StoreEvidence::Absent => StoreEvidence::Absent,
    };
    let inputs = |store, broker| StartInputs {
        store: stopped(store),
        broker,
        guarantee: Guarantee::ExactlyOnce,
        ..first_start()
    };
    assert_eq!(
        decide(&inputs(store(5, 200), BrokerEvidence::Nothing)),
        StartDecision::Resume {
            offset: at(200),
            prepared: PreparedFate::None,
            notice: Some(Notice::ReceiptExpired),
            gap: None,
        }
    );
    // Set by hand, or something is in doubt all the same.
    for refused in [
        inputs(store(5, 200), BrokerEvidence::of(Some((at(180), "")))),
        inputs(prepared(5, 200, 220), BrokerEvidence::Nothing),
    ] {
        assert!(matches!(
            refusal(&refused),
            StartRefusal::ReceiptMissing { .. }
        ));
    }
    // Where a receipt is, it decides.
    let overtaken = inputs(store(5, 200), committed(300, receipt(OURS, 1, 7)));
    assert!(matches!(
        refusal(&overtaken),
        StartRefusal::StoreBehind { .. }
    ));
}
