//! Random small stacks with every assertion on: conservation, causality, capacity, sums of stages, one row per request.
//!
//! A failure prints the scenario, which is all that is needed to see it again.
use lab::scenario::Scenario;
use proptest::prelude::*;

fn workload() -> impl Strategy<Value = String> {
    let sizes = prop_oneof![Just("4KiB"), Just("64KiB"), Just("1MiB"), Just("9MiB")];
    let mix = (0u32..=100, 0u32..=100, 1u32..20, 1u32..4, any::<bool>());
    let ends = (
        1u64..400,
        0u64..1000,
        prop_oneof![Just(0u64), 50u64..3000],
        0u64..1000,
    );
    (sizes, mix, ends).prop_map(|(size, (read, random, depth, workers, buffered), (operations, seed, rate, syncs))| {
        let mut text = format!(
            "[workload]\ntargets = [\"a\", \"b\"]\nfile_size = \"64MiB\"\nblock_sizes = \"{size}\"\nread = \"{read}%\"\n\
             random = \"{random}%\"\nqueue_depth = {depth}\nworkers = {workers}\noperations = {operations}\nseed = {seed}\n\
             align = \"4KiB\"\nio = \"{}\"\n",
            if buffered { "buffered" } else { "direct" }
        );
        if rate > 0 {
            text += &format!("rate = \"{rate}/s\"\narrival = \"poisson\"\n");
        }
        if read < 100 && syncs < 20 {
            text += &format!("sync_every_writes = {}\n", syncs + 1);
        }
        text
    })
}

fn stack() -> impl Strategy<Value = String> {
    let drives = (1u32..9, prop_oneof![Just("simple"), Just("hdd")], 1u32..65);
    let volume = prop_oneof![
        Just("kind = \"stripe\"".to_owned()),
        (0u32..2, 0u32..2).prop_map(|(missing, hedge)| format!(
            "kind = \"mirror\"\nmissing = {missing}\nhedge = \"{}us\"",
            hedge * 90
        )),
        (1u32..4, 1u32..3, 0u32..2, 0u32..2).prop_map(|(k, m, missing, hedge)| format!(
            "kind = \"erasure\"\ndata = {k}\nparity = {m}\nmissing = {missing}\nhedge = \"{}us\"",
            hedge * 90
        )),
    ];
    let tables = proptest::collection::vec(any::<bool>(), 8);
    let protocol = prop_oneof![
        Just("read_write"),
        Just("copy_read_write"),
        Just("server_side_copy"),
        Just("offloaded_copy")
    ];
    (drives, volume, tables, protocol, 1u64..64).prop_map(|((count, kind, parallel), volume, has, mode, cache_mib)| {
        let count = if volume.contains("stripe") { count } else { count.max(6) };
        let mut text = format!(
            "[device]\nkind = \"{kind}\"\ncount = {count}\nsize = \"2GiB\"\nsimple_parallel = {parallel}\n\
             [volume]\n{volume}\nchunk = \"64KiB\"\n"
        );
        let mut table = |on: bool, more: &str| {
            if on {
                text += more;
            }
        };
        table(has[0], &format!("[cache]\nsize = \"{cache_mib}MiB\"\n"));
        table(has[0] && has[1], "[prefetch]\nchunk = \"2MiB\"\n");
        table(
            has[0] && has[2],
            "[writeback]\nbackground = \"1MiB\"\nlimit = \"2MiB\"\nage = \"10ms\"\ninterval = \"5ms\"\ndepth = 3\n",
        );
        table(has[0] && has[3], "[ssd_tier]\nsize = \"16MiB\"\n");
        table(has[4], "[interrupts]\nvectors = 5\nmax_vec = 2\n");
        table(has[5], &format!("[protocol]\nmode = \"{mode}\"\n[network]\nlatency = \"20us\"\n"));
        table(has[6], "[load.other]\nrate = 500\nsize = \"16KiB\"\nperiod = \"20ms\"\nactive = \"5ms\"\n");
        table(has[7], "[server]\nrequest = \"5us\"\nthreads = 2\nmax_io = \"256KiB\"\npiece = \"128KiB\"\n");
        text
    })
}

fn faults() -> impl Strategy<Value = String> {
    let one = prop_oneof![
        Just("[fault.a]\nkind = \"slow_member\"\nfactor = 3\nshape = \"tail\"\nadd = \"1ms\"\n"),
        Just("[fault.b]\nkind = \"submitter_stall\"\nperiod = \"10ms\"\nstop = \"3ms\"\n"),
        Just("[fault.c]\nkind = \"runqueue_pressure\"\n"),
        Just("[fault.d]\nkind = \"throttle\"\niops = 700\nbandwidth = \"4MiB/s\"\n"),
        Just("[fault.e]\nkind = \"firmware_hiccups\"\nevery = \"5ms\"\npause = \"2ms\"\n"),
        Just("[fault.f]\nkind = \"noisy_neighbour\"\nrate = 2000\ndrive = 0\n"),
        Just("[fault.g]\nkind = \"fragmentation\"\n"),
    ];
    proptest::collection::btree_set(one, 0..3).prop_map(|set| set.into_iter().collect())
}

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        max_shrink_iters: 100,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

fn scenario(text: &str) -> Scenario {
    Scenario::parse("random", text, &[]).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// Runs `work`; a panic of the simulation comes with the scenario that led there.
fn guarded<T>(text: &str, work: impl FnOnce() -> Result<T, lab::error::LabError>) -> T {
    match std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)) {
        Ok(Ok(result)) => result,
        Ok(Err(error)) => panic!("{error}\n{text}"),
        Err(_) => panic!("an assertion failed (see above) in\n{text}"),
    }
}

proptest! {
    #![proptest_config(config(250))]

    #[test]
    fn every_stack_holds(workload in workload(), stack in stack(), faults in faults()) {
        let text = format!("sample = \"10ms\"\n{workload}{stack}{faults}");
        let scenario = scenario(&text);
        let outcome = guarded(&text, || lab::run::measure(&scenario));
        prop_assert_eq!(Some(outcome.ops), scenario.workload.operations, "operations lost in\n{}", text);
    }
}

proptest! {
    #![proptest_config(config(12))]

    #[test]
    fn every_case_is_whole(workload in workload(), stack in stack(), faults in faults()) {
        let text = format!("sample = \"10ms\"\n{workload}{stack}{faults}");
        let scenario = scenario(&text);
        let dir = tempfile::tempdir().expect("a directory");
        guarded(&text, || lab::run::run(&scenario, dir.path(), Vec::new(), 1));
        let report = case::verify::verify(dir.path()).expect("a case");
        prop_assert!(report.problems.is_empty(), "{:#?}\n{}", report.problems, text);
    }
}
