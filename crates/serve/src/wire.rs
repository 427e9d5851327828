//! The messages of `proto/kflow.proto`, by hand: two methods do not need a generator in the build. A test holds names,
//! numbers and types against the file.

use prost::bytes::Bytes;

/// Path of `Subscribe`.
pub const SUBSCRIBE: &str = "/kflow.v1.Observations/Subscribe";
/// Path of `Info`.
pub const INFO: &str = "/kflow.v1.Observations/Info";

/// What a subscriber wants.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct SubscribeRequest {
    /// Position to go on from, 0 for the oldest line.
    #[prost(uint64, tag = "1")]
    pub from: u64,
    /// Epoch that `from` belongs to.
    #[prost(uint64, tag = "2")]
    pub epoch: u64,
    /// Nothing from before.
    #[prost(bool, tag = "3")]
    pub only_new: bool,
    /// Begin with what is kept since then, ns since the Unix epoch; 0 for the ring only.
    #[prost(uint64, tag = "4")]
    pub since: u64,
}

/// Some lines.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Batch {
    /// Start of the proxy, ns since the Unix epoch.
    #[prost(uint64, tag = "1")]
    pub epoch: u64,
    /// Position after the last line.
    #[prost(uint64, tag = "2")]
    pub next: u64,
    /// Session lines.
    #[prost(bytes = "bytes", repeated, tag = "3")]
    pub lines: Vec<Bytes>,
    /// Lines lost before these.
    #[prost(uint64, tag = "4")]
    pub lost: u64,
    /// Of the time before the ring.
    #[prost(bool, tag = "5")]
    pub past: bool,
}

/// Nothing is asked.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct InfoRequest {}

/// How the proxy is doing. Units as in the proto file.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct InfoResponse {
    /// Version of kflow.
    #[prost(string, tag = "1")]
    pub version: String,
    /// Start of the proxy, ns since the Unix epoch.
    #[prost(uint64, tag = "2")]
    pub epoch: u64,
    /// Path that clients connect to.
    #[prost(string, tag = "3")]
    pub listen: String,
    /// Path of the runtime's socket.
    #[prost(string, tag = "4")]
    pub upstream: String,
    /// False while the runtime refuses.
    #[prost(bool, tag = "5")]
    pub upstream_up: bool,
    /// Lines kept.
    #[prost(uint64, tag = "6")]
    pub ring_lines: u64,
    /// Memory that they take, bytes: older lines are packed.
    #[prost(uint64, tag = "7")]
    pub ring_bytes: u64,
    /// Age of the oldest line, ns.
    #[prost(uint64, tag = "8")]
    pub ring_age_ns: u64,
    /// Connections open.
    #[prost(uint64, tag = "9")]
    pub connections: u64,
    /// Connections so far.
    #[prost(uint64, tag = "10")]
    pub accepted: u64,
    /// Of the open ones, those of which calls may be unknown.
    #[prost(uint64, tag = "11")]
    pub partial: u64,
    /// Bytes copied.
    #[prost(uint64, tag = "12")]
    pub bytes: u64,
    /// Chunks lost to the decoder.
    #[prost(uint64, tag = "13")]
    pub lost_chunks: u64,
    /// Bytes lost to the decoder.
    #[prost(uint64, tag = "14")]
    pub lost_bytes: u64,
    /// Panics of the decoder.
    #[prost(uint64, tag = "15")]
    pub panics: u64,
    /// Observations made.
    #[prost(uint64, tag = "16")]
    pub observations: u64,
    /// Subscribers now.
    #[prost(uint64, tag = "17")]
    pub subscribers: u64,
    /// Bytes waiting for the decoder.
    #[prost(uint64, tag = "18")]
    pub queued_bytes: u64,
    /// Absent of a proxy.
    #[prost(message, tag = "19")]
    pub agent: Option<Agent>,
    /// Position after the newest line of the ring.
    #[prost(uint64, tag = "20")]
    pub next: u64,
    /// Its clock when it answered, ns since the Unix epoch; 0 of a kflow that does not tell it.
    #[prost(uint64, tag = "21")]
    pub now: u64,
}

/// An agent.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Agent {
    /// Name of its node.
    #[prost(string, tag = "1")]
    pub node: String,
    /// In the order in which they were started.
    #[prost(message, repeated, tag = "2")]
    pub sources: Vec<SourceState>,
    /// What it looked for on the node.
    #[prost(message, repeated, tag = "3")]
    pub findings: Vec<Finding>,
    /// What it keeps on disk.
    #[prost(message, tag = "4")]
    pub spool: Option<Spool>,
    /// Where it sends that.
    #[prost(message, tag = "5")]
    pub store: Option<Store>,
}

