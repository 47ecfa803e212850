//! Counts as people say them, for reports.

/// `0 clients`, `1 client`, `2 clients`: `noun` is one that takes an s.
pub fn counted(n: u64, noun: &str) -> String {
    format!("{n} {noun}{}", if n == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::counted;

    #[test]
    fn one_is_singular_and_nothing_else_is() {
        let told = [0, 1, 2, 11].map(|n| counted(n, "fault"));
        assert_eq!(told, ["0 faults", "1 fault", "2 faults", "11 faults"]);
    }
}
