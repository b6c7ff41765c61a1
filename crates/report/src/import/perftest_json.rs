//! Parses the fields of perftest's `--out_json`. Many versions (e.g. 4.5, packaged by
//! distributions) write invalid JSON: names and words without quotes, commas before brackets,
//! `nan`. Fields are then parsed line by line.

use serde_json::Value;
use std::collections::BTreeMap;

/// Fields by name.
pub type Fields = BTreeMap<String, String>;

/// Fields of the test, and a set of fields for each result.
pub struct Test {
    /// `test_info`.
    pub info: Fields,
    /// `results`.
    pub results: Vec<Fields>,
}

/// Parses a text; returns `None` if it is something else.
pub fn read(text: &str) -> Option<Test> {
    match serde_json::from_str(text) {
        Ok(value) => strict(&value),
        Err(_) if text.trim_start().starts_with('{') => by_lines(text),
        Err(_) => None,
    }
}

fn strict(value: &Value) -> Option<Test> {
    let results = value.get("results")?;
    let one = [results.clone()];
    let list = results.as_array().map_or(&one[..], Vec::as_slice);
    Some(Test {
        info: fields(value.get("test_info")?),
        results: list.iter().map(fields).collect(),
    })
}

fn fields(value: &Value) -> Fields {
    let word = |value: &Value| match value {
        Value::String(word) => word.clone(),
        other => other.to_string(),
    };
    let pairs = value.as_object().into_iter().flatten();
    pairs.map(|(name, v)| (name.clone(), word(v))).collect()
}

fn by_lines(text: &str) -> Option<Test> {
    let bare = |word: &str| word.trim().trim_matches(['"', ',', ' ']).to_owned();
    let (head, tail) = text.split_once("test_info")?;
    if !head
        .trim_matches(['{', '"', ' ', '\r', '\n', '\t'])
        .is_empty()
    {
        return None;
    }
    let mut test = Test {
        info: Fields::new(),
        results: Vec::new(),
    };
    for (name, value) in tail.lines().filter_map(|line| line.split_once(':')) {
        let (name, value) = (bare(name), bare(value));
        if name == "MsgSize" {
            test.results.push(Fields::new());
        }
        if !value.starts_with(['{', '[']) {
            let into = test.results.last_mut().unwrap_or(&mut test.info);
            into.insert(name, value);
        }
    }
    Some(test)
}
