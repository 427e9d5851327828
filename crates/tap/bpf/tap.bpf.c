// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
//
// Copies what clients and a container runtime say to each other out of the clients' system calls.
//
// Tracepoints of system calls and of the scheduler only: no kprobes, no fentry, no BTF, no headers. Linux 5.8 and
// later (ring buffer). Everything that this program keeps dies with the process that loaded it.
//
//   enter  Is the descriptor of this call watched? One look-up by process for everybody else. If it is: remember where
//          the bytes are.
//   exit   What was written or read is known now, and its pages are in memory: copy `ret` bytes into the ring.
//
// A stream is one connection, whichever descriptors lead to it (dup, fork). Its offsets count every byte that a call
// moved, copied or not: a jump of the offset is a loss, and says of how many bytes.
//
// `build.sh` beside this file makes tap.bpf.o. src/record.rs reads what is written here.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long s64;

#define SEC(name) __attribute__((section(name), used))
#define INLINE static inline __attribute__((always_inline))

// include/uapi/linux/bpf.h, enum bpf_func_id.
static void *(*lookup)(void *map, const void *key) = (void *)1;
static long (*update)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static long (*delete)(void *map, const void *key) = (void *)3;
static u64 (*monotonic)(void) = (void *)5;
static u64 (*current_thread)(void) = (void *)14;
static long (*current_name)(void *to, u32 size) = (void *)16;
static long (*read_user)(void *to, u64 size, const void *from) = (void *)112;
static long (*read_user_text)(void *to, u32 size, const void *from) = (void *)114;
static void *(*reserve)(void *ring, u64 size, u64 flags) = (void *)131;
static void (*submit)(void *record, u64 flags) = (void *)132;

enum { ANY = 0, NOEXIST = 1 };

// ---- what user space reads -------------------------------------------------------------------------------------------

enum kind {
  SENT = 1,        // bytes from the client to the runtime; time is when the call began
  RECEIVED = 2,    // bytes from the runtime to the client; time is when the call ended
  ENDED = 3,       // a read found the end of the stream, or an error (more)
  OPENED = 4,      // a descriptor was connected to a path that is looked for; the bytes are the program's name
  CLOSED = 5,      // a descriptor was closed
  DUPLICATED = 6,  // a descriptor got a second one (more)
  FORKED = 7,      // a process that has watched descriptors made a thread or a process
  CHANGED = 8,     // a process that has watched descriptors runs another program, or closed a range: none is watched now
  EXITED = 9,      // a process that has watched descriptors ended: none is watched now
};

// Bits of `more` of SENT and RECEIVED.
enum { LAST = 1 };

struct head {
  u64 time;        // CLOCK_MONOTONIC, ns
  u64 stream;
  u64 offset;      // of the first byte, in its direction
  u32 kind;
  u32 process;     // in the first pid namespace
  u32 thread;
  u32 descriptor;
  u32 length;      // bytes that follow
  u32 begun;       // writes of the stream that have begun
  u32 done;        // and of which everything is in the ring before this record
  u32 missed;      // calls of the stream of which nothing was kept
  u32 more;
  u32 zero;
};

// With the ring's own 8 bytes a record is 512 or 8192.
#define SMALL (504 - sizeof(struct head))
#define LARGE (8184 - sizeof(struct head))
// Pieces of one call: of a single buffer 508 KiB.
#define PIECES 64

struct small { struct head head; u8 bytes[SMALL]; };
struct large { struct head head; u8 bytes[LARGE]; };

// ---- what is kept ----------------------------------------------------------------------------------------------------

struct map { u32 type, key, value, entries, flags; };
enum { HASH = 1, ARRAY = 2, PERCPU_ARRAY = 6, RINGBUF = 27 };

struct descriptor {
  u64 stream;
  u64 generation;  // that of its process when it was watched; another one: it is not watched any more
};

struct stream {
  u64 offset[2];   // by direction
  u32 begun, done, missed, zero;
};

enum { TO_RUNTIME = 0, TO_CLIENT = 1 };
enum { BUFFER, VECTOR, MESSAGE };

struct call {
  u64 stream;
  u64 pointer;
  u64 count;
  u64 time;
  u32 number;      // of the system call
  u32 descriptor;
  u32 form;
  u32 zero;
};

