//! kflow's own allocator, so that a benchmark measures what a user gets.

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
