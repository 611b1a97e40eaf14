//! Loading kernel programs and attaching them: what all probes with a BPF object share.
use crate::error::RecordError;
use crate::probe::{Hooks, Need};
use crate::recorder::Config;
use crate::scope::{parent_of, Change};
use crate::{host, sys};
use aya::maps::{Map, MapData, RingBuf};
use aya::programs::{tp_btf::BtfTracePointLink, BtfTracePoint, ProgramError, RawTracePoint};
use aya::{Btf, Ebpf, EbpfLoader};
use case::meta::Unseen;
use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::{Arc, Weak};

/// What a probe may use to attach itself.
pub struct Context<'a> {
    /// What was asked for.
    pub config: &'a Config,
    btf: OnceCell<Btf>,
    chains: Chains,
}

/// Where the next program at a tracepoint is put.
#[derive(Default)]
struct Chains(RefCell<BTreeMap<String, ChainEnd>>);

/// The program array of the last program at a tracepoint that can go on (`bpf/chain.h`).
struct ChainEnd {
    array: OwnedFd,
    /// A probe that could not be attached as a whole has taken its programs with it.
    attached: Weak<()>,
}

impl ChainEnd {
    /// Puts a program there. A kernel that refuses that can still call both.
    fn takes(&self, program: RawFd) -> bool {
        self.attached.strong_count() > 0
            && sys::write_single(self.array.as_fd(), &program.to_ne_bytes()).is_ok()
    }
}

impl<'a> Context<'a> {
    /// Nothing is looked at before a probe asks.
    pub fn new(config: &'a Config) -> Context<'a> {
        Context {
            config,
            btf: OnceCell::new(),
            chains: Chains::default(),
        }
    }

    /// The kernel's type information, read once for all probes (it takes about 0.15 s). Error: this host does not
    /// let us load programs at all.
    pub fn btf(&self) -> Result<&Btf, RecordError> {
        if let Some(btf) = self.btf.get() {
            return Ok(btf);
        }
        host::may_load_tracing().map_err(|found| RecordError::NotPrivileged { found })?;
        if host::locked_down() {
            return Err(RecordError::Lockdown);
        }
        let btf = Btf::from_sys_fs().map_err(|error| RecordError::NoBtf {
            found: error.to_string(),
        })?;
        Ok(self.btf.get_or_init(|| btf))
    }
}

/// The program of `bpf/scope.h` that user space runs.
pub const SCOPE_CHANGE: &str = "scope_change";

/// How a program is attached; no longer when dropped.
enum Link {
    Tracepoint {
        _link: BtfTracePointLink,
    },
    /// Behind another probe's program.
    Chained {
        array: OwnedFd,
    },
}

impl Drop for Link {
    fn drop(&mut self) {
        if let Link::Chained { array } = self {
            // Refused only if it is not there any more.
            let _ = sys::clear_single(array.as_fd());
        }
    }
}

/// How often a program is handed to the verifier in all.
const LOAD_ATTEMPTS: u32 = 5;

/// A loaded object and what it is attached to.
pub struct Kernel {
    /// The object.
    pub ebpf: Ebpf,
    object: &'static str,
    links: Vec<Link>,
    /// There as long as the programs are.
    alive: Arc<()>,
    /// Tracepoints it is attached to.
    pub attached: Vec<String>,
    /// Facts that this host does not let us see.
    pub unseen: Vec<Unseen>,
}

impl Kernel {
    /// Loads an object; `object` is its name in errors.
    pub fn load(
        object: &'static str,
        bytes: &[u8],
        loader: &mut EbpfLoader<'_>,
    ) -> Result<Kernel, RecordError> {
        let ebpf = loader.load(bytes).map_err(|error| refused(object, &error))?;
        Ok(Kernel {
            ebpf,
            object,
            links: Vec::new(),
            alive: Arc::default(),
            attached: Vec::new(),
            unseen: Vec::new(),
        })
    }

    /// Attaches those of the hooks that are wanted.
    pub fn attach(
        &mut self,
        context: &Context<'_>,
        hooks: Hooks,
        wanted: impl Fn(&str, Need) -> bool,
    ) -> Result<(), RecordError> {
        for (tracepoint, need) in hooks {
            if wanted(tracepoint, *need) {
                self.attach_hook(context, tracepoint, *need)?;
            }
        }
        Ok(())
    }

    fn attach_hook(
        &mut self,
        context: &Context<'_>,
        tracepoint: &str,
        need: Need,
    ) -> Result<(), RecordError> {
        let btf = context.btf()?;
        let cause = match self.try_attach(btf, tracepoint, &context.chains) {
            Ok(link) => {
                self.links.push(link);
                self.attached.push(tracepoint.to_string());
                return Ok(());
            }
            Err(cause) => cause,
        };
        match need {
            Need::Alternative => {}
            Need::Fact(what) => self.miss(
                what,
                &format!("kernel tracepoint {tracepoint} cannot be used: {cause}"),
            ),
            Need::Must => {
                let hint = "whodisk is made for Linux 6.1 and later".into();
                return Err(RecordError::Hook {
                    tracepoint: tracepoint.into(),
                    cause,
                    hint,
                });
            }
        }
        Ok(())
    }

