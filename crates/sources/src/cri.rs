//! What a container runtime answers when it is asked once, and what both taps share. Calls arrive through `kflow
//! proxy` ([`proxy`](crate::proxy)) or through the eBPF tap ([`tap`](crate::tap)); `kflow_cri` decodes all of them.

pub mod live;

use kflow_model::{Body, Observation};

/// Keeps the connection numbers of one run unique, although the proxy, agent or tap that assigns them may restart at 1.
#[derive(Debug, Default)]
pub(crate) struct Numbers {
    offset: u32,
    highest: u32,
}

impl Numbers {
    /// Notes that the numbering has restarted at 1.
    pub(crate) const fn again(&mut self) {
        self.offset = self.highest;
    }

    /// Replaces an observation's connection number by the one that is unique in this run.
    pub(crate) fn number(&mut self, o: &mut Observation) {
        let conn = match &mut o.body {
            Body::Conn(c) => &mut c.conn,
            Body::CallStart(c) => &mut c.key.conn,
            Body::CallEnd(c) => &mut c.key.conn,
            Body::ContainerEvent(c) => &mut c.key.conn,
            Body::Inventory(i) => &mut i.key.conn,
            Body::Gap(g) if g.conn != 0 => &mut g.conn,
            _ => return,
        };
        *conn = conn.saturating_add(self.offset);
        self.highest = self.highest.max(*conn);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kflow_model::cri::{ConnChange, Sight};
    use kflow_model::{Nanos, Source, Stamp, Text};

    #[test]
    fn numbers_that_begin_anew_do_not_repeat() {
        let mut numbers = Numbers::default();
        let given = |numbers: &mut Numbers, conn| {
            let change = ConnChange {
                conn,
                open: true,
                pid: 0,
                peer: Text::default(),
                why: Text::default(),
                sight: Sight::default(),
            };
            let mut o = Observation {
                stamp: Stamp::exact(Nanos(1)),
                source: Source::Cri,
                body: Body::Conn(Box::new(change)),
            };
            numbers.number(&mut o);
            match o.body {
                Body::Conn(c) => c.conn,
                _ => 0,
            }
        };
        assert_eq!([1, 3, 2].map(|n| given(&mut numbers, n)), [1, 3, 2]);
        numbers.again();
        assert_eq!([1, 2].map(|n| given(&mut numbers, n)), [4, 5]);
        numbers.again();
        assert_eq!(given(&mut numbers, 1), 6);
    }
}
