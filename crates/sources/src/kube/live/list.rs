//! Reads a list page by page to its end, which comes whatever the server answers.

use super::answer::{BODY_MAX, Cut, Page, Trouble, collect};
use super::{Watching, escape};
use crate::Fed;
use crate::kube::decode::decode_object;
use crate::live;
use kflow_model::Stamp;
use kflow_model::clock;
use kflow_model::gap::{Failure, WatchKind};
use kflow_model::pod::WatchEvent;
use kflow_model::units::size;

/// Objects that one page of a list is asked for; fewer where objects are large.
const PAGE: u32 = 500;
/// Most objects of one list. Chosen: several times the pods of the largest cluster that Kubernetes supports, 150,000
/// (kubernetes.io/docs/setup/best-practices/cluster-large).
const OBJECTS_MAX: usize = 1_000_000;
/// Most pages in a row without an object. Chosen: one would do, since an apiserver fills a page as long as there are
/// objects to fill it with (`staging/src/k8s.io/apiserver/pkg/storage/etcd3/store.go`, `GetList`: "loop until we have
/// filled the requested limit"); an aggregated apiserver with a store of its own may not.
const EMPTY_MAX: u32 = 16;

/// How far a list was read.
struct Pages {
    /// The `continue` token of the next page; empty before the first page, and after the last.
    token: String,
    /// Objects that a page is asked for.
    limit: u32,
    /// Objects read so far.
    objects: usize,
    /// Pages without an object since the last page that had one.
    empty: u32,
}

impl Default for Pages {
    fn default() -> Self {
        Self {
            token: String::new(),
            limit: PAGE,
            objects: 0,
            empty: 0,
        }
    }
}

impl Pages {
    /// Moves to the page of this token, after a page of `objects` objects. Returns an error when the list would have
    /// no end.
    fn turn(&mut self, token: String, objects: usize) -> Result<(), &'static str> {
        self.objects += objects;
        self.empty = if objects == 0 { self.empty + 1 } else { 0 };
        let again = !token.is_empty() && token == self.token;
        self.token = token;
        if self.token.is_empty() {
            Ok(())
        } else if again {
            Err("a list that goes on where it was")
        } else if self.empty > EMPTY_MAX {
            Err("a list of empty pages")
        } else if self.objects > OBJECTS_MAX {
            Err("a list without an end")
        } else {
            Ok(())
        }
    }
}

impl Watching {
    /// Lists in pages; afterwards `version` is the resource version to watch from.
    pub(super) async fn list(&mut self) -> Result<(), Trouble> {
        let mut pages = Pages::default();
        let mut begun = false;
        loop {
            let page = self.page(&mut pages).await?;
            // A gateway may answer anything with status 200: only a list of this kind says what exists.
            let page = serde_json::from_slice::<Page<'_>>(&page)
                .ok()
                .filter(|p| p.kind.strip_suffix("List") == Some(self.watch.kind))
                .filter(|p| !p.metadata.resource_version.is_empty())
                .ok_or_else(|| self.no_apiserver("something that is no list of Kubernetes"))?;
            if !begun {
                // Reported only now: a list that failed at once says nothing about what exists.
                self.tell(WatchKind::ListBegin, "", None).await?;
                begun = true;
            }
            let stamp = Stamp::exact(clock::now());
            let items = page.items.unwrap_or_default();
            let turned = pages.turn(page.metadata.r#continue, items.len());
            let mut unread = 0;
            for item in items {
                let decoded = decode_object(
                    item.get().as_bytes(),
                    self.watch.kind,
                    WatchEvent::Listed,
                    stamp,
                );
                match decoded {
                    Ok(o) if self.passes(&o) => {
                        if let Some(o) = self.renewals.take(o) {
                            self.out.send(o).await?;
                        }
                    }
                    Err(Fed::Malformed(_)) => unread += 1,
                    Ok(_) | Err(_) => {}
                }
            }
            // A list of which objects could not be read is no evidence of what does not exist.
            if unread > 0 {
                let resource = self.watch.resource;
                let why = format!("the list of {resource} was not read whole");
                let o = live::unread(resource, stamp.at, unread, &why);
                self.out.send(o).await?;
            }
            turned.map_err(|why| self.no_apiserver(why))?;
            if pages.token.is_empty() {
                let version = page.metadata.resource_version;
                self.tell(WatchKind::ListEnd, &version, None).await?;
                self.failing = false;
                self.version = Some(version);
                return Ok(());
            }
        }
    }

    pub(super) fn no_apiserver(&self, what: &str) -> Trouble {
        let server = self.server.name();
        Trouble::Failed(
            Failure::NotKubernetes,
            format!("{server} answers with {what}"),
        )
    }

    /// Returns the trouble of a body that was not read to its end, of which `one` was asked for.
    pub(super) fn cut(&self, cut: Cut, one: &str) -> Trouble {
        let server = self.server.name();
        match cut {
            Cut::TooLarge => {
                let most = size(BODY_MAX as u64);
                self.no_apiserver(&format!("more than {most} for one {one}"))
            }
            Cut::Stalled => Trouble::Failed(
                Failure::TimedOut,
                format!("an answer of {server} stopped half-way"),
            ),
            Cut::Broken(why) => Trouble::Failed(
                Failure::Interrupted,
                format!("an answer of {server} broke off: {why}"),
            ),
        }
    }

    /// Returns the next page's bytes. A page that is too large is requested again with fewer objects.
    async fn page(&self, pages: &mut Pages) -> Result<Vec<u8>, Trouble> {
        loop {
            let mut query = format!("limit={}", pages.limit);
            if !pages.token.is_empty() {
                query.extend(["&continue=", &escape(&pages.token)]);
            }
            let uri = self.watch.uri(&query);
            let response = self.get(&uri, "list").await?;
            match collect(response.into_body(), self.pace.answer).await {
                Ok(bytes) => return Ok(bytes),
                Err(Cut::TooLarge) if pages.limit > 1 => pages.limit = (pages.limit / 8).max(1),
                Err(cut) => return Err(self.cut(cut, "object")),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_without_an_end_is_given_up() {
        let turns = |most: usize, objects: usize, token: &dyn Fn(usize) -> String| {
            let mut pages = Pages::default();
            (0..most).find_map(|n| Some((n, pages.turn(token(n), objects).err()?)))
        };
        let other = |n: usize| n.to_string();
        assert_eq!(turns(300, 500, &other), None);
        let end = Some((OBJECTS_MAX / 500, "a list without an end"));
        assert_eq!(turns(usize::MAX, 500, &other), end);
        assert_eq!(turns(300, 0, &other), Some((16, "a list of empty pages")));
        let same = |_| "same".to_owned();
        let again = Some((1, "a list that goes on where it was"));
        assert_eq!(turns(300, 500, &same), again);
        assert_eq!(turns(300, 0, &|_| String::new()), None);
    }
}
