//! The boards that are known by name, and their layouts built when first asked for.
use super::{Board, BoardError, Layouts, same_name, table};
use std::fmt;
use std::sync::{Arc, OnceLock};

/// Position of a board in its [`Catalogue`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BoardId(pub u16);

/// Boards by name. Boards of equal geometry share one set of layouts.
#[derive(Clone, Debug, Default)]
pub struct Catalogue {
    entries: Vec<Entry>,
}

#[derive(Clone, Debug)]
struct Entry {
    board: Arc<Board>,
    layouts: Arc<OnceLock<Arc<Layouts>>>,
}

impl Catalogue {
    /// The boards of the built-in fact table. It serves simulation and planning ahead; on a real
    /// node the device's own answer wins and is put in with [`Catalogue::insert`].
    ///
    /// Copies share the layouts, which are built once in a process.
    pub fn builtin() -> Self {
        static BUILTIN: OnceLock<Catalogue> = OnceLock::new();
        let build = || {
            let mut catalogue = Self::default();
            for board in table::boards() {
                catalogue
                    .insert(board)
                    .expect("the built-in table is sound");
            }
            catalogue
        };
        BUILTIN.get_or_init(build).clone()
    }

    /// Adds a board, or replaces the one of the same name at its position.
    ///
    /// # Errors
    /// A broken rule of [`BoardError`], or a name or alias that already means another board.
    pub fn insert(&mut self, board: Board) -> Result<BoardId, BoardError> {
        let board = Board::new(board)?;
        let at = self
            .entries
            .iter()
            .position(|e| same_name(&e.board.name, &board.name));
        if let Some(at) = at.filter(|&at| *self.entries[at].board == board) {
            return Ok(BoardId(at as u16));
        }
        let others = self
            .entries
            .iter()
            .enumerate()
            .filter(|&(ix, _)| Some(ix) != at);
        for (_, other) in others {
            let taken = |name: &&String| other.board.is_called(name);
            if let Some(name) = [&board.name].into_iter().chain(&board.aliases).find(taken) {
                let other = other.board.name.clone();
                return Err(BoardError::NameTaken(
                    board.name.clone(),
                    name.clone(),
                    other,
                ));
            }
        }
        let twin = self.entries.iter().find(|e| e.board.same_geometry(&board));
        let layouts = twin.map_or_else(Arc::default, |e| e.layouts.clone());
        let entry = Entry {
            board: Arc::new(board),
            layouts,
        };
        let at = at.unwrap_or(self.entries.len());
        match self.entries.get_mut(at) {
            Some(old) => *old = entry,
            None => self.entries.push(entry),
        }
        Ok(BoardId(at as u16))
    }

    /// The one board that `name` means: by its name, an alias, or a family that has one board.
    ///
    /// # Errors
    /// No board or several answer to the name; the error lists those to choose from.
    pub fn find(&self, name: &str) -> Result<BoardId, UnknownBoard> {
        if let Some(id) = self.ids().find(|&id| self.board(id).is_called(name)) {
            return Ok(id);
        }
        let names = |ids: Vec<BoardId>| ids.iter().map(|&id| self.board(id).name.clone()).collect();
        let answering: Vec<BoardId> = self.answering(name).collect();
        match answering[..] {
            [id] => Ok(id),
            [] => Err(UnknownBoard::None(name.into(), names(self.ids().collect()))),
            _ => Err(UnknownBoard::Several(name.into(), names(answering))),
        }
    }

    /// The boards that an ask naming `name` may run on: by name, alias or family.
    pub fn answering(&self, name: &str) -> impl Iterator<Item = BoardId> {
        self.ids()
            .filter(move |&id| self.board(id).answers_to(name))
    }

    /// All positions in order.
    pub fn ids(&self) -> impl ExactSizeIterator<Item = BoardId> + use<> {
        (0..self.entries.len() as u16).map(BoardId)
    }

    /// The board at `id`.
    pub fn board(&self, id: BoardId) -> &Arc<Board> {
        &self.entries[usize::from(id.0)].board
    }

    /// The layouts of the board at `id`, built at the first call.
    pub fn layouts(&self, id: BoardId) -> &Arc<Layouts> {
        let entry = &self.entries[usize::from(id.0)];
        entry
            .layouts
            .get_or_init(|| Arc::new(Layouts::of(&entry.board)))
    }
}

/// A name that does not mean one board of the catalogue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnknownBoard {
    /// No board answers to the name; the second are all names there are.
    None(String, Vec<String>),
    /// The name is a family's with several boards, the second.
    Several(String, Vec<String>),
}

impl fmt::Display for UnknownBoard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None(asked, known) => {
                let known = known.join(", ");
                write!(
                    f,
                    "no board is called {asked}; declare it, or name one of {known}"
                )
            }
            Self::Several(asked, boards) => {
                write!(
                    f,
                    "{asked} means several boards; name one of {}",
                    boards.join(", ")
                )
            }
        }
    }
}

impl std::error::Error for UnknownBoard {}
