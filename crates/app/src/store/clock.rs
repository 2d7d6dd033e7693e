//! The store's clock, for purging deleted rows.
//!
//! The system clock may be wrong, for instance if the battery of the hardware clock is empty. The
//! store's clock advances by monotonic time while the store is open. Between openings it advances
//! by the system clock, or by a day if that is more than a week.

use super::{MAX_FOREIGN_ID, read_only, setting};
use rusqlite::Connection;
use std::{
    path::Path,
    time::{Duration, Instant},
};

const KEY: &str = "clock";

/// Longest gap between two openings that is trusted.
const MAX_GAP: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// The gap that is used instead of a longer one than [`MAX_GAP`].
const DOUBTFUL_GAP: Duration = Duration::from_secs(24 * 60 * 60);

/// Removes the saved clock of a restored store if its times are out of range: deletion times, which
/// depend on it, would overflow.
pub(super) fn remove_if_invalid(connection: &Connection) -> rusqlite::Result<()> {
    let saved: Option<[i64; 2]> = setting::get(connection, KEY)?.and_then(|text| serde_json::from_str(&text).ok());
    if saved.is_some_and(|times| times.iter().any(|time| !(0..=MAX_FOREIGN_ID).contains(time))) {
        connection.execute("DELETE FROM setting WHERE key = ?1", [KEY])?;
    }
    Ok(())
}

/// The saved clock of the store in a folder, which changes whenever the store is opened.
pub(crate) fn clock_of(folder: &Path) -> Option<String> {
    read_only(folder, |connection| setting::get(connection, KEY))
        .ok()
        .flatten()
        .flatten()
}

/// The clock of an open store.
#[derive(Debug)]
pub(super) struct Clock {
    opened: Instant,
    at_opening: i64,
}

impl Clock {
    /// Starts the clock. `wall` is the system time in milliseconds since 1970.
    pub fn open(connection: &Connection, wall: i64) -> rusqlite::Result<Self> {
        let saved = setting::get(connection, KEY)?;
        let saved: Option<[i64; 2]> = saved.and_then(|text| serde_json::from_str(&text).ok());
        let at_opening = saved.map_or(wall, |[saved_wall, saved_clock]| {
            let gap = match wall.saturating_sub(saved_wall).max(0) {
                gap if gap > MAX_GAP.as_millis() as i64 => DOUBTFUL_GAP.as_millis() as i64,
                gap => gap,
            };
            saved_clock.saturating_add(gap)
        });
        let clock = Self {
            opened: Instant::now(),
            at_opening,
        };
        clock.save(connection, wall)?;
        Ok(clock)
    }

    /// Monotonic time in milliseconds. It is the time since 1970, unless the system clock jumped or
    /// the machine was suspended while the store was open.
    pub fn now(&self) -> i64 {
        let elapsed = i64::try_from(self.opened.elapsed().as_millis()).unwrap_or(i64::MAX);
        self.at_opening.saturating_add(elapsed)
    }

    /// Saves the current time.
    pub fn save(&self, connection: &Connection, wall: i64) -> rusqlite::Result<()> {
        setting::set(connection, KEY, &format!("[{wall},{}]", self.now()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i64 = 24 * 60 * 60 * 1000;

    #[test]
    fn it_follows_the_systems_clock_but_not_its_jumps() {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch(setting::MIGRATION).unwrap();
        let today = 20_000 * DAY;
        let mut expected = today;
        for (wall, passed) in [
            (today, 0),
            (today + DAY, DAY),
            // A year ahead, and back again.
            (today + 365 * DAY, DAY),
            (today + 2 * DAY, 0),
            (today + 3 * DAY, DAY),
            (today + 10 * DAY, 7 * DAY),
            (i64::MIN, 0),
            (i64::MAX, DAY),
        ] {
            expected += passed;
            let actual = Clock::open(&connection, wall).unwrap().at_opening;
            assert!((expected..expected + 60_000).contains(&actual), "{wall}");
            expected = actual;
        }
    }
}
