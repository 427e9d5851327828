//! Requests to the apiserver: groups by client, verb and resource with percentiles; the list of all requests or those
//! of a group, optionally only slow or failed ones; and for one request, what took its time.

mod draw;

use super::{Pane, PaneId, Reply};
use crate::action::{Action, Command};
use crate::canvas::Canvas;
use crate::shared::{Ctx, Shared};
use crate::text::{count, counted};
use crate::widget::scroll::Scroll;
use kflow_core::correlate::Request;
use kflow_core::correlate::requests::RequestGroup;
use kflow_engine::Snapshot;
use kflow_model::stamp::{MILLI, SECOND};
use kflow_model::{Body, Nanos, PodUid, Text};
use rustc_hash::FxHashSet;
use std::sync::Arc;

/// Duration, in ns, from which the apiserver itself calls a request slow: it annotates the latency of requests over
/// 500 ms.
const SLOW: i64 = 500 * MILLI;
/// Length up to which a list is sorted with every change; a longer one is sorted at most once per second.
const MANY: usize = 20_000;

/// Client, verb and resource.
type Key = (Text, Text, Text);

#[expect(
    clippy::struct_excessive_bools,
    reason = "independent switches of the user"
)]
#[derive(Debug, Default)]
pub struct Requests {
    groups: Vec<RequestGroup>,
    group_scroll: Scroll,
    list: Vec<Arc<Request>>,
    longest: draw::Longest,
    scroll: Scroll,
    /// Whether the list of requests is shown instead of the groups.
    listing: bool,
    /// The group that the list is limited to.
    group: Option<Key>,
    /// Whether the list is limited to the selected pod.
    scoped: bool,
    pod: Option<PodUid>,
    /// Whether the request that created the pod is to be selected as soon as it is listed.
    seek_create: bool,
    errors: bool,
    slow: bool,
    hide_detail: bool,
    filter: String,
    seen: Option<(u64, Nanos)>,
    dirty: bool,
}

impl Requests {
    fn takes(&self, r: &Request, ids: Option<&FxHashSet<Text>>, snap: &Snapshot) -> bool {
        self.group
            .as_ref()
            .is_none_or(|(a, v, s)| r.agent == *a && r.verb == *v && r.resource == *s)
            && ids.is_none_or(|ids| ids.contains(&r.audit_id))
            && self.is_kept(r, snap)
    }
    /// Returns true if a request passes the switches and the filter, so that it is listed and counted in its group.
    fn is_kept(&self, r: &Request, snap: &Snapshot) -> bool {
        let now = snap.now;
        snap.world.selects_request(r)
            && (!self.errors || r.is_error())
            && (!self.slow || (!r.is_long_running() && r.duration(now) > SLOW))
            && self.fits(&[
                &r.agent,
                &r.verb,
                &r.resource,
                &r.object.namespace,
                &r.object.name,
            ])
    }
    fn fits(&self, texts: &[&str]) -> bool {
        self.filter
            .split_whitespace()
            .all(|w| texts.iter().any(|t| t.to_lowercase().contains(w)))
    }
    fn selected(&self) -> Option<&Arc<Request>> {
        self.list.get(self.scroll.at)
    }
    /// Returns the rows of the list, and whether the detail is drawn below it.
    fn split(&self, h: u16) -> (u16, bool) {
        if self.listing && !self.hide_detail && h >= 14 {
            (h * 2 / 5, true)
        } else {
            (h, false)
        }
    }
    fn refresh(&mut self, snap: &Snapshot) {
        let log = snap.world.requests();
        if self.listing {
            let ids = self.pod.as_ref().filter(|_| self.scoped).map(|uid| {
                snap.world
                    .pod(uid)
                    .map(|p| audit_ids(p))
                    .unwrap_or_default()
            });
            let chosen = self.selected().map(|r| r.audit_id.clone());
            let mut list: Vec<Arc<Request>> = log
                .list()
                .into_iter()
                .rev()
                .filter(|r| self.takes(r, ids.as_ref(), snap))
                .cloned()
                .collect();
            if self.slow {
                list.sort_by_key(|r| std::cmp::Reverse(r.duration(snap.now)));
            }
            // New requests appear at the top. The selected one stays selected, unless it was the newest.
            if self.scroll.at > 0
                && let Some(at) = chosen.and_then(|id| list.iter().position(|r| r.audit_id == id))
            {
                self.scroll.at = at;
            }
            if std::mem::take(&mut self.seek_create)
                && let Some(at) = list
                    .iter()
                    .rposition(|r| r.verb == "create" && r.resource == "pods")
            {
                self.scroll.at = at;
            }
            self.longest = draw::Longest::of(list.iter().map(|r| &**r));
            self.list = list;
        } else {
            self.groups = log.groups_of(|r| self.is_kept(r, snap));
        }
    }
}

/// Returns the audit ids of the requests about a pod.
fn audit_ids(pod: &kflow_core::correlate::PodView) -> FxHashSet<Text> {
    pod.evidence
        .iter()
        .filter_map(|e| match &e.body {
            Body::Audit(a) => Some(a.audit_id.clone()),
            Body::Span(s) => s.attribute("audit-id").map(Text::from),
            _ => None,
        })
        .collect()
}