    fn try_attach(&mut self, btf: &Btf, tracepoint: &str, chains: &Chains) -> Result<Link, String> {
        let end = self.chain_end(tracepoint).map_err(|error| whole(&error))?;
        let program = self
            .ebpf
            .program_mut(tracepoint)
            .ok_or("the object has no such program")?;
        let program: &mut BtfTracePoint = program.try_into().map_err(|error| whole(&error))?;
        verified(|| program.load(tracepoint, btf)).map_err(|error| whole(&error))?;
        let fd = program.fd().map_err(|error| whole(&error))?.as_fd().as_raw_fd();
        let mut ends = chains.0.borrow_mut();
        let link = match ends.remove(tracepoint).filter(|end| end.takes(fd)) {
            Some(ChainEnd { array, .. }) => Link::Chained { array },
            None => {
                let id = program.attach().map_err(|error| whole(&error))?;
                let link = program.take_link(id).map_err(|error| whole(&error))?;
                Link::Tracepoint { _link: link }
            }
        };
        ends.extend(end.map(|end| (tracepoint.to_string(), end)));
        Ok(link)
    }

    /// Where a program of this object goes on; `None` if it does not.
    fn chain_end(&self, tracepoint: &str) -> io::Result<Option<ChainEnd>> {
        let Some(Map::ProgramArray(array)) = self.ebpf.map(&format!("next_{tracepoint}")) else {
            return Ok(None);
        };
        Ok(Some(ChainEnd {
            array: array.fd().as_fd().try_clone_to_owned()?,
            attached: Arc::downgrade(&self.alive),
        }))
    }

    /// Notes a fact that this host does not let us see.
    pub fn miss(&mut self, what: &str, because: &str) {
        let known = self.unseen.iter().any(|unseen| unseen.what == what);
        if !known {
            self.unseen.push(Unseen {
                what: what.into(),
                because: because.into(),
            });
        }
    }

    /// Loads a program that is run by user space, not attached.
    pub fn load_runnable(&mut self, name: &str) -> Result<(), RecordError> {
        let program = self.ebpf.program_mut(name);
        let program: Result<&mut RawTracePoint, _> = match program {
            Some(program) => program.try_into(),
            None => return Err(self.missing(name)),
        };
        program
            .and_then(|program| verified(|| program.load()))
            .map_err(|error| refused(name, &error))
    }

    /// Runs a program of [`Kernel::load_runnable`].
    pub fn run(&self, name: &str, argument: u64) -> Result<(), RecordError> {
        let program = self.ebpf.program(name).ok_or_else(|| self.missing(name))?;
        let fd = program.fd().map_err(|error| refused(name, &error))?;
        sys::run_program(fd.as_fd(), argument).map_err(|error| refused(name, &error))
    }

    /// Tells the programs of a probe with `bpf/scope.h` whom to look at.
    pub fn follow(&self, changes: &[Change]) -> Result<(), RecordError> {
        changes.iter().try_for_each(|change| {
            let argument = change.pid as u32 as u64 | u64::from(change.within) << 32;
            self.run(SCOPE_CHANGE, argument)
        })
    }

    /// Takes processes that have ended out of the table of who is in the scope, which holds 65,536: a command may start
    /// more than that.
    pub fn forget_ended(&self) -> Result<(), RecordError> {
        let scope = match self.map("scope")? {
            Map::HashMap(data) => data.fd().as_fd(),
            _ => return Err(self.missing("scope")),
        };
        let mut pids = Vec::new();
        sys::read_hash(scope, size_of::<i32>(), size_of::<u8>(), |pid, _| {
            pids.extend(pid.try_into().map(i32::from_ne_bytes));
        })
        .map_err(|error| refused("map scope", &error))?;
        let (alive, ended): (BTreeSet<i32>, BTreeSet<i32>) =
            pids.into_iter().partition(|pid| sys::is_there(*pid));
        let change = |within: bool| move |pid: i32| Change { pid, within };
        let gone: Vec<Change> = ended.iter().copied().map(change(false)).collect();
        self.follow(&gone)?;
        // A number may have been given away between the two looks. The parent decides, as in `scope_fork`.
        let born = ended.into_iter().filter(|pid| sys::is_there(*pid));
        let born = born.filter(|pid| parent_of(*pid).is_some_and(|parent| alive.contains(&parent)));
        let born: Vec<Change> = born.map(change(true)).collect();
        self.follow(&born)
    }

