//! Names of the resources that are capped for each user, and the caps for all users.

/// A counted resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Resource {
    /// Authenticated sessions.
    Session,
    /// Data queue pairs.
    QueuePair,
    /// Open files, of which a process has a limited number.
    OpenFile,
}

/// The caps.
#[derive(Debug, Clone, Copy)]
pub struct Caps {
    /// Sessions per user.
    pub sessions_per_user: usize,
    /// Sessions of all users.
    pub sessions: usize,
    /// Queue pairs per user.
    pub queue_pairs_per_user: usize,
    /// Queue pairs of all users.
    pub queue_pairs: usize,
    /// Open files per user.
    pub open_files_per_user: usize,
    /// Open files of all users.
    pub open_files: usize,
}

impl Caps {
    /// Returns the caps of a resource, for one user and for all users.
    pub(super) fn of(&self, resource: Resource) -> (usize, usize) {
        match resource {
            Resource::Session => (self.sessions_per_user, self.sessions),
            Resource::QueuePair => (self.queue_pairs_per_user, self.queue_pairs),
            Resource::OpenFile => (self.open_files_per_user, self.open_files),
        }
    }
}
