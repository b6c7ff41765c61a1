//! Recursive copies of directory trees.
//!
//! One walk serves all combinations of local and remote trees: it lists and reads a [`SourceTree`]
//! and writes a [`TargetTree`]. Small files are transferred whole ([`small_files`]) by threads
//! beside the walk, with many requests in flight; large files go through the pipeline one by one.
//! Operations on names are sent in batches, so that none waits for the reply to another. An error
//! ends the copy of one file, not of the tree. After a lost connection the copy continues over a
//! new one ([`retry`]); if none can be made, it ends with a single message.
//!
//! Memory is bounded: directories are listed page by page, files are moved once enough have been
//! found, and a directory is finished as soon as nothing below it is pending.

mod entry;
mod existing;
mod incomplete_marker;
mod interface;
mod listed_names;
mod listing;
mod local;
mod remote;
mod request_window;
mod self_copy;
mod small_files;
mod walk;

use std::sync::atomic::{AtomicBool, Ordering};

use super::failure::{CopyError, ErrorSubject, display_path};
use super::progress::Progress;
use super::retry;
use super::settings::{CopySettings, EarlierAttempt};
use crate::address::Location;

use incomplete_marker::IncompleteMarker;
use interface::{OnError, SourceTree, TargetTree};
use local::LocalTree;
use remote::RemoteTree;
use small_files::SmallFileCopier;
use walk::Walk;

pub(super) use existing::stays;
pub use incomplete_marker::is_begun;
pub use listing::list;

/// Copies a directory and everything in it.
///
/// # Errors
/// Returns errors that end the copy, such as a lost connection that could not be replaced. Errors
/// of single files go to `on_error` instead.
pub fn copy_tree(
    from: &Location,
    to: &Location,
    settings: &CopySettings,
    progress: &Progress,
    on_error: OnError<'_>,
) -> Result<(), CopyError> {
    let origin: Box<dyn SourceTree + '_> = match from {
        Location::Local(path) => {
            Box::new(LocalTree::named(path, settings).about(display_path(path))?)
        }
        Location::Remote(address, path) => {
            let tree = RemoteTree::connect(address, path, settings, progress);
            Box::new(tree.about(address.location(path))?)
        }
    };
    let apart = || self_copy::must_be_apart(from, to, &*origin, settings);
    retry::retry(settings, progress, apart)?;
    // The destination exists if an earlier attempt created it, and is this copy's all the same.
    let is_ours = || {
        let begun = settings.earlier == EarlierAttempt::Continue && is_begun(from, to, settings)?;
        Ok(begun || existing::is_missing(to, settings)?)
    };
    let is_ours = retry::retry(settings, progress, is_ours)?;
    let remote = match to {
        Location::Local(_) => None,
        Location::Remote(address, path) => {
            let tree = RemoteTree::connect(address, path, settings, progress);
            Some(tree.about(address.location(path))?)
        }
    };
    let set_marker = || {
        let names = remote.as_ref().map(|tree| tree.names().about(to));
        IncompleteMarker::set(from, to, names.transpose()?, settings)
    };
    let marker = match is_ours {
        true => retry::retry(settings, progress, set_marker)?,
        false => None,
    };
    let (target, made, target_root): (Box<dyn TargetTree + '_>, _, _) = match (remote, to) {
        (Some(tree), _) => {
            let (made, root) = retry::retry(settings, progress, || {
                let facts = origin.root().about(origin.name(b""))?.facts;
                tree.make_root(facts.mode | 0o700).about(tree.name(b""))
            })?;
            (Box::new(tree), made, root)
        }
        (None, Location::Local(path)) => {
            let (tree, made) = LocalTree::made(path, settings).about(display_path(path))?;
            let root = tree.root().about(tree.name(b""))?;
            (Box::new(tree), made, root)
        }
        (None, Location::Remote(..)) => unreachable!("connected above"),
    };
    let target_root = target_root.identity;
    let has_failed = AtomicBool::new(false);
    let on_error = |error: CopyError| {
        has_failed.fetch_or(!error.is_left_out(), Ordering::Relaxed);
        on_error(error);
    };
    let copier = SmallFileCopier::new(&*origin, &*target, settings, progress, &on_error);
    let walk = Walk::new(
        &*origin,
        &*target,
        settings,
        progress,
        &on_error,
        &copier,
        target_root,
    );
    copier.run_beside_walk(|| walk.run(made || marker.is_some()))?;
    match marker {
        Some(marker) if !has_failed.load(Ordering::Relaxed) => {
            retry::retry(settings, progress, || marker.clear())
        }
        _ => Ok(()),
    }
}
