//! Suggests the name of a backup file.

use jiff::Zoned;

/// Suggests the name of a backup that is written now. Its date tells backups apart.
pub fn backup_file_name() -> String {
    name_at(&Zoned::now())
}

fn name_at(now: &Zoned) -> String {
    format!("Hearth {}.hearthbackup", now.date())
}

#[cfg(test)]
mod tests {
    use super::name_at;

    #[test]
    fn the_name_of_a_backup_has_its_date() {
        let time = "2026-01-02T23:30+01:00[+01:00]".parse().expect("a time");
        assert_eq!(name_at(&time), "Hearth 2026-01-02.hearthbackup");
    }
}
