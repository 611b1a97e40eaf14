//! Foreign formats, one file each. What several files share of one tool has a file of its own beside them.
pub mod biosnoop;
pub mod blkparse;
pub mod blktrace;
pub mod block_requests;
pub mod calendar;
pub mod fio_columns;
pub mod fio_lat;
pub mod fio_rate;
pub mod iostat;
pub mod netapp_sysstat;
pub mod pgbench;
pub mod strace;
pub mod sysstat_json;
pub mod sysstat_rows;
pub mod table;
pub mod ycsb_raw;
