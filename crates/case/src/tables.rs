//! The sealed tables: names, columns, types, NULL rules and encodings, described once.
use crate::schema::{Layer, Stage};

/// Type of a sealed column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Signed 64-bit integer.
    Int64,
    /// Signed 32-bit integer.
    Int32,
    /// Unsigned 32-bit integer.
    UInt32,
    /// Boolean.
    Bool,
    /// 32-bit floating point.
    Float32,
    /// 64-bit floating point.
    Float64,
    /// UTF-8 string out of few, held as a dictionary.
    Name,
    /// UTF-8 string.
    Text,
}

impl Kind {
    /// Name of the type as the format document prints it (DuckDB's words).
    pub fn name(self) -> &'static str {
        match self {
            Kind::Int64 => "BIGINT",
            Kind::Int32 => "INTEGER",
            Kind::UInt32 => "UINTEGER",
            Kind::Bool => "BOOLEAN",
            Kind::Float32 => "FLOAT",
            Kind::Float64 => "DOUBLE",
            Kind::Name | Kind::Text => "VARCHAR",
        }
    }
}

/// How a column is laid out in Parquet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// DELTA_BINARY_PACKED: values that grow steadily.
    Delta,
    /// BYTE_STREAM_SPLIT: values with high bytes that repeat and low bytes that do not.
    Split,
    /// Dictionary and run lengths: few distinct values.
    Dictionary,
}

/// A column of a sealed table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// Name, with its unit.
    pub name: &'static str,
    /// Type.
    pub kind: Kind,
    /// Whether NULL (not observed, or no such thing) is allowed.
    pub nullable: bool,
    /// Layout.
    pub encoding: Encoding,
    /// Whether it came later: cases of earlier versions lack it. Only the last columns of a table, and they may be NULL.
    pub later: bool,
}

/// A sealed table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Table {
    /// Folder in the case.
    pub name: &'static str,
    /// Columns in order.
    pub columns: &'static [Column],
}

const fn must(name: &'static str, kind: Kind, encoding: Encoding) -> Column {
    Column {
        name,
        kind,
        nullable: false,
        encoding,
        later: false,
    }
}

const fn may(name: &'static str, kind: Kind, encoding: Encoding) -> Column {
    Column {
        name,
        kind,
        nullable: true,
        encoding,
        later: false,
    }
}

const fn later(name: &'static str, kind: Kind, encoding: Encoding) -> Column {
    Column {
        later: true,
        ..may(name, kind, encoding)
    }
}

const fn stage(stage: Stage) -> Column {
    may(stage.column(), Kind::Int64, Encoding::Split)
}

/// `ops/layer=<layer>/`.
pub const OPS: Table = Table {
    name: "ops",
    columns: &[
        must("op_id", Kind::Int64, Encoding::Split),
        must("start_ns", Kind::Int64, Encoding::Delta),
        must("latency_ns", Kind::Int64, Encoding::Split),
        must("open", Kind::Bool, Encoding::Dictionary),
        must("op", Kind::Name, Encoding::Dictionary),
        must("flags", Kind::UInt32, Encoding::Dictionary),
        may("host", Kind::Name, Encoding::Dictionary),
        may("device", Kind::Name, Encoding::Dictionary),
        may("file", Kind::Name, Encoding::Dictionary),
        may("comm", Kind::Name, Encoding::Dictionary),
        may("cgroup", Kind::Name, Encoding::Dictionary),
        may("offset_bytes", Kind::Int64, Encoding::Split),
        may("size_bytes", Kind::Int64, Encoding::Dictionary),
        may("queue_depth", Kind::Int32, Encoding::Dictionary),
        may("pid", Kind::Int32, Encoding::Dictionary),
        may("tid", Kind::Int32, Encoding::Dictionary),
        may("cpu", Kind::Int32, Encoding::Dictionary),
        may("complete_cpu", Kind::Int32, Encoding::Dictionary),
        may("hctx", Kind::Int32, Encoding::Dictionary),
        may("vector", Kind::Int32, Encoding::Dictionary),
        must("error", Kind::Int32, Encoding::Dictionary),
        must("weight", Kind::Float32, Encoding::Dictionary),
        stage(Stage::App),
        stage(Stage::Fs),
        stage(Stage::Throttle),
        stage(Stage::Queue),
        stage(Stage::Device),
        stage(Stage::Interrupt),
        stage(Stage::Reap),
        stage(Stage::Runqueue),
        stage(Stage::Unknown),
        may("foreign_handler_ns", Kind::Int64, Encoding::Split),
    ],
};

/// `links/`.
pub const LINKS: Table = Table {
    name: "links",
    columns: &[
        must("parent_id", Kind::Int64, Encoding::Split),
        must("child_id", Kind::Int64, Encoding::Delta),
        must("bytes", Kind::Int64, Encoding::Dictionary),
        must("kind", Kind::Name, Encoding::Dictionary),
    ],
};

