use super::scan;
use super::skeleton::{Literal, Skeleton, Slot, Target, skip};
use crate::decode::columns::Column;

/// Messages with more values are left to the general parser.
const MOST_SLOTS: usize = 512;
/// Longest text between and around the values that is kept, bytes.
const MOST_LITERAL: usize = 16 << 10;

/// The skeleton of a message that the general parser has accepted. None if it holds an array, a
/// name or a text with an escape, or more than is worth keeping.
pub(super) fn skeleton(message: &[u8], columns: &[Column]) -> Option<Skeleton> {
    let mut learner = Learner {
        message,
        columns,
        at: 0,
        literal: 0,
        opening: None,
        slots: Vec::new(),
        target: Target::Nobody,
        kept: 0,
    };
    learner.blanks();
    learner.document()?;
    learner.blanks();
    if learner.at != message.len() {
        return None;
    }
    learner.close_literal(message.len())?;
    let has = |column: usize| {
        let is_it = |slot: &Slot| matches!(slot.target, Target::Column { at, .. } if at == column);
        learner.slots.iter().any(is_it)
    };
    let missing = (0..columns.len()).filter(|column| !has(*column)).collect();
    Some(Skeleton {
        opening: learner.opening?,
        slots: learner.slots.into(),
        missing,
    })
}

struct Learner<'a> {
    message: &'a [u8],
    columns: &'a [Column],
    at: usize,
    /// Where the literal began that is not closed yet.
    literal: usize,
    opening: Option<Literal>,
    slots: Vec<Slot>,
    /// Target of the last value, whose literal is open.
    target: Target,
    kept: usize,
}

impl Learner<'_> {
    /// The object and all objects in it, without recursion: names and values alternate, and only the
    /// depth counts.
    fn document(&mut self) -> Option<()> {
        self.take(b'{')?;
        let mut depth = 1_usize;
        // behind a brace that opens: a name or a brace that closes
        let mut first = true;
        loop {
            self.blanks();
            if self.peek()? == b'}' {
                self.at += 1;
                depth -= 1;
                if depth == 0 {
                    return Some(());
                }
                first = false;
                continue;
            }
            if !first {
                self.take(b',')?;
                self.blanks();
            }
            let name = self.name()?;
            self.blanks();
            self.take(b':')?;
            self.blanks();
            first = self.peek()? == b'{';
            if first {
                self.at += 1;
                depth += 1;
            } else {
                self.value((depth == 1).then_some(name))?;
            }
        }
    }

    fn name(&mut self) -> Option<(usize, usize)> {
        self.take(b'"')?;
        let start = self.at;
        let end = scan::text(self.message, start)?.end;
        self.at = end + 1;
        Some((start, end))
    }

    /// A value that is no object; `name` if it is a field of the message itself.
    fn value(&mut self, name: Option<(usize, usize)>) -> Option<()> {
        self.close_literal(self.at)?;
        self.target = name.map_or(Target::Nobody, |(start, end)| {
            let name = self.message.get(start..end);
            let column = self
                .columns
                .iter()
                .position(|column| Some(column.name.as_bytes()) == name);
            column.map_or(Target::Nobody, |at| Target::Column {
                at,
                kind: self.columns[at].kind,
            })
        });
        self.at = skip(self.message, self.at)?;
        self.literal = self.at;
        Some(())
    }

    fn close_literal(&mut self, end: usize) -> Option<()> {
        let bytes = self.message.get(self.literal..end)?;
        self.kept += bytes.len();
        if self.kept > MOST_LITERAL || self.slots.len() == MOST_SLOTS {
            return None;
        }
        let literal = Literal::new(bytes);
        if self.opening.is_none() {
            self.opening = Some(literal);
        } else {
            self.slots.push(Slot {
                target: self.target,
                literal,
            });
        }
        Some(())
    }

    fn peek(&self) -> Option<u8> {
        self.message.get(self.at).copied()
    }

    fn take(&mut self, byte: u8) -> Option<()> {
        (self.peek()? == byte).then(|| self.at += 1)
    }

    fn blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }
}
