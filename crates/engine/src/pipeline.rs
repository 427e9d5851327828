//! World, diagnoser and log, moved forward by observations: the same for live and replay. Time is an argument.

use std::sync::Arc;

use super::overview::Overview;
use super::snapshot::{Mode, ObservationLog, Snapshot, SourceStatus, Status};
use kflow_core::correlate::{Hindsight, Retention, World};
use kflow_core::diagnose::unknown::Asked;
use kflow_core::diagnose::{Diagnoser, Incidents, Knowledge};
use kflow_core::selection::Selection;
use kflow_model::offset::Offset;
use kflow_model::session::Session;
use kflow_model::{Evidence, Nanos, Scope, Source};

/// Returns the world of what arrived up to a moment, with losses that cover the moment and were recorded after it.
pub fn world_at(session: &Session, at: Nanos, selection: Arc<Selection>) -> World {
    let mut world = World::selecting(selection);
    let upto = session.arrived_by(at);
    for o in session.observations.iter().take(upto) {
        world.observe(o);
    }
    world.refresh();
    world.look_back(&Hindsight::of(&session.observations), at);
    world
}

/// What was not well in earlier snapshots.
#[derive(Debug)]
struct Remembered {
    incidents: Incidents,
    knowledge: Knowledge,
    scope: Option<Arc<Scope>>,
}

/// The owner of a world.
#[derive(Debug, Default)]
pub struct Pipeline {
    world: World,
    diagnoser: Diagnoser,
    log: ObservationLog,
    version: u64,
    /// The world of the last snapshot and its version, shared again while nothing is observed.
    shared: Option<(u64, Arc<World>)>,
    remembered: Option<Remembered>,
    overview: Arc<Overview>,
    /// What is recorded of losses after the moment of the next snapshot, if that moment is in the past.
    hindsight: Arc<Hindsight>,
}

impl Pipeline {
    pub fn new() -> Self {
        Self::default()
    }

    /// Looks at the selected pods only.
    pub fn selecting(selection: Arc<Selection>) -> Self {
        Self {
            world: World::selecting(selection),
            ..Self::default()
        }
    }

    /// Remembers incidents from snapshot to snapshot, for callers that make snapshots as time goes by. `scope` says
    /// whose pods have to be known.
    #[must_use]
    pub fn remembering(mut self, scope: Option<Arc<Scope>>) -> Self {
        self.remembered = Some(Remembered {
            incidents: Incidents::default(),
            knowledge: Knowledge::default(),
            scope,
        });
        self
    }

    /// Continues from a saved world and the log that led to it.
    pub fn resume(world: World, log: ObservationLog, version: u64) -> Self {
        Self {
            world,
            // A diagnoser remembers the worlds that it saw; after a jump a new one starts.
            diagnoser: Diagnoser::new(),
            log,
            version,
            ..Self::default()
        }
    }

    /// Lets the next snapshots use what later observations say of losses before them.
    pub fn look_back(&mut self, hindsight: Arc<Hindsight>) {
        self.hindsight = hindsight;
    }

    /// See [`World::compare_clocks`].
    pub fn compare_clocks(&mut self, apiserver: Offset, node: Offset) {
        self.world.compare_clocks(apiserver, node);
    }

    /// Takes one observation. Views are stale until the next [`snapshot`](Self::snapshot) or [`refresh`](Self::refresh).
    pub fn observe(&mut self, o: Evidence) {
        self.world.observe(&o);
        self.log.push(o);
        self.version += 1;
    }

    /// Brings the world's views up to date.
    pub fn refresh(&mut self) -> &World {
        self.world.refresh();
        &self.world
    }

    /// The world as of the last refresh.
    pub const fn world(&self) -> &World {
        &self.world
    }

    pub const fn log(&self) -> &ObservationLog {
        &self.log
    }

    /// Rises with every observation.
    pub const fn version(&self) -> u64 {
        self.version
    }

    /// Drops the oldest observations of the log beyond `keep`, and returns how many; the world keeps
    /// what its pods need.
    pub fn shrink(&mut self, keep: usize) -> usize {
        self.log.shrink(keep)
    }

    /// Removes pods from the world that are gone for too long, or that are too many, and returns how many.
    pub fn retire(&mut self, now: Nanos, keep: &Retention) -> usize {
        let left = self.world.retire(now, keep);
        if left > 0 {
            self.version += 1;
        }
        left
    }

    /// Makes a picture as of `now`. If `sources` is empty, the statuses are derived from the observations.
    pub fn snapshot(
        &mut self,
        now: Nanos,
        mode: Mode,
        range: (Nanos, Nanos),
        sources: Vec<SourceStatus>,
    ) -> Snapshot {
        let world = self.share(now);
        let told = self.diagnoser.update(&world, now);
        if let Some(Remembered {
            incidents,
            knowledge,
            scope,
        }) = &mut self.remembered
        {
            incidents.look(&world, &told, now);
            let seen = knowledge.look(Asked {
                world: &world,
                at: now,
                scope: scope.as_deref(),
                recorded: None,
            });
            if incidents.take_changed() || seen || self.overview.range.0 != range.0 {
                self.overview = Arc::new(Overview::remembered(incidents, knowledge, range));
            }
        }
        let (verdicts, owner_verdicts) = told;
        Snapshot {
            overview: Arc::clone(&self.overview),
            version: self.version,
            world,
            now,
            verdicts,
            owner_verdicts,
            log: self.log.clone(),
            mode,
            range,
            sources: if sources.is_empty() {
                self.sources()
            } else {
                sources
            },
            scope: None,
            cluster: None,
        }
    }

    fn share(&mut self, now: Nanos) -> Arc<World> {
        let world = self.current();
        if self.hindsight.is_clear(now) {
            return world;
        }
        let mut world = World::clone(&world);
        world.look_back(&self.hindsight, now);
        Arc::new(world)
    }

    fn current(&mut self) -> Arc<World> {
        if let Some((version, world)) = &self.shared
            && *version == self.version
        {
            return Arc::clone(world);
        }
        self.world.refresh();
        let world = Arc::new(self.world.clone());
        self.shared = Some((self.version, Arc::clone(&world)));
        world
    }

    /// Returns the statuses of the sources, derived from their observations.
    pub fn sources(&self) -> Vec<SourceStatus> {
        Source::ALL
            .into_iter()
            .filter_map(|source| {
                let s = self.world.source(source);
                let gap = s.gaps.last().and_then(|g| match &g.body {
                    kflow_model::Body::Gap(g) => Some(g.why.clone()),
                    _ => None,
                });
                (s.count > 0).then(|| SourceStatus {
                    lost: s.lost,
                    count: s.count,
                    ..SourceStatus::new(source, source.name(), Status::On(gap.unwrap_or_default()))
                })
            })
            .collect()
    }
}
