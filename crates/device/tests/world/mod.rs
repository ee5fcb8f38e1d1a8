//! A node around the hands: modelled GPUs, processes, a disk, and a control plane that sends legal
//! orders over a channel that loses, repeats and reorders. Checks every rule after every effect.

use cleave_device::{
    gpu::{Answer, Call, Error, Fault, Gpu, Latencies, Reply},
    hands::{Effect, Hands, Input, Settings, Start},
    procedure::Patience,
    table::{AttemptId, Record, Stage, Table},
};
use cleave_model::{
    Millis, Name, WorkerId,
    board::{Board, Catalogue, Instance, LayoutId, Layouts},
    lease::{Hold, Share, Sharing, Slice},
    message::{Message, Order},
    observation::{MessageNo, NodeReport, WorkerState},
};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::{Arc, LazyLock},
};

pub fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

pub fn id(worker: u32, attempt: u32) -> AttemptId {
    AttemptId {
        worker: WorkerId {
            workload: name("w"),
            index: worker,
        },
        attempt,
    }
}

pub fn board(catalogue: &Catalogue, called: &str) -> (Arc<Board>, Arc<Layouts>) {
    let id = catalogue.find(called).unwrap();
    (catalogue.board(id).clone(), catalogue.layouts(id).clone())
}

/// An instance by its profile's name and start.
pub fn at(board: &Board, profile: &str, start: u8) -> Instance {
    Instance {
        start,
        profile: board.profile(profile).unwrap(),
    }
}

pub fn slice(gpu: u8, instance: Option<Instance>) -> Slice {
    Slice {
        gpu,
        instance,
        share: None,
    }
}

pub fn hold(slices: Vec<Slice>) -> Hold {
    Hold {
        node: name("n"),
        cpu_milli: 1000,
        memory_bytes: 1 << 30,
        slices,
    }
}

pub fn place(id: &AttemptId, hold: Hold) -> Order {
    Order::Place {
        worker: id.worker.clone(),
        attempt: id.attempt,
        hold,
    }
}

pub fn evict(id: &AttemptId, grace_ms: Millis) -> Order {
    Order::Evict {
        worker: id.worker.clone(),
        attempt: id.attempt,
        grace_ms,
    }
}

fn forget(id: &AttemptId) -> Order {
    Order::Forget {
        worker: id.worker.clone(),
        attempt: id.attempt,
    }
}

/// What the control plane has ordered and not yet seen over.
struct Open {
    hold: Hold,
    evicted: bool,
    no: MessageNo,
}

pub struct World {
    settings: Settings,
    layouts: Vec<Arc<Layouts>>,
    pub gpus: Vec<Gpu>,
    pub disk: Table,
    pub hands: Hands,
    pub now: Millis,
    effects: VecDeque<Effect>,
    replies: BTreeMap<u8, Reply>,
    inputs: Vec<Input>,
    mail: Vec<Message>,
    /// Processes: their number as a client, and what they were started with.
    pub processes: BTreeMap<AttemptId, (u64, Start)>,
    /// Attempts whose process was ever to be started.
    started: BTreeSet<AttemptId>,
    /// Processes that were told to leave and will.
    leaving: BTreeSet<AttemptId>,
    /// Clients that hold something although no process is left.
    pub leaked: BTreeSet<(u8, u64)>,
    /// UUIDs of instances that others made.
    foreign: BTreeSet<(u8, Name)>,
    lost: BTreeSet<u8>,
    clients: u64,
    no: MessageNo,
    open: BTreeMap<AttemptId, Open>,
    attempts: BTreeMap<u32, u32>,
    pub report: Option<NodeReport>,
    /// Fault of the next call.
    pub fault: Option<Fault>,
    /// Whether the next start fails.
    pub no_start: bool,
    /// Whether an exiting process leaves a client behind.
    pub leak: bool,
    /// Whether processes leave when they are told to.
    pub obedient: bool,
    /// Effects carried out, and calls with an effect among them.
    pub done: usize,
    pub calls: usize,
    /// For the rule that nothing legal is refused for want of room.
    pub room_errors: usize,
    /// Everything that was seen in reports.
    pub seen: BTreeMap<AttemptId, Vec<WorkerState>>,
}