// Where copying is. In a map, so that the verifier takes one turn of the loop for all.
struct cursor {
  u64 base, left;      // of the buffer
  u64 vector, vectors; // buffers after it
  u64 total;           // bytes of the call that are left
  u64 offset;
};

#define PATH 108

struct map SEC("maps") ring = { RINGBUF, 0, 0, 8 << 20, 0 };
struct map SEC("maps") processes = { HASH, sizeof(u32), sizeof(u64), 1024, 0 };
struct map SEC("maps") descriptors = { HASH, sizeof(u64), sizeof(struct descriptor), 4096, 0 };
struct map SEC("maps") streams = { HASH, sizeof(u64), sizeof(struct stream), 4096, 0 };
// Calls between enter and exit, by thread.
struct map SEC("maps") entered = { HASH, sizeof(u64), sizeof(struct call), 2048, 0 };
// Paths of the runtime's socket, padded with zeros.
struct map SEC("maps") paths = { HASH, PATH, sizeof(u8), 16, 0 };
struct map SEC("maps") cursors = { PERCPU_ARRAY, sizeof(u32), sizeof(struct cursor), 1, 0 };
enum { OWN = 0, LOST = 1 };
// OWN: the process that loaded this, which is not watched. LOST: records without bytes that found no room.
struct map SEC("maps") numbers = { ARRAY, sizeof(u32), sizeof(u64), 2, 0 };

// ---- records without bytes -------------------------------------------------------------------------------------------

struct told { struct head head; u8 name[16]; };

INLINE void lost(void) {
  u32 at = LOST;
  u64 *n = lookup(&numbers, &at);
  if (n) __sync_fetch_and_add(n, 1);
}

INLINE int tell(u32 kind, u64 stream, u64 thread, u32 descriptor, u32 more) {
  struct told *t = reserve(&ring, sizeof(*t), 0);
  if (!t) {
    lost();
    return 0;
  }
  t->head.time = monotonic();
  t->head.stream = stream;
  t->head.offset = 0;
  t->head.kind = kind;
  t->head.process = thread >> 32;
  t->head.thread = thread;
  t->head.descriptor = descriptor;
  t->head.length = 0;
  t->head.begun = 0;
  t->head.done = 0;
  t->head.missed = 0;
  t->head.more = more;
  t->head.zero = 0;
  if (kind == OPENED) {
    t->head.length = sizeof(t->name);
    current_name(t->name, sizeof(t->name));
  }
  submit(t, 0);
  return 1;
}

// ---- descriptors -----------------------------------------------------------------------------------------------------

INLINE u64 *generation_of(u64 thread) {
  u32 process = thread >> 32;
  return lookup(&processes, &process);
}

INLINE u64 key_of(u64 thread, u32 descriptor) { return (thread >> 32 << 32) | descriptor; }

INLINE struct descriptor *watched(u64 thread, u32 descriptor) {
  u64 *generation = generation_of(thread);
  if (!generation) return 0;
  u64 key = key_of(thread, descriptor);
  struct descriptor *d = lookup(&descriptors, &key);
  return d && d->generation == *generation ? d : 0;
}

INLINE void forget(u64 thread, u32 kind) {
  u32 process = thread >> 32;
  if (!lookup(&processes, &process)) return;
  delete(&processes, &process);
  tell(kind, 0, thread, 0, 0);
}

// ---- bytes -----------------------------------------------------------------------------------------------------------

INLINE int enter(u32 number, u32 descriptor, u64 pointer, u64 count, u32 form, int direction) {
  u64 thread = current_thread();
  struct descriptor *d = watched(thread, descriptor);
  if (!d) return 0;
  struct stream *s = lookup(&streams, &d->stream);
  if (!s) return 0;
  struct call call = {
    .stream = d->stream, .pointer = pointer, .count = count, .time = monotonic(),
    .number = number, .descriptor = descriptor, .form = form,
  };
  if (update(&entered, &thread, &call, ANY)) {
    __sync_fetch_and_add(&s->missed, 1);
    return 0;
  }
  if (direction == TO_RUNTIME) __sync_fetch_and_add(&s->begun, 1);
  return 0;
}

