//! Banned users: their sessions are refused and ended.

use std::collections::HashSet;

use super::config_lines::{BadLine, lines};

/// The banned users.
#[derive(Debug, Default)]
pub struct Bans(HashSet<String>);

impl Bans {
    /// Parses a file with one user per line.
    ///
    /// # Errors
    /// The first line that is not one user.
    pub fn parse(text: &[u8]) -> Result<Self, BadLine> {
        let mut users = HashSet::new();
        for line in lines(text) {
            let (line, fields) = line?;
            let bad = |what| BadLine { line, what };
            match &fields[..] {
                [user] if !user.is_every_user() => users.insert(user.user().map_err(bad)?),
                [_] => {
                    return Err(bad(
                        "'*' would ban all users; stop the service instead".into()
                    ));
                }
                _ => {
                    let what = "expected one user; a space in a name is written \\040";
                    return Err(bad(what.into()));
                }
            };
        }
        Ok(Self(users))
    }

    /// Returns whether a user is banned.
    pub fn has(&self, user: &str) -> bool {
        self.0.contains(user)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_bans_a_user() {
        let bans = Bans::parse(b"# x\nann\nb\\040c # why\n").unwrap();
        assert!(bans.has("ann") && bans.has("b c") && !bans.has("b") && !bans.has("*"));
        assert_eq!(Bans::parse(b"ann\nbob cy").unwrap_err().line, 2);
        assert_eq!(Bans::parse(b"*").unwrap_err().line, 1);
    }
}