/// How a source of an agent stands.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct SourceState {
    /// `cri`, `kubelet`, …
    #[prost(string, tag = "1")]
    pub kind: String,
    /// Which of its kind.
    #[prost(string, tag = "2")]
    pub name: String,
    /// 0 starting, 1 on, 2 off.
    #[prost(uint32, tag = "3")]
    pub state: u32,
    /// What it gives, or why it does not.
    #[prost(string, tag = "4")]
    pub detail: String,
    /// So far.
    #[prost(uint64, tag = "5")]
    pub observations: u64,
    /// For which there was no room.
    #[prost(uint64, tag = "6")]
    pub lost: u64,
}

/// Something that an agent looked for.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Finding {
    /// What is looked for on a node, as `kubelet log`.
    #[prost(string, tag = "1")]
    pub what: String,
    /// It is there.
    #[prost(bool, tag = "2")]
    pub there: bool,
    /// Where, or why not.
    #[prost(string, tag = "3")]
    pub found: String,
    /// The lines that would add it.
    #[prost(string, tag = "4")]
    pub todo: String,
}

/// What an agent keeps on disk.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Spool {
    /// Begin, ns since the Unix epoch; 0 while no segment is closed.
    #[prost(uint64, tag = "1")]
    pub since: u64,
    /// Closed segments.
    #[prost(uint64, tag = "2")]
    pub segments: u64,
    /// Bytes of all.
    #[prost(uint64, tag = "3")]
    pub bytes: u64,
    /// Observations that were not written.
    #[prost(uint64, tag = "4")]
    pub lost: u64,
    /// Why nothing is written.
    #[prost(string, tag = "5")]
    pub failing: String,
}

/// Where an agent sends what it keeps.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Store {
    /// As it was named.
    #[prost(string, tag = "1")]
    pub url: String,
    /// Segments that it got since the agent began.
    #[prost(uint64, tag = "2")]
    pub sent: u64,
    /// Bytes of these.
    #[prost(uint64, tag = "3")]
    pub bytes: u64,
    /// When it got the last, ns since the Unix epoch; 0 before.
    #[prost(uint64, tag = "4")]
    pub last: u64,
    /// Segments that wait to be sent.
    #[prost(uint64, tag = "5")]
    pub waiting: u64,
    /// Segments that had to go before the store had them.
    #[prost(uint64, tag = "6")]
    pub dropped: u64,
    /// Observations in these.
    #[prost(uint64, tag = "7")]
    pub dropped_observations: u64,
    /// Segments that cannot be sent as they are.
    #[prost(uint64, tag = "8")]
    pub unsendable: u64,
    /// Why nothing is sent.
    #[prost(string, tag = "9")]
    pub failing: String,
    /// Segments of the cluster that this agent removed.
    #[prost(uint64, tag = "10")]
    pub removed: u64,
    /// Why the store was not tidied.
    #[prost(string, tag = "11")]
    pub untidy: String,
}

#[cfg(test)]
mod tests {
    /// `message.field = tag type` of every field, sorted.
    fn of_the_proto_file() -> Vec<String> {
        let (mut message, mut out) = (String::new(), Vec::new());
        for line in include_str!("../../../proto/kflow.proto").lines() {
            let line = line.split("//").next().unwrap_or_default().trim();
            if let Some(rest) = line.strip_prefix("message ") {
                message = rest.trim_end_matches([' ', '{', '}']).to_owned();
            } else if let Some(field) = line.strip_suffix(';')
                && let Some((left, tag)) = field.split_once(" = ")
                && let Some((kind, name)) = left.rsplit_once(' ')
                && !message.is_empty()
            {
                out.push(format!("{message}.{name} = {tag} {kind}"));
            }
        }
        out.sort();
        out
    }

    /// The same of the structs in this file.
    fn of_this_file() -> Vec<String> {
        let (mut message, mut attribute, mut out) = (String::new(), String::new(), Vec::new());
        let source = include_str!("wire.rs");
        for line in source
            .split("#[cfg(test)]")
            .next()
            .unwrap_or_default()
            .lines()
        {
            let line = line.trim();
            if let Some(rest) = line.strip_prefix("pub struct ") {
                message = rest.trim_end_matches([' ', '{', '}']).to_owned();
            } else if let Some(a) = line.strip_prefix("#[prost(") {
                attribute = a.trim_end_matches(")]").to_owned();
            } else if let Some(field) = line.strip_prefix("pub ")
                && let Some((name, of)) = field.split_once(": ")
                && !line.starts_with("pub const")
            {
                let kind = match attribute.split([',', ' ']).next().unwrap_or_default() {
                    // Of a message its own name: `Vec<Finding>,`.
                    "message" => of.split(['<', '>']).nth(1).unwrap_or_default(),
                    kind => kind,
                };
                let repeated = if attribute.contains("repeated") {
                    "repeated "
                } else {
                    ""
                };
                let tag = attribute.split('"').rev().nth(1).unwrap_or_default();
                out.push(format!("{message}.{name} = {tag} {repeated}{kind}"));
            }
        }
        out.sort();
        out
    }

    #[test]
    fn the_messages_are_those_of_the_proto_file() {
        let proto = of_the_proto_file();
        assert_eq!(proto.len(), 61);
        assert_eq!(of_this_file(), proto);
    }
}
