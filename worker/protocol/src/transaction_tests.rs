use super::*;

#[test]
fn the_edges_are_these_and_no_others() {
    let expected = "\
| step | act | event | next |
|---|---|---|---|
| Open | Prepare | Prepared | Prepared |
| Open | Prepare | PrepareFailed | Abandoned |
| Prepared | SendOffset | OffsetSent | OffsetSent |
| Prepared | SendOffset | OffsetFailed | Abandoned |
| OffsetSent | Commit | Committed | Committed |
| OffsetSent | Commit | CommitUnknown | Committing |
| OffsetSent | Commit | CommitFailed | Abandoned |
| Committing | Commit | Committed | Committed |
| Committing | Commit | CommitUnknown | Committing |
| Committing | Commit | CommitFailed | Abandoned |
| Committed | MarkDone | MarkedDone | Done |
| Committed | MarkDone | MarkFailed | Abandoned |
";
    assert_eq!(edge_table(), expected);
}
