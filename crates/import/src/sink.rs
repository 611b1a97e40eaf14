//! Where records go: rows of the case's tables, in the case's time; or, while only the begin of a log is looked at, nowhere.
use crate::clock::Clock;
use crate::error::Bad;
use crate::order::Order;
use crate::text::counted;
use crate::tie::Tie;
use crate::ImportError;
use case::meta::{LayerMeta, Unseen};
use case::schema::{
    EventRow, IrqRow, Layer, LossRow, NameId, Op, OpRow, Sample, Stage, SubjectKind, WaitRow,
};
use case::sealed::{FewColumns, Names, OpBatch, SealWriter};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Operations of a log that are looked at before it is read.
const SURVEY_OPS: usize = 20_000;
/// Samples of a log that are looked at, if there is no operation.
const SURVEY_SAMPLES: u64 = 1;
/// Bad records of which the case says where the first ones are.
const BAD_SHOWN_MAX: usize = 5;

/// What a survey keeps of an operation.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// In the log's own time.
    pub start_ns: i64,
    /// Its latency.
    pub latency_ns: i64,
    /// Kind.
    pub op: Op,
    /// Place, if the log says it.
    pub offset_bytes: Option<i64>,
    /// Size, if the log says it.
    pub size_bytes: Option<i64>,
    /// Device, if the log says it.
    pub device: Option<NameId>,
}

/// Commands over a threshold, as a drive counted them itself.
#[derive(Clone, Debug)]
pub struct DriveCount {
    /// Name of the drive.
    pub device: String,
    /// Kind.
    pub op: Op,
    /// Threshold.
    pub threshold_ns: i64,
    /// How many.
    pub counted: u64,
    /// Between two snapshots; else since some moment before the log.
    pub is_difference: bool,
}

/// Latencies below the block layer's queue of which the host's operations are counted beside a drive's own account, milliseconds.
const HOST_MS_MAX: usize = 1281;
/// The smallest threshold that a drive can have.
const DRIVE_NS_MIN: i64 = 5_000_000;

/// What is known of a log after a look at its begin.
#[derive(Debug, Default)]
pub struct Survey {
    /// The clock of its moments.
    pub clock: Clock,
    /// Layers that it has operations of.
    pub layers: BTreeSet<Layer>,
    /// Its first operations.
    pub ops: Vec<Seen>,
    /// Moment of the first sample or event.
    pub first_ns: Option<i64>,
    /// Samples and events so far.
    pub samples: u64,
}

impl Survey {
    /// The earliest moment that was seen.
    pub fn begin_ns(&self) -> Option<i64> {
        let ops = self.ops.iter().map(|op| op.start_ns).min();
        match (ops, self.first_ns) {
            (Some(op), Some(first)) => Some(op.min(first)),
            (op, first) => op.or(first),
        }
    }
}

enum To<'a> {
    Survey(Survey),
    Case(&'a mut SealWriter),
}

/// What one import found out.
#[derive(Debug, Default)]
pub struct Found {
    /// Records of the input.
    pub records: u64,
    /// Rows written, all tables.
    pub rows: u64,
    /// Bad records that were left out.
    pub left_out: u64,
    /// Last moment, since the case's start.
    pub end_ns: i64,
    /// Coarsest step of a latency.
    pub resolution_ns: i64,
    /// Layers with operations.
    pub layers: BTreeMap<Layer, LayerMeta>,
    /// Of what the input does hold: what could not be read, or is there by half.
    pub missing: Vec<Unseen>,
    /// Places where files end inside a record.
    pub cut: Vec<String>,
    /// What the input did not hold.
    pub not_observed: Vec<Unseen>,
}

/// See the module.
pub struct Sink<'a> {
    to: To<'a>,
    names: &'a mut Names,
    tell: &'a mut dyn FnMut(u64),
    keep_going: bool,
    bytes: u64,
    /// Added to a moment of the log at hand to get one of the case.
    shift_ns: i64,
    /// What tells the log at hand from the others of its format; None: there is no other.
    label: Option<String>,
    counts_depth: bool,
    orders: BTreeMap<Layer, Order>,
    next_id: BTreeMap<Layer, u64>,
    tie: Tie,
    bad: Vec<String>,
    bad_of_source: u64,
    first_mean: Option<(String, f64)>,
    drive: Vec<DriveCount>,
    /// Operations of the block and device layers by kind and whole milliseconds between issue and completion.
    host_ms: BTreeMap<(u8, usize), u64>,
    found: Found,
}

