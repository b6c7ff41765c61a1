//! Access rights by user, group, path and operation.
//!
//! # Rules
//!
//! - A line grants a user, or all users, rights on a path and all paths below it, up to the next
//!   deeper line of the same user or of all users.
//! - A user has the union of the rights of three kinds of lines: the user's deepest line, the
//!   deepest line of each of the user's groups, and the deepest line for all users. Paths without a
//!   line grant nothing.
//! - Group membership comes from the file, or from the issuer of the token that authenticated the
//!   user. The former have no colon in their names and the latter have one, so that neither can be
//!   taken for the other.
//! - Rights apply to the real path of the opened file, never to the path in the request: the export
//!   determines it after the kernel's path walk, so links and `..` lead to no other rights.
//! - A directory or file that has a line, or a line below it, cannot be renamed: the line would no
//!   longer apply to it. Nor can anything take a name that has lines below it.
//! - A move or rename must not gain rights (`Rights::may_move`).

use std::collections::{HashMap, HashSet};
use std::fmt;

use super::config_lines::{BadLine, Field, lines};

/// Maximum number of components of a line's path; bounds the memory a line costs.
const DEEPEST: usize = 64;

/// A set of operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Operations(u8);

impl Operations {
    /// No operation.
    pub const NONE: Self = Self(0);
    /// Read files.
    pub const READ: Self = Self(1);
    /// Create, change and replace, and rename within a directory.
    pub const WRITE: Self = Self(2);
    /// List directories.
    pub const LIST: Self = Self(4);
    /// Remove, and move to another directory.
    pub(crate) const DELETE: Self = Self(8);
    /// All operations.
    pub(crate) const ALL: Self = Self(15);

    const NAMES: [(&'static str, Self); 4] = [
        ("read", Self::READ),
        ("write", Self::WRITE),
        ("list", Self::LIST),
        ("delete", Self::DELETE),
    ];

    /// Returns the union of both.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns whether `other` is a subset.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns the difference.
    const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Parses `read,list`, `all` or `none`.
    fn parse(field: &Field) -> Result<Self, String> {
        match &field.raw[..] {
            b"all" => return Ok(Self::ALL),
            b"none" => return Ok(Self::NONE),
            _ => {}
        }
        field
            .raw
            .split(|&byte| byte == b',')
            .try_fold(Self::NONE, |all, name| {
                let found = Self::NAMES
                    .iter()
                    .find(|(known, _)| known.as_bytes() == name);
                let (_, one) = found.ok_or_else(|| {
                    format!(
                        "'{}' is unknown; expected read, write, list, delete, all or none",
                        name.escape_ascii()
                    )
                })?;
                Ok(all.and(*one))
            })
    }
}

impl fmt::Display for Operations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = Self::NAMES.iter().filter(|(_, one)| self.has(*one));
        let names: Vec<_> = names.map(|(name, _)| *name).collect();
        f.write_str(&names.join(","))
    }
}

/// Rights that a request needs on a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// Read attributes: needs any right on the path, or on a path below it.
    Look,
    /// Any of these.
    AnyOf(Operations),
    /// All of these.
    All(Operations),
}

/// The subject of an access check: the user, and the groups that their token names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subject {
    /// The user's name.
    pub user: String,
    /// Groups as `ISSUER:GROUP`, if a token names some.
    pub groups: Vec<String>,
}

impl Subject {
    /// Returns a subject without a token's groups.
    pub fn user(name: impl Into<String>) -> Self {
        Self {
            user: name.into(),
            groups: Vec::new(),
        }
    }
}

/// Identifies a user or a group in the lines.
type Number = u32;

/// A component of the paths that lines name.
#[derive(Debug, Default)]
struct Node {
    children: HashMap<Box<[u8]>, usize>,
    everybody: Option<Operations>,
    some: HashMap<Number, Operations>,
    /// Whether a line below grants all users something, and the users and groups with such a line.
    leads_everybody: bool,
    leads: HashSet<Number>,
}

/// All lines.
#[derive(Debug)]
pub struct Rights {
    nodes: Vec<Node>,
    users: HashMap<String, Number>,
    groups: HashMap<String, Number>,
    /// Groups of each user, as defined in the file.
    memberships: HashMap<String, Vec<Number>>,
    numbers: Number,
}

