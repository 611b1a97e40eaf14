//! In which order things were put on a list: notes, one behind the other.
//!
//! Nothing is taken out of the middle. Who is put on the list again gets another note at its end, and the old one, which the
//! owner knows by its number, does not hold any more. So the oldest is found by reading notes in the order in which they lie in
//! memory, and it is known long before who will be the oldest next. When there is no room, notes that hold are moved
//! together; if most of them do, there are twice as many places afterwards.

/// Least number of places.
const PLACES_MIN: usize = 16;

/// The notes of one list.
#[derive(Clone, Default)]
pub(super) struct Order {
    /// Note `n` lies at `n` modulo their number, a power of two.
    notes: Vec<u32>,
    /// Numbers of the first note and of the next one; they wrap.
    first: u32,
    next: u32,
}

impl Order {
    #[inline]
    fn place(&self, number: u32) -> usize {
        number as usize & (self.notes.len() - 1)
    }

    fn len(&self) -> usize {
        self.next.wrapping_sub(self.first) as usize
    }

    /// The first note: number and whom it is about.
    #[inline]
    pub fn first(&self) -> Option<(u32, u32)> {
        self.ahead(0).map(|at| (self.first, at))
    }

    /// Whom the note `count` behind the first is about.
    #[inline]
    pub fn ahead(&self, count: u32) -> Option<u32> {
        ((count as usize) < self.len()).then(|| self.notes[self.place(self.first.wrapping_add(count))])
    }

    /// Drops the first note.
    #[inline]
    pub fn skip(&mut self) {
        self.first = self.first.wrapping_add(1);
    }

    /// Whether there is no room for another note.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.len() == self.notes.len()
    }

    /// Adds a note; its number.
    #[inline]
    pub fn push(&mut self, at: u32) -> u32 {
        let number = self.next;
        let place = self.place(number);
        self.notes[place] = at;
        self.next = number.wrapping_add(1);
        number
    }

    /// Makes room for one note at least. `living` notes hold; `holds` is asked for each, with its number, whom it is about, and the
    /// number it gets if it holds.
    pub fn make_room(&mut self, living: usize, mut holds: impl FnMut(u32, u32, u32) -> bool) {
        let mut to = self.first;
        for count in 0..self.len() as u32 {
            let number = self.first.wrapping_add(count);
            let at = self.notes[self.place(number)];
            if holds(number, at, to) {
                let place = self.place(to);
                self.notes[place] = at;
                to = to.wrapping_add(1);
            }
        }
        self.next = to;
        assert_eq!(self.len(), living, "as many notes hold as there are entries");
        if living * 2 >= self.notes.len() {
            self.grow();
        }
    }

    fn grow(&mut self) {
        let size = (self.notes.len() * 2).max(PLACES_MIN);
        let mut notes = vec![0; size];
        for count in 0..self.len() as u32 {
            let number = self.first.wrapping_add(count);
            notes[number as usize & (size - 1)] = self.notes[self.place(number)];
        }
        self.notes = notes;
    }
}
