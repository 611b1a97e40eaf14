//! Values of a column that are gathered row by row.
use arrow_array::types::ArrowPrimitiveType;
use arrow_array::{Array, ArrowNativeTypeOp, PrimitiveArray};
use arrow_buffer::NullBuffer;

/// Values of one batch. Most columns have no NULL, or nothing else, and many hold one value throughout: only a batch that has both pays for
/// telling them apart.
pub(super) struct Values<T: ArrowPrimitiveType> {
    values: Vec<T::Native>,
    /// Empty as long as there is no NULL beside a value.
    present: Vec<bool>,
    /// NULLs, as long as there is nothing else.
    absent: usize,
    /// Rows after the first with the same value, as long as there is no other; they are not in `values`.
    more: usize,
}

impl<T: ArrowPrimitiveType> Default for Values<T> {
    fn default() -> Self {
        Values {
            values: Vec::new(),
            present: Vec::new(),
            absent: 0,
            more: 0,
        }
    }
}

/// Cuts off what follows the first rows. Both can grow as long as the whole was.
pub(super) fn split_off<V: Copy>(rows: &mut Vec<V>, first: usize) -> Vec<V> {
    let mut rest = Vec::with_capacity(rows.capacity());
    rest.extend_from_slice(&rows[first..]);
    rows.truncate(first);
    rest
}

impl<T: ArrowPrimitiveType> Values<T> {
    /// These values, none of them NULL.
    pub(super) fn of(values: Vec<T::Native>) -> Self {
        Values {
            values,
            ..Values::default()
        }
    }

    /// Whether there is no value.
    pub(super) fn is_absent(&self) -> bool {
        self.values.is_empty()
    }

    #[inline(always)]
    pub(super) fn append(&mut self, value: Option<T::Native>) {
        match value {
            None if self.values.is_empty() => self.absent += 1,
            Some(value) if self.absent == 0 && self.present.is_empty() => match self.values.as_slice() {
                [same] if same.is_eq(value) => self.more += 1,
                _ => {
                    self.spread();
                    self.values.push(value);
                }
            },
            value => self.append_to_both(value),
        }
    }

    /// Rows with the same value become rows of their own.
    #[inline(always)]
    fn spread(&mut self) {
        if self.more > 0 {
            self.spread_same();
        }
    }

    #[cold]
    fn spread_same(&mut self) {
        let rows = 1 + std::mem::take(&mut self.more);
        self.values.resize(rows, self.values[0]);
    }

    #[cold]
    fn append_to_both(&mut self, value: Option<T::Native>) {
        self.spread();
        self.values
            .resize(self.values.len() + self.absent, T::Native::default());
        let were_absent = std::mem::take(&mut self.absent);
        if self.present.is_empty() {
            self.present.resize(self.values.len(), were_absent == 0);
        }
        self.present.push(value.is_some());
        self.values.push(value.unwrap_or_default());
    }

    /// The same value this many times.
    #[inline]
    pub(super) fn repeat(&mut self, value: Option<T::Native>, times: usize) {
        if times == 0 {
            return;
        }
        match value {
            None if self.values.is_empty() => self.absent += times,
            Some(value) if self.absent == 0 && self.present.is_empty() => match self.values.as_slice() {
                [] => {
                    self.values.push(value);
                    self.more = times - 1;
                }
                [same] if same.is_eq(value) => self.more += times,
                _ => {
                    self.spread();
                    self.values.extend(std::iter::repeat_n(value, times));
                }
            },
            _ => (0..times).for_each(|_| self.append(value)),
        }
    }

    /// These values, none of them NULL.
    pub(super) fn extend_from(&mut self, values: impl Iterator<Item = T::Native>) {
        if self.absent == 0 && self.present.is_empty() {
            self.spread();
            self.values.extend(values);
        } else {
            values.for_each(|value| self.append(Some(value)));
        }
    }

    /// The value that all rows have, where it is known to be one.
    pub(super) fn same(&self) -> Option<T::Native> {
        let is_one = self.values.len() == 1 && self.present.is_empty() && self.absent == 0;
        is_one.then(|| self.values[0])
    }

    /// The value of a row.
    #[inline]
    pub(super) fn get(&self, row: usize) -> Option<T::Native> {
        if self.more > 0 {
            return (row <= self.more).then(|| self.values[0]);
        }
        let is_present = self.present.get(row).copied().unwrap_or(true);
        self.values.get(row).copied().filter(|_| is_present)
    }

    /// These rows, in this order; room for as many as `capacity`.
    pub(super) fn chosen(&self, rows: &[u32], capacity: usize) -> Values<T> {
        let mut chosen = Values::default();
        if self.values.is_empty() {
            chosen.absent = rows.len();
            return chosen;
        }
        if self.more > 0 {
            chosen.repeat(Some(self.values[0]), rows.len());
            return chosen;
        }
        if !self.present.is_empty() {
            chosen.present = rows.iter().map(|row| self.present[*row as usize]).collect();
        }
        chosen.values.reserve_exact(capacity);
        let values = rows.iter().map(|row| self.values[*row as usize]);
        chosen.values.extend(values);
        chosen
    }

