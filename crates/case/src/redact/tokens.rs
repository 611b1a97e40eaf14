//! Names become tokens: the same name the same token, as long as the key is the same.
use super::classes::Class;
use super::names::{
    is_kernel_device, is_kernel_option, is_kernel_thread, is_numbered, is_pseudo_source, is_standard_folder,
    is_volume_work,
};
use crate::host::without_numbers;
use std::collections::{BTreeMap, BTreeSet, HashMap};
// The standard library's only keyed hash that is meant to keep its key secret: SipHash-2-4 with 128 bits
// (Aumasson and Bernstein 2012). It is deprecated there as a hash for tables, not for being broken.
#[allow(deprecated)]
use std::hash::{Hasher, SipHasher};

/// The secret of one redaction: with it, and only with it, a guessed name can be checked against a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key(pub [u64; 2]);

/// Longest command name that the kernel keeps.
const COMM_BYTES: usize = 15;

/// Gives tokens, and remembers what they stand for until the end of the redaction.
pub struct Tokens {
    key: Key,
    known: HashMap<(Class, String), String>,
    /// Token -> name: two names never share one.
    taken: HashMap<String, String>,
    /// Whole names that texts must not hold, and what they become.
    hidden: HashMap<String, String>,
    /// The same of names that are several words.
    phrases: BTreeMap<String, String>,
}

impl Tokens {
    /// No name seen yet.
    pub fn new(key: Key) -> Tokens {
        Tokens {
            key,
            known: HashMap::new(),
            taken: HashMap::new(),
            hidden: HashMap::new(),
            phrases: BTreeMap::new(),
        }
    }

    /// Distinct names that were replaced.
    pub fn count(&self) -> usize {
        self.taken.len()
    }

    /// What becomes of a string of a class, which [`Class::in_row`] has made exact.
    pub fn replace(&mut self, class: Class, text: &str) -> String {
        if class == Class::Keep || text.is_empty() {
            return text.to_owned();
        }
        let place = (class, text.to_owned());
        if let Some(known) = self.known.get(&place) {
            return known.clone();
        }
        let replaced = self.make(class, text);
        if class != Class::Text {
            if replaced != text && !is_short_word(text) {
                self.hide(text, &replaced);
            }
            // A text is read last; what it becomes depends on what is hidden by then.
            self.known.insert(place, replaced.clone());
        }
        replaced
    }

    /// Tokens of the threads seen so far that are the kernel's own, by its list of them. Some of their names hold those of volumes or servers, so
    /// not all of them stay; a thread that works for others must not pass for one of their programs.
    pub fn of_kernel_threads(&self, listed: &BTreeSet<String>) -> BTreeSet<String> {
        let replaced = |((class, name), token): &(&(Class, String), &String)| {
            let works = *class == Class::Comm && listed.contains(&without_numbers(name));
            works && *token != name && !is_volume_work(name)
        };
        let found = self.known.iter().filter(replaced);
        found.map(|(_, token)| token.clone()).collect()
    }

    fn hide(&mut self, name: &str, token: &str) {
        if name.contains(is_edge) {
            self.phrases.insert(name.to_owned(), token.to_owned());
        } else {
            self.hidden.insert(name.to_owned(), token.to_owned());
        }
    }

