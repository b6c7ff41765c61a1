//! Metrics as text: Prometheus' exposition format 0.0.4, and OpenMetrics 1.0.0 on request.

use std::fmt::{Display, Write};

/// The text format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Prometheus' own, version 0.0.4.
    Prometheus,
    /// OpenMetrics 1.0.0.
    OpenMetrics,
}

impl Format {
    /// Returns the format for a request: OpenMetrics if its `Accept` header names it.
    pub fn wanted_by(request: &[u8]) -> Self {
        let request = String::from_utf8_lossy(request).to_ascii_lowercase();
        let accepts = request
            .lines()
            .filter_map(|line| line.strip_prefix("accept:"))
            .any(|types| types.contains("application/openmetrics-text"));
        match accepts {
            true => Self::OpenMetrics,
            false => Self::Prometheus,
        }
    }

    /// Returns the `Content-Type` of the answer.
    pub fn media_type(self) -> &'static str {
        match self {
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// The type of a family of metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricType {
    /// Only grows; its name ends in `_total`.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts by size.
    Histogram,
}

/// A page of metrics.
#[derive(Debug)]
pub struct Page {
    text: String,
    format: Format,
}

impl Page {
    /// Creates an empty page.
    pub fn new(format: Format) -> Self {
        Self {
            text: String::new(),
            format,
        }
    }

    /// Begins a family; its samples follow.
    pub fn family(&mut self, name: &str, kind: MetricType, help: &str) {
        // OpenMetrics names a counter's family without the suffix of its samples.
        let name = match self.format {
            Format::OpenMetrics => name.strip_suffix("_total").unwrap_or(name),
            Format::Prometheus => name,
        };
        let kind = match kind {
            MetricType::Counter => "counter",
            MetricType::Gauge => "gauge",
            MetricType::Histogram => "histogram",
        };
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    /// Adds a sample.
    pub fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        self.text += name;
        for (index, (key, label)) in labels.iter().enumerate() {
            self.text.push(if index == 0 { '{' } else { ',' });
            let _ = write!(self.text, "{key}=\"");
            for letter in label.chars() {
                match letter {
                    '\\' => self.text += "\\\\",
                    '"' => self.text += "\\\"",
                    '\n' => self.text += "\\n",
                    other => self.text.push(other),
                }
            }
            self.text.push('"');
        }
        if !labels.is_empty() {
            self.text.push('}');
        }
        let _ = writeln!(self.text, " {value}");
    }

    /// Returns the text.
    pub fn finish(mut self) -> String {
        if self.format == Format::OpenMetrics {
            self.text += "# EOF\n";
        }
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped() {
        let mut page = Page::new(Format::Prometheus);
        page.sample("m", &[("a", "\"} 1\nm 2\\"), ("b", "x")], 3);
        assert_eq!(page.finish(), "m{a=\"\\\"} 1\\nm 2\\\\\",b=\"x\"} 3\n");
    }

    #[test]
    fn openmetrics_is_sent_only_on_request() {
        for (accept, format) in [
            (
                "Accept: application/openmetrics-text;version=1.0.0;q=0.5,*/*",
                Format::OpenMetrics,
            ),
            ("accept: APPLICATION/OpenMetrics-text", Format::OpenMetrics),
            ("Accept: text/plain", Format::Prometheus),
            ("X-Accept: application/openmetrics-text", Format::Prometheus),
        ] {
            let request = format!("GET /metrics HTTP/1.1\r\nHost: x\r\n{accept}\r\n\r\n");
            assert_eq!(Format::wanted_by(request.as_bytes()), format, "{accept}");
        }
        assert_eq!(
            Format::wanted_by(b"GET /metrics HTTP/1.1\r\n\r\n"),
            Format::Prometheus
        );
    }

    #[test]
    fn an_openmetrics_page_ends_with_eof() {
        let mut page = Page::new(Format::OpenMetrics);
        page.family("rfio_x_total", MetricType::Counter, "X.");
        page.sample("rfio_x_total", &[], 1);
        let text = page.finish();
        assert_eq!(
            text,
            "# HELP rfio_x X.\n# TYPE rfio_x counter\nrfio_x_total 1\n# EOF\n"
        );
    }
}
