use std::collections::BTreeSet;

use proptest::prelude::*;
use turbine_keygroups::VALID_COUNTS;

use super::*;

pub(crate) fn growth(from: u32, to: u32) -> Growth {
    Growth::new(from.try_into().unwrap(), to.try_into().unwrap()).unwrap()
}

pub(crate) fn partition(number: u32) -> Partition {
    i32::try_from(number).unwrap().try_into().unwrap()
}

prop_compose! {
    pub(crate) fn any_growth()(to in prop::sample::select(&VALID_COUNTS[1..17]))(
        to in Just(to),
        from in 1..to,
    ) -> Growth {
        growth(from, to)
    }
}

proptest! {
    #[test]
    fn wherever_one_of_the_counts_puts_a_record_it_is_for_the_owner_of_its_key(
        growth in any_growth(),
        hash in 0..=0x7fff_ffff_u32,
    ) {
        let owner = partition(hash % growth.to().get());
        let old = partition(hash % growth.from().get());
        let for_whom = |lies_in| match growth.claim(RecordKey::Hash(hash), lies_in) {
            Claim::Kept | Claim::MovedIn => Some(lies_in),
            Claim::Tail(task) => Some(task),
            Claim::Unexplained => None,
        };
        for lies_in in Partition::all(growth.to()) {
            let explained = lies_in == owner || lies_in == old;
            prop_assert_eq!(for_whom(lies_in), explained.then_some(owner));
            prop_assert_eq!(growth.claim(RecordKey::Null, lies_in), Claim::Kept);
        }
        prop_assert!(growth.sources(owner).any(|source| source == old));
    }

    #[test]
    fn a_source_is_a_partition_of_which_some_key_comes(growth in any_growth()) {
        let (from, to) = (growth.from().get(), growth.to().get());
        let mut pairs = BTreeSet::new();
        for hash in 0..from * to {
            pairs.insert((hash % to, hash % from));
        }
        for task in 0..to {
            let found: Vec<u32> = growth.sources(partition(task)).map(Partition::index).collect();
            let expected: Vec<u32> = pairs.iter().filter(|(t, _)| *t == task).map(|(_, p)| *p).collect();
            prop_assert_eq!(found, expected);
        }
    }
}

#[test]
fn a_topic_only_grows_and_only_to_a_valid_count() {
    let refused = Growth::new(8.try_into().unwrap(), 8.try_into().unwrap()).unwrap_err();
    assert_eq!(refused, NotAGrowth { from: 8, to: 8 });
    let read = |text: &str| serde_json::from_str::<Growth>(text).map_err(|error| error.to_string());
    assert_eq!(read(r#"{"from":7,"to":8}"#), Ok(growth(7, 8)));
    assert!(
        read(r#"{"from":8,"to":6}"#)
            .unwrap_err()
            .contains("cannot become one of 6")
    );
    assert!(
        read(r#"{"from":6,"to":7}"#)
            .unwrap_err()
            .contains("does not divide 960")
    );
}
