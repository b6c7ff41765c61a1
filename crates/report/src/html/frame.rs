//! What every page begins with: it opens offline and may load nothing.

use super::theme::STYLE;
use crate::chart::escape;

/// The page up to and with its heading.
pub fn head(title: &str) -> String {
    format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\
         <title>{0}</title><style>{STYLE}</style></head><body><main><h1>{0}</h1>",
        escape(title)
    )
}
