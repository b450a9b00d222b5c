/// The exact sum and count of integers. 2^63 rows of 64-bit values stay within 128 bits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct IntMean {
    pub(crate) sum: i128,
    pub(crate) count: u64,
}

impl IntMean {
    /// The correctly rounded quotient (ties to even); none without values.
    pub(crate) fn finish(self) -> Option<f64> {
        if self.count == 0 {
            return None;
        }
        let magnitude = self.sum.unsigned_abs();
        if magnitude == 0 {
            return Some(0.0);
        }
        // Scaled up, the quotient has more than the 53 bits of a float, and its lowest bit stands
        // for all that is below: then the one rounding of the conversion is the right one, and
        // the scale is taken off without loss.
        let scale = magnitude.leading_zeros();
        let scaled = magnitude << scale;
        let count = u128::from(self.count);
        let quotient = (scaled / count) | u128::from(!scaled.is_multiple_of(count));
        #[allow(clippy::cast_precision_loss)]
        let value = quotient as f64 * 0.5f64.powi(scale.cast_signed());
        Some(if self.sum < 0 { -value } else { value })
    }
}

/// The sum and count of floats, added in log order.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct FloatMean {
    pub(crate) sum: f64,
    pub(crate) count: u64,
}

impl FloatMean {
    pub(crate) fn finish(self) -> Option<f64> {
        #[allow(clippy::cast_precision_loss)]
        (self.count > 0).then(|| self.sum / self.count as f64)
    }
}

/// Texts, by pane, and the bytes that they take outside of the column.
#[derive(Debug, Clone, Default)]
pub(crate) struct Texts {
    cells: Vec<Option<Box<str>>>,
    heap: usize,
}

impl Texts {
    pub(crate) fn get(&self, pane: usize) -> Option<&str> {
        self.cells[pane].as_deref()
    }

    pub(crate) fn push(&mut self, text: Option<&str>) {
        self.heap += text.map_or(0, str::len);
        self.cells.push(text.map(Into::into));
    }

    pub(crate) fn set(&mut self, pane: usize, text: &str) {
        let old = self.cells[pane].replace(text.into());
        self.heap += text.len();
        self.heap -= old.map_or(0, |old| old.len());
    }

    pub(crate) fn retain(&mut self, panes: &[usize]) {
        retain(&mut self.cells, panes);
        self.heap = self.cells.iter().flatten().map(|text| text.len()).sum();
    }

    pub(crate) fn bytes(&self) -> usize {
        bytes(&self.cells) + self.heap
    }
}

/// Keeps these places, which ascend, in their order, and frees the others' memory.
pub(crate) fn retain<T>(cells: &mut Vec<T>, places: &[usize]) {
    for (to, from) in places.iter().enumerate() {
        cells.swap(to, *from);
    }
    cells.truncate(places.len());
    cells.shrink_to_fit();
}

/// Bytes that the cells fill.
pub(crate) fn bytes<T>(cells: &[T]) -> usize {
    size_of_val(cells)
}

/// Which end of the order an extreme is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Least,
    Greatest,
}

impl End {
    /// Whether `new` takes the place of `old`.
    pub(crate) fn replaces(self, new_to_old: std::cmp::Ordering) -> bool {
        match self {
            Self::Least => new_to_old.is_lt(),
            Self::Greatest => new_to_old.is_gt(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::IntMean;

    #[test]
    #[allow(clippy::float_cmp)]
    fn mean_of_integers_is_the_correctly_rounded_quotient() {
        // Expected values: Python's `float(fractions.Fraction(sum, count))`.
        for (sum, count, expected) in [
            (0, 3, 0.0),
            (1, 3, 0.333_333_333_333_333_3),
            (-1, 3, -0.333_333_333_333_333_3),
            (2, 3, 0.666_666_666_666_666_6),
            (10, 4, 2.5),
            (
                -170_141_183_460_469_231_731_687_303_715_884_105_728,
                1,
                -1.701_411_834_604_692_3e38,
            ),
            (18_446_744_073_709_551_614, 2, 9.223_372_036_854_776e18),
            (9_007_199_254_740_993, 1, 9_007_199_254_740_992.0),
            (18_014_398_509_481_987, 2, 9_007_199_254_740_994.0),
            (1, u64::MAX, 5.421_010_862_427_522e-20),
        ] {
            assert_eq!(
                IntMean { sum, count }.finish(),
                Some(expected),
                "{sum} / {count}"
            );
        }
        assert_eq!(IntMean::default().finish(), None);
    }
}
