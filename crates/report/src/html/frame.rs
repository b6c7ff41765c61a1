//! Head and foot of every page: it opens offline and must not load anything.

use super::script::{HASH, SCRIPT};
use super::theme::STYLE;
use crate::chart::escape;

/// Name and version of the program, for the generator tag.
const PRODUCT: &str = concat!("Verbena ", env!("CARGO_PKG_VERSION"));

/// Returns the page up to its heading. The content security policy permits only the page's own
/// script.
pub fn head(title: &str) -> String {
    format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
         style-src 'unsafe-inline'; script-src 'sha256-{HASH}'\"><meta name=\"generator\" \
         content=\"{PRODUCT}\">\
         <title>{0}</title><style>{STYLE}</style></head><body><main><h1>{0}</h1>",
        escape(title)
    )
}

/// Returns the end of the page: the program's name and the script, which is optional.
pub fn foot() -> String {
    format!(
        "<footer>Written by {PRODUCT}. This page needs no network.</footer></main>\
         <script>{SCRIPT}</script></body></html>\n"
    )
}
