//! The macros. Each makes a [`Site`](super::Site), lists it in the catalogue, and says what it sees.

/// A site in the catalogue. For the other macros.
#[doc(hidden)]
#[macro_export]
macro_rules! assertion_site {
    ($duty:ident, $shape:expr, $must_be_reached:literal, $message:expr) => {{
        static SITE: $crate::assert::Site = $crate::assert::Site {
            message: $message,
            duty: $crate::assert::Duty::$duty,
            shape: $shape,
            must_be_reached: $must_be_reached,
            module: ::std::module_path!(),
            file: ::std::file!(),
            line: ::std::line!(),
            column: ::std::column!(),
        };
        $crate::assert::inventory::submit! { $crate::assert::Listed(&SITE) }
        &SITE
    }};
}

/// What stands behind the message, as text. For the other macros.
#[doc(hidden)]
#[macro_export]
macro_rules! assertion_evidence {
    () => { || ::std::string::String::new() };
    ($($evidence:tt)+) => { || ::std::format!($($evidence)+) };
}

/// `condition` is true each time. Evidence may follow the message, as in `format!`; it is made only on a failure.
///
/// On a failure the run goes on and is an `invariant` failure with the message as its property. Outside a run it
/// panics.
///
/// ```
/// # let (term, seen) = (1, 1);
/// sim_runtime::assert_always!(term >= seen, "terms do not go back", "{term} after {seen}");
/// ```
#[macro_export]
macro_rules! assert_always {
    ($condition:expr, $message:literal $(, $($evidence:tt)*)?) => {
        $crate::assertion_site!(Always, $crate::assert::Shape::Fact, true, $message)
            .see($condition, $crate::assertion_evidence!($($($evidence)*)?))
    };
}

/// As [`assert_always!`](crate::assert_always); but it is no gap when nothing ever comes here.
#[macro_export]
macro_rules! assert_always_or_unreachable {
    ($condition:expr, $message:literal $(, $($evidence:tt)*)?) => {
        $crate::assertion_site!(Always, $crate::assert::Shape::Fact, false, $message)
            .see($condition, $crate::assertion_evidence!($($($evidence)*)?))
    };
}

/// Nothing ever comes here.
#[macro_export]
macro_rules! assert_unreachable {
    ($message:literal $(, $($evidence:tt)*)?) => {
        $crate::assertion_site!(Always, $crate::assert::Shape::Place, false, $message)
            .see(false, $crate::assertion_evidence!($($($evidence)*)?))
    };
}

/// Something comes here in some run.
#[macro_export]
macro_rules! assert_reachable {
    ($message:literal) => {
        $crate::assertion_site!(Sometimes, $crate::assert::Shape::Place, true, $message)
            .see(true, $crate::assertion_evidence!())
    };
}

/// `condition` is true here in some run.
#[macro_export]
macro_rules! assert_sometimes {
    ($condition:expr, $message:literal) => {
        $crate::assertion_site!(Sometimes, $crate::assert::Shape::Fact, true, $message)
            .see($condition, $crate::assertion_evidence!())
    };
}

/// All of these are true at once in some run. A search climbs by how many are.
///
/// ```
/// # let (a, b) = (true, false);
/// sim_runtime::assert_sometimes_all!("both are slow", [("disk", a), ("network", b)]);
/// ```
#[macro_export]
macro_rules! assert_sometimes_all {
    ($message:literal, [$(($name:literal, $condition:expr)),+ $(,)?]) => {
        $crate::assertion_site!(Sometimes, $crate::assert::Shape::All(&[$($name),+]), true, $message)
            .see_together(&[$($condition),+])
    };
}

/// Each combination of these values that occurs is something new to a search, up to
/// [`MOST_VALUES`](crate::assert::MOST_VALUES) of them. Values are integers, truth values and `Duration`s; take
/// magnitudes of what is large.
///
/// ```
/// # let (retries, phase) = (3_u32, 1_u8);
/// sim_runtime::assert_sometimes_each!("retries by phase", [("phase", phase), ("retries", retries.min(4))]);
/// ```
#[macro_export]
macro_rules! assert_sometimes_each {
    ($message:literal, [$(($name:literal, $value:expr)),+ $(,)?]) => {
        $crate::assertion_site!(Sometimes, $crate::assert::Shape::Each(&[$($name),+]), true, $message)
            .see_values(&[$($crate::assert::Measure::measure($value)),+])
    };
}

/// A comparison. For the other macros.
#[doc(hidden)]
#[macro_export]
macro_rules! assertion_of_numbers {
    ($duty:ident, $comparison:ident, $left:expr, $right:expr, $message:literal, [$($evidence:tt)*]) => {
        $crate::assertion_site!(
            $duty,
            $crate::assert::Shape::Number($crate::assert::Comparison::$comparison),
            true,
            $message
        )
        .compare($left, $right, $crate::assertion_evidence!($($evidence)*))
    };
}

/// Declares the macros of comparisons.
macro_rules! comparisons {
    ($d:tt $($(#[$doc:meta])* $name:ident = $duty:ident $comparison:ident;)*) => {
        $(
            $(#[$doc])*
            ///
            /// The least and the greatest number on the left are kept as watermarks.
            #[macro_export]
            macro_rules! $name {
                ($d left:expr, $d right:expr, $d message:literal $d(, $d($d evidence:tt)*)?) => {
                    $d crate::assertion_of_numbers!(
                        $duty, $comparison, $d left, $d right, $d message, [$d($d($d evidence)*)?]
                    )
                };
            }
        )*
    };
}

comparisons! { $
    /// The first number is greater than the second each time; see [`assert_always!`](crate::assert_always).
    assert_always_greater_than = Always Greater;
    /// The first number is not less than the second any time; see [`assert_always!`](crate::assert_always).
    assert_always_greater_than_or_equal_to = Always GreaterOrEqual;
    /// The first number is less than the second each time; see [`assert_always!`](crate::assert_always).
    assert_always_less_than = Always Less;
    /// The first number is not greater than the second any time; see [`assert_always!`](crate::assert_always).
    assert_always_less_than_or_equal_to = Always LessOrEqual;
    /// The first number is greater than the second in some run.
    assert_sometimes_greater_than = Sometimes Greater;
    /// The first number is not less than the second in some run.
    assert_sometimes_greater_than_or_equal_to = Sometimes GreaterOrEqual;
    /// The first number is less than the second in some run.
    assert_sometimes_less_than = Sometimes Less;
    /// The first number is not greater than the second in some run.
    assert_sometimes_less_than_or_equal_to = Sometimes LessOrEqual;
}
