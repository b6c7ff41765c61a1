//! What every page begins and ends with: it opens offline and may load nothing.

use super::script::{HASH, SCRIPT};
use super::theme::STYLE;
use crate::chart::escape;

/// The program that writes the pages, with its version.
const PRODUCT: &str = concat!("Verbena ", env!("CARGO_PKG_VERSION"));

/// Returns the page up to and with its heading. The only script that may run is the page's own.
pub fn head(title: &str) -> String {
    format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; \
         script-src 'sha256-{HASH}'\"><meta name=\"generator\" content=\"{PRODUCT}\">\
         <title>{0}</title><style>{STYLE}</style></head><body><main><h1>{0}</h1>",
        escape(title)
    )
}

/// Returns the end of the page: what wrote it, and what makes it easier to read where scripts run.
pub fn foot() -> String {
    format!(
        "<footer>Written by {PRODUCT}. This page needs no network.</footer></main>\
         <script>{SCRIPT}</script></body></html>\n"
    )
}
