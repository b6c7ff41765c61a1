//! Charts: data in, SVG out. Pure; colours and type come from the page's style sheet, so that light, dark and print are
//! one drawing.

pub mod line;
pub mod matrix;
pub mod panel;
pub mod ratio;
pub mod scale;
pub mod stack;
pub mod strip;
pub mod text;
pub mod timeline;

/// Text made safe for SVG and HTML.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}
