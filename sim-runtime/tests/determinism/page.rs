//! The page shows the programs as they are, and says what is printed for each.
