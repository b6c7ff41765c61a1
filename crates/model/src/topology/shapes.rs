//! Shapes by their sizes, which are limited: a larger number is a typing error and would not fit
//! into memory.

use super::dragonfly::Dragonfly;
use super::fat_tree::FatTree;
use super::torus::Torus;
use super::wiring::Shape;

/// Most switches, nodes and cables of a shape.
const MOST: usize = 1 << 20;

/// Rejects products above the limit; `what` names the counted objects.
///
/// # Errors
///
/// Returns a sentence without its subject.
pub(crate) fn limit(what: &str, factors: &[usize]) -> Result<(), String> {
    let product = factors
        .iter()
        .try_fold(1usize, |all, factor| all.checked_mul(*factor));
    match product.is_some_and(|product| product <= MOST) {
        true => Ok(()),
        false => Err(format!("has more than {MOST} {what}, the models' limit")),
    }
}

impl Shape {
    /// Returns a fat tree.
    ///
    /// # Errors
    ///
    /// Returns a sentence without its subject if it is too large.
    pub fn fat_tree(tree: FatTree) -> Result<Shape, String> {
        limit("nodes", &[tree.leaves, tree.nodes])?;
        limit("cables", &[tree.leaves, tree.spines, tree.parallel])?;
        Ok(Shape::FatTree(tree))
    }

    /// Returns a torus; an unused dimension has size 1.
    ///
    /// # Errors
    ///
    /// Returns a sentence without its subject if it is too large.
    pub fn torus(sizes: [usize; 3], nodes: usize) -> Result<Shape, String> {
        limit("nodes", &[sizes[0], sizes[1], sizes[2], nodes])?;
        Ok(Shape::Torus(Torus::new(sizes, nodes)))
    }

    /// Returns a dragonfly of so many groups, switches of a group, nodes of a switch, and cables of
    /// a switch to other groups.
    ///
    /// # Errors
    ///
    /// Returns a sentence if it is too large or its cables do not connect all groups.
    pub fn dragonfly(
        groups: usize,
        switches: usize,
        nodes: usize,
        global: usize,
    ) -> Result<Shape, String> {
        limit("nodes", &[groups, switches, nodes])?;
        limit("cables", &[groups, switches, switches])?;
        limit("pairs of groups", &[groups, groups])?;
        limit("cables", &[groups, switches, global])?;
        Dragonfly::new(groups, switches, nodes, global).map(Shape::Dragonfly)
    }
}