impl World {
    pub fn new(boards: &[(&str, bool)], adopt: bool) -> Self {
        static CATALOGUE: LazyLock<Catalogue> = LazyLock::new(Catalogue::builtin);
        let (boards, can_reset): (Vec<_>, Vec<_>) = boards
            .iter()
            .map(|&(called, reset)| (board(&CATALOGUE, called), reset))
            .unzip();
        let (boards, layouts): (Vec<_>, Vec<_>) = boards.into_iter().unzip();
        let gpu = |(n, board): (usize, &Arc<Board>)| {
            let serial = name(&format!("gpu{n}"));
            Gpu::new(board.clone(), serial, Latencies::default(), can_reset[n])
        };
        let gpus = boards.iter().enumerate().map(gpu).collect();
        let patience = Patience {
            tries: 3,
            first_ms: 100,
            longest_ms: 1_000,
        };
        let settings = Settings {
            node: name("n"),
            boards,
            patience,
            adopt,
        };
        let (hands, effects) = Hands::start(settings.clone(), Table::default(), 0, &[]);
        Self {
            settings,
            layouts,
            gpus,
            disk: Table::default(),
            hands,
            now: 0,
            effects: effects.into(),
            replies: BTreeMap::new(),
            inputs: Vec::new(),
            mail: Vec::new(),
            processes: BTreeMap::new(),
            started: BTreeSet::new(),
            leaving: BTreeSet::new(),
            leaked: BTreeSet::new(),
            foreign: BTreeSet::new(),
            lost: BTreeSet::new(),
            clients: 0,
            no: MessageNo {
                incarnation: 1,
                number: 0,
            },
            open: BTreeMap::new(),
            attempts: BTreeMap::new(),
            report: None,
            fault: None,
            no_start: false,
            leak: false,
            obedient: true,
            done: 0,
            calls: 0,
            room_errors: 0,
            seen: BTreeMap::new(),
        }
    }

    pub fn board(&self, gpu: u8) -> &Board {
        &self.settings.boards[usize::from(gpu)]
    }

    /// Somebody else makes an instance.
    pub fn intrude(&mut self, gpu: u8, instance: Instance) {
        let of = &mut self.gpus[usize::from(gpu)];
        let _ = of.call(&Call::SetMode(true), None);
        let (Ok(Answer::Gi(gi)), _) = of.call(&Call::CreateGi(instance), None) else {
            return;
        };
        of.call(&Call::CreateCi { gi }, None).0.unwrap();
        let (Ok(Answer::Uuid(uuid)), _) = of.call(&Call::Info { gi, ci: 0 }, None) else {
            return;
        };
        self.foreign.insert((gpu, uuid));
    }

    // --- the control plane ---

    pub fn send(&mut self, order: Order) -> MessageNo {
        self.no.number += 1;
        self.mail.push(Message { no: self.no, order });
        self.no
    }

    /// Orders an attempt; the hold must be legal beside all open ones.
    pub fn order(&mut self, id: &AttemptId, hold: Hold) {
        let no = self.send(place(id, hold.clone()));
        self.open.insert(
            id.clone(),
            Open {
                hold,
                evicted: false,
                no,
            },
        );
    }

    pub fn cancel(&mut self, id: &AttemptId, grace_ms: Millis) {
        if self.open.contains_key(id) {
            let no = self.send(evict(id, grace_ms));
            let open = self.open.get_mut(id).unwrap();
            (open.evicted, open.no) = (true, no);
        }
    }

