//! Words that kubectl takes for truth values, since it reads YAML 1.1, and that are text for newer readers.

const WORDS: [&str; 6] = ["y", "n", "yes", "no", "on", "off"];

/// The first value of a field that is such a word without quotes, as a message.
pub(crate) fn first_bare_word(text: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let content = line.split(" #").next().unwrap_or_default();
        let content = content.trim_start().trim_start_matches("- ");
        if content.starts_with('#') {
            return None;
        }
        fields(content).find_map(|(name, value)| {
            let is_word = WORDS.iter().any(|word| value.eq_ignore_ascii_case(word));
            is_word.then(|| {
                format!(
                    "`{name}: {value}` is a truth value for kubectl, which reads YAML 1.1; write `{name}: \"{value}\"`"
                )
            })
        })
    })
}

/// Fields of a line with their bare values: of a block, or of a map in braces.
fn fields(line: &str) -> impl Iterator<Item = (&str, &str)> {
    line.split(['{', ',', '}']).filter_map(|part| {
        let (name, value) = part.split_once(": ")?;
        Some((name.trim(), value.trim()))
    })
}

#[cfg(test)]
mod tests {
    use super::first_bare_word;

    #[test]
    fn a_bare_word_is_named() {
        for (text, named) in [
            ("as: n", "`as: n`"),
            ("- {count: {}, as: y}", "`as: y`"),
            ("a: b\ntopic: Yes  # really", "`topic: Yes`"),
        ] {
            let found = first_bare_word(text).unwrap_or_default();
            assert!(found.starts_with(named), "{text}: {found}");
        }
    }

    #[test]
    fn quoted_words_comments_and_parts_of_words_are_left_alone() {
        for text in [
            "as: \"n\"",
            "as: 'off'",
            "as: north\nb: {name: noon}",
            "# as: n",
        ] {
            assert_eq!(first_bare_word(text), None, "{text}");
        }
    }
}
