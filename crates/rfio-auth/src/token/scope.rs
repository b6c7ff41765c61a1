//! Access granted by a token: rights on subtrees, from the words of its `scope` claim.
//!
//! `storage.read:/path`, `storage.create:/path` and `storage.modify:/path` of the WLCG profile,
//! `read:/path` and `write:/path` of SciTokens. Other words grant nothing.

/// A right on a subtree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ScopeRight {
    /// Read files and list directories.
    Read,
    /// Create files and directories under unused names, and rename to such names.
    Create,
    /// Change everything, including Create.
    Modify,
}

/// A path's components.
pub type Components = Vec<Vec<u8>>;

/// Splits a path. Empty components and `.` are skipped. Returns `None` for a path with `..`, since
/// only the file system could resolve it.
pub fn components(path: &[u8]) -> Option<Components> {
    let parts = path.split(|&byte| byte == b'/');
    let mut found = Vec::new();
    for part in parts.filter(|part| !part.is_empty() && *part != b".") {
        if part == b".." {
            return None;
        }
        found.push(part.to_vec());
    }
    Some(found)
}

/// One right on one subtree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scope {
    right: ScopeRight,
    subtree: Components,
}

/// All rights that a token grants.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Scopes(Vec<Scope>);

/// Why a scope claim invalidates its token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadScope {
    /// A storage scope has no path; the WLCG profile requires that such a token is refused.
    #[error("its scope '{0}' has no path; the issuer must write {0}:/PATH")]
    Pathless(String),
    /// The path is not absolute or has `..`.
    #[error("the path of its scope '{0}' is not absolute, or has '..'")]
    Path(String),
}

impl Scopes {
    /// Parses a scope claim. Its paths are relative to `base`, a path of this service.
    ///
    /// # Errors
    /// A path is missing or invalid.
    pub fn parse(claim: &str, base: &Components) -> Result<Self, BadScope> {
        let mut scopes = Vec::new();
        for word in claim.split_ascii_whitespace() {
            let (name, path) = match word.split_once(':') {
                Some((name, path)) => (name, Some(path)),
                None => (word, None),
            };
            let right = match name {
                "storage.read" | "read" => ScopeRight::Read,
                "storage.create" => ScopeRight::Create,
                "storage.modify" | "write" => ScopeRight::Modify,
                _ => continue,
            };
            let path = match path {
                Some(path) => path,
                None if name.starts_with("storage.") => {
                    return Err(BadScope::Pathless(word.into()));
                }
                // The word may equally belong to another service.
                None => continue,
            };
            let below = path
                .starts_with('/')
                .then(|| components(path.as_bytes()))
                .flatten()
                .ok_or_else(|| BadScope::Path(word.into()))?;
            let subtree = base.iter().cloned().chain(below).collect();
            scopes.push(Scope { right, subtree });
        }
        Ok(Self(scopes))
    }

    /// Returns whether nothing is granted.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether anything may be changed anywhere.
    pub fn may_change(&self) -> bool {
        self.0.iter().any(|scope| scope.right != ScopeRight::Read)
    }

    /// Returns whether a right holds for a path.
    pub fn has(&self, right: ScopeRight, path: &Components) -> bool {
        self.0.iter().any(|scope| {
            let fits = match right {
                ScopeRight::Read => scope.right == ScopeRight::Read,
                change => scope.right >= change,
            };
            fits && path.starts_with(&scope.subtree)
        })
    }

    /// Returns whether any right holds for a path.
    pub fn covers(&self, path: &Components) -> bool {
        self.0.iter().any(|scope| path.starts_with(&scope.subtree))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parts(path: &str) -> Components {
        components(path.as_bytes()).unwrap()
    }

    fn scopes(claim: &str) -> Scopes {
        Scopes::parse(claim, &Vec::new()).unwrap()
    }

    #[test]
    fn a_right_holds_only_below_its_path() {
        let scopes = scopes("openid storage.read:/data storage.create:/new/ storage.modify:/mine");
        for (right, path, holds) in [
            (ScopeRight::Read, "/data", true),
            (ScopeRight::Read, "//data/./x", true),
            (ScopeRight::Read, "/data2", false),
            (ScopeRight::Read, "/data2/x", false),
            (ScopeRight::Read, "/dat", false),
            (ScopeRight::Read, "/", false),
            (ScopeRight::Create, "/data/x", false),
            (ScopeRight::Modify, "/data/x", false),
            (ScopeRight::Create, "/new/x", true),
            (ScopeRight::Modify, "/new/x", false),
            (ScopeRight::Read, "/new/x", false),
            (ScopeRight::Create, "/mine/x", true),
            (ScopeRight::Modify, "/mine/x", true),
            (ScopeRight::Read, "/mine/x", false),
        ] {
            assert_eq!(scopes.has(right, &parts(path)), holds, "{right:?} {path}");
        }
    }

    #[test]
    fn scitokens_scope_names_are_understood() {
        let scopes = scopes("read:/a write:/b compute.read read");
        assert!(scopes.has(ScopeRight::Read, &parts("/a")));
        assert!(scopes.has(ScopeRight::Modify, &parts("/b")));
        assert!(!scopes.has(ScopeRight::Read, &parts("/b")));
    }

    #[test]
    fn storage_scopes_with_missing_or_invalid_paths_are_refused() {
        for claim in [
            "storage.read",
            "storage.modify storage.read:/a",
            "storage.read:",
            "storage.read:data",
            "storage.read:/data/..",
            "read:../x",
        ] {
            assert!(Scopes::parse(claim, &Vec::new()).is_err(), "{claim}");
        }
        assert!(
            Scopes::parse("openid profile", &Vec::new())
                .unwrap()
                .is_empty()
        );
    }

    #[test]
    fn paths_are_below_the_issuers_base() {
        let scopes = Scopes::parse("storage.read:/x storage.modify:/", &parts("/atlas")).unwrap();
        assert!(scopes.has(ScopeRight::Read, &parts("/atlas/x/y")));
        assert!(scopes.has(ScopeRight::Modify, &parts("/atlas/z")));
        for outside in ["/x", "/", "/atlas2", "/cms"] {
            assert!(!scopes.covers(&parts(outside)), "{outside}");
        }
    }

    proptest! {
        /// Oracle: a path is covered if its text equals the scope's, or continues it after a slash.
        #[test]
        fn coverage_equals_a_text_comparison(
            scope in "(/[ab]{1,2}){0,3}", path in "(/[ab.]{1,2}){0,4}") {
            let scopes = scopes(&format!("read:/{scope}"));
            if let Some(parts) = components(path.as_bytes()) {
                let text: String = parts.iter()
                    .map(|part| format!("/{}", String::from_utf8_lossy(part)))
                    .collect();
                let expected = text == scope || text.starts_with(&format!("{scope}/"));
                prop_assert_eq!(scopes.has(ScopeRight::Read, &parts), expected);
            } else {
                prop_assert!(path.contains(".."));
            }
        }
    }
}