    /// Places the next attempt of a worker on slices that nothing open holds.
    pub fn order_any(&mut self, worker: u32, choice: u32) {
        if self.open.keys().any(|open| open.worker.index == worker) {
            return;
        }
        let wanted = 1 + choice % 3;
        let mut slices = Vec::<Slice>::new();
        for n in 0..wanted {
            let mix = choice.wrapping_mul(2_654_435_761).rotate_left(7 * n);
            let gpu = (mix % self.gpus.len() as u32) as u8;
            let held = self
                .open
                .values()
                .flat_map(|open| &open.hold.slices)
                .chain(&slices);
            let held: Vec<_> = held.filter(|slice| slice.gpu == gpu).copied().collect();
            let share = mix.is_multiple_of(5).then_some(Share {
                compute: 1,
                memory_mib: 1,
                by: Sharing::Mps,
            });
            let present: BTreeSet<_> = held.iter().filter_map(|slice| slice.instance).collect();
            let whole = held.iter().any(|slice| slice.instance.is_none());
            let foreign = self.gpus[usize::from(gpu)].state().found.into_iter();
            let foreign = foreign.filter(|of| {
                of.cis.iter().any(|(_, uuid)| {
                    uuid.clone()
                        .is_some_and(|uuid| self.foreign.contains(&(gpu, uuid)))
                })
            });
            let others: Vec<_> = foreign.filter_map(|of| of.instance).collect();
            let instance = if mix.is_multiple_of(7) || self.board(gpu).profiles.is_empty() {
                let shared = share.is_some() && held.iter().all(|slice| slice.share.is_some());
                if !others.is_empty() || !present.is_empty() || !(held.is_empty() || shared) {
                    continue;
                }
                None
            } else {
                if whole {
                    continue;
                }
                let twin = held
                    .iter()
                    .find(|slice| slice.share.is_some() && share.is_some());
                let layouts = &self.layouts[usize::from(gpu)];
                let all: Vec<_> = present.iter().chain(&others).copied().collect();
                let Some(layout) = layouts.find(&all) else {
                    continue;
                };
                let starts = |layout: LayoutId| {
                    let board = self.board(gpu);
                    board.indices().flat_map(move |profile| {
                        let starts = layouts.starts(layout, profile);
                        starts
                            .iter()
                            .map(move |&(start, _)| Instance { start, profile })
                    })
                };
                let options: Vec<_> = starts(layout).collect();
                match (twin, options.len()) {
                    (Some(twin), _) => twin.instance,
                    (None, 0) => continue,
                    (None, len) => Some(options[(mix >> 8) as usize % len]),
                }
            };
            slices.push(Slice {
                gpu,
                instance,
                share,
            });
        }
        let attempt = self.attempts.entry(worker).or_default();
        *attempt += 1;
        let id = id(worker, *attempt);
        self.order(&id, hold(slices));
    }

    pub fn cancel_any(&mut self, choice: u32) {
        let open: Vec<_> = self.open.keys().cloned().collect();
        if !open.is_empty() {
            let id = &open[choice as usize % open.len()];
            self.cancel(id, Millis::from(choice % 700));
        }
    }

    /// Says again what was lost, and forgets what is over.
    pub fn repeat_orders(&mut self) {
        let Some(report) = self.report.clone() else {
            return;
        };
        let known = |id: &AttemptId| {
            report
                .workers
                .iter()
                .any(|w| w.worker == id.worker && w.attempt == id.attempt)
        };
        let state = |id: &AttemptId| {
            let mut all = report.workers.iter();
            all.find(|w| w.worker == id.worker && w.attempt == id.attempt)
                .map(|w| w.state)
        };
        let mut again = Vec::new();
        for (id, open) in &self.open {
            // Nothing under way any more stands for a long silence.
            let unheard = report.heard >= open.no || self.mail.is_empty();
            let running = matches!(
                state(id),
                Some(WorkerState::Preparing | WorkerState::Running)
            );
            if unheard && open.evicted && (!known(id) || running) {
                again.push((id.clone(), evict(id, 100)));
            } else if unheard && !known(id) {
                again.push((id.clone(), place(id, open.hold.clone())));
            }
        }
        for (id, order) in again {
            let no = self.send(order);
            self.open.get_mut(&id).unwrap().no = no;
        }
        for worker in &report.workers {
            let id = AttemptId {
                worker: worker.worker.clone(),
                attempt: worker.attempt,
            };
            if !self.open.contains_key(&id) {
                self.send(forget(&id));
            }
        }
    }

    fn read(&mut self, report: NodeReport) {
        if self
            .report
            .as_ref()
            .is_some_and(|last| last.seq >= report.seq)
        {
            return;
        }
        for worker in &report.workers {
            let id = AttemptId {
                worker: worker.worker.clone(),
                attempt: worker.attempt,
            };
            let seen = self.seen.entry(id.clone()).or_default();
            if seen.last() != Some(&worker.state) {
                seen.push(worker.state);
            }
            if matches!(worker.state, WorkerState::Freed(_) | WorkerState::Failed(_)) {
                self.open.remove(&id);
            }
        }
        self.report = Some(report);
    }

    pub fn lose_mail(&mut self, choice: u32) {
        if !self.mail.is_empty() {
            self.mail.swap_remove(choice as usize % self.mail.len());
        }
    }

    pub fn deliver_mail(&mut self, choice: u32, keep: bool) -> bool {
        if self.mail.is_empty() {
            return false;
        }
        let n = choice as usize % self.mail.len();
        let message = if keep {
            self.mail[n].clone()
        } else {
            self.mail.remove(n)
        };
        self.input(Input::Message(message));
        true
    }

    // --- the node ---

