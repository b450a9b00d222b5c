//! Kubernetes quantities (`10Gi`, `250m`, `1e3`), exact.

/// The text is not a quantity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a quantity; write a number and a unit, for example 10Gi, 512Mi or 250m")]
pub struct QuantityError(pub String);

/// A quantity in billionths, the finest step that Kubernetes keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Quantity(i128);

const NANOS: i128 = 1_000_000_000;

impl Quantity {
    /// Nothing.
    pub const ZERO: Self = Self(0);
    /// One unit: a byte, a core.
    pub const ONE: Self = Self(NANOS);

    /// Reads a quantity. Finer digits than billionths are rounded away from zero, as Kubernetes does.
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        Self::read(text).ok_or_else(|| QuantityError(text.to_owned()))
    }

    /// Whole units, rounded up; none if negative or beyond 2^63 - 1, where Kubernetes caps.
    pub fn ceil(self) -> Option<u64> {
        let whole = self.0.div_euclid(NANOS) + i128::from(self.0.rem_euclid(NANOS) != 0);
        i64::try_from(whole)
            .ok()
            .and_then(|whole| u64::try_from(whole).ok())
    }

    fn read(text: &str) -> Option<Self> {
        let (negative, rest) = match text.as_bytes().first()? {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        let number_end = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(rest.len());
        let (number, suffix) = rest.split_at(number_end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty())
            || fraction.contains('.')
            || whole.len() + fraction.len() > 19
        {
            return None;
        }
        let digits: i128 = format!("{whole}{fraction}").parse().ok()?;
        let (base, power) = scale(suffix)?;
        let mut numerator = digits.checked_mul(NANOS)?;
        let mut denominator = 10_i128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
        let factor = base.checked_pow(power.unsigned_abs())?;
        if power < 0 {
            denominator = denominator.checked_mul(factor)?;
        } else {
            numerator = numerator.checked_mul(factor)?;
        }
        let nanos =
            numerator.div_euclid(denominator) + i128::from(numerator.rem_euclid(denominator) != 0);
        Some(Self(if negative { -nanos } else { nanos }))
    }
}

/// Base and exponent of a suffix.
fn scale(suffix: &str) -> Option<(i128, i32)> {
    Some(match suffix {
        "" => (10, 0),
        "n" => (10, -9),
        "u" => (10, -6),
        "m" => (10, -3),
        "k" => (10, 3),
        "M" => (10, 6),
        "G" => (10, 9),
        "T" => (10, 12),
        "P" => (10, 15),
        "E" => (10, 18),
        "Ki" => (1024, 1),
        "Mi" => (1024, 2),
        "Gi" => (1024, 3),
        "Ti" => (1024, 4),
        "Pi" => (1024, 5),
        "Ei" => (1024, 6),
        exponent => {
            let power: i32 = exponent.strip_prefix(['e', 'E'])?.parse().ok()?;
            (-9..=18).contains(&power).then_some((10, power))?
        }
    })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("10Gi", 10_737_418_240)]
    #[case("1.5Ki", 1_536)]
    #[case("1G", 1_000_000_000)]
    #[case("1e3", 1_000)]
    #[case("2E2", 200)]
    #[case("250m", 1)]
    #[case("+.5k", 500)]
    #[case("0", 0)]
    #[case("1E", 1_000_000_000_000_000_000)]
    fn quantities_have_the_value_that_kubernetes_documents(#[case] text: &str, #[case] ceil: u64) {
        assert_eq!(Quantity::parse(text).unwrap().ceil(), Some(ceil));
    }

    #[rstest]
    fn what_is_no_quantity_is_refused(
        #[values("", "Gi", "10GB", "1.2.3", "10 Gi", "1e", "ten", "-", ".", "1e99")] text: &str,
    ) {
        assert!(Quantity::parse(text).is_err());
    }

    #[test]
    fn order_does_not_depend_on_the_unit() {
        let of = |text| Quantity::parse(text).unwrap();
        assert!(of("1Gi") > of("1G"));
        assert_eq!(of("1024Mi"), of("1Gi"));
        assert!(of("-1") < of("0"));
    }
}
