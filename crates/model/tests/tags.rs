//! Fitted and assumed values are few, and fitted ones keep to physical bounds.

use verbena_model::profile::{Library, Overrides, Tag};

/// Fitted and assumed values over all profiles of what was published. The software adapter's are fitted to measurements of it, by
/// whoever measures.
const MOST: [(Tag, usize); 2] = [(Tag::Fitted, 37), (Tag::Assumed, 17)];

#[test]
fn few_values_are_fitted_and_each_within_its_bounds() {
    let library = Library::shipped(&Overrides::none()).expect("shipped profiles are sound");
    let fitted: Vec<_> = library
        .recorded()
        .iter()
        .filter(|r| r.tag == Tag::Fitted)
        .collect();
    for (tag, most) in MOST {
        let tagged = library.of_published().filter(|r| r.tag == tag).count();
        assert!(tagged <= most, "{tagged} values are {tag:?}");
    }
    for value in fitted {
        let (low, high) = value.bounds.expect("fitted values have bounds");
        assert!(
            low < high && (low..=high).contains(&value.value),
            "{}: {} not within {low} to {high}",
            value.path,
            value.value
        );
    }
}

#[test]
fn every_value_names_its_source() {
    let library = Library::shipped(&Overrides::none()).expect("shipped profiles are sound");
    for value in library.recorded() {
        assert!(value.source.len() >= 2, "{}: no source", value.path);
    }
}
