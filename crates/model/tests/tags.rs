//! Fitted and assumed values are few, and fitted values are within physical bounds.

use verbena_model::profile::{Library, Overrides, Tag};

/// Limits on fitted and assumed values over all profiles but the software adapter's, which is
/// fitted to local measurements. Of the assumed values, two are the processor time of a message in
/// the libraries since 2014, and three that of TCP.
const MOST: [(Tag, usize); 2] = [(Tag::Fitted, 37), (Tag::Assumed, 23)];

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
