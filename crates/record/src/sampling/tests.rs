//! A made-up recording goes through both logs: what is kept is compared with all that was there.
use super::*;
use crate::block::BlockRecord;
use case::rows::sampled::Depth;
use case::rows::{syscall_flags, SyscallRow};

const DISK: u32 = 8 << 20;
const SECOND_NS: u64 = 1_000_000_000;
const LEVEL: u32 = 4;

/// A direct read, and its one request.
#[derive(Clone, Copy)]
struct Read {
    call: SyscallRow,
    request: BlockRecord,
}

fn read(tid: i32, start_ns: u64, latency_ns: u64) -> Read {
    let owner_key = 1000 + tid as u64;
    let call = SyscallRow {
        owner_key,
        start_ns,
        end_ns: start_ns + latency_ns,
        size_bytes: 4096,
        result: 4096,
        inode: 12,
        device: DISK,
        pid: tid,
        tid,
        flags: syscall_flags::DIRECT,
        ..SyscallRow::default()
    };
    let mut request = BlockRecord {
        complete_ns: call.end_ns - 2000,
        ..BlockRecord::default()
    };
    request.owner.owner_key = owner_key;
    let facts = &mut request.facts;
    (facts.device, facts.size_bytes, facts.tid) = (DISK, 4096, tid);
    (facts.queue_ns, facts.start_ns) = (start_ns + 1000, start_ns + 1500);
    (facts.issue_first_ns, facts.issue_ns) = (start_ns + 3000, start_ns + 3000);
    Read { call, request }
}

/// Threads that read all the time for three seconds: 100 us mostly, 1 of 200 takes 20 ms. `pause`: one of them does nothing
/// for 50 ms in the middle.
fn reads(threads: i32, pause: bool) -> Vec<Read> {
    let mut all = Vec::new();
    for tid in 1..=threads {
        let mut now_ns = SECOND_NS + 777 * tid as u64;
        for number in 0.. {
            let latency_ns = if (number + 31 * tid) % 200 == 0 {
                20_000_000
            } else {
                90_000 + (number as u64 * 7919 + tid as u64) % 20_000
            };
            all.push(read(tid, now_ns, latency_ns));
            now_ns += latency_ns + 5000;
            if pause && tid == 1 && number == 9000 {
                now_ns += 50_000_000;
            }
            if now_ns > 4 * SECOND_NS {
                break;
            }
        }
    }
    all.sort_by_key(|read| read.call.end_ns);
    all
}

/// What is kept: requests with their bits, calls.
type Kept = (Vec<(BlockRecord, u32)>, Vec<SyscallRow>);

/// Sends reads through, 20 ms at a time; from the second second on the level is 4.
fn keep(reads: &[Read], seed: u64) -> (Kept, Sampler) {
    let sampler: SharedSampler = Arc::new(Mutex::new(Sampler::new(seed)));
    let mut requests = SampledRequests::new(sampler.clone());
    let mut calls = SampledCalls::new(sampler.clone());
    let mut tended_ns = SECOND_NS;
    for batch in reads.chunk_by(|a, b| a.call.end_ns / 20_000_000 == b.call.end_ns / 20_000_000) {
        let now_ns = batch[0].call.end_ns;
        if now_ns >= tended_ns + SECOND_NS {
            let mut sampler = sampler.lock().unwrap();
            if tended_ns == SECOND_NS {
                sampler.set_level(now_ns, LEVEL);
            }
            sampler.slow_requests.tend();
            sampler.slow_calls.tend();
            tended_ns = now_ns;
        }
        requests.take_in(batch.iter().map(|read| read.request).collect());
        calls.take_in(batch.iter().map(|read| read.call));
    }
    let mut kept: Kept = Default::default();
    while requests
        .judge(true, |request, mark| kept.0.push((*request, mark)))
        .is_some()
    {}
    while let Some(rows) = calls.give(true) {
        kept.1.extend(rows);
    }
    drop((requests, calls));
    let sampler = Arc::into_inner(sampler).unwrap().into_inner().unwrap();
    (kept, sampler)
}