    fn input(&mut self, input: Input) {
        let effects = self.hands.step(self.now, input);
        self.effects.extend(effects);
    }

    pub fn deliver_reply(&mut self, choice: u32) -> bool {
        let gpus: Vec<_> = self.replies.keys().copied().collect();
        if gpus.is_empty() {
            return false;
        }
        let gpu = gpus[choice as usize % gpus.len()];
        let reply = self.replies.remove(&gpu).unwrap();
        self.input(Input::Reply(gpu, reply));
        true
    }

    pub fn deliver_input(&mut self, choice: u32) -> bool {
        if self.inputs.is_empty() {
            return false;
        }
        let n = choice as usize % self.inputs.len();
        let input = self.inputs.remove(n);
        self.input(input);
        true
    }

    pub fn pass_time(&mut self) -> bool {
        let Some(at) = self.hands.wake_at() else {
            return false;
        };
        assert!(
            at > self.now || self.now == 0,
            "wake_at {at} is not after {}",
            self.now
        );
        self.now = at.max(self.now);
        self.input(Input::Tick);
        true
    }

    pub fn exit(&mut self, id: &AttemptId, code: i32) {
        let Some((client, start)) = self.processes.remove(id) else {
            return;
        };
        self.leaving.remove(id);
        let gpus: BTreeSet<u8> = start.hold.slices.iter().map(|slice| slice.gpu).collect();
        for gpu in gpus {
            if std::mem::take(&mut self.leak) {
                self.leaked.insert((gpu, client));
            } else {
                self.let_go(gpu, client);
            }
        }
        self.inputs.push(Input::Exited(id.clone(), code));
    }

    /// Clients are numbered by process and slice.
    fn let_go(&mut self, gpu: u8, client: u64) {
        (0..16).for_each(|n| self.gpus[usize::from(gpu)].detach(client + n));
    }

    pub fn exit_any(&mut self, choice: u32) {
        let told: Vec<_> = self.leaving.iter().cloned().collect();
        let all: Vec<_> = self.processes.keys().cloned().collect();
        let from = if !choice.is_multiple_of(3) && !told.is_empty() {
            told
        } else {
            all
        };
        if !from.is_empty() {
            self.exit(
                &from[choice as usize % from.len()].clone(),
                (choice % 2) as i32,
            );
        }
    }

    pub fn release_leaks(&mut self) {
        for (gpu, client) in std::mem::take(&mut self.leaked) {
            self.let_go(gpu, client);
        }
    }

    /// The hands die; what they had not carried out never happens.
    pub fn crash(&mut self) {
        self.effects.clear();
        self.replies.clear();
        self.inputs.clear();
        let alive: Vec<_> = self.processes.keys().cloned().collect();
        let (hands, effects) =
            Hands::start(self.settings.clone(), self.disk.clone(), self.now, &alive);
        self.hands = hands;
        self.effects.extend(effects);
    }

    /// The machine dies and comes back.
    pub fn reboot(&mut self) {
        self.gpus.iter_mut().for_each(Gpu::reboot);
        self.processes.clear();
        self.leaving.clear();
        self.leaked.clear();
        self.foreign.clear();
        self.lost.clear();
        self.crash();
    }

    /// Carries out the next effect.
    pub fn carry_out(&mut self) -> bool {
        let Some(effect) = self.effects.pop_front() else {
            return false;
        };
        self.done += 1;
        match effect {
            Effect::Persist(records) => records.into_iter().for_each(|r| self.disk.apply(r)),
            Effect::Call(gpu, call) => self.call(gpu, call),
            Effect::Start(start) => self.start(start),
            Effect::Signal(id) => {
                if self.processes.contains_key(&id) {
                    self.leaving.insert(id.clone());
                    if self.obedient {
                        self.exit(&id, 0);
                    }
                }
            }
            Effect::Kill(id) => self.exit(&id, 137),
            Effect::Report(report) => self.read(report),
            Effect::Trouble(..) => {}
        }
        self.check();
        true
    }