impl Rights {
    /// Parses a file of lines `USER OPERATIONS PATH`, `@GROUP OPERATIONS PATH` and `@GROUP members
    /// USER,USER...`.
    ///
    /// # Errors
    /// Returns the first line that is invalid, repeats an earlier one, or grants rights to a group
    /// without members.
    pub fn parse(text: &[u8]) -> Result<Self, BadLine> {
        let mut rights = Self {
            nodes: vec![Node::default()],
            users: HashMap::new(),
            groups: HashMap::new(),
            memberships: HashMap::new(),
            numbers: 0,
        };
        let mut first_uses = Vec::new();
        let mut defined = HashSet::new();
        for line in lines(text) {
            let (number, fields) = line?;
            let bad = |what| BadLine { line: number, what };
            let group = fields[0].group().transpose().map_err(bad)?;
            let is_definition = fields.get(1).is_some_and(|field| field.raw == b"members");
            match (group, is_definition) {
                (Some(group), true) => {
                    rights.add_members(&group, &fields).map_err(bad)?;
                    defined.insert(group);
                }
                (group, _) => {
                    rights.add(&fields).map_err(bad)?;
                    first_uses.extend(group.map(|group| (number, group)));
                }
            }
        }
        let is_nobodys =
            |(_, group): &&(usize, String)| !group.contains(':') && !defined.contains(group);
        match first_uses.iter().find(is_nobodys) {
            Some((line, group)) => Err(BadLine {
                line: *line,
                what: format!(
                    "group '{group}' has no members; add a line '@{group} members USER,USER'"
                ),
            }),
            None => Ok(rights),
        }
    }

    fn next_number(&mut self) -> Number {
        self.numbers += 1;
        self.numbers
    }

    fn number_of_group(&mut self, group: &str) -> Number {
        match self.groups.get(group) {
            Some(&number) => number,
            None => {
                let number = self.next_number();
                self.groups.insert(group.to_owned(), number);
                number
            }
        }
    }

    fn add_members(&mut self, group: &str, fields: &[Field]) -> Result<(), String> {
        let [_, _, members] = fields else {
            return Err(
                "expected @GROUP members USER,USER..., without spaces between members".into(),
            );
        };
        if group.contains(':') {
            let what = "has a colon: tokens of an issuer define its members";
            return Err(format!("group '{group}' {what}"));
        }
        let number = self.number_of_group(group);
        for member in members.list()? {
            let user = member.user()?;
            let groups = self.memberships.entry(user.clone()).or_default();
            if groups.contains(&number) {
                return Err(format!("user '{user}' is already in group '{group}'"));
            }
            groups.push(number);
        }
        Ok(())
    }

    fn add(&mut self, fields: &[Field]) -> Result<(), String> {
        let [user, operations, path] = fields else {
            let expected = "expected USER OPERATIONS PATH, as in 'ann read,list /data'; a space \
                            in a name is written \\040";
            return Err(expected.into());
        };
        let operations = Operations::parse(operations)?;
        if path.bytes.first() != Some(&b'/') {
            let shown = path.bytes.escape_ascii();
            return Err(format!("path '{shown}' does not begin with a slash"));
        }
        let parts: Vec<&[u8]> = components(&path.bytes).collect();
        if parts.contains(&&b".."[..]) {
            return Err("a path must not contain '..'".into());
        }
        if parts.len() > DEEPEST {
            return Err(format!("a path must have at most {DEEPEST} components"));
        }
        let user = if user.is_every_user() {
            None
        } else if let Some(group) = user.group() {
            Some(self.number_of_group(&group?))
        } else {
            let name = user.user()?;
            let next = self.next_number();
            Some(*self.users.entry(name).or_insert(next))
        };
        let mut at = 0;
        for part in parts {
            if operations != Operations::NONE {
                match user {
                    Some(user) => {
                        self.nodes[at].leads.insert(user);
                    }
                    None => self.nodes[at].leads_everybody = true,
                }
            }
            at = match self.nodes[at].children.get(part) {
                Some(&child) => child,
                None => {
                    let child = self.nodes.len();
                    self.nodes.push(Node::default());
                    self.nodes[at].children.insert(part.into(), child);
                    child
                }
            };
        }
        let node = &mut self.nodes[at];
        let earlier = match user {
            Some(user) => node.some.insert(user, operations),
            None => node.everybody.replace(operations),
        };
        match earlier {
            Some(_) => Err("this user or group already has a line for this path".into()),
            None => Ok(()),
        }
    }

