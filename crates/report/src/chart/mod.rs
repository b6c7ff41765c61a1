//! Charts: pure functions from data to SVG. Colours and fonts come from the page's style sheet, so
//! that one drawing serves light, dark and print.

pub mod line;
pub mod matrix;
pub mod panel;
pub mod ratio;
pub mod scale;
pub mod stack;
pub mod strip;
pub mod text;
pub mod timeline;

/// Escapes text for SVG and HTML.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}