impl Pane for Requests {
    fn id(&self) -> PaneId {
        PaneId::Requests
    }
    fn title(&self, ctx: &Ctx<'_>) -> String {
        let g = ctx.glyphs;
        let mut s = if self.listing {
            counted(self.list.len(), "request")
        } else {
            counted(self.groups.len(), "group")
        };
        if let Some((agent, verb, resource)) = self.group.as_ref().filter(|_| self.listing) {
            s.push_str(&format!(" {} {verb} {resource} {agent}", g.dot));
        }
        for (on, what) in [
            (self.scoped && self.listing, "selected pod"),
            (self.errors, "errors"),
            (self.slow, "over 500 ms"),
        ] {
            if on {
                s.push_str(&format!(" {} {what}", g.dot));
            }
        }
        let (forgotten, _) = ctx.snap.world.requests().forgotten();
        if forgotten > 0 {
            s.push_str(&format!(
                " {} {} forgotten",
                g.dot,
                count(forgotten as usize)
            ));
        }
        s
    }
    fn commands(&self) -> &'static [Action] {
        &[
            Action::RequestsGroups,
            Action::RequestsScope,
            Action::RequestsErrors,
            Action::RequestsSlow,
            Action::RequestsDetail,
            Action::Filter,
        ]
    }
    fn sync(&mut self, snap: &Snapshot, shared: &mut Shared, size: (u16, u16)) {
        if self.pod != shared.pod {
            self.pod.clone_from(&shared.pod);
            self.dirty |= self.scoped;
            self.seek_create = self.scoped;
        }
        let due = self.seen.is_none_or(|(version, at)| {
            version != snap.version
                && (!snap.mode.moves()
                    || self.list.len().max(self.groups.len()) < MANY
                    || snap.now.since(at).abs() >= SECOND)
        });
        if self.dirty || due {
            self.refresh(snap);
            self.seen = Some((snap.version, snap.now));
            self.dirty = false;
        }
        let (h, _) = self.split(size.1);
        self.scroll.fit(self.list.len(), usize::from(h.max(2)) - 1);
        self.group_scroll
            .fit(self.groups.len(), usize::from(size.1.max(2)) - 1);
    }
    fn handle(&mut self, command: &Command, _snap: &Snapshot, _shared: &mut Shared) -> Reply {
        let scroll = if self.listing {
            &mut self.scroll
        } else {
            &mut self.group_scroll
        };
        if scroll.handle(command.action) {
            return Reply::Done;
        }
        match command.action {
            Action::RequestsGroups => {
                self.listing = !self.listing;
                self.group = None;
            }
            Action::RequestsScope => {
                self.scoped = !self.scoped;
                self.listing |= self.scoped;
                self.seek_create = self.scoped;
            }
            Action::RequestsErrors => self.errors = !self.errors,
            Action::RequestsSlow => {
                self.slow = !self.slow;
                self.scroll.at = 0;
            }
            Action::RequestsDetail => self.hide_detail = !self.hide_detail,
            Action::Open | Action::Right if !self.listing => {
                let Some(g) = self.groups.get(self.group_scroll.at) else {
                    return Reply::Done;
                };
                self.group = Some((g.agent.clone(), g.verb.clone(), g.resource.clone()));
                self.listing = true;
                self.scroll.at = 0;
            }
            Action::Open => self.hide_detail = false,
            Action::Back | Action::Left if self.listing => {
                self.listing = false;
                self.group = None;
            }
            _ => return Reply::Ignored,
        }
        self.dirty = true;
        Reply::Done
    }
    fn hidden(&self) -> Option<(usize, usize)> {
        Some(if self.listing {
            self.scroll.hidden()
        } else {
            self.group_scroll.hidden()
        })
    }
    fn draw(&self, ctx: &Ctx<'_>, canvas: &mut Canvas<'_>) {
        let (w, h) = (canvas.width(), canvas.height());
        let none = if self.listing {
            self.list.is_empty()
        } else {
            self.groups.is_empty()
        };
        if none {
            let hint = if ctx.snap.world.requests().is_empty() {
                "The apiserver's audit log (--audit-log, --audit-webhook) and its spans (--otlp) show them."
            } else {
                "None is left by filter, errors, slowness or the selected pod."
            };
            return super::empty(ctx, canvas, "No request has been seen.", hint);
        }
        if !self.listing {
            return self.draw_groups(ctx, canvas);
        }
        let (rows, detail) = self.split(h);
        self.draw_list(ctx, &mut canvas.part(0, 0, w, rows));
        if detail {
            self.draw_detail(ctx, &mut canvas.part(0, rows, w, h - rows));
        }
    }
    fn filter(&self) -> Option<&str> {
        Some(&self.filter)
    }
    fn matches(&self) -> Option<usize> {
        Some(if self.listing {
            self.list.len()
        } else {
            self.groups.len()
        })
    }
    fn set_filter(&mut self, text: &str) -> Result<(), String> {
        self.filter = text.to_lowercase();
        self.dirty = true;
        Ok(())
    }
    fn copy(&self, _snap: &Snapshot, _shared: &Shared) -> Option<String> {
        if !self.listing {
            return None;
        }
        self.selected().map(|r| r.audit_id.to_string())
    }
}
