//! The report as people read it.

use std::io::{self, Write};

use turbine_crds::control::{PlacementReport, TaskPlacement, Verdict};

use crate::table::{Table, printable};

pub(super) fn write(
    found: &PlacementReport,
    dry_run: bool,
    out: &mut impl Write,
) -> io::Result<()> {
    for task in &found.tasks {
        writeln!(
            out,
            "{}/{}: {}",
            task.subscription,
            task.partition,
            state(task, dry_run)
        )?;
        if let Some(first) = &task.misplaced_first {
            writeln!(
                out,
                "  the verdict rested on offset {}: the key (murmur2 hash {}) belongs to partition {}, {}",
                first.offset,
                first.key_hash,
                first.belongs_to.get(),
                printable(&first.looks_like),
            )?;
        }
        foreign(task, out)?;
    }
    for worker in &found.silent {
        writeln!(
            out,
            "pod {}: not asked, its tasks are as they were: {}",
            worker.pod,
            printable(&worker.why)
        )?;
    }
    let foreign: u64 = found.tasks.iter().map(|task| task.foreign_panes).sum();
    if foreign > 0 {
        writeln!(
            out,
            "{foreign} panes are of keys that belong to other partitions. They close as windows do, each with a result of \
             its own; records of these keys do not reach them any more where partitionHash is declared."
        )?;
    }
    Ok(())
}

fn state(task: &TaskPlacement, dry_run: bool) -> String {
    if let Some(why) = &task.refused {
        return format!("not looked through: {}", printable(why));
    }
    let verdict = match (task.cleared, task.verdict) {
        (true, Verdict::Unknown) => "there was no verdict".to_owned(),
        (true, verdict) => format!("verdict `{verdict}` cleared"),
        (false, verdict) if dry_run => format!("verdict `{verdict}` left as it is (dry run)"),
        (false, verdict) => format!("verdict `{verdict}` left as it is"),
    };
    let unknown = match task.unknown_panes {
        0 => String::new(),
        panes => format!(", {panes} of windows that the app no longer has and cannot be judged"),
    };
    format!(
        "{verdict}; {} panes, {} of keys that belong to other partitions{unknown}",
        task.panes, task.foreign_panes
    )
}

fn foreign(task: &TaskPlacement, out: &mut impl Write) -> io::Result<()> {
    if task.foreign.is_empty() {
        return Ok(());
    }
    let mut table = Table::new(&["  key", "key group", "belongs to", "panes"]);
    for key in &task.foreign {
        let name = key.key.as_deref().map_or_else(
            || "(of a window that the app no longer has)".to_owned(),
            printable,
        );
        table.row([
            format!("  {name}"),
            key.key_group.to_string(),
            key.belongs_to.to_string(),
            key.panes.to_string(),
        ]);
    }
    table.write(out)?;
    if task.more_foreign {
        writeln!(out, "  and further keys")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use turbine_crds::control::{ForeignKey, MisplacedRecord, SilentWorker};

    use super::*;

    #[test]
    fn a_report_names_tasks_and_keys() {
        let task = TaskPlacement {
            subscription: "s".to_owned(),
            partition: 3,
            refused: None,
            verdict: Verdict::Misplaced,
            misplaced_first: Some(MisplacedRecord {
                offset: 17,
                key_hash: 7,
                belongs_to: 5.try_into().unwrap(),
                looks_like: "it looks like CRC32".to_owned(),
            }),
            cleared: true,
            panes: 9,
            foreign_panes: 2,
            unknown_panes: 0,
            foreign: vec![ForeignKey {
                key_group: 27,
                key: Some("a\u{1b}bc".to_owned()),
                belongs_to: 5,
                panes: 2,
            }],
            more_foreign: false,
        };
        let halted = TaskPlacement {
            partition: 4,
            refused: Some("the task is halted".to_owned()),
            foreign: Vec::new(),
            foreign_panes: 0,
            misplaced_first: None,
            ..task.clone()
        };
        let mut out = Vec::new();
        let tasks = vec![task, halted];
        let report = PlacementReport {
            tasks,
            silent: vec![SilentWorker {
                pod: "a-1".to_owned(),
                why: "its worker does not run".to_owned(),
            }],
        };
        write(&report, false, &mut out).unwrap();
        insta::assert_snapshot!(String::from_utf8(out).unwrap(), @r"
        s/3: verdict `misplaced` cleared; 9 panes, 2 of keys that belong to other partitions
          the verdict rested on offset 17: the key (murmur2 hash 7) belongs to partition 5, it looks like CRC32
          key        key group  belongs to  panes
          a\u{1b}bc         27           5      2
        s/4: not looked through: the task is halted
        pod a-1: not asked, its tasks are as they were: its worker does not run
        2 panes are of keys that belong to other partitions. They close as windows do, each with a result of its own; records of these keys do not reach them any more where partitionHash is declared.
        ");
    }
}