impl<'a> Sink<'a> {
    /// Looks at the begin of a log; [`Sink::surveyed`] says what was seen.
    pub fn survey(names: &'a mut Names, tell: &'a mut dyn FnMut(u64), keep_going: bool) -> Sink<'a> {
        Sink::new(To::Survey(Survey::default()), names, tell, keep_going)
    }

    /// Writes a case.
    pub fn case(
        writer: &'a mut SealWriter,
        names: &'a mut Names,
        tell: &'a mut dyn FnMut(u64),
        keep_going: bool,
    ) -> Sink<'a> {
        Sink::new(To::Case(writer), names, tell, keep_going)
    }

    fn new(to: To<'a>, names: &'a mut Names, tell: &'a mut dyn FnMut(u64), keep_going: bool) -> Sink<'a> {
        Sink {
            to,
            names,
            tell,
            keep_going,
            bytes: 0,
            shift_ns: 0,
            label: None,
            counts_depth: false,
            orders: BTreeMap::new(),
            next_id: BTreeMap::new(),
            tie: Tie::default(),
            bad: Vec::new(),
            bad_of_source: 0,
            first_mean: None,
            drive: Vec::new(),
            host_ms: BTreeMap::new(),
            found: Found {
                resolution_ns: 1,
                ..Found::default()
            },
        }
    }

    /// What a survey saw. Panics on a sink that writes.
    pub fn surveyed(self) -> Survey {
        match self.to {
            To::Survey(survey) => survey,
            To::Case(_) => panic!("this sink writes a case"),
        }
    }

    // -- one log after the other ------------------------------------------------------------------

    /// A log begins. Its moments are shifted by `shift_ns`; `label` tells it from others of its format, if there are any.
    pub fn begin(&mut self, shift_ns: i64, label: Option<String>) {
        self.shift_ns = shift_ns;
        self.label = label;
        self.counts_depth = false;
        self.bad_of_source = 0;
    }

    /// What tells the log at hand from the others of its format that are imported with it.
    pub fn label(&self) -> Option<&str> {
        self.label.as_deref()
    }

    /// A program's name, with the log's where several of its logs are imported: what is said of one must not be pooled with what is said of another.
    pub fn of_log(&self, name: &str) -> String {
        match &self.label {
            Some(label) => format!("{name} ({label})"),
            None => name.to_owned(),
        }
    }

    /// A log ends.
    pub fn end(&mut self, shown: &str) -> Result<(), ImportError> {
        for (layer, mut order) in std::mem::take(&mut self.orders) {
            self.emit(layer, &mut order, true)?;
        }
        if self.bad_of_source > 0 {
            let records = counted(self.bad_of_source, "bad record");
            let because = format!("left out (--keep-going): {}", self.bad.join("; "));
            self.missing(format!("{records} of {shown}"), because);
            self.bad.clear();
        }
        Ok(())
    }

    /// From now on operations of the upper layers are tied to those of the layers below that were read already. Moments of both
    /// may be apart by `tolerance_ns`.
    pub fn tie(&mut self, tolerance_ns: i64) {
        self.tie.begin(tolerance_ns);
    }

    /// Keeps the operations that are read, to tie others to them.
    pub fn keep_for_tie(&mut self) {
        self.tie.keep();
    }

    /// All logs were read.
    pub fn finish(mut self) -> Found {
        if self.tie.is_tying() {
            self.found.not_observed.extend(self.tie.told());
            self.name_tied_stages();
        }
        self.tell_drive_counts();
        self.tell_cut_offs();
        self.found
    }

    fn tell_cut_offs(&mut self) {
        let layers = self.found.layers.iter();
        let cut_off: Vec<(&str, i64)> = layers
            .filter_map(|(layer, meta)| Some((layer.name(), meta.slower_than_ns?)))
            .collect();
        for (layer, least_ns) in cut_off {
            self.unseen(
                format!(
                    "operations of layer {layer} that took {} ms or less",
                    least_ns as f64 / 1e6
                ),
                "only slower ones were logged: how many were faster, and what is usual, cannot be told",
            );
        }
    }

    /// The drive's own account beside the host's: what the host saw over the drive's threshold, and what the drive counted.
    fn tell_drive_counts(&mut self) {
        let mut latest: BTreeMap<(String, u8), DriveCount> = BTreeMap::new();
        for count in std::mem::take(&mut self.drive) {
            latest.insert((count.device.clone(), count.op as u8), count);
        }
        if !self.found.layers.keys().any(|layer| *layer >= Layer::Block) {
            return;
        }
        let drives: BTreeSet<String> = latest.keys().map(|(device, _)| device.clone()).collect();
        for count in latest.values() {
            let threshold_ms = (count.threshold_ns / 1_000_000).clamp(0, HOST_MS_MAX as i64 - 1) as usize;
            let of_kind = (count.op as u8, threshold_ms)..=(count.op as u8, HOST_MS_MAX);
            let host: u64 = self.host_ms.range(of_kind).map(|(_, many)| *many).sum();
            if host == 0 && count.counted == 0 {
                continue;
            }
            let what = format!(
                "which {}s over {threshold_ms} ms were slow inside {}: the host's log has {host} between issue and completion, the drive counted {}",
                count.op.name(), count.device, count.counted
            );
            let because = if drives.len() > 1 {
                "there are several drives, and the host's operations are counted together".to_owned()
            } else if !count.is_difference {
                "there is one snapshot: the drive's counters began before the host's log; take one before and one after".to_owned()
            } else if host > count.counted {
                format!(
                    "if the snapshots enclose the log, {} of the host's at least waited outside the drive: for the bus, an interrupt, or the host",
                    host - count.counted
                )
            } else {
                "the drive says how many, not which".to_owned()
            };
            self.unseen(what, because);
        }
    }

    /// What a drive counted itself; the last word on a drive and kind counts.
    pub fn drive_counted(&mut self, count: DriveCount) {
        self.drive.push(count);
    }

    /// What the stages of tied layers cover: what is below is named as it is there.
    fn name_tied_stages(&mut self) {
        let of_block = self
            .found
            .layers
            .get(&Layer::Block)
            .or_else(|| self.found.layers.get(&Layer::Device));
        let below = of_block.map_or_else(BTreeMap::new, |meta| meta.stages.clone());
        for layer in [Layer::App, Layer::Syscall] {
            let Some(meta) = self.found.layers.get_mut(&layer) else {
                continue;
            };
            for (stage, default) in [(Stage::Queue, "queue"), (Stage::Device, "device+interrupt")] {
                let name = below.get(stage.column()).map_or(default, String::as_str);
                meta.stages.insert(stage.column().into(), name.into());
            }
            meta.stages.insert(Stage::Fs.column().into(), "fs+reap".into());
            meta.stages
                .insert(Stage::Unknown.column().into(), "unknown".into());
            meta.join = "kind, place, size and time".into();
        }
    }

    // -- what a format says of its log ------------------------------------------------------------

    /// The clock of the log's moments; before the first row.
    pub fn clock(&mut self, clock: Clock) {
        if let To::Survey(survey) = &mut self.to {
            survey.clock = clock;
        }
    }

    /// The log has operations of this layer; its stages and what each covers. Absent stages are not observed.
    pub fn layer(&mut self, layer: Layer, stages: &[(Stage, &str)]) {
        if let To::Survey(survey) = &mut self.to {
            survey.layers.insert(layer);
        }
        let meta = self.found.layers.entry(layer).or_default();
        for (stage, name) in stages {
            let said = meta.stages.entry(stage.column().into()).or_default();
            if said.is_empty() {
                (*said).push_str(name);
            } else if !said.split(" or ").any(|one| one == *name) {
                *said = format!("{said} or {name}");
            }
        }
        meta.join = "none".into();
    }

    /// Latencies of the log have steps of this many nanoseconds.
    pub fn resolution(&mut self, step_ns: i64) {
        self.found.resolution_ns = self.found.resolution_ns.max(step_ns);
    }

    /// The log holds only operations of this layer that took longer. Of several logs the largest counts: what one has and another
    /// leaves out tells nothing of the whole.
    pub fn slower_than(&mut self, layer: Layer, least_ns: i64) {
        let meta = self.found.layers.entry(layer).or_default();
        meta.slower_than_ns = meta.slower_than_ns.max(Some(least_ns));
    }

    /// So many operations of this layer were due and never began, since they were late already.
    pub fn skipped(&mut self, layer: Layer, count: u64) {
        let meta = self.found.layers.entry(layer).or_default();
        *meta.skipped.get_or_insert(0) += count;
    }

    /// So many operations of this layer failed, and the log has no time for them.
    pub fn failed(&mut self, layer: Layer, count: u64) {
        let meta = self.found.layers.entry(layer).or_default();
        *meta.failed.get_or_insert(0) += count;
    }

    /// So many operations of this layer ended without a word of it in the log.
    pub fn without_end(&mut self, layer: Layer, count: u64) {
        let meta = self.found.layers.entry(layer).or_default();
        *meta.without_end.get_or_insert(0) += count;
    }

    /// The log has every operation of its devices (or workers), so that those in flight can be counted.
    pub fn has_every_operation(&mut self) {
        self.counts_depth = true;
    }

    /// Something that the log does not hold, and why.
    pub fn unseen(&mut self, what: impl Into<String>, because: impl Into<String>) {
        let (what, because) = (what.into(), because.into());
        if !self
            .found
            .not_observed
            .iter()
            .any(|unseen| unseen.what == what && unseen.because == because)
        {
            self.found.not_observed.push(Unseen { what, because });
        }
    }

    /// Something that the log holds, but not as a whole or not in a form that can be read, with how much it is: a verdict says it before all else
    /// that was not seen.
    pub fn missing(&mut self, what: impl Into<String>, because: impl Into<String>) {
        let missing = Unseen {
            what: what.into(),
            because: because.into(),
        };
        if !self.found.missing.contains(&missing) {
            self.found.missing.push(missing);
        }
    }

    /// A log's published mean: the first log's name and mean, if this is a later one, so that they can be compared.
    pub fn first_mean(&mut self, name: &str, mean: f64) -> Option<(String, f64)> {
        let first = self.first_mean.clone();
        if first.is_none() {
            self.first_mean = Some((name.to_owned(), mean));
        }
        first
    }

    // -- rows -------------------------------------------------------------------------------------

    /// The number of a name.
    pub fn name(&mut self, name: &str) -> NameId {
        self.names.id(name)
    }

    /// The number of a name; none if it is empty.
    pub fn name_if(&mut self, name: &str) -> Option<NameId> {
        (!name.is_empty()).then(|| self.names.id(name))
    }

    /// An operation, its start in the log's own time; id and queue depth are given here. Its stages sum to its latency.
    #[inline]
    pub fn op(&mut self, layer: Layer, mut row: OpRow) -> Result<(), ImportError> {
        self.put(layer, &mut row)
    }

    /// By reference: a row is 300 bytes long.
    fn put(&mut self, layer: Layer, row: &mut OpRow) -> Result<(), ImportError> {
        let sum: i64 = row.stages.iter().flatten().sum();
        assert_eq!(
            sum, row.latency_ns,
            "stages of an imported operation sum to its latency"
        );
        self.found.records += 1;
        if let To::Survey(survey) = &mut self.to {
            survey.ops.push(Seen {
                start_ns: row.start_ns,
                latency_ns: row.latency_ns,
                op: row.op,
                offset_bytes: row.offset_bytes,
                size_bytes: row.size_bytes,
                device: row.device,
            });
            return if survey.ops.len() < SURVEY_OPS {
                Ok(())
            } else {
                Err(ImportError::Enough)
            };
        }
        row.start_ns = row.start_ns.saturating_add(self.shift_ns);
        self.found.end_ns = self.found.end_ns.max(row.start_ns.saturating_add(row.latency_ns));
        let order = self.orders.entry(layer).or_default();
        order.held.push(row);
        if !order.is_full() {
            return Ok(());
        }
        let mut order = std::mem::take(order);
        self.emit(layer, &mut order, false)?;
        self.orders.insert(layer, order);
        Ok(())
    }

    /// Operations like `row` but for a few columns, starts in the log's own time; a stage that `row` has takes all of each one's latency.
    /// None of them are left in `few`.
    pub fn ops(&mut self, layer: Layer, row: &OpRow, few: &mut FewColumns) -> Result<(), ImportError> {
        self.found.records += few.len() as u64;
        if let To::Survey(survey) = &mut self.to {
            for at in 0..few.len() {
                survey.ops.push(Seen {
                    start_ns: few.start_ns[at],
                    latency_ns: few.latency_ns[at],
                    op: few.op[at],
                    offset_bytes: few.offset_bytes.get(at).copied().or(row.offset_bytes),
                    size_bytes: few.size_bytes.get(at).copied().or(row.size_bytes),
                    device: row.device,
                });
                if survey.ops.len() >= SURVEY_OPS {
                    return Err(ImportError::Enough);
                }
            }
            few.clear();
            return Ok(());
        }
        for (start_ns, latency_ns) in few.start_ns.iter_mut().zip(&few.latency_ns) {
            *start_ns = start_ns.saturating_add(self.shift_ns);
            self.found.end_ns = self.found.end_ns.max(start_ns.saturating_add(*latency_ns));
        }
        let mut done = 0;
        while done < few.len() {
            let order = self.orders.entry(layer).or_default();
            let end = few.len().min(done + order.room());
            order.held.extend(row, few, done..end);
            done = end;
            if order.is_full() {
                let mut order = std::mem::take(order);
                self.emit(layer, &mut order, false)?;
                self.orders.insert(layer, order);
            }
        }
        few.clear();
        Ok(())
    }

    /// Writes the operations that began first.
    fn emit(&mut self, layer: Layer, order: &mut Order, has_ended: bool) -> Result<(), ImportError> {
        let mut batch = order.take(has_ended);
        if self.counts_depth {
            order.count_depth(&mut batch);
        }
        let next = self.next_id.entry(layer).or_default();
        batch.set_ids(layer.op_id_base() | *next);
        *next += batch.len() as u64;
        self.count_long(layer, &batch);
        let To::Case(writer) = &mut self.to else {
            return Ok(());
        };
        self.found.rows += batch.len() as u64;
        if let Some(meta) = self.found.layers.get_mut(&layer) {
            meta.rows += batch.len() as u64;
        }
        if !self.tie.is_looking() {
            writer.ops(layer, batch, self.names)?;
            return Ok(());
        }
        for at in 0..batch.len() {
            let mut row = batch.row(at);
            if let Some(link) = self.tie.see(layer, &mut row) {
                writer.link(&link)?;
            }
            writer.op(layer, &row, self.names)?;
        }
        Ok(())
    }

    /// Requests and commands of which a drive may have counted some as long.
    fn count_long(&mut self, layer: Layer, batch: &OpBatch) {
        if layer < Layer::Block {
            return;
        }
        for (at, latency_ns) in batch.latencies_ns().iter().enumerate() {
            let device_ns = batch.stage_ns(at, Stage::Device).unwrap_or(*latency_ns);
            if device_ns >= DRIVE_NS_MIN && !batch.is_open(at) {
                let ms = usize::try_from(device_ns / 1_000_000).map_or(HOST_MS_MAX, |ms| ms.min(HOST_MS_MAX));
                *self.host_ms.entry((batch.op(at) as u8, ms)).or_default() += 1;
            }
        }
    }

    /// Samples of one subject at one moment of the log.
    pub fn sample(
        &mut self,
        time_ns: i64,
        host: Option<NameId>,
        kind: SubjectKind,
        subject: NameId,
        values: &[(NameId, f64)],
    ) -> Result<(), ImportError> {
        self.found.records += 1;
        self.sum(time_ns, host, kind, subject, values)
    }

    /// The same, of what many records say together, each of which was counted ([`Sink::record_without_row`]).
    pub fn sum(
        &mut self,
        time_ns: i64,
        host: Option<NameId>,
        kind: SubjectKind,
        subject: NameId,
        values: &[(NameId, f64)],
    ) -> Result<(), ImportError> {
        let time_ns = self.moment(time_ns)?;
        if let To::Case(writer) = &mut self.to {
            let sample = Sample {
                time_ns,
                host,
                kind,
                subject,
                values,
            };
            writer.row(&sample, self.names)?;
            self.found.rows += values.len() as u64;
        }
        Ok(())
    }

    /// Something that happened at a moment of the log.
    pub fn event(&mut self, mut row: EventRow) -> Result<(), ImportError> {
        row.time_ns = self.moment(row.time_ns)?;
        if let To::Case(writer) = &mut self.to {
            writer.event(&row)?;
            self.found.rows += 1;
        }
        Ok(())
    }

    /// A run of an interrupt handler.
    pub fn irq(&mut self, mut row: IrqRow) -> Result<(), ImportError> {
        self.found.records += 1;
        row.start_ns = self.moment(row.start_ns)?;
        if let To::Case(writer) = &mut self.to {
            writer.row(&row, self.names)?;
            self.found.rows += 1;
        }
        Ok(())
    }

    /// A wait of a thread.
    pub fn wait(&mut self, mut row: WaitRow) -> Result<(), ImportError> {
        row.start_ns = self.moment(row.start_ns)?;
        if let To::Case(writer) = &mut self.to {
            writer.row(&row, self.names)?;
            self.found.rows += 1;
        }
        Ok(())
    }

    /// Records that the log says were lost.
    pub fn loss(&mut self, mut row: LossRow) -> Result<(), ImportError> {
        row.start_ns = row.start_ns.saturating_add(self.shift_ns);
        row.end_ns = row.end_ns.saturating_add(self.shift_ns);
        if let To::Case(writer) = &mut self.to {
            writer.loss(&row)?;
            self.found.rows += 1;
        }
        Ok(())
    }

    /// A record that gives no row.
    pub fn record_without_row(&mut self) {
        self.found.records += 1;
    }

    fn moment(&mut self, time_ns: i64) -> Result<i64, ImportError> {
        if let To::Survey(survey) = &mut self.to {
            survey.first_ns.get_or_insert(time_ns);
            survey.samples += 1;
            if survey.samples >= SURVEY_SAMPLES && survey.layers.is_empty() {
                return Err(ImportError::Enough);
            }
        }
        let time_ns = time_ns.saturating_add(self.shift_ns);
        self.found.end_ns = self.found.end_ns.max(time_ns);
        Ok(time_ns)
    }

    // -- reading ----------------------------------------------------------------------------------

    /// Bytes read of all files.
    pub fn bytes_done(&self) -> u64 {
        self.bytes
    }

    /// This many bytes are read.
    pub fn progress(&mut self, bytes: u64) {
        self.bytes = bytes;
        (self.tell)(bytes);
    }

    /// Whether bad records are left out.
    pub fn keeps_going(&self) -> bool {
        self.keep_going
    }

    /// A bad record was left out.
    pub fn left_out(&mut self, path: &Path, at: &str, bad: &Bad) {
        self.found.left_out += 1;
        self.bad_of_source += 1;
        if self.bad.len() < BAD_SHOWN_MAX {
            let (path, expected, found) = (path.display(), &bad.expected, &bad.found);
            self.bad
                .push(format!("{path}: {at}: expected {expected}, found {found}"));
        }
    }

    /// The file ends inside a record: what is before it is kept.
    pub fn cut(&mut self, path: &Path, at: &str, bad: &Bad) {
        let path = path.display();
        self.missing(
            format!("what follows the end of {path}"),
            format!("the file is cut off at {at} ({})", bad.found),
        );
        let told = format!(
            "{path}: {at}: expected {}, found {} where the file ends; what was begun there is left out",
            bad.expected, bad.found
        );
        if !self.found.cut.contains(&told) {
            self.found.cut.push(told);
        }
    }

    /// The last line of a table has no end: it is read, but its last field may have been longer.
    pub fn in_doubt(&mut self, path: &Path, at: &str, line: &[u8]) {
        let found = Bad::new("", "", &String::from_utf8_lossy(line)).found;
        self.found.cut.push(format!(
            "{}: {at}: expected the end of a line, found {found} where the file ends; it is read, but if the file was cut off, its last value is wrong",
            path.display()
        ));
        self.unseen(
            format!("whether the last value of {} is whole", path.display()),
            format!("{at} has no end"),
        );
    }
}

/// An operation that spent all of its latency in one stage, and nothing else is known of it.
#[inline]
pub fn one_stage_op(start_ns: i64, latency_ns: i64, op: Op, stage: Stage) -> OpRow {
    let mut row = OpRow::plain(start_ns, latency_ns, op);
    row.stages[stage as usize] = Some(latency_ns);
    row
}
