//! What somebody may have meant who wrote a name that is not in a list.

/// The name of `known` that is most like `name`; `None` if none is alike: more than a third of its letters would have
/// to change.
pub fn nearest<'k>(name: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    let distances = known
        .into_iter()
        .map(|candidate| (distance(name, candidate), candidate));
    let (distance, candidate) = distances.min_by_key(|(distance, _)| *distance)?;
    let longest = name.chars().count().max(candidate.chars().count());
    (distance * 3 <= longest.max(3)).then_some(candidate)
}

/// Insertions, removals, replacements and swaps of neighbours that make one text of the other.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows = [
        vec![0; b.len() + 1],
        vec![0; b.len() + 1],
        (0..=b.len()).collect(),
    ];
    for i in 1..=a.len() {
        rows.rotate_left(1);
        rows[2][0] = i;
        for j in 1..=b.len() {
            let replaced = rows[1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut least = replaced.min(rows[1][j] + 1).min(rows[2][j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(rows[0][j - 2] + 1);
            }
            rows[2][j] = least;
        }
    }
    rows[2][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_alike_is_suggested() {
        let known = ["slow-member", "slow-handler", "throttle", "fill-level"];
        for (name, meant) in [
            ("slow-membr", Some("slow-member")),
            ("slow-mebmer", Some("slow-member")),
            ("throtle", Some("throttle")),
            ("fill_level", Some("fill-level")),
            ("nvme", None),
            ("", None),
        ] {
            assert_eq!(nearest(name, known), meant, "{name}");
        }
        assert_eq!(nearest("x", []), None);
    }

    #[test]
    fn distances_are_symmetric_and_count_swaps_once() {
        for (a, b, expected) in [
            ("", "abc", 3),
            ("abc", "abc", 0),
            ("abc", "acb", 1),
            ("kitten", "sitting", 3),
            ("\u{e9}t\u{e9}", "ete", 2),
        ] {
            assert_eq!((distance(a, b), distance(b, a)), (expected, expected), "{a} {b}");
        }
    }
}
