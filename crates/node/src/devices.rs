//! Simulated GPUs. They outlast the agent as hardware would: what a call does is durable before its
//! reply is known.

use crate::store::{Store, StoreError};
use cleave_device::{
    gpu::{Call, Error, Gpu, Image, Latencies, Reply},
    hands::Start,
};
use cleave_model::{
    Millis, Name,
    board::{Board, Catalogue},
};
use std::sync::Arc;

/// The GPUs of a node.
#[derive(Debug)]
pub struct Devices {
    boards: Vec<Arc<Board>>,
    gpus: Vec<Gpu>,
    speed: f64,
}

/// The boards that a description such as `4xA100-80GB` or `2xA100-80GB,1xL4` names.
///
/// # Errors
/// It names none; why.
pub fn boards(text: &str) -> Result<Vec<Arc<Board>>, String> {
    let catalogue = Catalogue::builtin();
    let mut boards = Vec::new();
    for part in text.split(',') {
        let shape = || format!("`{part}` is not COUNTxBOARD, as in 4xA100-80GB");
        let (count, name) = part.trim().split_once('x').ok_or_else(shape)?;
        let count: usize = count.trim().parse().map_err(|_| shape())?;
        let board = catalogue.find(name.trim()).map_err(|e| e.to_string())?;
        boards.extend(std::iter::repeat_n(catalogue.board(board), count).cloned());
        if boards.len() > usize::from(u8::MAX) {
            return Err(format!("{text}: a node has {} GPUs at most", u8::MAX));
        }
    }
    if boards.is_empty() {
        return Err(format!("{text}: a node without GPUs can't be simulated"));
    }
    Ok(boards)
}

impl Devices {
    /// The devices of a node as they were left, or new ones.
    ///
    /// # Errors
    /// The disk, or the store has devices of other boards.
    pub fn open(
        store: &mut Store,
        node: &Name,
        boards: Vec<Arc<Board>>,
        speed: f64,
    ) -> Result<Self, String> {
        let kept = store.devices().map_err(|e| e.to_string())?;
        let fits = |(board, (_, name, _)): (&Arc<Board>, &(u8, String, Image))| board.name == *name;
        let same = kept.len() == boards.len() && boards.iter().zip(&kept).all(fits);
        if !kept.is_empty() && !same {
            return Err(
                "the directory holds other simulated GPUs: use the same --sim as before, or \
                 another --dir"
                    .into(),
            );
        }
        let mut kept = kept.into_iter();
        let mut gpus = Vec::new();
        for (index, board) in boards.iter().enumerate() {
            let (board, latencies) = (Arc::clone(board), Latencies::default());
            gpus.push(match kept.next() {
                Some((.., image)) => Gpu::from_image(board, latencies, image)
                    .ok_or("a kept GPU has instances that its board can't have")?,
                None => {
                    let serial = Name::new(format!("{node}-{index}")).map_err(|e| e.to_string())?;
                    Gpu::new(board, serial, latencies, true)
                }
            });
        }
        let all = boards.iter().zip(&gpus).enumerate();
        let rows = all.map(|(index, (board, gpu))| (index as u8, board.name.as_str(), gpu.image()));
        store
            .put_devices(&rows.collect::<Vec<_>>())
            .map_err(|e| e.to_string())?;
        Ok(Self {
            boards,
            gpus,
            speed,
        })
    }

    /// The UUID of each whole GPU.
    pub fn uuids(&self) -> Vec<String> {
        let images = self.gpus.iter().map(Gpu::image);
        images
            .map(|image| format!("GPU-{}", image.serial))
            .collect()
    }

    /// Executes a call; also tells after how many milliseconds its reply comes.
    ///
    /// # Errors
    /// The disk.
    pub fn call(
        &mut self,
        store: &mut Store,
        gpu: u8,
        call: &Call,
    ) -> Result<(Reply, Millis), StoreError> {
        let Some(device) = self.gpus.get_mut(usize::from(gpu)) else {
            return Ok((Err(Error::NotFound), 0));
        };
        let (reply, latency_ms) = device.call(call, None);
        if call.has_effect() {
            let board = &self.boards[usize::from(gpu)];
            store.put_devices(&[(gpu, &board.name, device.image())])?;
        }
        let latency_ms = if self.speed > 0.0 {
            (latency_ms as f64 / self.speed) as Millis
        } else {
            0
        };
        Ok((reply, latency_ms))
    }

    /// The processes of an attempt take hold of what it was given.
    ///
    /// # Errors
    /// Something of it is not there.
    pub fn attach(&mut self, serial: u64, start: &Start) -> Result<(), Error> {
        let slices = start.hold.slices.iter().zip(&start.uuids);
        for (at, (slice, uuid)) in slices.enumerate() {
            let gpu = self
                .gpus
                .get_mut(usize::from(slice.gpu))
                .ok_or(Error::NotFound)?;
            if slice.instance.is_some() != uuid.is_some() {
                return Err(Error::NotFound);
            }
            gpu.attach(client(serial, at), uuid.as_ref())?;
        }
        Ok(())
    }

    /// The processes of an attempt are gone.
    pub fn detach(&mut self, serial: u64) {
        for gpu in &mut self.gpus {
            // One client for each slice that the attempt may have had.
            (0..=SLICES).for_each(|at| gpu.detach(client(serial, at)));
        }
    }
}

/// Slices of one attempt that can be told apart.
const SLICES: usize = 0xff;

fn client(serial: u64, slice: usize) -> u64 {
    (serial << 8) | slice.min(SLICES) as u64
}
