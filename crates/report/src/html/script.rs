//! The script of a page: values at the cursor, sortable tables with filters. The page is complete
//! without it.

/// The script.
pub const SCRIPT: &str = include_str!("page.js");

/// Its SHA-256 in base64 for the page's content security policy, which permits no other script. A
/// test of the report in a browser compares them.
pub const HASH: &str = "j5lhBWw8fHCZ6zDMI2Yg0VnMPPfZxGV0FaHVVtaV3Mo=";