// The call that this thread began, if it was this one.
INLINE int taken(u64 thread, u32 number, struct call *call) {
  struct call *found = lookup(&entered, &thread);
  if (!found) return 0;
  *call = *found;
  delete(&entered, &thread);
  return call->number == number;
}

INLINE void fill(struct head *h, struct call *call, struct stream *s, u64 thread, u32 kind, u64 length) {
  h->time = kind == SENT ? call->time : monotonic();
  h->stream = call->stream;
  h->kind = kind;
  h->process = thread >> 32;
  h->thread = thread;
  h->descriptor = call->descriptor;
  h->length = length;
  h->begun = s->begun;
  h->done = s->done;
  h->missed = s->missed;
  h->zero = 0;
}

// One piece of a call. 0 when there was no room for it, or its memory could not be read.
INLINE int copy(struct cursor *c, struct call *call, struct stream *s, u64 thread, u32 kind) {
  // Of 64 bits: what the verifier knows of a number ends where it is cut to 32.
  u64 length = c->left > LARGE ? LARGE : c->left;
  if (length <= SMALL) {
    struct small *r = reserve(&ring, sizeof(*r), 0);
    if (!r) return 0;
    fill(&r->head, call, s, thread, kind, length);
    r->head.offset = c->offset;
    r->head.more = c->total <= length ? LAST : 0;
    asm volatile("" : "+r"(length));
    if (length > SMALL || read_user(r->bytes, length, (void *)c->base)) {
      r->head.length = 0;
      r->head.more = 0;
      submit(r, 0);
      return 0;
    }
    submit(r, 0);
  } else {
    struct large *r = reserve(&ring, sizeof(*r), 0);
    if (!r) return 0;
    fill(&r->head, call, s, thread, kind, length);
    r->head.offset = c->offset;
    r->head.more = c->total <= length ? LAST : 0;
    asm volatile("" : "+r"(length));
    if (length > LARGE || read_user(r->bytes, length, (void *)c->base)) {
      r->head.length = 0;
      r->head.more = 0;
      submit(r, 0);
      return 0;
    }
    submit(r, 0);
  }
  c->base += length;
  c->left -= length;
  c->total -= length;
  c->offset += length;
  return 1;
}

INLINE int leave(u32 number, s64 ret, int direction) {
  u64 thread = current_thread();
  struct call call;
  if (!taken(thread, number, &call)) return 0;
  struct stream *s = lookup(&streams, &call.stream);
  if (!s) return 0;
  u32 kind = direction == TO_RUNTIME ? SENT : RECEIVED;
  u32 zero = 0;
  struct cursor *c = lookup(&cursors, &zero);
  if (!c) return 0;

  if (ret <= 0) {
    // EINTR, EAGAIN: the call is made again. Codes from 512 on are the kernel's own for the same.
    if (direction == TO_CLIENT && (ret == 0 ? call.count != 0 : ret != -4 && ret != -11 && ret > -512))
      tell(ENDED, call.stream, thread, call.descriptor, -ret);
    if (direction == TO_RUNTIME) __sync_fetch_and_add(&s->done, 1);
    return 0;
  }

  c->base = call.pointer;
  c->left = ret;
  c->total = ret;
  c->vector = 0;
  c->vectors = 0;
  c->offset = s->offset[direction];
  __sync_fetch_and_add(&s->offset[direction], ret);
  if (call.form != BUFFER) {
    c->left = 0;
    c->vector = call.pointer;
    c->vectors = call.count;
    if (call.form == MESSAGE) {
      // struct msghdr: msg_iov and msg_iovlen are its third and fourth eight bytes.
      u64 iov[2] = { 0, 0 };
      read_user(iov, sizeof(iov), (void *)(call.pointer + 16));
      c->vector = iov[0];
      c->vectors = iov[1];
    }
  }
  for (int i = 0; i < PIECES; i++) {
    if (!c->total) break;
    if (!c->left) {
      u64 iov[2];
      if (!c->vectors || read_user(iov, sizeof(iov), (void *)c->vector)) break;
      c->vectors -= 1;
      c->vector += sizeof(iov);
      c->base = iov[0];
      c->left = iov[1] < c->total ? iov[1] : c->total;
      continue;
    }
    if (!copy(c, &call, s, thread, kind)) break;
  }
  // What was not copied shows in the offset of what comes next, or to who reads `streams`.
  if (direction == TO_RUNTIME) __sync_fetch_and_add(&s->done, 1);
  return 0;
}