    /// Returns a user's operations on a real path, relative to the service's root.
    pub fn of(&self, subject: &Subject, path: &[u8]) -> Operations {
        let mut own: Vec<(Number, Operations)> = self
            .numbers(subject)
            .map(|number| (number, Operations::NONE))
            .collect();
        let mut everybody = Operations::NONE;
        for node in self.walk(path) {
            for (number, deepest) in &mut own {
                *deepest = node.some.get(number).copied().unwrap_or(*deepest);
            }
            everybody = node.everybody.unwrap_or(everybody);
        }
        let own = own.into_iter().map(|(_, deepest)| deepest);
        own.fold(everybody, Operations::and)
    }

    /// Returns the numbers that apply to a subject: the user's and those of the user's groups.
    fn numbers<'a>(&'a self, subject: &'a Subject) -> impl Iterator<Item = Number> + 'a {
        let own = self.users.get(&subject.user).into_iter();
        let groups = self.memberships.get(&subject.user).into_iter().flatten();
        // A token cannot make its user a member of a group that the file defines.
        let of_token = subject.groups.iter().filter(|group| group.contains(':'));
        let of_token = of_token.filter_map(|group| self.groups.get(group));
        own.chain(groups).chain(of_token).copied()
    }

    /// Returns whether a user's rights on a path are sufficient.
    pub fn allow(&self, subject: &Subject, path: &[u8], need: Need) -> bool {
        let has = self.of(subject, path);
        match need {
            Need::All(all) => has.has(all),
            Need::AnyOf(some) => has.0 & some.0 != 0,
            Need::Look => has != Operations::NONE || self.leads(subject, path),
        }
    }

    /// Returns whether a user may move or rename `from` to `to`. The caller has checked that the
    /// user may write at `to` and remove `from`.
    pub(crate) fn may_move(&self, subject: &Subject, from: &[u8], to: &[u8]) -> bool {
        let gained = self
            .of(subject, to)
            .without(Operations::DELETE)
            .without(self.of(subject, from));
        let is_named = self.node(from).is_some();
        let leads_on = self.node(to).is_some_and(|node| !node.children.is_empty());
        gained == Operations::NONE && !is_named && !leads_on
    }

    /// Returns whether the path is above one on which the user has rights.
    fn leads(&self, subject: &Subject, path: &[u8]) -> bool {
        let Some(node) = self.node(path) else {
            return false;
        };
        let mut numbers = self.numbers(subject);
        node.leads_everybody || numbers.any(|number| node.leads.contains(&number))
    }

    fn node(&self, path: &[u8]) -> Option<&Node> {
        let depth = components(path).count();
        self.walk(path).nth(depth)
    }

    /// Returns the existing nodes from the root towards a path.
    fn walk<'a>(&'a self, path: &[u8]) -> impl Iterator<Item = &'a Node> {
        let mut parts = components(path);
        std::iter::successors(Some(&self.nodes[0]), move |node| {
            let child = node.children.get(parts.next()?)?;
            Some(&self.nodes[*child])
        })
    }
}

