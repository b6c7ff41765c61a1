//! Shipped systems with other values.

use verbena_model::profile::{Library, Overrides, System};

/// Returns a shipped system with these values at paths of its profiles.
pub fn system(name: &str, settings: &[(&str, f64)]) -> System {
    let overrides = settings
        .iter()
        .fold(Overrides::none(), |all, (path, value)| {
            all.with(path, *value)
        });
    Library::shipped(&overrides)
        .and_then(|library| library.system(name))
        .expect("shipped profiles are sound")
}
