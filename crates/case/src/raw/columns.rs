//! From rows to columns and back. A field is known by where it lies in its row, so this is compiled once for each width and not for each field of
//! each type of row.
use super::{RawRow, Shape};

const _: () = assert!(
    cfg!(target_endian = "little"),
    "a value lies in a row as it does in its column"
);

/// Appends every field of all rows to its column's bytes.
pub(super) fn append<R: RawRow>(rows: &[R], columns: &mut [Vec<u8>]) {
    for (shape, column) in R::SHAPES.iter().zip(columns) {
        // SAFETY: so many rows of such a size, in each of which this field lies.
        unsafe { append_field(shape, rows.as_ptr().cast(), size_of::<R>(), rows.len(), column) };
    }
}

/// Sets the field of this shape, which is one of `R`'s, in every row, from its column's bytes. Panics unless these are as many as the rows need.
pub(super) fn set<R: RawRow>(shape: &'static Shape, column: &[u8], rows: &mut [R]) {
    assert_eq!(column.len(), rows.len() * shape.width, "column {}", shape.name);
    // SAFETY: the same, and any bytes are a value of it.
    unsafe {
        set_field(
            shape,
            column.as_ptr(),
            size_of::<R>(),
            rows.len(),
            rows.as_mut_ptr().cast(),
        )
    };
}

/// # Safety
///
/// At `rows` are `count` rows of `row_bytes` bytes, and in each of them a field of this shape.
unsafe fn append_field(shape: &Shape, rows: *const u8, row_bytes: usize, count: usize, column: &mut Vec<u8>) {
    let start = column.len();
    column.resize(start + count * shape.width, 0);
    let to = column[start..].as_mut_ptr();
    copy(
        rows.add(shape.offset),
        row_bytes,
        to,
        shape.width,
        count,
        shape.width,
    );
}

/// # Safety
///
/// At `rows` are `count` rows of `row_bytes` bytes, in each of them a field of this shape which may have any bytes, and at `column` a value for each.
unsafe fn set_field(shape: &Shape, column: *const u8, row_bytes: usize, count: usize, rows: *mut u8) {
    copy(
        column,
        shape.width,
        rows.add(shape.offset),
        row_bytes,
        count,
        shape.width,
    );
}

/// Copies `count` values of `width` bytes that begin `from_step` bytes apart to places that begin `to_step` bytes apart.
///
/// # Safety
///
/// All of them can be read and written, and none is among the places.
unsafe fn copy(from: *const u8, from_step: usize, to: *mut u8, to_step: usize, count: usize, width: usize) {
    match width {
        1 => copy_sized::<1>(from, from_step, to, to_step, count),
        2 => copy_sized::<2>(from, from_step, to, to_step, count),
        4 => copy_sized::<4>(from, from_step, to, to_step, count),
        8 => copy_sized::<8>(from, from_step, to, to_step, count),
        16 => copy_sized::<16>(from, from_step, to, to_step, count),
        _ => {
            for at in 0..count {
                from.add(at * from_step)
                    .copy_to_nonoverlapping(to.add(at * to_step), width);
            }
        }
    }
}

/// The same where the width is known: one load and one store for each value.
///
/// # Safety
///
/// That of [`copy`].
unsafe fn copy_sized<const WIDTH: usize>(
    from: *const u8,
    from_step: usize,
    to: *mut u8,
    to_step: usize,
    count: usize,
) {
    for at in 0..count {
        from.add(at * from_step)
            .copy_to_nonoverlapping(to.add(at * to_step), WIDTH);
    }
}