/// `gaps/`.
pub const GAPS: Table = Table {
    name: "gaps",
    columns: &[
        must("layer", Kind::Text, Encoding::Dictionary),
        must("tid", Kind::Int32, Encoding::Dictionary),
        may("comm", Kind::Text, Encoding::Dictionary),
        must("start_ns", Kind::Int64, Encoding::Delta),
        must("duration_ns", Kind::Int64, Encoding::Split),
        must("state", Kind::Text, Encoding::Dictionary),
        must("meant_busy", Kind::Bool, Encoding::Dictionary),
    ],
};

/// `losses/`.
pub const LOSSES: Table = Table {
    name: "losses",
    columns: &[
        must("probe", Kind::Text, Encoding::Dictionary),
        must("start_ns", Kind::Int64, Encoding::Delta),
        must("end_ns", Kind::Int64, Encoding::Delta),
        may("lost", Kind::Int64, Encoding::Dictionary),
        must("reason", Kind::Text, Encoding::Dictionary),
    ],
};

/// `events/`.
pub const EVENTS: Table = Table {
    name: "events",
    columns: &[
        must("time_ns", Kind::Int64, Encoding::Delta),
        must("kind", Kind::Text, Encoding::Dictionary),
        must("subject", Kind::Text, Encoding::Dictionary),
        must("detail", Kind::Text, Encoding::Dictionary),
    ],
};

/// `irqs/`.
pub const IRQS: Table = Table {
    name: "irqs",
    columns: &[
        may("host", Kind::Name, Encoding::Dictionary),
        must("cpu", Kind::Int32, Encoding::Dictionary),
        may("vector", Kind::Int32, Encoding::Dictionary),
        must("handler", Kind::Name, Encoding::Dictionary),
        must("kind", Kind::Text, Encoding::Dictionary),
        may("device", Kind::Name, Encoding::Dictionary),
        must("start_ns", Kind::Int64, Encoding::Delta),
        must("duration_ns", Kind::Int64, Encoding::Split),
    ],
};

/// `cache/`.
pub const CACHE: Table = Table {
    name: "cache",
    columns: &[
        must("op_id", Kind::Int64, Encoding::Split),
        must("tier", Kind::Text, Encoding::Dictionary),
        may("file", Kind::Name, Encoding::Dictionary),
        may("offset_bytes", Kind::Int64, Encoding::Split),
        must("size_bytes", Kind::Int64, Encoding::Dictionary),
        must("wait_ns", Kind::Int64, Encoding::Split),
    ],
};

/// `prefetch/`.
pub const PREFETCH: Table = Table {
    name: "prefetch",
    columns: &[
        must("file", Kind::Name, Encoding::Dictionary),
        must("start_ns", Kind::Int64, Encoding::Delta),
        must("duration_ns", Kind::Int64, Encoding::Dictionary),
        must("issued_bytes", Kind::Int64, Encoding::Split),
        must("used_bytes", Kind::Int64, Encoding::Split),
        must("wasted_bytes", Kind::Int64, Encoding::Split),
        may("late_bytes", Kind::Int64, Encoding::Split),
        may("missed_bytes", Kind::Int64, Encoding::Split),
    ],
};

/// `waits/`.
pub const WAITS: Table = Table {
    name: "waits",
    columns: &[
        must("tid", Kind::Int32, Encoding::Dictionary),
        may("pid", Kind::Int32, Encoding::Dictionary),
        may("comm", Kind::Name, Encoding::Dictionary),
        may("cpu", Kind::Int32, Encoding::Dictionary),
        must("start_ns", Kind::Int64, Encoding::Delta),
        must("duration_ns", Kind::Int64, Encoding::Split),
        must("state", Kind::Text, Encoding::Dictionary),
        may("cause", Kind::Name, Encoding::Dictionary),
        may("cause_pid", Kind::Int32, Encoding::Dictionary),
        later("waker", Kind::Name, Encoding::Dictionary),
        later("waker_pid", Kind::Int32, Encoding::Dictionary),
        later("waker_tid", Kind::Int32, Encoding::Dictionary),
    ],
};

/// `series/`.
pub const SERIES: Table = Table {
    name: "series",
    columns: &[
        must("time_ns", Kind::Int64, Encoding::Delta),
        may("host", Kind::Name, Encoding::Dictionary),
        must("kind", Kind::Text, Encoding::Dictionary),
        must("subject", Kind::Name, Encoding::Dictionary),
        must("metric", Kind::Name, Encoding::Dictionary),
        must("value", Kind::Float64, Encoding::Split),
    ],
};

/// Tables that every sealed case has, even if empty. `ops` exists per observed layer.
pub const ALWAYS: [Table; 9] = [LINKS, GAPS, IRQS, CACHE, PREFETCH, WAITS, SERIES, LOSSES, EVENTS];

/// Path of a layer's operations inside a case.
pub fn ops_path(layer: Layer) -> String {
    format!("ops/layer={}/part-0.parquet", layer.name())
}

/// Path of any other table inside a case.
pub fn path(table: &Table) -> String {
    format!("{}/part-0.parquet", table.name)
}

/// Every path that a seal may write, inside a case.
pub fn paths() -> Vec<String> {
    Layer::ALL
        .into_iter()
        .map(ops_path)
        .chain(ALWAYS.iter().map(path))
        .collect()
}
