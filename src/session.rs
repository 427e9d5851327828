//! The recording: a header and observations in order of arrival, as JSON lines, optionally in zstd frames.
