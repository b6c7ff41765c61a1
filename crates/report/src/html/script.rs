//! The script of a page: values at the cursor, tables that sort and filter. The page is complete without it.

/// The script.
pub const SCRIPT: &str = include_str!("page.js");

/// Its SHA-256 in base64, which the page's policy names: no other script may run. A test of the report in a browser compares
/// them.
pub const HASH: &str = "j5lhBWw8fHCZ6zDMI2Yg0VnMPPfZxGV0FaHVVtaV3Mo=";
