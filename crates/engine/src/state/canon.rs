//! The canonical view: a state as text that does not depend on how it came about.

use super::State;
use std::fmt::Write;

/// Version of the canonical view; journals of a release are compared by the view of that version.
pub const VERSION: u32 = 1;

/// One line per fact, in the order of names.
pub(super) fn text(state: &State) -> String {
    let mut out = format!("cleave state {VERSION} at {}\n", state.now);
    let mut line = |args: std::fmt::Arguments<'_>| {
        let _ = out.write_fmt(args);
        out.push('\n');
    };
    line(format_args!("policy {:?}", state.policy));
    for queue in state.queues.values() {
        line(format_args!("queue {queue:?}"));
    }
    for &ix in state.by_name.values() {
        let slot = state.slot(ix);
        let books = &slot.books;
        line(format_args!(
            "node {} {:?} cpu {}/{} memory {}/{} pods {}/{} contested {}",
            books.name(),
            books.health,
            books.cpu_milli,
            books.node.cpu_milli,
            books.memory_bytes,
            books.node.memory_bytes,
            books.pods,
            books.node.pods,
            books.contested,
        ));
        for (gpu, device) in books.gpus.iter().zip(&slot.gpus) {
            let board = state.boards.board(gpu.board);
            let mut slices: Vec<_> = device.slices.iter().collect();
            slices.sort();
            line(format_args!(
                "  gpu {} sick {} failures {} metered {} slices {slices:?}",
                board.name, gpu.sick, device.cut_failures, device.metered_to,
            ));
        }
    }
    for (name, work) in &state.work {
        let class = state.classes.verdict(work.class);
        line(format_args!(
            "work {name} cancelled {} verdict {class:?}",
            work.cancelled
        ));
        line(format_args!("  {:?}", work.spec));
        for (index, worker) in work.workers.iter().enumerate() {
            line(format_args!(
                "  worker {index} {:?} contested {} lease {:?}",
                worker.past, worker.contested, worker.lease,
            ));
        }
        if let Some(since) = state.ailing.get(name) {
            line(format_args!("  ailing since {since}"));
        }
    }
    for open in state.open.values() {
        line(format_args!("open {open:?}"));
    }
    for (_, ask, count) in state.asks.sorted() {
        if count > 0 {
            line(format_args!("ask {count} x {ask:?}"));
        }
    }
    line(format_args!("prior {:?}", state.prior));
    line(format_args!("prices {:?}", state.prices));
    line(format_args!("cursor {:?}", state.cursor));
    out
}