    fn make(&mut self, class: Class, text: &str) -> String {
        match class {
            Class::Keep => text.to_owned(),
            Class::Host => self.host(text),
            Class::Device if is_kernel_device(text) || is_number_pair(text) => text.to_owned(),
            Class::Device => self.token("device", text, 12),
            Class::Devices => {
                let names = text.split(' ').map(|name| self.replace(Class::Device, name));
                names.collect::<Vec<_>>().join(" ")
            }
            Class::Path => self.path(text),
            Class::Comm if is_kernel_thread(text) => text.to_owned(),
            Class::KernelThread if is_kernel_thread(&text.replace('#', "0")) => text.to_owned(),
            Class::KernelThread => self.token("thread", text, 8),
            // As long as a command name may be, so that it can be compared with a program's.
            Class::Comm => self.token("comm", text, 10),
            Class::Program => {
                let name = text.rsplit('/').next().unwrap_or(text);
                let cut = name
                    .char_indices()
                    .take_while(|(at, c)| at + c.len_utf8() <= COMM_BYTES);
                let comm: String = cut.map(|(_, c)| c).collect();
                self.replace(Class::Comm, &comm)
            }
            Class::Argument => self.argument(text),
            Class::MountSource => self.mount_source(text),
            Class::MountOptions => {
                let options = text.split(',').map(|option| self.mount_option(option));
                options.collect::<Vec<_>>().join(",")
            }
            Class::Subject => self.subject(text),
            Class::Text => self.text(text),
            Class::Secret | Class::WaitCause | Class::SampleSubject => self.token("secret", text, 12),
        }
    }

    /// `kind-` and hexadecimal digits; another name's token is never given twice.
    fn token(&mut self, kind: &str, name: &str, digits: usize) -> String {
        for attempt in 0_u64.. {
            #[allow(deprecated)]
            let mut hasher = SipHasher::new_with_keys(self.key.0[0], self.key.0[1]);
            hasher.write(kind.as_bytes());
            hasher.write_u8(0);
            hasher.write_u64(attempt);
            hasher.write(name.as_bytes());
            let hash = format!("{:016x}", hasher.finish());
            let token = format!("{kind}-{}", &hash[..digits]);
            let owner = self.taken.entry(token.clone()).or_insert_with(|| name.to_owned());
            if owner == name {
                return token;
            }
        }
        unreachable!("some of 2^64 attempts gives a token that is free")
    }

    /// The short name of a host stands in texts, too.
    fn host(&mut self, name: &str) -> String {
        let token = self.token("host", name, 12);
        if let Some((short, _)) = name.split_once('.') {
            if !short.is_empty() {
                self.hide(short, &token);
            }
        }
        token
    }

