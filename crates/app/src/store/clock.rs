//! A clock of the store's own, by which what was deleted is purged.
//!
//! The system's clock may be wrong, for instance where the battery of its hardware clock is empty. The store's advances by monotonic time
//! while the store is open. From one opening to the next it advances by what the system's clock says, or by a day where that is more than a
//! week.

use super::setting;
use rusqlite::Connection;
use std::time::{Duration, Instant};

const KEY: &str = "clock";

/// The longest time between two openings that is believed.
const LONGEST_GAP: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// What a longer one counts as.
const DOUBTFUL_GAP: Duration = Duration::from_secs(24 * 60 * 60);

/// Runs while the store is open.
#[derive(Debug)]
pub(super) struct Clock {
    opened: Instant,
    at_opening: i64,
}

impl Clock {
    /// The clock of a store that is opened when the system's says `wall`, in milliseconds since 1970.
    pub fn open(connection: &Connection, wall: i64) -> rusqlite::Result<Self> {
        let kept = setting::get(connection, KEY)?;
        let kept: Option<[i64; 2]> = kept.and_then(|text| serde_json::from_str(&text).ok());
        let at_opening = kept.map_or(wall, |[kept_wall, kept_own]| {
            let gap = match wall.saturating_sub(kept_wall).max(0) {
                gap if gap > LONGEST_GAP.as_millis() as i64 => DOUBTFUL_GAP.as_millis() as i64,
                gap => gap,
            };
            kept_own.saturating_add(gap)
        });
        let clock = Self {
            opened: Instant::now(),
            at_opening,
        };
        clock.keep(connection, wall)?;
        Ok(clock)
    }

    /// Milliseconds that never go back; those since 1970 where no clock jumped and the machine was not suspended while the store was open.
    pub fn now(&self) -> i64 {
        let since = i64::try_from(self.opened.elapsed().as_millis()).unwrap_or(i64::MAX);
        self.at_opening.saturating_add(since)
    }

    /// Writes down how far it has come.
    pub fn keep(&self, connection: &Connection, wall: i64) -> rusqlite::Result<()> {
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
            let own = Clock::open(&connection, wall).unwrap().at_opening;
            assert!((expected..expected + 60_000).contains(&own), "{wall}");
            expected = own;
        }
    }
}
