//! What a request becomes: its row, that of the layer below, and the stages that a layer observes.
use super::{CaseSink, Rows};
use crate::observation::Observation;
use crate::request::{Level, Request};
use case::meta::LayerMeta;
use case::schema::{flags, Layer, OpRow, Stage};

impl CaseSink {
    pub(super) fn make_rows(&self, request: &Request, local: bool, open: bool) -> Rows {
        let blind = self.losses.is_blind(request.op_id) || self.losses.is_blind(request.lower_id);
        let request = &self.observation.seen(request, blind);
        let lost = self.losses.has(request.op_id);
        match request.level {
            Level::App => {
                let submitted = !open || request.stage != Stage::App;
                let lower = (local && submitted).then(|| self.syscall_of(request, open));
                (Some((Layer::App, self.app(request, open))), lower)
            }
            Level::Syscall => (Some((Layer::Syscall, self.syscall(request, open))), None),
            Level::Volume => ((!lost).then(|| (Layer::Block, self.block(request, open))), None),
            Level::Block => {
                let issued = self.observation.device && (!open || request.stage >= Stage::Device);
                let lower = issued.then(|| (Layer::Device, self.device(request, open)));
                ((!lost).then(|| (Layer::Block, self.block(request, open))), lower)
            }
            Level::Borrowed | Level::Internal => (None, None),
        }
    }

    fn base(&self, request: &Request, open: bool) -> OpRow {
        let thread = self.threads.get(request.thread as usize);
        let placed = request.size_bytes > 0;
        OpRow {
            op_id: request.op_id,
            open,
            flags: request.flags,
            host: Some(self.host),
            comm: thread.map(|thread| thread.comm),
            offset_bytes: placed.then_some(request.offset_bytes as i64),
            size_bytes: Some(i64::from(request.size_bytes)),
            queue_depth: Some(request.depth as i32),
            pid: thread.map(|thread| thread.pid),
            tid: thread.map(|thread| thread.tid),
            cpu: Some(i32::from(request.cpu)),
            ..OpRow::plain(request.start_ns as i64, request.latency_ns() as i64, request.op)
        }
    }

    fn app(&self, request: &Request, open: bool) -> OpRow {
        OpRow {
            file: self.files.get(request.file as usize).copied(),
            stages: self.observed(request, Layer::App),
            foreign_handler_ns: self.foreign_of(request),
            ..self.base(request, open)
        }
    }

    /// The same request as the kernel of a local workload sees it: from submit to complete.
    fn syscall_of(&self, request: &Request, open: bool) -> (Layer, OpRow) {
        let mut lower = request.clone();
        for stage in [Stage::App, Stage::Reap, Stage::Runqueue] {
            lower.stages[stage as usize] = 0;
        }
        lower.op_id = request.lower_id;
        lower.start_ns = request.submit_ns;
        (Layer::Syscall, self.syscall(&lower, open))
    }

    fn syscall(&self, request: &Request, open: bool) -> OpRow {
        OpRow {
            file: self.files.get(request.file as usize).copied(),
            stages: self.observed(request, Layer::Syscall),
            foreign_handler_ns: self.foreign_of(request),
            queue_depth: None,
            ..self.base(request, open)
        }
    }

    fn block(&self, request: &Request, open: bool) -> OpRow {
        let interrupted = request.vector >= 0;
        OpRow {
            device: self.devices.get(request.device as usize).copied(),
            complete_cpu: interrupted.then_some(i32::from(request.complete_cpu)),
            hctx: (request.level == Level::Block).then_some(i32::from(request.hctx)),
            vector: interrupted.then_some(i32::from(request.vector)),
            stages: self.observed(request, Layer::Block),
            foreign_handler_ns: self.foreign_of(request),
            ..self.base(request, open)
        }
    }

    /// What the drive itself would report: from issue to its own completion.
    fn device(&self, request: &Request, open: bool) -> OpRow {
        let latency_ns = request.stages[Stage::Device as usize] as i64;
        let mut stages = [None; 9];
        stages[Stage::Device as usize] = Some(latency_ns);
        OpRow {
            op_id: request.lower_id,
            start_ns: request.submit_ns as i64,
            latency_ns,
            device: self.devices.get(request.device as usize).copied(),
            flags: request.flags & !(flags::MERGED),
            queue_depth: None,
            comm: None,
            pid: None,
            tid: None,
            cpu: None,
            hctx: Some(i32::from(request.hctx)),
            stages,
            ..self.base(request, open)
        }
    }

    fn foreign_of(&self, request: &Request) -> Option<i64> {
        self.observation.interrupts.then_some(request.foreign_ns as i64)
    }

    /// The stages that a layer observes; the others must be empty.
    fn observed(&self, request: &Request, layer: Layer) -> [Option<i64>; 9] {
        let mut found = [None; 9];
        let mut sum = 0;
        for (stage, _) in stages_of(layer, &self.observation, self.stacked) {
            let ns = request.stages[stage as usize];
            found[stage as usize] = Some(ns as i64);
            sum += ns;
        }
        assert_eq!(
            sum,
            request.latency_ns(),
            "a {:?} request with a stage its layer cannot have",
            request.level
        );
        found
    }
}

/// The stages that a layer has, with the names that a recorder gives them. `stacked`: with rows of volumes; their own work is `fs`.
fn stages_of(layer: Layer, observation: &Observation, stacked: bool) -> Vec<(Stage, &'static str)> {
    let mut stages = vec![(Stage::Throttle, "throttle"), (Stage::Queue, "queue")];
    match observation.interrupts {
        true => stages.extend([(Stage::Device, "device"), (Stage::Interrupt, "interrupt")]),
        false => stages.push((Stage::Device, "device+interrupt")),
    }
    match layer {
        Layer::Device => return vec![(Stage::Device, "device")],
        Layer::Block if stacked => stages.extend([(Stage::Fs, "volume"), (Stage::Unknown, "unknown")]),
        Layer::Block => {}
        Layer::Syscall => stages.extend([(Stage::Fs, "fs"), (Stage::Unknown, "unknown")]),
        Layer::App => {
            stages.extend([(Stage::Fs, "fs"), (Stage::Unknown, "unknown")]);
            stages.extend([(Stage::App, "app"), (Stage::Reap, "reap")]);
            if observation.scheduler {
                stages.push((Stage::Runqueue, "runqueue"));
            }
        }
    }
    stages
}

pub(super) fn layer_meta(layer: Layer, rows: u64, observation: &Observation, stacked: bool) -> LayerMeta {
    let stages = stages_of(layer, observation, stacked);
    LayerMeta {
        rows,
        stages: stages
            .into_iter()
            .map(|(stage, name)| (stage.column().to_owned(), name.to_owned()))
            .collect(),
        join: match layer {
            Layer::App => "exact (user_data)",
            Layer::Syscall => "exact (owner_key)",
            Layer::Block | Layer::Device => "none",
        }
        .into(),
        ..LayerMeta::default()
    }
}
