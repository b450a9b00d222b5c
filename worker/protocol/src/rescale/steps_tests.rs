use super::*;

#[test]
fn the_edges_of_an_old_task_are_these_and_no_others() {
    let expected = "\
| step | act | event | next |
|---|---|---|---|
| Running | Process | Announced | Holding |
| Running | Process | Restarted | Running |
| Holding | CommitHold | HoldSynced | Held |
| Holding | CommitHold | Undone | Running |
| Holding | CommitHold | Restarted | Running |
| Held | ProcessHeld | Undone | Running |
| Held | ProcessHeld | Drain | Draining |
| Held | ProcessHeld | Fenced | Stopped |
| Held | ProcessHeld | Restarted | Held |
| Draining | CommitLast | Committed | Stopped |
| Draining | CommitLast | Fenced | Stopped |
| Draining | CommitLast | Restarted | Held |
| Stopped | AwaitSeal | SealCommitted | Sealed |
";
    assert_eq!(old_edge_table(), expected);
}

#[test]
fn the_edges_of_a_new_task_are_these_and_no_others() {
    let expected = "\
| step | act | event | next |
|---|---|---|---|
| Moved | CommitFirst | FirstCommitted | Begun |
| Moved | CommitFirst | PulledAgain | Moved |
| Begun | ProcessThrough | Committed | Verified |
| Begun | ProcessThrough | PulledAgain | Moved |
| Verified | CloseTails | Committed | Verified |
| Verified | CloseTails | CursorsMet | Settled |
| Settled | Process | Committed | Settled |
";
    assert_eq!(new_edge_table(), expected);
}