    /// Component by component. `inode:7`, standard folders at the root and kernel names below `/dev` stay.
    fn path(&mut self, path: &str) -> String {
        let is_inode = path
            .strip_prefix("inode:")
            .is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit() || b == b':'));
        if is_inode || path == "null" {
            return path.to_owned();
        }
        let absolute = path.starts_with('/');
        let in_dev = path.starts_with("/dev/");
        let mut parts = Vec::new();
        for (depth, part) in path.split('/').enumerate() {
            let standard = absolute && depth == 1 && is_standard_folder(part);
            let of_dev =
                in_dev && depth == 2 && (is_kernel_device(part) || matches!(part, "mapper" | "disk" | "shm"));
            if part.is_empty() || matches!(part, "." | ".." | "...") || standard || of_dev {
                parts.push(part.to_owned());
            } else {
                parts.push(self.token("p", part, 12));
            }
        }
        parts.join("/")
    }

    fn argument(&mut self, word: &str) -> String {
        const VERBS: [&str; 8] = [
            "whodisk", "record", "run", "import", "lab", "solve", "generate", "--",
        ];
        let is_number = word.starts_with(|c: char| c.is_ascii_digit()) && word.len() <= 8;
        let is_option = matches!(
            word,
            "-o" | "--output" | "--duration" | "--probe" | "--redact" | "--drop-raw" | "--json"
        );
        if VERBS.contains(&word) || is_option || is_number {
            word.to_owned()
        } else if word.contains('/') && !word.starts_with('-') {
            self.path(word)
        } else {
            self.token("arg", word, 12)
        }
    }

    fn mount_source(&mut self, source: &str) -> String {
        if is_pseudo_source(source) || is_kernel_device(source) {
            source.to_owned()
        } else if source.starts_with('/') {
            self.path(source)
        } else {
            self.token("source", source, 12)
        }
    }

    fn mount_option(&mut self, option: &str) -> String {
        let Some((name, value)) = option.split_once('=') else {
            return option.to_owned();
        };
        let is_number = value.bytes().all(|b| b.is_ascii_digit());
        if is_number || is_kernel_option(name) {
            return option.to_owned();
        }
        format!("{name}={}", self.replace(Class::Secret, value))
    }

    fn subject(&mut self, subject: &str) -> String {
        if is_numbered(subject) || is_kernel_device(subject) || is_number_pair(subject) {
            subject.to_owned()
        } else if subject.contains('/') || subject.starts_with("inode:") {
            self.path(subject)
        } else if let Some(hidden) = self.hidden.get(subject) {
            hidden.clone()
        } else {
            self.token("subject", subject, 12)
        }
    }

    fn text(&mut self, text: &str) -> String {
        let mut text = text.to_owned();
        // `by NAME (pid 7)`: a name with whatever in it, which perhaps stands nowhere else.
        let named = text.find("by ").zip(text.rfind(" (pid "));
        if let Some((name, end)) = named
            .map(|(by, end)| (by + 3, end))
            .filter(|(name, end)| name < end)
        {
            let comm = self.replace(Class::Comm, &text[name..end]);
            text.replace_range(name..end, &comm);
        }
        for (name, hidden) in &self.phrases {
            if text.contains(name.as_str()) {
                text = text.replace(name.as_str(), hidden);
            }
        }
        let mut done = String::with_capacity(text.len());
        for word in text.split_inclusive(is_edge) {
            let bare = word.trim_end_matches(|c| is_edge(c) || c == '.' || c == ':');
            done.push_str(&self.word(bare));
            done.push_str(&word[bare.len()..]);
        }
        done
    }

    fn word(&mut self, word: &str) -> String {
        let public = (word.starts_with("/proc/") || word.starts_with("/sys/")) && !word.contains("cgroup");
        if let Some(hidden) = self.hidden.get(word) {
            return hidden.clone();
        }
        if word.starts_with('/') && word.len() > 1 && !public {
            return self.path(word);
        }
        word.to_owned()
    }
}

/// `sync`, `find`: as good as any word of a sentence, which would lose its sense without it.
fn is_short_word(name: &str) -> bool {
    name.len() <= 5 && name.bytes().all(|byte| byte.is_ascii_lowercase())
}

/// What separates words of a text.
fn is_edge(c: char) -> bool {
    c.is_whitespace() || "'\"`(),;=[]{}<>".contains(c)
}