    /// Sets `recording`, the variable that all programs look at first.
    pub fn set_recording(&self, on: bool) -> Result<(), RecordError> {
        let value = u32::from(on).to_ne_bytes();
        sys::write_single(self.array(".data.control")?.fd().as_fd(), &value)
            .map_err(|error| refused("control variable", &error))
    }

    /// Reads the section `.bss.counters` into `values`, which must have its length.
    pub fn read_counters(&self, values: &mut [u8]) -> Result<(), RecordError> {
        sys::read_single(self.array(".bss.counters")?.fd().as_fd(), values)
            .map_err(|error| refused("counters", &error))
    }

    /// `recursion_misses` and, while kernel.bpf_stats_enabled is 1, run times, by tracepoint.
    pub fn program_counts(&self) -> BTreeMap<String, sys::ProgramCounts> {
        let count = |name: &String| {
            let fd = self.ebpf.program(name)?.fd().ok()?;
            Some((name.clone(), sys::program_counts(fd.as_fd()).ok()?))
        };
        self.attached.iter().filter_map(count).collect()
    }

    /// Detaches every program; maps stay readable.
    pub fn detach(&mut self) {
        self.links.clear();
    }

    /// A map of the object.
    pub fn map(&self, name: &str) -> Result<&Map, RecordError> {
        self.ebpf.map(name).ok_or_else(|| self.missing(name))
    }

    /// A map of the object that is an array.
    pub fn array(&self, name: &str) -> Result<&MapData, RecordError> {
        match self.map(name)? {
            Map::Array(data) => Ok(data),
            _ => Err(self.missing(name)),
        }
    }

    /// Takes a ring buffer out of the object, to read it.
    pub fn take_ring(&mut self, name: &str) -> Result<RingBuf<MapData>, RecordError> {
        let map = self.ebpf.take_map(name).ok_or_else(|| self.missing(name))?;
        RingBuf::try_from(map).map_err(|error| refused(name, &error))
    }

    /// The error that a map or program is not in the object.
    pub fn missing(&self, name: &str) -> RecordError {
        RecordError::Load {
            what: "object".into(),
            cause: format!("{name} is not in {}.bpf.o", self.object),
            hint: "run make bpf".into(),
        }
    }
}

/// Loads a program. The verifier gives up with EAGAIN when a signal is pending (`bpf_check`, kernel/bpf/verifier.c): a recorder that is stopped
/// and continued meanwhile gets one. Then it is asked again, as often as libbpf does (`bpf_prog_load`, tools/lib/bpf/bpf.c).
fn verified(mut load: impl FnMut() -> Result<(), ProgramError>) -> Result<(), ProgramError> {
    for _ in 0..LOAD_ATTEMPTS - 1 {
        match load() {
            Err(ProgramError::LoadError { io_error, .. })
                if io_error.raw_os_error() == Some(libc::EAGAIN) => {}
            other => return other,
        }
    }
    load()
}

/// Whether this kernel has a tracepoint that a BTF program can attach to.
pub fn has_tracepoint(btf: &Btf, name: &str) -> bool {
    let kind = aya_obj::btf::BtfKind::Typedef;
    btf.id_by_type_name_kind(&format!("btf_trace_{name}"), kind)
        .is_ok()
}

/// An error with its causes, on one line.
pub fn whole(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text.replace('\n', " ")
}

/// The error that the kernel refused a part of ours.
pub fn refused(what: &str, error: &dyn std::error::Error) -> RecordError {
    refused_text(what, whole(error))
}

/// The same with the cause in words.
pub fn refused_text(what: &str, cause: String) -> RecordError {
    let hint = "whodisk is made for Linux 6.1 and later; free memory if it says so".into();
    RecordError::Load {
        what: what.into(),
        cause,
        hint,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aya_obj::VerifierLog;

    fn interrupted(times: u32) -> (bool, u32) {
        let mut asked = 0;
        let result = verified(|| {
            asked += 1;
            match asked > times {
                true => Ok(()),
                false => Err(ProgramError::LoadError {
                    io_error: io::Error::from_raw_os_error(libc::EAGAIN),
                    verifier_log: VerifierLog::new(String::new()),
                }),
            }
        });
        (result.is_ok(), asked)
    }

    #[test]
    fn a_verifier_that_a_signal_interrupts_is_asked_again() {
        assert_eq!(interrupted(0), (true, 1));
        assert_eq!(interrupted(4), (true, 5));
        // A program that never gets through is an error, not a loop.
        assert_eq!(interrupted(100), (false, LOAD_ATTEMPTS));
    }

    #[test]
    fn a_program_that_the_verifier_refuses_is_not_offered_again() {
        let mut asked = 0;
        let result = verified(|| {
            asked += 1;
            Err(ProgramError::NotLoaded)
        });
        assert!(result.is_err());
        assert_eq!(asked, 1);
    }
}