    fn call(&mut self, gpu: u8, call: Call) {
        assert!(
            !self.replies.contains_key(&gpu),
            "two calls at once on GPU {gpu}"
        );
        let fault = self.fault.take();
        self.calls += usize::from(call.has_effect());
        // Busy: a process of ours is in it. (The device would say so, but nobody may even try.)
        let of = &self.gpus[usize::from(gpu)];
        let live: Vec<_> = self.processes.values().map(|&(client, _)| client).collect();
        let ours = |client: u64| live.iter().any(|&p| (p..p + 16).contains(&client));
        let mut holders = Vec::new();
        match call {
            Call::DestroyCi { gi, .. } | Call::DestroyGi { gi } => {
                for of_gi in of.state().found.iter().filter(|found| found.gi == gi) {
                    for (_, uuid) in &of_gi.cis {
                        holders.extend(of.clients(uuid.as_ref()));
                        let theirs = (gpu, uuid.clone().unwrap());
                        let adopted = self.settings.adopt;
                        assert!(
                            adopted || !self.foreign.contains(&theirs),
                            "destroys what is not ours"
                        );
                        self.foreign.remove(&theirs);
                    }
                }
            }
            Call::SetMode(_) | Call::Reset => {
                holders.extend(of.clients(None));
                assert!(of.state().found.is_empty(), "mode change with instances");
            }
            _ => {}
        }
        assert!(
            !holders.into_iter().any(ours),
            "{call:?} on GPU {gpu} while busy"
        );
        if let Some(Fault::Held(client)) = fault {
            self.leaked.insert((gpu, client));
        }
        let (reply, _) = self.gpus[usize::from(gpu)].call(&call, fault);
        let own = !matches!(fault, Some(Fault::Refused(_)));
        self.room_errors += usize::from(own && reply == Err(Error::InsufficientResources));
        self.replies.insert(gpu, reply);
        if fault == Some(Fault::Gone) {
            self.lost.insert(gpu);
            let on = |start: &Start| start.hold.slices.iter().any(|slice| slice.gpu == gpu);
            let dead = self.processes.iter().filter(|(_, (_, start))| on(start));
            let dead: Vec<_> = dead.map(|(id, _)| id.clone()).collect();
            dead.iter().for_each(|id| self.exit(id, 1));
        }
    }

    fn start(&mut self, start: Start) {
        assert!(self.started.insert(start.id.clone()), "started twice");
        if std::mem::take(&mut self.no_start) {
            return self.inputs.push(Input::NotStarted(start.id));
        }
        self.clients += 16;
        let first = 1_000 + self.clients;
        for (n, (slice, uuid)) in start.hold.slices.iter().zip(&start.uuids).enumerate() {
            let of = &mut self.gpus[usize::from(slice.gpu)];
            if self.lost.contains(&slice.gpu) {
                (0..self.gpus.len()).for_each(|gpu| self.let_go(gpu as u8, first));
                return self.inputs.push(Input::NotStarted(start.id));
            }
            assert_eq!(
                slice.instance.is_some(),
                uuid.is_some(),
                "a lease without its instance"
            );
            let state = of.state();
            assert_eq!(
                state.mode,
                slice.instance.is_some(),
                "the wrong mode for {slice}"
            );
            let is = |found: &cleave_device::gpu::Found| found.instance == slice.instance;
            assert!(uuid.is_none() || state.found.iter().any(is), "no {slice}");
            of.attach(first + n as u64, uuid.as_ref())
                .expect("a lease without its instance");
        }
        self.inputs.push(Input::Started(start.id.clone()));
        self.processes.insert(start.id.clone(), (first, start));
    }

    /// The rules, as they must hold between any two effects.
    fn check(&self) {
        for (gpu, of) in (0..).zip(&self.gpus) {
            for found in of.state().found {
                let foreign = |uuid: &Option<Name>| {
                    uuid.clone()
                        .is_some_and(|uuid| self.foreign.contains(&(gpu, uuid)))
                };
                let cut = self.disk.cuts.get(&(gpu, found.start));
                let ours = cut.is_some_and(|cut| {
                    let same = |u: &Option<Name>| cut.uuid.is_none() || *u == cut.uuid;
                    Some(cut.instance) == found.instance && found.cis.iter().all(|(_, u)| same(u))
                });
                let theirs = found.cis.iter().any(|(_, uuid)| foreign(uuid));
                assert!(ours || theirs, "GPU {gpu}: leaked {found:?}");
                let taken = ours && cut.is_some_and(|cut| cut.uuid.is_some()) && theirs;
                assert!(self.settings.adopt || !taken, "GPU {gpu}: took {found:?}");
            }
            for (_, uuid) in self.foreign.iter().filter(|(of, _)| *of == gpu) {
                let has = |found: &cleave_device::gpu::Found| {
                    found.cis.iter().any(|(_, u)| u.as_ref() == Some(uuid))
                };
                assert!(
                    of.state().found.iter().any(has),
                    "GPU {gpu}: {uuid} of others is gone"
                );
            }
        }
        let mut workers = BTreeSet::new();
        let mut slices = Vec::<(u8, Option<Instance>, bool)>::new();
        for (id, (client, start)) in &self.processes {
            assert!(workers.insert(&id.worker), "two attempts of {}", id.worker);
            let stage = self.disk.attempts.get(id).map(|of| of.stage);
            let known = stage.is_some_and(Stage::has_process);
            assert!(known, "process of {id:?} in stage {stage:?}");
            for (n, (slice, uuid)) in start.hold.slices.iter().zip(&start.uuids).enumerate() {
                let holders = self.gpus[usize::from(slice.gpu)].clients(uuid.as_ref());
                assert!(
                    holders.contains(&(client + n as u64)),
                    "{slice} was taken from {id:?}"
                );
                let mine = (slice.gpu, slice.instance, slice.share.is_some());
                let doubled = |o: &(u8, Option<Instance>, bool)| {
                    (o.0, o.1) == (mine.0, mine.1) && !(o.2 && mine.2)
                };
                assert!(!slices.iter().any(doubled), "{slice} handed out twice");
                slices.push(mine);
            }
        }
    }

