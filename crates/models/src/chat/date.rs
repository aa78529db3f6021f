//! Dates for `strftime_now`.

use std::fmt::Write as _;
use std::time::{SystemTime, UNIX_EPOCH};

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// A moment, to the second, in the proleptic Gregorian calendar and no particular time zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct DateTime {
    /// Days since 1970-01-01.
    days: i64,
    /// Seconds of the day.
    seconds: u32,
}

impl DateTime {
    /// Midnight at the beginning of a day; the month and the day from 1. `None` if there is no such day or the year is
    /// not 1 to 9999.
    pub fn from_ymd(year: i32, month: u32, day: u32) -> Option<DateTime> {
        if !(1..=9999).contains(&year) || !(1..=12).contains(&month) {
            return None;
        }
        let (y, m) = (i64::from(year), i64::from(month));
        // Years that begin in March have their leap day at the end.
        let y = if m <= 2 { y - 1 } else { y };
        let day_of_year = (153 * ((m + 9) % 12) + 2) / 5 + i64::from(day) - 1;
        let days = 365 * y + y / 4 - y / 100 + y / 400 + day_of_year - 719_468;
        let date = DateTime { days, seconds: 0 };
        (date.ymd() == (y + i64::from(m <= 2), m, i64::from(day))).then_some(date)
    }

    /// The same day at another time. `None` if there is no such time.
    pub fn at(self, hour: u32, minute: u32, second: u32) -> Option<DateTime> {
        let sound = hour < 24 && minute < 60 && second < 60;
        sound.then_some(DateTime { seconds: hour * 3600 + minute * 60 + second, ..self })
    }

    /// The time of the system in UTC; 1970-01-01 if it is set before that.
    pub fn now_utc() -> DateTime {
        let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        DateTime { days: (seconds / 86_400) as i64, seconds: (seconds % 86_400) as u32 }
    }

    #[cfg(test)]
    pub(super) fn next_day(self) -> DateTime {
        DateTime { days: self.days + 1, ..self }
    }

    /// Year, month and day.
    fn ymd(self) -> (i64, i64, i64) {
        let shifted = self.days + 719_468;
        let era = shifted.div_euclid(146_097);
        let day_of_era = shifted.rem_euclid(146_097);
        let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let shifted_month = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
        let month = (shifted_month + 2) % 12 + 1;
        (year_of_era + 400 * era + i64::from(month <= 2), month, day)
    }

    /// As Python's `strftime` in the C locale, for the directives that dates are written with. The first directive that
    /// it does not know, if there is one.
    pub(super) fn format(self, format: &str) -> Result<String, String> {
        let mut text = String::with_capacity(format.len());
        let mut rest = format;
        while let Some(at) = rest.find('%') {
            text.push_str(&rest[..at]);
            rest = &rest[at + 1..];
            let plain = rest.starts_with('-');
            rest = rest.strip_prefix('-').unwrap_or(rest);
            let mut chars = rest.chars();
            let directive = chars.next();
            if !directive.is_some_and(|directive| self.directive(directive, plain, &mut text)) {
                let (minus, name) = (if plain { "-" } else { "" }, directive.map(String::from));
                return Err(format!("%{minus}{}", name.unwrap_or_default()));
            }
            rest = chars.as_str();
        }
        text.push_str(rest);
        Ok(text)
    }

    /// Writes one directive, a number without padding if `plain`; whether it is known.
    fn directive(self, directive: char, plain: bool, text: &mut String) -> bool {
        let (year, month, day) = self.ymd();
        let seconds = i64::from(self.seconds);
        let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        let hour_12 = (hour + 11) % 12 + 1;
        // 1970-01-01 was a Thursday.
        let weekday = (self.days + 4).rem_euclid(7);
        let day_of_year = DateTime::from_ymd(year as i32, 1, 1).map_or(0, |first| self.days - first.days + 1);
        let number = match directive {
            'd' => Some((day, 2)),
            'm' => Some((month, 2)),
            'Y' => Some((year, 4)),
            'y' => Some((year % 100, 2)),
            'H' => Some((hour, 2)),
            'I' => Some((hour_12, 2)),
            'M' => Some((minute, 2)),
            'S' => Some((second, 2)),
            'j' => Some((day_of_year, 3)),
            _ => None,
        };
        if let Some((number, width)) = number {
            let width = if plain { 1 } else { width };
            return write!(text, "{number:0width$}").is_ok();
        }
        let composed = match directive {
            'D' => "%m/%d/%y",
            'F' => "%Y-%m-%d",
            'T' | 'X' => "%H:%M:%S",
            'R' => "%H:%M",
            'x' => "%m/%d/%y",
            _ => "",
        };
        let month_name = MONTHS[(month - 1) as usize];
        let day_name = DAYS[weekday as usize];
        match directive {
            _ if plain => return false,
            'B' => text.push_str(month_name),
            'b' | 'h' => text.push_str(&month_name[..3]),
            'A' => text.push_str(day_name),
            'a' => text.push_str(&day_name[..3]),
            'p' => text.push_str(if hour < 12 { "AM" } else { "PM" }),
            'e' => return write!(text, "{day:2}").is_ok(),
            // A time without a zone has no name and no offset.
            'Z' | 'z' => {}
            '%' => text.push('%'),
            _ if composed.is_empty() => return false,
            _ => text.push_str(&self.format(composed).unwrap_or_default()),
        }
        true
    }
}
