//! Which seeds are meant: `200` is 1 to 200, `5..9` is 5, 6, 7, 8 (half open, as in Rust).

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

/// A range of seeds that is not empty.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Seeds(Range<u64>);

/// Why a text names no seeds.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SeedsError {
    /// Not a whole number, or too large a one.
    #[error("`{0}` is not a whole number below 2^63")]
    Number(String),
    /// Nothing between the ends.
    #[error("`{0}..{1}` is empty: the end must be greater than the start")]
    Empty(u64, u64),
    /// A count of 0.
    #[error("0 seeds would test nothing")]
    Zero,
}

/// Beyond this a seed or count is taken for a mistake.
const LIMIT: u64 = 1 << 63;

impl Seeds {
    /// How many.
    pub fn count(&self) -> u64 {
        self.0.end - self.0.start
    }

    /// The seeds, in order or in reverse.
    pub fn iter(&self, reverse: bool) -> Box<dyn Iterator<Item = u64> + Send> {
        if reverse { Box::new(self.0.clone().rev()) } else { Box::new(self.0.clone()) }
    }
}

fn number(text: &str) -> Result<u64, SeedsError> {
    let parsed = text.trim().replace('_', "").parse::<u64>();
    parsed.ok().filter(|n| *n < LIMIT).ok_or_else(|| SeedsError::Number(text.to_owned()))
}

impl FromStr for Seeds {
    type Err = SeedsError;

    fn from_str(text: &str) -> Result<Self, SeedsError> {
        match text.split_once("..") {
            Some((start, end)) => {
                let (start, end) = (number(start)?, number(end)?);
                if start < end { Ok(Self(start..end)) } else { Err(SeedsError::Empty(start, end)) }
            }
            None => match number(text)? {
                0 => Err(SeedsError::Zero),
                count => Ok(Self(1..count + 1)),
            },
        }
    }
}

impl fmt::Display for Seeds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", self.0.start, self.0.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str) -> Vec<u64> {
        text.parse::<Seeds>().expect("seeds").iter(false).collect()
    }

    #[test]
    fn a_count_starts_at_one_and_a_range_is_half_open() {
        assert_eq!(all("3"), [1, 2, 3]);
        assert_eq!(all("5..8"), [5, 6, 7]);
        assert_eq!(all("0..1"), [0]);
        assert_eq!("5..8".parse::<Seeds>().expect("seeds").iter(true).collect::<Vec<_>>(), [7, 6, 5]);
    }

    #[test]
    fn nonsense_is_refused_with_a_reason() {
        assert_eq!("0".parse::<Seeds>(), Err(SeedsError::Zero));
        assert_eq!("5..3".parse::<Seeds>(), Err(SeedsError::Empty(5, 3)));
        assert_eq!("5..5".parse::<Seeds>(), Err(SeedsError::Empty(5, 5)));
        for text in
            ["", "x", "-1", "1.5", "..", "1..", "1...3", "99999999999999999999", "1..18446744073709551615"]
        {
            assert!(matches!(text.parse::<Seeds>(), Err(SeedsError::Number(_))), "{text}");
        }
    }
}
