use rstest::rstest;

use super::*;

const LINEAGE: &str = "6f9619ff-8b86-4d01-b42d-00cf4fc964ff";

fn document(epoch: i64, tasks: &[(i32, i64, &str)]) -> AssignmentDocument {
    AssignmentDocument {
        app_id: "a".to_owned(),
        lineage: LINEAGE.to_owned(),
        epoch,
        tasks: tasks
            .iter()
            .map(|(partition, store_epoch, pod)| AssignedTask {
                subscription: "s".to_owned(),
                partition: *partition,
                partitions: 12,
                store_epoch: *store_epoch,
                pod: (*pod).to_owned(),
            })
            .collect(),
    }
}

fn read(epoch: i64, tasks: &[(i32, i64, &str)]) -> Assignment {
    Assignment::read(document(epoch, tasks), "a", "a-0").unwrap()
}

fn task(partition: i32) -> Task {
    Task {
        subscription: "s".parse().unwrap(),
        partition: partition.try_into().unwrap(),
    }
}

fn partitions(tasks: &[Task]) -> Vec<i32> {
    tasks.iter().map(|task| task.partition.get()).collect()
}

#[test]
fn a_pod_sees_its_own_tasks() {
    let assignment = read(1, &[(0, 1, "a-0"), (1, 1, "a-1"), (2, 1, "a-0")]);
    assert_eq!(
        assignment.tasks.keys().cloned().collect::<Vec<_>>(),
        [task(0), task(2)]
    );
}

#[test]
fn the_higher_epoch_wins_and_an_old_one_never_runs_again() {
    let current = read(5, &[(0, 1, "a-0")]);
    assert_eq!(read(6, &[]).against(Some(&current)), Ok(Verdict::Take));
    assert_eq!(
        read(5, &[(0, 1, "a-0")]).against(Some(&current)),
        Ok(Verdict::Same)
    );
    assert!(matches!(
        read(4, &[(0, 1, "a-0")]).against(Some(&current)),
        Err(AssignmentRefusal::Old { .. })
    ));
    assert!(matches!(
        read(5, &[(0, 1, "a-1")]).against(Some(&current)),
        Err(AssignmentRefusal::Conflict { .. })
    ));
    assert_eq!(read(0, &[]).against(None), Ok(Verdict::Take));
}

#[test]
fn another_life_or_another_app_is_refused() {
    let current = read(5, &[]);
    let mut other = document(9, &[]);
    other.lineage = "00000000-8b86-4d01-b42d-00cf4fc964ff".to_owned();
    let other = Assignment::read(other, "a", "a-0").unwrap();
    assert!(matches!(
        other.against(Some(&current)),
        Err(AssignmentRefusal::OtherLineage { .. })
    ));
    assert!(matches!(
        Assignment::read(document(1, &[]), "b", "a-0"),
        Err(AssignmentRefusal::OtherApp { .. })
    ));
}

#[rstest]
#[case::negative_epoch(document(-1, &[]))]
#[case::negative_partition(document(1, &[(-1, 1, "a-0")]))]
#[case::negative_store_epoch(document(1, &[(0, -1, "a-0")]))]
#[case::twice(document(1, &[(0, 1, "a-0"), (0, 2, "a-0")]))]
#[case::no_lineage(AssignmentDocument { lineage: "x".to_owned(), ..document(1, &[]) })]
fn a_document_that_cannot_be_is_refused(#[case] document: AssignmentDocument) {
    assert!(matches!(
        Assignment::read(document, "a", "a-0"),
        Err(AssignmentRefusal::Malformed { .. })
    ));
}

#[test]
fn only_what_changed_is_touched() {
    let running = read(
        1,
        &[(0, 1, "a-0"), (1, 1, "a-0"), (2, 1, "a-0"), (3, 1, "a-0")],
    )
    .tasks;
    let wanted = read(
        2,
        &[(0, 1, "a-0"), (1, 2, "a-0"), (3, 1, "a-0"), (4, 2, "a-0")],
    )
    .tasks;
    let changes = changes(&running, &|of| *of == task(3), &wanted);
    assert_eq!(partitions(&changes.stop), [1, 2, 3]);
    let starts: Vec<Task> = changes.start.into_iter().map(|plan| plan.task).collect();
    assert_eq!(partitions(&starts), [1, 3, 4]);
}