#[test]
fn what_is_slow_is_kept_and_the_others_are_estimated() {
    let all = reads(8, false);
    let slow = all
        .iter()
        .filter(|read| read.call.end_ns - read.call.start_ns > 1_000_000);
    for seed in 0..5 {
        let ((requests, calls), sampler) = keep(&all, seed);
        let slow_kept = requests.iter().filter(|(request, mark)| {
            let took_ns = request.complete_ns - request.facts.start_ns;
            took_ns > 1_000_000 && sampled::weight(*mark) == 1
        });
        assert_eq!(slow_kept.count(), slow.clone().count(), "seed {seed}");
        let left_out = sampler.left_out()[&DISK];
        assert_eq!(requests.len() as u64 + left_out.requests, all.len() as u64);
        assert_eq!(left_out.bytes, 4096 * left_out.requests);
        assert_eq!(calls.len() as u64 + sampler.calls_left_out(), all.len() as u64);
        assert!(left_out.requests > all.len() as u64 / 3, "{left_out:?}");
        let estimate: u64 = requests
            .iter()
            .map(|(_, mark)| u64::from(sampled::weight(*mark)))
            .sum();
        let error = estimate as f64 / all.len() as f64 - 1.0;
        // Some 150,000 draws about hardly more than one operation each, of which one in sixteen is kept.
        assert!(error.abs() < 0.05, "seed {seed}: {error}");
    }
}

#[test]
fn a_call_and_its_request_share_their_fate() {
    let all = reads(8, false);
    let ((requests, calls), _) = keep(&all, 3);
    let key = |tid: i32, start_ns: u64| (tid, start_ns);
    let of_calls: BTreeMap<_, u32> = calls
        .iter()
        .map(|call| (key(call.tid, call.start_ns), sampled::weight(call.flags)))
        .collect();
    let of_requests: BTreeMap<_, u32> = requests
        .iter()
        .map(|(request, mark)| {
            (
                key(request.facts.tid, request.facts.queue_ns - 1000),
                sampled::weight(*mark),
            )
        })
        .collect();
    // A thread's last request is followed by silence, and so kept whatever its call drew.
    let last = |key: &(i32, u64)| key.1 > 4 * SECOND_NS - 1_000_000;
    let differ = of_calls
        .keys()
        .filter(|key| of_requests.get(key) != of_calls.get(key));
    assert_eq!(differ.filter(|key| !last(key)).count(), 0);
    // The other way round there are a few more: a request by the side of a silence is kept without its call.
    assert!(of_requests.len() - of_calls.len() < of_calls.len() / 50);
}

#[test]
fn depths_are_those_of_all() {
    let all = reads(8, false);
    let ((requests, calls), _) = keep(&all, 1);
    let marked = requests.iter().filter(|(_, mark)| *mark != 0);
    assert!(marked.clone().count() > 1000);
    for (request, mark) in marked.step_by(17) {
        let now_ns = request.facts.queue_ns;
        let in_flight =
            |other: &&Read| other.request.facts.queue_ns <= now_ns && other.request.complete_ns > now_ns;
        let depth = all.iter().filter(in_flight).count();
        assert_eq!(sampled::depth(*mark), Depth::Counted(depth));
    }
    assert!(calls
        .iter()
        .all(|call| sampled::depth(call.flags) == Depth::OfRows
            || sampled::depth(call.flags) == Depth::Counted(1)));
}

#[test]
fn a_silence_is_marked_and_both_its_sides_are_kept() {
    let all = reads(1, true);
    let silence = all
        .windows(2)
        .find(|pair| pair[1].call.start_ns - pair[0].call.end_ns > SECOND_NS / 100);
    let [before, after] = silence.unwrap() else {
        panic!()
    };
    for seed in 0..5 {
        let ((requests, _), _) = keep(&all, seed);
        let find = |read: &Read| {
            let same = |(request, _): &&(BlockRecord, u32)| request.complete_ns == read.request.complete_ns;
            requests.iter().find(same).map(|(_, mark)| *mark)
        };
        assert!(find(before).is_some(), "seed {seed}");
        assert_ne!(find(after).unwrap() & sampled::SILENT_BEFORE, 0);
        // Those that follow at once carry the mark, too; none is made up elsewhere.
        let mut silent = requests
            .iter()
            .filter(|(_, mark)| mark & sampled::SILENT_BEFORE != 0);
        let near = |ns: u64| ns.abs_diff(after.call.start_ns) < 1 << busy::SLICE_LOG2;
        assert!(silent.all(|(request, _)| near(request.facts.queue_ns)));
    }
}

#[test]
fn without_a_level_nothing_is_left_out_or_marked() {
    let all = reads(2, false);
    let sampler: SharedSampler = Arc::new(Mutex::new(Sampler::new(1)));
    let mut requests = SampledRequests::new(sampler.clone());
    requests.take_in(all.iter().map(|read| read.request).collect());
    let mut marks = Vec::new();
    assert!(requests.judge(true, |_, mark| marks.push(mark)).is_some());
    assert_eq!(marks, vec![0; all.len()]);
    assert!(sampler.lock().unwrap().left_out().is_empty());
}
