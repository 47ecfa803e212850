//! On which platforms the doors are watched, and what is known of that.

/// What is known of the guard on a platform, as it was built.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Standing {
    /// The tests have run there.
    Tested,
    /// It compiles there, and nobody has run it.
    CompiledOnly,
    /// There is none for the platform.
    OtherPlatform,
    /// It was left out: the cargo feature is off.
    Off,
}

impl Standing {
    /// Of a build with or without the feature, for an operating system and an environment as `cfg` names them.
    pub fn of(is_on: bool, os: &str, env: &str) -> Self {
        match (is_on, os, env) {
            (false, ..) => Self::Off,
            (true, "linux", "gnu") => Self::Tested,
            (true, "macos", _) => Self::CompiledOnly,
            (true, ..) => Self::OtherPlatform,
        }
    }

    /// Of this build.
    pub fn here() -> Self {
        let env = if cfg!(target_env = "gnu") { "gnu" } else { "" };
        Self::of(cfg!(feature = "stand"), std::env::consts::OS, env)
    }

    /// Whether the doors are watched.
    pub fn stands(self) -> bool {
        matches!(self, Self::Tested | Self::CompiledOnly)
    }

    /// What a user has to know of it before relying on it.
    pub fn caveat(self) -> Option<&'static str> {
        Some(match self {
            Self::Tested => return None,
            Self::CompiledOnly => {
                "the guard is compiled only on this platform: nobody has run it here, and files are not named"
            }
            Self::OtherPlatform => {
                "there is no guard on this platform (Linux with glibc has one, and macOS one that is compiled only)"
            }
            Self::Off => "the guard is off: this was built without the cargo feature `guard`",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_run_is_said_to_be_compiled_only() {
        let caveat = |os, env| Standing::of(true, os, env).caveat();
        assert_eq!(caveat("linux", "gnu"), None);
        assert!(caveat("macos", "").is_some_and(|text| text.contains("compiled only on this platform")));
        assert!(caveat("linux", "musl").is_some_and(|text| text.starts_with("there is no guard")));
        assert!(caveat("windows", "msvc").is_some_and(|text| text.starts_with("there is no guard")));
        let off = Standing::of(false, "macos", "");
        assert!(off.caveat().is_some_and(|text| text.contains("feature `guard`")));
        assert!(!off.stands());
    }

    #[test]
    fn what_is_said_is_what_is_compiled() {
        assert_eq!(Standing::here().stands(), crate::STANDS);
    }
}
