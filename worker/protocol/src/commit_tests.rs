use super::*;

#[test]
fn the_edges_are_these_and_no_others() {
    let expected = "\
| step | act | event | next |
|---|---|---|---|
| Open | FlushOutputs | OutputsAcked | OutputsAcked |
| Open | FlushOutputs | OutputsFailed | Abandoned |
| OutputsAcked | SyncState | StateSynced | StateSynced |
| OutputsAcked | SyncState | StateFailed | Abandoned |
| StateSynced | CommitOffset | OffsetCommitted | OffsetCommitted |
| StateSynced | CommitOffset | OffsetFailed | StateSynced |
";
    assert_eq!(edge_table(), expected);
}
