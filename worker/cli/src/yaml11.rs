//! Words that kubectl takes for truth values, since it reads YAML 1.1, and that are text for newer readers.

const WORDS: [&str; 6] = ["y", "n", "yes", "no", "on", "off"];

/// Every such word that stands without quotes as the value of a field or as an item of a list, as a message.
pub(crate) fn bare_truth_values(text: &str) -> Vec<String> {
    text.lines()
        .map(|line| line.split(" #").next().unwrap_or_default().trim())
        .filter(|line| !line.starts_with('#'))
        .flat_map(values)
        .filter(|(_, value)| WORDS.iter().any(|word| value.eq_ignore_ascii_case(word)))
        .map(|(name, value)| {
            let (given, quoted) = match name {
                Some(name) => (format!("{name}: {value}"), format!("{name}: \"{value}\"")),
                None => (value.to_owned(), format!("\"{value}\"")),
            };
            format!(
                "`{given}` is a truth value for kubectl, which reads YAML 1.1; write `{quoted}`"
            )
        })
        .collect()
}

/// The bare values of a line, those of a field with its name: of a block, or of maps and lists in brackets.
fn values(line: &str) -> impl Iterator<Item = (Option<&str>, &str)> {
    line.split(['{', '}', '[', ']', ','])
        .map(|part| part.trim().trim_start_matches("- ").trim())
        .map(|part| match part.split_once(": ") {
            Some((name, value)) => (Some(name.trim()), value.trim()),
            None => (None, part),
        })
}

#[cfg(test)]
mod tests {
    use super::bare_truth_values;

    #[test]
    fn bare_words_are_named() {
        for (text, named) in [
            ("as: n", vec!["`as: n`"]),
            ("- {count: {}, as: y}", vec!["`as: y`"]),
            ("a: b\ntopic: Yes  # really", vec!["`topic: Yes`"]),
            ("keys: [user, n]", vec!["`n`"]),
            ("keys:\n  - Off\n  - user", vec!["`Off`"]),
            (
                "- {name: y, type: int64}\nas: no",
                vec!["`name: y`", "`as: no`"],
            ),
        ] {
            let found = bare_truth_values(text);
            assert_eq!(found.len(), named.len(), "{text}: {found:?}");
            for (found, named) in found.iter().zip(named) {
                assert!(found.starts_with(named), "{text}: {found}");
            }
        }
    }

    #[test]
    fn quoted_words_comments_and_parts_of_words_are_left_alone() {
        for text in [
            "as: \"n\"",
            "as: 'off'",
            "keys: ['n', \"y\"]",
            "as: north\nb: {name: noon}",
            "# as: n",
        ] {
            assert_eq!(bare_truth_values(text), Vec::<String>::new(), "{text}");
        }
    }
}