/// `8:16`: the number of a device that had no name.
fn is_number_pair(name: &str) -> bool {
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    name.split_once(':')
        .is_some_and(|(major, minor)| digits(major) && digits(minor))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens() -> Tokens {
        Tokens::new(Key([1, 2]))
    }

    #[test]
    fn the_same_name_has_the_same_token_under_the_same_key_only() {
        let (mut one, mut same, mut other) = (tokens(), tokens(), Tokens::new(Key([1, 3])));
        let token = one.replace(Class::Comm, "postgres");
        assert_eq!(token, one.replace(Class::Comm, "postgres"));
        assert_eq!(token, same.replace(Class::Comm, "postgres"));
        assert_ne!(token, other.replace(Class::Comm, "postgres"));
        assert_ne!(token, one.replace(Class::Comm, "mysqld"));
        assert!(token.len() <= COMM_BYTES, "{token}");
    }

    #[test]
    fn threads_of_the_kernel_are_listed_by_their_tokens() {
        let listed = ["kworker/u#:#", "kdamond.#", "md_acme_raid#", "md_acme_resync"];
        let listed: BTreeSet<String> = listed.map(str::to_owned).into();
        let mut tokens = tokens();
        let [damon, array, program, work] = ["kdamond.0", "md_acme_raid1", "postgres", "md_acme_resync"]
            .map(|comm| tokens.replace(Class::Comm, comm));
        assert_eq!(tokens.replace(Class::Comm, "kworker/u8:3"), "kworker/u8:3");
        assert_eq!(
            tokens.replace(Class::KernelThread, "kworker/u#:#"),
            "kworker/u#:#"
        );
        assert!(!tokens
            .replace(Class::KernelThread, "md_acme_raid#")
            .contains("acme"));
        let found = tokens.of_kernel_threads(&listed);
        assert_eq!(found, [damon, array].into());
        assert!(!found.contains(&program) && !found.contains(&work));
    }

    #[test]
    fn a_program_is_known_by_its_command_name() {
        let mut tokens = tokens();
        let comm = tokens.replace(Class::Comm, "a-very-long-nam");
        assert_eq!(tokens.replace(Class::Program, "/opt/acme/a-very-long-name"), comm);
    }

    #[test]
    fn paths_keep_their_shape() {
        let mut tokens = tokens();
        let (a, b) = (
            tokens.replace(Class::Path, "/mnt/acme/db/one.ibd"),
            tokens.replace(Class::Path, "/mnt/acme/db/two.ibd"),
        );
        let folder = |path: &str| path.rsplit_once('/').unwrap().0.to_owned();
        assert_eq!(folder(&a), folder(&b));
        assert!(
            a.starts_with("/mnt/p-") && a != b && !a.contains("acme") && !a.contains("ibd"),
            "{a}"
        );
        for kept in ["/", "/dev/vda1", "inode:77", "/proc", "null"] {
            assert_eq!(tokens.replace(Class::Path, kept), kept);
        }
        assert!(tokens
            .replace(Class::Path, "/dev/mapper/vault")
            .starts_with("/dev/mapper/p-"));
    }

    #[test]
    fn texts_lose_names_known_elsewhere_paths_and_commands() {
        let mut tokens = tokens();
        for (class, name) in [
            (Class::Host, "db7.acme.example"),
            (Class::Secret, "S3RIAL"),
            (Class::Path, "/data/two words/x"),
        ] {
            tokens.replace(class, name);
        }
        let text = tokens.replace(
            Class::Text,
            "db7: drive 'S3RIAL' of db7.acme.example (/home/joe/x.bin), /data/two words/x; see /proc/mounts. ok",
        );
        for secret in ["db7", "S3RIAL", "acme", "joe", "x.bin", "two words"] {
            assert!(!text.contains(secret), "{secret}: {text}");
        }
        assert!(text.ends_with("see /proc/mounts. ok"), "{text}");
        let detail = "duration_ns 12 bytes 4096 by my tool (pid 7)";
        let redacted = tokens.replace(Class::Text, detail);
        assert!(redacted.starts_with("duration_ns 12 bytes 4096 by comm-") && redacted.ends_with(" (pid 7)"));
        assert!(!redacted.contains("my tool"), "{redacted}");
        tokens.replace(Class::Comm, "sync");
        assert_eq!(tokens.replace(Class::Text, "sync of a file"), "sync of a file");
    }

    #[test]
    fn options_of_mounts_keep_what_the_kernel_means() {
        let mut tokens = tokens();
        let options = tokens.replace(
            Class::MountOptions,
            "rw,relatime,errors=remount-ro,username=joe,commit=5",
        );
        assert!(
            options.starts_with("rw,relatime,errors=remount-ro,username=secret-"),
            "{options}"
        );
        assert!(options.ends_with(",commit=5"), "{options}");
        assert!(tokens
            .replace(Class::MountSource, "nas7:/vol/acme")
            .starts_with("source-"));
        assert_eq!(tokens.replace(Class::MountSource, "tmpfs"), "tmpfs");
    }

    #[test]
    fn two_names_never_share_a_token() {
        let mut tokens = tokens();
        // A digit has room for sixteen; then no more are free, so ask for fewer.
        let given: std::collections::BTreeSet<String> =
            (0..16).map(|n| tokens.token("t", &n.to_string(), 1)).collect();
        assert_eq!(given.len(), 16);
    }
}