/// Returns the components of a path without empty ones and `.`.
pub(super) fn components(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|&byte| byte == b'/')
        .filter(|part| !part.is_empty() && *part != b".")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rights(text: &str) -> Rights {
        Rights::parse(text.as_bytes()).unwrap()
    }

    fn said(rights: &Rights, user: &str, path: &str) -> String {
        rights.of(&Subject::user(user), path.as_bytes()).to_string()
    }

    fn allow(rights: &Rights, user: &str, path: &[u8], need: Need) -> bool {
        rights.allow(&Subject::user(user), path, need)
    }

    #[test]
    fn the_deepest_line_decides_for_the_user_and_for_all() {
        let rights = rights(
            "* read,list /\n* none /private\nann all /home/ann\nann read /home/ann/old\n\
             bob none /\n",
        );
        for (user, path, expected) in [
            ("cy", "/", "read,list"),
            ("cy", "/private", ""),
            ("cy", "/private/deep/er", ""),
            ("cy", "/privateer", "read,list"),
            ("ann", "/home/ann/x", "read,write,list,delete"),
            // The line for all users grants list, which the user's deeper line does not remove.
            ("ann", "/home/ann/old/x", "read,list"),
            ("ann", "/home", "read,list"),
            ("bob", "/home", "read,list"),
            ("bob", "/private", ""),
        ] {
            assert_eq!(said(&rights, user, path), expected, "{user} {path}");
        }
    }

    #[test]
    fn paths_without_a_line_are_refused() {
        let rights = rights("ann read /a/b\n");
        assert_eq!(said(&rights, "ann", "/a"), "");
        assert!(!allow(&rights, "ann", b"/a", Need::All(Operations::LIST)));
        // But its attributes can be read by the user whose path leads through it.
        assert!(allow(&rights, "ann", b"/a", Need::Look));
        assert!(allow(&rights, "ann", b"/", Need::Look));
        assert!(!allow(&rights, "bob", b"/a", Need::Look));
        assert!(!allow(&rights, "ann", b"/c", Need::Look));
        assert_eq!(said(&Rights::parse(b"").unwrap(), "ann", "/"), "");
    }

    #[test]
    fn renaming_never_gains_rights() {
        let rights = rights(
            "ann all /ann\nann read,list /pub\nann list /secret\n* none /ann/own\n\
             ann list /ann/box\nann all /ann/box/in\n",
        );
        let may = |from: &str, to: &str| {
            rights.may_move(&Subject::user("ann"), from.as_bytes(), to.as_bytes())
        };
        assert!(may("/ann/a", "/ann/b"));
        assert!(
            may("/ann/a", "/pub/b"),
            "it loses rights, which is not for this to refuse"
        );
        assert!(!may("/secret/a", "/ann/a"), "it could be read there");
        assert!(!may("/pub/a", "/ann/a"), "it could be written there");
        assert!(!may("/ann/own", "/ann/other"), "a line names it");
        assert!(!may("/ann", "/pub/ann"), "lines apply to paths below it");
        assert!(
            may("/ann/a", "/ann/own"),
            "a line for the new name alone is judged as any"
        );
        assert!(
            !may("/secret/a", "/ann/box"),
            "its content could be read as /ann/box/in"
        );
    }

    #[test]
    fn invalid_lines_are_named() {
        for (text, line, words) in [
            ("ann read", 1, "expected USER"),
            ("# x\nann reed /a", 2, "'reed' is unknown"),
            ("ann read,, /a", 1, "'' is unknown"),
            ("ann read a", 1, "begin with a slash"),
            ("ann read /a/../b", 1, "must not contain '..'"),
            ("ann read /a\nann list //a/./", 2, "already"),
            ("* read /\n* read /", 2, "already"),
            ("\\377 read /", 1, "not UTF-8"),
            ("* read /\n@g read /a", 2, "group 'g' has no members"),
            ("@g members", 1, "expected @GROUP members"),
            ("@g members a, b", 1, "expected @GROUP members"),
            ("@g members a,,b", 1, "is empty"),
            ("@g members a,a", 1, "'a' is already in group 'g'"),
            ("@g members \\377", 1, "not UTF-8"),
            ("@ read /", 1, "a group has no name"),
            ("@wlcg:/g members a", 1, "tokens of an issuer"),
            ("@g members a\n@g read /\n@g list /", 3, "already"),
            ("ann members a", 1, "'members' is unknown"),
        ] {
            let bad = Rights::parse(text.as_bytes()).unwrap_err();
            assert!(
                bad.line == line && bad.what.contains(words),
                "{text}: {bad}"
            );
        }
        let deep = format!("ann read {}", "/x".repeat(DEEPEST + 1));
        assert!(Rights::parse(deep.as_bytes()).is_err());
    }

    #[test]
    fn group_members_get_the_deepest_line_of_each_group() {
        let rights = rights(
            "@physics read,list /data\n@physics members ann,bob\n@shift write /data\n\
             @shift members bob,a\\054b\n@physics none /data/raw\nbob delete /data\n\
             * list /pub\n\\100physics read /other\n",
        );
        for (user, path, expected) in [
            ("ann", "/data/x", "read,list"),
            ("ann", "/data/raw/x", ""),
            ("ann", "/pub", "list"),
            // A group's deeper line removes only that group's rights.
            ("bob", "/data/raw/x", "write,delete"),
            ("bob", "/data", "read,write,list,delete"),
            ("a,b", "/data", "write"),
            ("cy", "/data", ""),
            ("physics", "/data", ""),
            // A user's name never denotes a group.
            ("@physics", "/data", ""),
            ("@physics", "/other", "read"),
            ("ann", "/other", ""),
        ] {
            assert_eq!(said(&rights, user, path), expected, "{user} {path}");
        }
        assert!(allow(&rights, "ann", b"/", Need::Look));
        assert!(!allow(&rights, "cy", b"/data", Need::Look));
    }

    #[test]
    fn token_groups_match_only_their_issuer() {
        let rights = rights("@wlcg:/atlas read /atlas\n@physics members ann\n@physics all /data\n");
        let of = |groups: &[&str], path: &str| {
            let subject = Subject {
                user: "cy@wlcg".into(),
                groups: groups.iter().map(|&group| group.to_owned()).collect(),
            };
            rights.of(&subject, path.as_bytes()).to_string()
        };
        assert_eq!(of(&["wlcg:/atlas"], "/atlas/x"), "read");
        for other in ["wlcg:/atlas/x", "cms:/atlas", "/atlas", "wlcg", ""] {
            assert_eq!(of(&[other], "/atlas/x"), "", "{other}");
        }
        assert_eq!(of(&["physics", "wlcg:physics"], "/data"), "");
        assert_eq!(said(&rights, "wlcg:/atlas", "/atlas"), "");
    }

    #[test]
    fn users_and_paths_are_bytes() {
        let rights = Rights::parse(b"a\\040b\\012c read /x\\040y/\xff\n").unwrap();
        let user = Subject::user("a b\nc");
        assert_eq!(rights.of(&user, b"/x y/\xff"), Operations::READ);
        assert_eq!(rights.of(&user, b"/x y"), Operations::NONE);
    }

    #[test]
    fn a_hundred_thousand_lines_are_processed_in_bounded_time() {
        use std::fmt::Write;
        let mut text = String::new();
        for number in 0..100_000 {
            let _ = writeln!(text, "u{number} all /home/{}/u{number}/data", number % 100);
        }
        let begun = std::time::Instant::now();
        let rights = rights(&text);
        let deep = ["/home/7/u7/data", &"/y".repeat(2000)].concat();
        for _ in 0..1000 {
            let all = Need::All(Operations::ALL);
            assert!(allow(&rights, "u7", deep.as_bytes(), all));
            assert!(!allow(&rights, "u8", deep.as_bytes(), Need::Look));
        }
        let took = begun.elapsed();
        assert!(took.as_secs() < 10, "{took:?}");
    }

    /// Reference implementation of the rules, without a tree.
    fn expected(lines: &[(Option<u8>, u8, Vec<u8>)], user: u8, path: &[u8]) -> u8 {
        let deepest = |whose: Option<u8>| {
            let covers =
                |line: &&(Option<u8>, u8, Vec<u8>)| line.0 == whose && path.starts_with(&line.2);
            let line = lines.iter().filter(covers).max_by_key(|line| line.2.len());
            line.map_or(0, |line| line.1)
        };
        deepest(Some(user)) | deepest(None)
    }

    fn spelled(path: &[u8]) -> String {
        path.iter()
            .map(|part| format!("/{part}"))
            .collect::<String>()
            + "/"
    }

    proptest! {
        #[test]
        fn the_tree_equals_the_list_of_rules(
            lines in proptest::collection::vec(
                (prop::option::of(0u8..3), 0u8..16, proptest::collection::vec(0u8..3, 0..4)),
                0..12,
            ),
            user in 0u8..4, path in proptest::collection::vec(0u8..3, 0..6),
        ) {
            let mut seen = HashSet::new();
            let lines: Vec<_> = lines
                .into_iter()
                .filter(|line| seen.insert((line.0, line.2.clone())))
                .collect();
            let text: String = lines
                .iter()
                .map(|(whose, operations, path)| {
                    let whose = whose.map_or("*".into(), |user| format!("u{user}"));
                    let operations = match operations {
                        0 => "none".into(),
                        some => Operations(*some).to_string(),
                    };
                    format!("{whose} {operations} {}\n", spelled(path))
                })
                .collect();
            let subject = Subject::user(format!("u{user}"));
            let found = rights(&text).of(&subject, spelled(&path).as_bytes());
            prop_assert_eq!(found.0, expected(&lines, user, &path), "{}", text);
        }
    }
}
