//! The 2-D halo exchange of an ocean model, as in the Halo benchmark (connectx_multicore, section
//! 3.4): every process sends its edge to four neighbours on a torus and waits for theirs. Tile
//! sizes 2^0 to 2^10 words of four bytes.
//!
//! Received edges alternate between two slots: a neighbour may be one exchange ahead, never two,
//! because it needs this process's next edge.

use crate::agreement::{Outcome, agree, attempt};
use crate::context::{Context, Mode};
use crate::parameters;
use crate::sampling::{Role, sample};
use crate::wiring::{INLINE_BY_DEFAULT, LinkKind, Setup, wire};
use verbena_fabric::*;
use verbena_measure::result::{Metric, Parameters};

/// Size of a word of the model in bytes.
const WORD: usize = 4;
/// Directions: up, down, left, right; the opposite of `d` is `d ^ 1`.
const DIRECTIONS: usize = 4;

pub async fn exchange<F: Fabric>(context: &Context<'_, F>) -> Result<()> {
    let fine: Vec<usize> = (0..=10).map(|i| 1 << i).collect();
    for tiles in context.choose(&[1, 32, 1024], &fine) {
        let (rows, columns) = grid(context.size());
        let parameters = parameters! {
            "tiles" => tiles, "size" => tiles * WORD, "processes" => context.size(),
            "rows" => rows, "columns" => columns, "transport" => "rc",
        };
        attempt(
            context,
            &parameters,
            point(context, &parameters, tiles * WORD),
        )
        .await?;
    }
    Ok(())
}

/// Returns the most square grid.
fn grid(size: usize) -> (usize, usize) {
    let rows = (1..=size)
        .take_while(|r| r * r <= size)
        .filter(|r| size.is_multiple_of(*r))
        .last();
    let rows = rows.unwrap_or(1);
    (rows, size / rows)
}

fn neighbour(rank: usize, direction: usize, (rows, columns): (usize, usize)) -> usize {
    let (row, column) = (rank / columns, rank % columns);
    match direction {
        0 => (row + rows - 1) % rows * columns + column,
        1 => (row + 1) % rows * columns + column,
        2 => row * columns + (column + columns - 1) % columns,
        _ => row * columns + (column + 1) % columns,
    }
}

async fn point<F: Fabric>(
    context: &Context<'_, F>,
    parameters: &Parameters,
    size: usize,
) -> Outcome<()> {
    let rank = context.rank();
    let shape = grid(context.size());
    // In a torus of one row a process is its own neighbour above and below; those are omitted.
    let edges: Vec<(usize, usize)> = (0..DIRECTIONS)
        .map(|direction| (direction, neighbour(rank, direction, shape)))
        .filter(|&(_, peer)| peer != rank)
        .collect();
    let peers: Vec<usize> = edges.iter().map(|edge| edge.1).collect();
    let stride = size.next_multiple_of(64);
    let slot = |direction: usize, parity: usize| stride * (DIRECTIONS + 2 * direction + parity);
    let setup = Setup::new(LinkKind::Rc, stride * 3 * DIRECTIONS);
    let (setup, placement) = setup.inline_up_to(size, context.inline_most(INLINE_BY_DEFAULT));
    let wired = wire(context, &peers, setup).await?;
    let all_ranks = context.all_ranks();
    let step = async |i: u64| {
        let (parity, tag) = ((i % 2) as usize, (1 + i % 251) as u8);
        for (link, &(direction, peer)) in edges.iter().enumerate() {
            let from = stride * direction;
            wired.region.store_byte(from + size - 1, tag);
            let to = wired.remotes[peer].at(slot(direction ^ 1, parity));
            let operation = Operation::Write { to };
            wired
                .post(link, operation, (from, size), Signal::Signalled, placement)
                .await?;
        }
        for &(direction, _) in &edges {
            wired
                .region
                .until_byte(slot(direction, parity) + size - 1, tag)
                .await?;
        }
        for _ in &edges {
            wired.sends.done(Wait::Poll).await?;
        }
        Ok(())
    };
    // The checking pass: the first byte identifies sender and direction, if there is space beside
    // the tag.
    if size > 1 {
        for &(direction, _) in &edges {
            wired
                .region
                .store_byte(stride * direction, rank as u8 ^ (direction as u8) << 6);
        }
    }
    agree(context, &[]).await?;
    let sampled = sample(context, &all_ranks, Role::Timed, Mode::Free, step).await?;
    if size > 1 {
        for &(direction, peer) in &edges {
            let found = wired.region.load_byte(slot(direction, 0));
            let expected = peer as u8 ^ ((direction ^ 1) as u8) << 6;
            if found != expected {
                let reason =
                    format!("edge {direction} holds {found:#04x}, expected {expected:#04x}");
                return Err(Error::adapter("verification", reason).into());
            }
        }
    }
    let Some(together) = sampled.together() else {
        return Ok(());
    };
    let mut warnings = sampled.warnings;
    warnings.extend(Metric::unconverged(together.level()));
    let mut conduct = sampled.conduct;
    conduct.validated = size > 1;
    let metrics = vec![Metric::times("exchange-time", &together)];
    context.point(
        parameters,
        metrics,
        Vec::new(),
        conduct,
        warnings,
        all_ranks.len(),
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_grids_are_as_square_as_possible() {
        assert_eq!(grid(32), (4, 8));
        assert_eq!(grid(7), (1, 7));
        assert_eq!(grid(1), (1, 1));
    }

    #[test]
    fn neighbour_relations_are_mutual() {
        for size in [4, 6, 12] {
            let shape = grid(size);
            for rank in 0..size {
                for direction in 0..DIRECTIONS {
                    let there = neighbour(rank, direction, shape);
                    assert_eq!(neighbour(there, direction ^ 1, shape), rank);
                }
            }
        }
    }
}
