//! `cleave gpus`: each GPU as a bar of its memory units, cut into what lies on it.

use super::{
    Server, block_on, ps,
    text::{NARROW, cores, cut, mib, tame, width, wrap},
    told,
};
use crate::json::Json;
use crate::{
    screen::{self, bold, tint},
    table::Table,
};
use cleave_server::api::{Fleet, Gpu, Node, Part};
use std::{collections::BTreeMap, process::ExitCode};

/// Letters that stand for jobs, and what stands for all jobs after them.
const LETTERS: &str = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
const OTHER: char = '#';
/// What nobody holds.
const FREE: char = '·';
/// Colours of jobs, in turn.
const COLOURS: [u8; 6] = [36, 33, 32, 35, 34, 31];
/// Widest bar, in characters.
const WIDEST_BAR: usize = 47;

#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    json: Json,
    #[command(flatten)]
    server: Server,
}

pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let client = args.server.client();
    let fleet = block_on(async { client.get::<Fleet>("/v1/gpus").await.map_err(told) })?;
    if !args.json.put(&fleet)? {
        screen::print(&render(&fleet, width()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The letter of each job, by its name.
type Letters<'a> = BTreeMap<&'a str, usize>;

/// All nodes, in lines no wider than `width`.
pub fn render(fleet: &Fleet, width: usize) -> String {
    if fleet.nodes.is_empty() {
        return "no node has been seen yet; `cleave up` prints what it starts\n".into();
    }
    let parts = || {
        fleet
            .nodes
            .iter()
            .flat_map(|node| node.gpus.iter().flat_map(|gpu| &gpu.parts))
    };
    let mut letters = Letters::new();
    for part in parts() {
        let next = letters.len();
        letters.entry(job(part)).or_insert(next);
    }
    let mut out = String::new();
    for node in &fleet.nodes {
        out += &head(node, width);
        for gpu in &node.gpus {
            out += &line(gpu, &letters, width);
        }
        for note in &node.notes {
            out += &format!("  ! {}\n", wrap(&tame(note), width.saturating_sub(4), 4));
        }
        out.push('\n');
    }
    out + &legend(fleet, &letters, width)
}

/// The job of a part's worker: its name without the index of the worker.
fn job(part: &Part) -> &str {
    let cut = part.worker.rsplit_once(['.', '/']);
    match cut {
        Some((job, worker)) if worker.parse::<u32>().is_ok() => job,
        _ => &part.worker,
    }
}

fn letter(letters: &Letters<'_>, part: &Part) -> (char, u8) {
    let number = letters.get(job(part)).copied().unwrap_or(usize::MAX);
    let letter = LETTERS.chars().nth(number).unwrap_or(OTHER);
    (letter, COLOURS[number % COLOURS.len()])
}

fn head(node: &Node, width: usize) -> String {
    let mut words = vec![bold(&tame(&node.name))];
    if node.simulated {
        words.push(tint("SIMULATED", 35));
    }
    if !node.connected {
        words.push(tint("agent does not answer", 31));
    } else if node.health != "ready" {
        words.push(tint(&tame(&node.health), 33));
    }
    let free = format!(
        "{} of {} cores, {} of {} free",
        cores(node.cpu_free_milli),
        cores(node.cpu_milli),
        mib(node.memory_free_bytes >> 20),
        mib(node.memory_bytes >> 20)
    );
    let head = words.join("  ");
    if width < NARROW {
        return format!("{head}\n  {}\n", cut(&free, width.saturating_sub(2)));
    }
    format!("{head}  {free}\n")
}

/// `  0 A100-80GB  |aaa|bb·|···|  cut   30 GiB free`
fn line(gpu: &Gpu, letters: &Letters<'_>, width: usize) -> String {
    let narrow = width < NARROW;
    let board = if narrow {
        String::new()
    } else {
        format!(" {:<16}", cut(&tame(&gpu.board), 16))
    };
    let state = if narrow {
        String::new()
    } else {
        format!("  {:<6}", tame(&gpu.state))
    };
    let free = match gpu.state.as_str() {
        "down" if narrow => tint("down", 31),
        "down" => String::new(),
        _ if gpu.free_mib == 0 || is_full(gpu) => "full".into(),
        _ => format!("{} free", mib(gpu.free_mib.into())),
    };
    let around = 4 + board.chars().count() + state.chars().count() + 4 + 14;
    let room = width.saturating_sub(around).clamp(10, WIDEST_BAR) / 8 * 8 + 2;
    let (bar, cells) = bar(gpu, letters, room);
    let fill = " ".repeat(room.saturating_sub(cells));
    let state = if gpu.state == "down" {
        tint(&state, 31)
    } else {
        state
    };
    let line = format!("{:>3}{board} {bar}{fill}{state}  {free}", gpu.index);
    line.trim_end().to_owned() + "\n"
}

/// Whether slices cover the whole line; what is left of its memory is nobody's then.
fn is_full(gpu: &Gpu) -> bool {
    let covered = |unit| {
        let over = |part: &Part| (part.start..part.start.saturating_add(part.size)).contains(&unit);
        gpu.parts
            .iter()
            .any(|part| over(part) && gpu.state == "cut")
    };
    (0..gpu.units).all(covered)
}

/// The line of memory of a GPU in about `room` characters, and how many they are.
fn bar(gpu: &Gpu, letters: &Letters<'_>, room: usize) -> (String, usize) {
    let units = usize::from(gpu.units.max(1));
    let unit = (room.saturating_sub(2) / units).max(1);
    let cells = unit * units;
    let mut line: Vec<(char, u8)> = vec![(FREE, 0); cells];
    let mut ends = vec![false; cells + 1];
    // Shares of one range lie beside each other, each as wide as its memory.
    let mut shares: BTreeMap<(u8, u8), usize> = BTreeMap::new();
    for part in &gpu.parts {
        let (start, size) = (usize::from(part.start), usize::from(part.size));
        let range = start.min(units) * unit..(start + size).min(units) * unit;
        let range_mib = u64::from(gpu.memory_mib) * range.len() as u64 / cells as u64;
        let alike = gpu
            .parts
            .iter()
            .filter(|p| (p.start, p.size) == (part.start, part.size));
        let wide = if alike.count() == 1 && !part.slice.contains('%') {
            range.len()
        } else {
            let share = u64::from(part.memory_mib) * range.len() as u64;
            (share / range_mib.max(1)).max(1) as usize
        };
        let taken = shares.entry((part.start, part.size)).or_default();
        let from = (range.start + *taken).min(range.end);
        let to = (from + wide).min(range.end);
        *taken += wide;
        for cell in &mut line[from..to] {
            *cell = letter(letters, part);
        }
        ends[from] = true;
        ends[to] = true;
    }
    ends[0] = true;
    ends[cells] = true;
    let mut out = String::new();
    for (at, end) in ends.into_iter().enumerate() {
        let inner = at > 0 && at < cells;
        if !inner {
            out.push('|');
        } else if end && line[at - 1].0 == line[at].0 && line[at].0 != FREE {
            // Two slices of one job would look like one.
            out.push_str(&tint("|", line[at].1));
            continue;
        }
        if let Some((cell, colour)) = line.get(at) {
            out += &if *colour == 0 {
                cell.to_string()
            } else {
                tint(&cell.to_string(), *colour)
            };
        }
    }
    (out, cells + 2)
}

/// What a part is, without where it is.
fn kind(part: &Part) -> &str {
    part.slice.split('@').next().unwrap_or_default()
}

fn legend(fleet: &Fleet, letters: &Letters<'_>, width: usize) -> String {
    let mut jobs: BTreeMap<usize, Vec<&Part>> = BTreeMap::new();
    for part in fleet
        .nodes
        .iter()
        .flat_map(|n| n.gpus.iter().flat_map(|g| &g.parts))
    {
        let number = letters.get(job(part)).copied().unwrap_or(usize::MAX);
        jobs.entry(number).or_default().push(part);
    }
    if jobs.is_empty() {
        return "nobody holds any of them\n".into();
    }
    let mut table = Table::new(["", "job", "user", "slice", "memory", "state"]);
    let narrow = width < NARROW;
    if narrow {
        table = Table::new(["", "job", "slice", "state"]);
    }
    for parts in jobs.values() {
        let part = parts[0];
        let (letter, colour) = letter(letters, part);
        let slice = match parts.len() {
            1 => tame(&part.slice),
            many if parts.iter().all(|other| kind(other) == kind(part)) => {
                format!("{many} × {}", tame(kind(part)))
            }
            many => format!("{many} parts"),
        };
        let total = parts.iter().map(|part| u64::from(part.memory_mib)).sum();
        let name = cut(&tame(job(part)), if narrow { 14 } else { 28 });
        let letter = tint(&letter.to_string(), colour);
        let state = ps::phase(part.phase).to_owned();
        if narrow {
            table.row([letter, name, slice, state]);
        } else {
            table.row([
                letter,
                name,
                cut(&tame(&part.user), 12),
                slice,
                mib(total),
                state,
            ]);
        }
    }
    table.render()
}
