//! Arguments, configuration, wiring, exit codes. The only place that prints.
