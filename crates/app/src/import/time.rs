//! Times in imported files: seconds, milliseconds, microseconds, nanoseconds or ISO 8601.

use super::json::Json;
use crate::store;
use jiff::{Timestamp, civil::DateTime, tz::TimeZone};

/// The earliest plausible time of a chat: 2000-01-01, in milliseconds since 1970. Exports write 0
/// for unknown times.
const EARLIEST: i64 = 946_684_800_000;

/// Longest time in the future, in milliseconds: clocks of machines differ.
const MAX_AHEAD: i64 = 24 * 60 * 60 * 1000;

/// A time in milliseconds since 1970. `None` if it is absent, malformed, before 2000 or in the
/// future.
pub(super) fn time(value: &Json) -> Option<i64> {
    let milliseconds = match (value.as_number(), value) {
        (Some(number), _) => from_number(number)?,
        (None, Json::Text(text)) => from_text(text.trim())?,
        _ => return None,
    };
    (EARLIEST..store::now() + MAX_AHEAD)
        .contains(&milliseconds)
        .then_some(milliseconds)
}

/// The unit follows from the magnitude: until the year 5138 the ranges do not overlap.
fn from_number(number: f64) -> Option<i64> {
    let milliseconds = match number.abs() {
        magnitude if magnitude < 1e11 => number * 1e3,
        magnitude if magnitude < 1e14 => number,
        magnitude if magnitude < 1e17 => number / 1e3,
        _ => number / 1e6,
    };
    milliseconds.is_finite().then_some(milliseconds as i64)
}

fn from_text(text: &str) -> Option<i64> {
    if let Ok(timestamp) = text.parse::<Timestamp>() {
        return Some(timestamp.as_millisecond());
    }
    // A time without an offset is UTC.
    let civil: DateTime = text.parse().ok()?;
    Some(civil.to_zoned(TimeZone::UTC).ok()?.timestamp().as_millisecond())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_is_the_same_instant() {
        let instant = 1_735_689_600_500;
        for text in [
            "1735689600.5",
            "1735689600500",
            "1735689600500000",
            "1735689600500000000",
            "\"1735689600500\"",
            "\"2025-01-01T00:00:00.500Z\"",
            "\"2025-01-01T01:00:00.500+01:00\"",
            "\"2025-01-01T00:00:00.500\"",
            "\"2025-01-01 00:00:00.5\"",
        ] {
            let value = Json::parse(&mut text.as_bytes().to_vec()).unwrap();
            assert_eq!(time(&value), Some(instant), "{text}");
        }
        for text in [
            "0",
            "null",
            "-1",
            "1e300",
            "\"\"",
            "\"tomorrow\"",
            "4102444800",
            "\"1970-01-01T00:00:00Z\"",
            "[]",
        ] {
            let value = Json::parse(&mut text.as_bytes().to_vec()).unwrap();
            assert_eq!(time(&value), None, "{text}");
        }
    }
}
