//! Tables and bars of plain characters.

use std::io::{self, Write};

/// Widest bar, in characters.
const BAR: u64 = 40;

/// Rows under headings, columns as wide as they must be. The first column is text and begins at
/// the left, the others are numbers; a last column without a heading is a remark.
#[derive(Debug)]
pub(crate) struct Table {
    numbers: bool,
    headings: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(headings: &[&str]) -> Self {
        Self {
            numbers: true,
            headings: headings.iter().map(|text| (*text).to_owned()).collect(),
            rows: Vec::new(),
        }
    }

    /// A table in which every column is text.
    pub(crate) fn of_text(headings: &[&str]) -> Self {
        Self {
            numbers: false,
            ..Self::new(headings)
        }
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    pub(crate) fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let width = |at: usize| {
            self.rows
                .iter()
                .chain([&self.headings])
                .filter_map(|row| row.get(at))
                .map(|cell| cell.chars().count())
                .max()
                .unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.headings.len()).map(width).collect();
        for row in [&self.headings].into_iter().chain(&self.rows) {
            let mut line = String::new();
            for (at, (cell, width)) in row.iter().zip(&widths).enumerate() {
                let remark = self.headings.get(at).is_some_and(String::is_empty);
                if at > 0 {
                    line.push_str("  ");
                }
                let room = " ".repeat(width.saturating_sub(cell.chars().count()));
                let (before, after) = if at == 0 || remark || !self.numbers {
                    ("", room.as_str())
                } else {
                    (room.as_str(), "")
                };
                line.push_str(before);
                line.push_str(cell);
                line.push_str(after);
            }
            writeln!(out, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// A bar whose length is to the longest as `value` is to `most`; anything above 0 shows.
pub(crate) fn bar(value: u64, most: u64) -> String {
    let length = (value * BAR).div_ceil(most.max(1)).min(BAR);
    "#".repeat(usize::try_from(length).unwrap_or(0))
}

/// Text as it can be shown on a terminal: without what would move its cursor.
pub(crate) fn printable(text: &str) -> String {
    text.chars()
        .map(|c| {
            // Marks of direction and of lines would turn the rest of the line around, or break it.
            let turns = matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
            if c.is_control() || turns {
                c.escape_default().to_string()
            } else {
                c.to_string()
            }
        })
        .collect()
}

/// A share in per cent. It says 100 and 0 only for all and none.
pub(crate) fn percent(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "-".to_owned();
    }
    let (part, whole) = (u128::from(part), u128::from(whole));
    let tenths = match part * 1000 / whole {
        0 if part > 0 => 1,
        tenths => tenths,
    };
    format!("{}.{} %", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_they_must_be() {
        let mut table = Table::new(&["key", "group", ""]);
        table.row(["a".to_owned(), "7".to_owned(), "moves".to_owned()]);
        table.row(["grüße".to_owned(), "954".to_owned(), String::new()]);
        let mut out = Vec::new();
        table.write(&mut out).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "key    group\na          7  moves\ngrüße    954\n"
        );
    }

    #[test]
    fn little_shows_and_most_is_not_all() {
        assert_eq!(bar(0, 1_000_000), "");
        assert_eq!(bar(1, 1_000_000), "#");
        assert_eq!(bar(10, 10).len(), 40);
        assert_eq!(bar(0, 0), "");
        assert_eq!(percent(999_999, 1_000_000), "99.9 %");
        assert_eq!(percent(1, 1_000_000), "0.1 %");
        assert_eq!(percent(3, 3), "100.0 %");
        assert_eq!(percent(0, 3), "0.0 %");
        assert_eq!(percent(0, 0), "-");
    }

    #[test]
    fn nothing_moves_the_cursor() {
        assert_eq!(printable("a\u{1b}[2Jb\n"), "a\\u{1b}[2Jb\\n");
        assert_eq!(printable("a\u{202e}b\u{2028}"), "a\\u{202e}b\\u{2028}");
    }
}