    /// Cuts off what follows the first rows.
    pub(super) fn split_off(&mut self, first: usize) -> Values<T> {
        let mut rest = Values::default();
        if self.values.is_empty() {
            rest.absent = self.absent - first;
            self.absent = first;
        } else if self.more > 0 {
            let rows = 1 + self.more;
            rest.repeat(Some(self.values[0]), rows - first);
            match first {
                0 => *self = Values::default(),
                _ => self.more = first - 1,
            }
        } else {
            if !self.present.is_empty() {
                rest.present = split_off(&mut self.present, first);
            }
            rest.values = split_off(&mut self.values, first);
        }
        rest
    }

    /// An array of the rows; there are none afterwards. One without a value, or with one value throughout, is shared.
    pub(super) fn take_shared(&mut self, shared: &mut Shared<T>) -> PrimitiveArray<T> {
        if self.values.is_empty() {
            return shared.nothing(std::mem::take(&mut self.absent));
        }
        if self.more == 0 {
            return self.take();
        }
        let rows = 1 + std::mem::take(&mut self.more);
        let value = self.values[0];
        self.values.clear();
        shared.same(value, rows)
    }

    /// An array of the rows; there are none afterwards.
    pub(super) fn take(&mut self) -> PrimitiveArray<T> {
        self.spread();
        // The next batch has as many rows as this one.
        let next = Values {
            values: Vec::with_capacity(self.values.len()),
            ..Values::default()
        };
        let all = std::mem::replace(self, next);
        if all.values.is_empty() {
            return PrimitiveArray::new_null(all.absent);
        }
        let nulls = (!all.present.is_empty()).then(|| NullBuffer::from(all.present));
        PrimitiveArray::new(all.values.into(), nulls)
    }
}

/// How many arrays with one value throughout are kept.
const SHARED: usize = 8;

/// Arrays that columns and batches of a table share.
pub(super) struct Shared<T: ArrowPrimitiveType> {
    nothing: Option<PrimitiveArray<T>>,
    same: Vec<PrimitiveArray<T>>,
}

impl<T: ArrowPrimitiveType> Default for Shared<T> {
    fn default() -> Self {
        Shared {
            nothing: None,
            same: Vec::new(),
        }
    }
}

impl<T: ArrowPrimitiveType> Shared<T> {
    fn nothing(&mut self, rows: usize) -> PrimitiveArray<T> {
        let known = self.nothing.take().filter(|array| array.len() == rows);
        let array = known.unwrap_or_else(|| PrimitiveArray::new_null(rows));
        self.nothing.insert(array).clone()
    }

    fn same(&mut self, value: T::Native, rows: usize) -> PrimitiveArray<T> {
        let is_it = |array: &&PrimitiveArray<T>| array.len() == rows && array.value(0).is_eq(value);
        if let Some(known) = self.same.iter().find(is_it) {
            return known.clone();
        }
        if self.same.len() == SHARED {
            self.same.remove(0);
        }
        let array = PrimitiveArray::from_value(value, rows);
        self.same.push(array.clone());
        array
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::types::Int64Type;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_went_in_comes_out(
            rows in prop_oneof![
                prop::collection::vec(prop::option::of(-9_i64..9), 0..40),
                prop::collection::vec(Just(Some(7)), 0..9),
            ],
            times in 0_usize..3,
            picks in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
            cut in any::<prop::sample::Index>(),
        ) {
            let mut values = Values::<Int64Type>::default();
            let mut expected = Vec::new();
            for value in &rows {
                values.append(*value);
                values.repeat(*value, times);
                expected.extend(std::iter::repeat_n(*value, times + 1));
            }
            let got: Vec<Option<i64>> = (0..expected.len()).map(|row| values.get(row)).collect();
            prop_assert_eq!(&got, &expected);
            if !expected.is_empty() {
                let picked: Vec<u32> = picks.iter().map(|pick| pick.index(expected.len()) as u32).collect();
                let chosen: Vec<Option<i64>> = values.chosen(&picked, picks.len()).take().iter().collect();
                let wanted: Vec<Option<i64>> = picked.iter().map(|row| expected[*row as usize]).collect();
                prop_assert_eq!(chosen, wanted);
            }
            let cut = cut.index(expected.len() + 1);
            let (mut first, mut rest) = (Values::<Int64Type>::default(), Values::default());
            for (at, value) in expected.iter().enumerate() {
                first.append(*value);
                if at >= cut {
                    rest.append(*value);
                }
            }
            let mut second = first.split_off(cut);
            prop_assert_eq!(second.take(), rest.take());
            prop_assert_eq!(first.take().iter().collect::<Vec<_>>(), &expected[..cut]);
            let mut twice = Values::<Int64Type>::default();
            expected.iter().for_each(|value| twice.append(*value));
            twice.extend_from(std::iter::repeat_n(7, times));
            let more = std::iter::repeat_n(Some(7), times);
            prop_assert_eq!(twice.take().iter().collect::<Vec<_>>(), expected.iter().copied().chain(more).collect::<Vec<_>>());
            prop_assert_eq!(values.take().iter().collect::<Vec<_>>(), expected);
            prop_assert_eq!(values.take().len(), 0);
            let mut shared = Shared::default();
            for value in [None, Some(3), None, Some(3), Some(4)] {
                rows.iter().for_each(|_| values.append(value));
                let taken = values.take_shared(&mut shared);
                prop_assert_eq!(taken.iter().collect::<Vec<_>>(), vec![value; rows.len()]);
                prop_assert_eq!(values.take().len(), 0);
            }
        }
    }
}
