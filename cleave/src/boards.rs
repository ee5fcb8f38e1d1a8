//! `cleave boards`: what the known GPUs can be cut into.

use crate::{
    json::Json,
    screen,
    table::{Table, cut},
};
use cleave_model::board::{Board, BoardId, Catalogue, Layouts, ModeChange, UnknownBoard};
use cleave_scenario::near;
use serde_json::{Value, json};
use std::process::ExitCode;

#[derive(clap::Args)]
pub struct Args {
    /// A board by name, alias or family; all boards if left out
    name: Option<String>,
    #[command(flatten)]
    json: Json,
    /// Also list every maximal layout (nothing more can be added to it)
    #[arg(long, requires = "name")]
    layouts: bool,
}

pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let sink = args.json.open()?;
    let boards = Catalogue::builtin();
    let json = |id| as_json(boards.board(id), boards.layouts(id));
    let (text, value) = match &args.name {
        None => (overview(&boards), boards.ids().map(json).collect()),
        Some(name) => {
            let id = find(&boards, name)?;
            let text = detail(boards.board(id), boards.layouts(id), args.layouts);
            let meant = meant(&boards, name, id).map_or(String::new(), |meant| meant + "\n\n");
            (meant + &text, json(id))
        }
    };
    if sink.wants_tables() {
        screen::print(&text)?;
    }
    sink.put(&value)?;
    Ok(ExitCode::SUCCESS)
}

/// The board that a name on the command line means.
pub fn find(boards: &Catalogue, name: &str) -> anyhow::Result<BoardId> {
    boards.find(name).map_err(|error| match error {
        UnknownBoard::None(..) => {
            let known: Vec<_> = boards.ids().map(|id| boards.board(id)).collect();
            let names = known.iter().flat_map(|board| {
                let own = [&board.name, &board.family].into_iter();
                own.chain(&board.aliases).map(String::as_str)
            });
            let near =
                near(name, names).map_or(String::new(), |near| format!(" (did you mean {near}?)"));
            anyhow::anyhow!("no board is called {name}{near}: `cleave boards` lists them")
        }
        several => several.into(),
    })
}

/// Which board an alias or a family's name was taken for, and which it could be taken for; none
/// where a board is called so itself.
pub fn meant(boards: &Catalogue, name: &str, id: BoardId) -> Option<String> {
    let board = boards.board(id);
    if board.name.eq_ignore_ascii_case(name) {
        return None;
    }
    let others = boards.answering(name).filter(|other| *other != id);
    let others: Vec<_> = others.map(|id| boards.board(id).name.as_str()).collect();
    let also = match others[..] {
        [] => String::new(),
        _ => format!("; there are also {}", others.join(", ")),
    };
    Some(format!("{name} means {}{also}", board.name))
}

fn overview(boards: &Catalogue) -> String {
    let mut table = Table::new(["board", "memory MiB", "profiles", "layouts", "also called"]);
    for id in boards.ids() {
        let board = boards.board(id);
        let layouts = boards.layouts(id).len();
        let sliced = !board.profiles.is_empty();
        table.row([
            board.name.clone(),
            board.memory_mib.to_string(),
            if sliced {
                board.profiles.len().to_string()
            } else {
                "–".into()
            },
            if sliced {
                layouts.to_string()
            } else {
                "–".into()
            },
            cut(&board.aliases.join(", "), 20),
        ]);
    }
    let hint = "`cleave boards NAME` shows profiles, starts and layouts.";
    format!(
        "{}\n{}\n",
        table.render(),
        screen::fill(hint, screen::columns(), 0)
    )
}

fn detail(board: &Board, layouts: &Layouts, all: bool) -> String {
    let mut out = format!("{}  {} MiB", screen::bold(&board.name), board.memory_mib);
    if !board.aliases.is_empty() {
        out += &format!("\nalso called {}", board.aliases.join(", "));
    }
    if board.profiles.is_empty() {
        return out + "\nnot cut into instances: whole, or shares of it\n";
    }
    out += &format!(
        "\n{} memory units, {} compute slices\nMIG mode: {}\n\n",
        board.units,
        board.compute,
        match board.mode_change {
            ModeChange::Never => "can't be changed",
            ModeChange::Reset => "a change needs a GPU reset",
            ModeChange::Live => "a change needs the GPU idle, no reset",
        }
    );
    let mut table = Table::new([
        "profile", "compute", "units", "MiB", "at most", "starts", "weight %",
    ]);
    for ix in board.indices() {
        let profile = board.at(ix);
        let starts: Vec<String> = profile.starts.iter().map(u8::to_string).collect();
        let weight = f64::from(board.weight(ix)) * 100.0 / f64::from(cleave_model::GPU);
        table.row([
            profile.name.clone(),
            profile.compute.to_string(),
            profile.size.to_string(),
            profile.memory_mib.to_string(),
            profile.max.to_string(),
            starts.join(" "),
            format!("{weight:.2}"),
        ]);
    }
    out += &table.render();
    let maximal: Vec<_> = layouts.ids().filter(|id| layouts.maximal(*id)).collect();
    out += &format!(
        "\n{} legal layouts, {} of them maximal\n",
        layouts.len(),
        maximal.len()
    );
    if all {
        out.push('\n');
        for id in maximal {
            out += &picture(board, layouts, id);
        }
    } else {
        out += "`--layouts` draws the maximal ones.\n";
    }
    out
}

/// A layout as its line of memory units: `|4g.40gb       |1g.10gb|…`.
fn picture(board: &Board, layouts: &Layouts, id: cleave_model::board::LayoutId) -> String {
    const UNIT: usize = 9;
    let mut line = String::new();
    let mut at = 0;
    for instance in layouts.instances(id) {
        let profile = board.at(instance.profile);
        let gap = usize::from(instance.start.saturating_sub(at)) * UNIT;
        line += &"·".repeat(gap);
        let room = usize::from(profile.size) * UNIT - 1;
        let name = match profile.name.split_once('.') {
            // Without its memory, so that the suffix is seen.
            Some((slices, rest)) if profile.name.len() > room => {
                let suffix = rest.find('+').map_or("", |at| &rest[at..]);
                format!("{slices}{suffix}")
            }
            _ => profile.name.clone(),
        };
        line += &format!("|{name:<room$.room$}");
        at = instance.start + profile.size;
    }
    line += &"·".repeat(usize::from(board.units.saturating_sub(at)) * UNIT);
    line + "|\n"
}

fn as_json(board: &Board, layouts: &Layouts) -> Value {
    let profiles: Vec<Value> = board
        .indices()
        .map(|ix| {
            let profile = board.at(ix);
            json!({
                "name": profile.name,
                "compute_slices": profile.compute,
                "memory_units": profile.size,
                "memory_mib": profile.memory_mib,
                "starts": profile.starts,
                "max_count": profile.max,
                "weight_units": board.weight(ix),
                "graphics": profile.graphics(),
            })
        })
        .collect();
    let maximal: Vec<Value> = layouts
        .ids()
        .filter(|id| layouts.maximal(*id) && !board.profiles.is_empty())
        .map(|id| {
            let named = layouts.instances(id).iter();
            named
                .map(|i| json!(format!("{}@{}", board.at(i.profile).name, i.start)))
                .collect()
        })
        .collect();
    json!({
        "name": board.name,
        "aliases": board.aliases,
        "memory_mib": board.memory_mib,
        "memory_units": board.units,
        "compute_slices": board.compute,
        "profiles": profiles,
        "layouts": layouts.len(),
        "maximal_layouts": maximal,
    })
}