    /// Does all there is to do, in a fixed order and without faults, with at most `limit` effects;
    /// tells whether the world came to rest.
    pub fn settle(&mut self, limit: usize) -> bool {
        self.settle_meddling(limit, &mut |_| {})
    }

    pub fn settle_all(&mut self) {
        assert!(self.settle(5_000), "no rest");
    }

    pub fn settle_with(&mut self, meddle: &mut impl FnMut(&mut Self)) {
        assert!(self.settle_meddling(5_000, meddle), "no rest");
    }

    /// `meddle` is called before each effect.
    fn settle_meddling(&mut self, limit: usize, meddle: &mut impl FnMut(&mut Self)) -> bool {
        let (mut ticks, end) = (0, self.done + limit);
        while self.done < end {
            meddle(self);
            let busy = self.carry_out()
                || self.deliver_reply(0)
                || self.deliver_input(0)
                || self.deliver_mail(0, false);
            if !busy {
                ticks += 1;
                // What is in use is tried again for ever.
                if ticks > 60 || !self.pass_time() {
                    return true;
                }
            }
        }
        false
    }

    /// Ends everything, and checks that nothing is left.
    pub fn finish(mut self) {
        self.obedient = true;
        (self.leak, self.no_start, self.fault) = (false, false, None);
        if !self.lost.is_empty() {
            self.reboot();
        }
        self.release_leaks();
        for _ in 0..12 {
            let open: Vec<_> = self.open.keys().cloned().collect();
            open.iter()
                .filter(|id| !self.open[id].evicted)
                .cloned()
                .collect::<Vec<_>>()
                .iter()
                .for_each(|id| self.cancel(id, 100));
            let report = self.hands.report();
            if self.settle(5_000) && self.open.is_empty() && self.disk.attempts.is_empty() {
                break;
            }
            self.read(report);
            self.repeat_orders();
        }
        assert!(self.settle(5_000), "no rest");
        assert!(
            self.open.is_empty(),
            "open for ever: {:?}",
            self.open.keys()
        );
        assert_eq!(self.disk.attempts, BTreeMap::new());
        assert_eq!(&self.disk, self.hands.table(), "memory and disk differ");
        assert!(self.processes.is_empty());
        for (gpu, of) in (0..).zip(&self.gpus) {
            let left = of.state().found.len();
            let others = self.foreign.iter().filter(|(of, _)| *of == gpu).count();
            assert_eq!(left, others, "GPU {gpu}: instances left");
        }
        if !self.settings.adopt {
            assert_eq!(self.disk.cuts, BTreeMap::new());
        }
        let mut copy = Table::default();
        let records: Vec<Record> = self.disk.records();
        records.into_iter().for_each(|record| copy.apply(record));
        assert_eq!(copy, self.disk);
    }

    /// The call that comes next, if one does.
    pub fn next_call(&self) -> Option<Call> {
        match self.effects.front() {
            Some(Effect::Call(_, call)) => Some(*call),
            _ => None,
        }
    }

    pub fn invent_client(&mut self) -> u64 {
        self.clients += 16;
        1_000_000 + self.clients
    }

    pub fn stage(&self, id: &AttemptId) -> Option<Stage> {
        self.disk.attempts.get(id).map(|of| of.stage)
    }
}
