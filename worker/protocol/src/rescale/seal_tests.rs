use proptest::prelude::*;
use uuid::Uuid;

use super::*;
use crate::entry::{EntryChecksum, Frontier};
use crate::epochs::Lineage;

fn receipt(store_epoch: i64, number: i64, checksum: u32) -> Receipt {
    Receipt {
        lineage: Lineage::new(Uuid::from_u128(7)),
        store_epoch: store_epoch.try_into().unwrap(),
        number: number.try_into().unwrap(),
        checksum: EntryChecksum(checksum),
        frontier: Frontier(Some(5)),
        retrace: None,
    }
}

fn sealed(by: i64, last: Receipt) -> GroupReceipt {
    GroupReceipt::Sealed(SealedReceipt {
        sealed_by: epoch(by),
        last,
    })
}

fn epoch(number: i64) -> LayoutEpoch {
    number.try_into().unwrap()
}

fn may_begin(
    found: Option<GroupReceipt>,
    assigned: i64,
    store: i64,
) -> Result<Beginning, MayNotBegin> {
    begin(found, epoch(assigned), store.try_into().unwrap())
}

proptest! {
    #[test]
    fn a_seal_reads_back_as_itself_and_an_older_worker_sees_a_version_it_does_not_know(
        by in 0..=i64::MAX,
        store in 0..=i64::MAX,
        number in 0..=i64::MAX,
        checksum in any::<u32>(),
    ) {
        let found = sealed(by, receipt(store, number, checksum));
        let text = found.to_string();
        prop_assert_eq!(text.parse::<GroupReceipt>().unwrap(), found);
        prop_assert_eq!(text.parse::<Receipt>(), Err(NotAReceipt::Version("v2".to_owned())));
        let open = GroupReceipt::Open(receipt(store, number, checksum));
        prop_assert_eq!(open.to_string().parse::<GroupReceipt>().unwrap(), open);
    }
}

#[test]
fn the_text_has_the_documented_form() {
    let text = sealed(4, receipt(3, 42, 0xab)).to_string();
    assert_eq!(
        text,
        "v2:4:v1:00000000-0000-0000-0000-000000000007:3:42:000000ab:5"
    );
    for broken in [
        "v2",
        "v2:",
        "v2:4",
        "v2:4:",
        "v2:-1:v1",
        "v2:04:v1:00000000-0000-0000-0000-000000000007:3:42:000000ab:5",
    ] {
        assert!(broken.parse::<GroupReceipt>().is_err(), "{broken}");
    }
}

#[test]
fn sealing_ends_the_older_life_once_and_never_a_newer_one() {
    let last = receipt(3, 9, 1);
    let commit = |by: i64| {
        Sealing::Commit(SealedReceipt {
            sealed_by: epoch(by),
            last,
        })
    };
    assert_eq!(seal(GroupReceipt::Open(last), epoch(4)), commit(4));
    assert_eq!(seal(sealed(4, last), epoch(4)), Sealing::Done);
    assert_eq!(seal(sealed(4, last), epoch(5)), commit(5));
    assert_eq!(
        seal(sealed(5, last), epoch(4)),
        Sealing::TooLate { found: epoch(5) }
    );
    // The successor has committed its first receipt, or more: a sealer that was deposed comes back.
    let successor = GroupReceipt::Open(receipt(4, 0, 2));
    assert_eq!(
        seal(successor, epoch(4)),
        Sealing::TooLate { found: epoch(4) }
    );
}

#[test]
fn nobody_begins_beside_another_life() {
    let old = receipt(3, 9, 1);
    let overtaken = |found: i64, assigned: i64| {
        Err(MayNotBegin::Overtaken {
            found: epoch(found),
            assigned: epoch(assigned),
        })
    };
    assert_eq!(
        may_begin(Some(GroupReceipt::Open(old)), 3, 3),
        Ok(Beginning::GoOn(old))
    );
    assert_eq!(may_begin(Some(sealed(4, old)), 3, 3), overtaken(4, 3));
    assert_eq!(may_begin(Some(sealed(4, old)), 4, 3), overtaken(4, 4));
    assert_eq!(
        may_begin(Some(sealed(4, old)), 4, 4),
        Ok(Beginning::CommitFirst)
    );
    let not_sealed = Err(MayNotBegin::NotSealed {
        found: old.store_epoch,
    });
    assert_eq!(may_begin(Some(sealed(3, old)), 4, 4), not_sealed);
    assert_eq!(may_begin(Some(GroupReceipt::Open(old)), 4, 4), not_sealed);
    let new = receipt(4, 0, 2);
    assert_eq!(
        may_begin(Some(GroupReceipt::Open(new)), 4, 4),
        Ok(Beginning::GoOn(new))
    );
    assert_eq!(
        may_begin(Some(GroupReceipt::Open(new)), 3, 3),
        overtaken(4, 3)
    );
    // A partition that is new has no one before it.
    assert_eq!(may_begin(None, 4, 4), Ok(Beginning::CommitFirst));
}

#[test]
fn a_prepared_entry_counts_by_its_whole_receipt() {
    let prepared = receipt(3, 2, 0xaa);
    let (at, next): (Offset, Offset) = (7.try_into().unwrap(), 8.try_into().unwrap());
    for found in [GroupReceipt::Open(prepared), sealed(4, prepared)] {
        assert!(prepared_counts(found, at, &prepared, at));
        assert!(!prepared_counts(found, next, &prepared, at));
    }
    for other in [
        receipt(4, 2, 0xaa),
        receipt(3, 2, 0xbb),
        receipt(3, 1, 0xaa),
    ] {
        assert!(!prepared_counts(
            GroupReceipt::Open(other),
            at,
            &prepared,
            at
        ));
    }
}
