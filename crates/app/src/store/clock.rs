//! A clock of the store's own, by which what was deleted is purged.
//!
//! The system's clock may jump: a machine starts with a wrong date, or a person travels. The store's goes on while the store is open, and
//! from one opening to the next by what the system's clock says has passed, at most a week.

use super::setting;
use rusqlite::Connection;
use std::time::{Duration, Instant};

const KEY: &str = "clock";

/// What counts of the time between two openings. A jump of years purges nothing that a person deleted in the last weeks.
const MOST_APART: Duration = Duration::from_secs(7 * 24 * 60 * 60);

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
            let most = MOST_APART.as_millis() as i64;
            kept_own.saturating_add(wall.saturating_sub(kept_wall).clamp(0, most))
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
            (today + 365 * DAY, 7 * DAY),
            (today + 2 * DAY, 0),
            (today + 3 * DAY, DAY),
            (i64::MIN, 0),
            (i64::MAX, 7 * DAY),
        ] {
            expected += passed;
            let own = Clock::open(&connection, wall).unwrap().at_opening;
            assert!((expected..expected + 60_000).contains(&own), "{wall}");
            expected = own;
        }
    }
}