// include/trace/syscall.h, struct syscall_trace_enter and syscall_trace_exit. A program may read no further than its
// call has arguments.
struct args { u64 common; u32 number; u32 pad; u64 arg[6]; };
struct result { u64 common; u32 number; u32 pad; s64 ret; };

#define EXIT(name, direction) \
  SEC("tracepoint/sys_exit_" #name) int exit_##name(struct result *x) { return leave(x->number, x->ret, direction); }
#define ENTER(name, form, direction) \
  SEC("tracepoint/sys_enter_" #name) int enter_##name(struct args *x) { \
    return enter(x->number, x->arg[0], x->arg[1], x->arg[2], form, direction); \
  } \
  EXIT(name, direction)

ENTER(write, BUFFER, TO_RUNTIME)
ENTER(writev, VECTOR, TO_RUNTIME)
ENTER(sendto, BUFFER, TO_RUNTIME)
ENTER(read, BUFFER, TO_CLIENT)
ENTER(readv, VECTOR, TO_CLIENT)

SEC("tracepoint/sys_enter_sendmsg") int enter_sendmsg(struct args *x) {
  return enter(x->number, x->arg[0], x->arg[1], 1, MESSAGE, TO_RUNTIME);
}
EXIT(sendmsg, TO_RUNTIME)

// What is looked at and left there (MSG_PEEK) is read by a later call.
#define PEEK 2

SEC("tracepoint/sys_enter_recvfrom") int enter_recvfrom(struct args *x) {
  if (x->arg[3] & PEEK) return 0;
  return enter(x->number, x->arg[0], x->arg[1], x->arg[2], BUFFER, TO_CLIENT);
}
EXIT(recvfrom, TO_CLIENT)

SEC("tracepoint/sys_enter_recvmsg") int enter_recvmsg(struct args *x) {
  if (x->arg[2] & PEEK) return 0;
  return enter(x->number, x->arg[0], x->arg[1], 1, MESSAGE, TO_CLIENT);
}
EXIT(recvmsg, TO_CLIENT)

// ---- the life of a descriptor ----------------------------------------------------------------------------------------

SEC("tracepoint/sys_enter_connect") int enter_connect(struct args *x) {
  u64 thread = current_thread();
  struct call call = { .pointer = x->arg[1], .count = x->arg[2], .number = x->number, .descriptor = x->arg[0] };
  // Family, and a path of at least one byte.
  if (call.count < 3) return 0;
  update(&entered, &thread, &call, ANY);
  return 0;
}

SEC("tracepoint/sys_exit_connect") int exit_connect(struct result *x) {
  u64 thread = current_thread();
  struct call call;
  if (!taken(thread, x->number, &call) || x->ret) return 0;
  u16 family = 0;
  if (read_user(&family, sizeof(family), (void *)call.pointer) || family != 1) return 0;
  char path[PATH] = {};
  read_user_text(path, sizeof(path), (void *)(call.pointer + sizeof(family)));
  if (!lookup(&paths, path)) return 0;
  u32 at = OWN, process = thread >> 32;
  u64 *own = lookup(&numbers, &at);
  if (own && *own == process) return 0;

  u64 now = monotonic();
  struct descriptor d = { .stream = now };
  struct stream s = {};
  // Numbers that user space gives are small. Two connections of one nanosecond: the second gets the next one's.
  if (update(&streams, &d.stream, &s, NOEXIST)) {
    d.stream += 1;
    if (update(&streams, &d.stream, &s, NOEXIST)) {
      lost();
      return 0;
    }
  }
  update(&processes, &process, &now, NOEXIST);
  u64 *generation = lookup(&processes, &process);
  u64 key = key_of(thread, call.descriptor);
  if (generation) {
    d.generation = *generation;
    // Told first: who does not hear of it would not know what its bytes are. It is found later by user space.
    if (tell(OPENED, d.stream, thread, call.descriptor, 0) && !update(&descriptors, &key, &d, ANY)) return 0;
  }
  lost();
  delete(&streams, &d.stream);
  return 0;
}

SEC("tracepoint/sys_enter_close") int enter_close(struct args *x) {
  u64 thread = current_thread();
  u32 descriptor = x->arg[0];
  struct descriptor *d = watched(thread, descriptor);
  if (!d) return 0;
  tell(CLOSED, d->stream, thread, descriptor, 0);
  u64 key = key_of(thread, descriptor);
  delete(&descriptors, &key);
  return 0;
}

SEC("tracepoint/sys_enter_close_range") int enter_close_range(struct args *x) {
  (void)x;
  forget(current_thread(), CHANGED);
  return 0;
}

// A second descriptor. What `onto` led to before, dup2 and dup3 close.
INLINE int enter_dup_of(u32 number, u32 descriptor, u64 onto) {
  u64 thread = current_thread();
  if (!generation_of(thread)) return 0;
  struct descriptor *d = watched(thread, descriptor);
  struct call call = { .stream = d ? d->stream : 0, .pointer = onto, .number = number, .descriptor = descriptor };
  update(&entered, &thread, &call, ANY);
  return 0;
}

#define NEW (~0ull)

INLINE int exit_dup_of(u32 number, s64 ret) {
  u64 thread = current_thread();
  struct call call;
  if (!taken(thread, number, &call) || ret < 0 || (u32)ret == call.descriptor) return 0;
  u32 descriptor = ret;
  u64 key = key_of(thread, descriptor);
  if (call.pointer != NEW) {
    struct descriptor *before = watched(thread, descriptor);
    if (before) {
      tell(CLOSED, before->stream, thread, descriptor, 0);
      delete(&descriptors, &key);
    }
  }
  u64 *generation = generation_of(thread);
  if (!call.stream || !generation) return 0;
  struct descriptor d = { .stream = call.stream, .generation = *generation };
  if (tell(DUPLICATED, call.stream, thread, call.descriptor, descriptor)) update(&descriptors, &key, &d, ANY);
  return 0;
}

SEC("tracepoint/sys_enter_dup") int enter_dup(struct args *x) { return enter_dup_of(x->number, x->arg[0], NEW); }
SEC("tracepoint/sys_exit_dup") int exit_dup(struct result *x) { return exit_dup_of(x->number, x->ret); }
SEC("tracepoint/sys_enter_dup2") int enter_dup2(struct args *x) { return enter_dup_of(x->number, x->arg[0], x->arg[1]); }
SEC("tracepoint/sys_exit_dup2") int exit_dup2(struct result *x) { return exit_dup_of(x->number, x->ret); }
SEC("tracepoint/sys_enter_dup3") int enter_dup3(struct args *x) { return enter_dup_of(x->number, x->arg[0], x->arg[1]); }
SEC("tracepoint/sys_exit_dup3") int exit_dup3(struct result *x) { return exit_dup_of(x->number, x->ret); }

// F_DUPFD and F_DUPFD_CLOEXEC.
SEC("tracepoint/sys_enter_fcntl") int enter_fcntl(struct args *x) {
  if (x->arg[1] != 0 && x->arg[1] != 1030) return 0;
  return enter_dup_of(x->number, x->arg[0], NEW);
}
SEC("tracepoint/sys_exit_fcntl") int exit_fcntl(struct result *x) { return exit_dup_of(x->number, x->ret); }

// ---- the life of a process -------------------------------------------------------------------------------------------

// The current task is the parent.
SEC("tracepoint/sched_process_fork") int process_fork(void *x) {
  (void)x;
  u64 thread = current_thread();
  if (generation_of(thread)) tell(FORKED, 0, thread, 0, 0);
  return 0;
}

// Descriptors that close on exec are closed by now.
SEC("tracepoint/sched_process_exec") int process_exec(void *x) {
  (void)x;
  forget(current_thread(), CHANGED);
  return 0;
}

SEC("tracepoint/sched_process_exit") int process_exit(void *x) {
  (void)x;
  u64 thread = current_thread();
  delete(&entered, &thread);
  // The first thread of a process.
  if ((u32)thread == thread >> 32) forget(thread, EXITED);
  return 0;
}

// bpf_probe_read_user is for programs that may be used under the GPL.
char licence_name[] SEC("license") = "GPL";
