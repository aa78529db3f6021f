//! Stop strings in a stream of text.

/// Looks for stop strings in text that comes in pieces.
///
/// What is given out does not depend on how the text was cut: the stream ends before the stop string that is complete
/// first, the longest one if several are complete with the same character. Text is withheld only while it could be the
/// beginning of a stop string: the longest end of the text that is a proper beginning of one.
#[derive(Debug, Clone, Default)]
pub struct StopStrings {
    stops: Vec<String>,
    withheld: String,
}

/// What a piece of text added to the stream.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Passed {
    /// Text that no stop string can begin in any more.
    pub text: String,
    /// The stop string that ended the stream, as an index into those given.
    pub stop: Option<usize>,
}

impl StopStrings {
    /// A stream that ends at any of `stops`. Empty strings stop nothing.
    pub fn new(stops: impl IntoIterator<Item = String>) -> StopStrings {
        StopStrings { stops: stops.into_iter().collect(), withheld: String::new() }
    }

    /// Takes the next piece of the stream. After a stop the rest of the piece is dropped, and nothing is withheld.
    pub fn push(&mut self, piece: &str) -> Passed {
        let known = self.withheld.len();
        let mut text = std::mem::take(&mut self.withheld);
        text.push_str(piece);
        let ends = text[known..].char_indices().map(|(at, c)| known + at + c.len_utf8());
        for end in ends {
            if let Some(stop) = self.completed(&text[..end]) {
                text.truncate(end - self.stops[stop].len());
                return Passed { text, stop: Some(stop) };
            }
        }
        self.withheld = text.split_off(text.len() - self.undecided(&text));
        Passed { text, stop: None }
    }

    /// Ends the stream without a stop, and gives what was withheld.
    pub fn finish(&mut self) -> String {
        std::mem::take(&mut self.withheld)
    }

    /// The longest stop string that `text` ends with.
    fn completed(&self, text: &str) -> Option<usize> {
        let ends = |stop: &String| !stop.is_empty() && text.ends_with(stop.as_str());
        let complete = self.stops.iter().enumerate().filter(|(_, stop)| ends(stop));
        complete.max_by_key(|(_, stop)| stop.len()).map(|(i, _)| i)
    }

    /// Bytes of the longest end of `text` that is a proper beginning of a stop string.
    fn undecided(&self, text: &str) -> usize {
        let beginnings = self.stops.iter().flat_map(|stop| {
            let cuts = stop.char_indices().map(|(at, _)| at).filter(|&at| at > 0);
            cuts.filter(|&at| text.ends_with(&stop[..at]))
        });
        beginnings.max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(stops: &[&str], pieces: &[&str]) -> (Vec<String>, Option<usize>) {
        let mut stream = StopStrings::new(stops.iter().map(|&s| s.to_owned()));
        let mut texts = Vec::new();
        for piece in pieces {
            let passed = stream.push(piece);
            texts.push(passed.text);
            if passed.stop.is_some() {
                return (texts, passed.stop);
            }
        }
        texts.push(stream.finish());
        (texts, None)
    }

    #[test]
    fn a_stop_across_pieces_is_cut_and_its_beginning_never_given_out() {
        let (texts, stop) = run(&["own fox"], &["br", "own", " f", "ox", " jumps"]);
        assert_eq!((texts.concat().as_str(), stop), ("br", Some(0)));
    }

    #[test]
    fn only_what_may_begin_a_stop_is_withheld() {
        let (texts, stop) = run(&["aab"], &["xa", "a", "a", "c"]);
        assert_eq!(texts, ["x", "", "a", "aac", ""]);
        assert_eq!(stop, None);
    }

    #[test]
    fn of_overlapping_stops_the_first_to_be_complete_wins() {
        assert_eq!(run(&["ab", "abc"], &["xabc"]), (vec!["x".into()], Some(0)));
        assert_eq!(run(&["abcd", "bc"], &["xabcd"]), (vec!["xa".into()], Some(1)));
        assert_eq!(run(&["c", "bc"], &["abc"]), (vec!["a".into()], Some(1)));
    }

    #[test]
    fn a_stop_that_is_never_complete_is_given_out_at_the_end() {
        assert_eq!(run(&["###"], &["a#", "#"]), (vec!["a".into(), String::new(), "##".into()], None));
    }

    #[test]
    fn stops_of_wide_characters_and_empty_ones() {
        assert_eq!(run(&["", "é日"], &["aé", "日b"]), (vec!["a".into(), String::new()], Some(1)));
        assert_eq!(run(&[""], &["a"]).0, ["a", ""]);
    }

    #[test]
    fn the_text_does_not_depend_on_the_pieces() {
        let text = "abaabcabab日aéabcd";
        let stops = ["abcd", "日é", "abab日b", "aéabcd"];
        let (whole, stop) = run(&stops, &[text]);
        let characters: Vec<String> = text.chars().map(String::from).collect();
        for width in 1..characters.len() {
            let pieces: Vec<String> = characters.chunks(width).map(|chunk| chunk.concat()).collect();
            let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
            let (parts, same) = run(&stops, &pieces);
            assert_eq!((parts.concat(), same), (whole.concat(), stop), "{width}");
        }
        assert_eq!((whole.concat().as_str(), stop), ("abaabcabab日", Some(3)));
    }
}
