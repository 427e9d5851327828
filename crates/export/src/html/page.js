"use strict";
// Lengths between ticks, ns: by ten up to ten seconds, then as clocks and calendars do.
const steps = [...Array(10).keys()].flatMap((n) => [1, 2, 5].map((by) => by * 10 ** n));
steps.push(...[10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400].map((s) => s * 1e9));
for (let s = 43200; s < 1e10; s *= 2) steps.push(s * 1e9);
// A link to a timeline unfolds it.
const unfold = () => {
  const to = document.getElementById(location.hash.slice(1)), fold = to?.closest("details");
  if (!fold) return;
  fold.open = true;
  to.scrollIntoView();
};
addEventListener("hashchange", unfold);
unfold();
// Zoom and hover of the timelines. Without it the page says the same: every length stands beside its bar.
for (const pod of document.querySelectorAll(".pod")) {
  const chart = pod.querySelector(".chart");
  if (!chart) continue;
  const tools = pod.querySelector(".tools"), say = pod.querySelector(".say");
  const over = chart.querySelector(".over"), rows = [...chart.querySelectorAll(".row")];
  // Where the pieces of the axis end, as ns and percent: times in which nothing happens are folded.
  const ends = [[0, 0], ...chart.dataset.axis.split(",").map((e) => e.split(" ").map(Number))];
  const length = ends.at(-1)[0];
  // Translates between ns (0) and percent (1).
  const along = (value, from) => {
    const to = 1 - from, n = Math.max(ends.findIndex((e) => value <= e[from]), 1), [a, b] = [ends[n - 1], ends[n]];
    return a[to] + (value - a[from]) / (b[from] - a[from]) * (b[to] - a[to]);
  };
  const percent = (ns) => along(Math.min(ns, length), 0), moment = (place) => along(Math.min(place, 100), 1);
  // The part that is shown, in percent of the whole, and the row that is told.
  let from = 0, width = 100, at = -1;
  const place = (name) => {
    const e = document.createElement("div");
    e.className = name;
    e.hidden = true;
    over.append(e);
    return e;
  };
  const cursor = place("cursor"), range = place("range");
  tools.hidden = say.hidden = false;
  say.textContent = "Point at a bar or a mark, or press ↑ and ↓, to be told of it.";
  for (const e of chart.querySelectorAll("[title]")) {
    e.dataset.say = e.title;
    e.removeAttribute("title");
  }

  const duration = (ns) => {
    if (ns >= 6e10) {
      const [big, small, unit] = ns >= 3.6e12 ? ["h", "m", 6e10] : ["m", "s", 1e9], n = Math.round(ns / unit);
      return `${Math.floor(n / 60)}${big}${n % 60 ? String(n % 60).padStart(2, "0") + small : ""}`;
    }
    const [n, unit] = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"]].find(([n]) => ns >= n) ?? [1, "ns"];
    return Number((ns / n).toPrecision(4)) + unit;
  };
  const clamp = (x, low, high) => Math.min(Math.max(x, low), high);
  const ticks = () => {
    for (const t of over.querySelectorAll(".tick")) t.remove();
    const gap = width / 9, end = from + width;
    for (let at = from, last = -1; at <= end;) {
      const low = Math.max(moment(at), last + 1), most = moment(at + gap) - low;
      const step = steps.findLast((s) => s <= most) ?? 1, ns = Math.ceil(low / step) * step, x = percent(ns);
      if (ns > length || x > end) break;
      const t = document.createElement("div"), text = document.createElement("span");
      t.className = (x - from) / width > 0.9 ? "tick last" : "tick";
      t.style.setProperty("--x", x);
      text.textContent = ns ? "+" + duration(ns) : "0";
      t.append(text);
      over.prepend(t);
      last = ns;
      at = Math.max(x, at) + gap;
    }
  };
  const show = (newFrom, newWidth) => {
    // Down to a microsecond, or to what is there.
    width = clamp(newWidth, Math.min(100, 1e3 / ends[1][0] * ends[1][1]), 100);
    from = clamp(newFrom, 0, 100 - width);
    chart.style.setProperty("--a", from);
    chart.style.setProperty("--k", 100 / width);
    ticks();
  };
  const zoom = (by, around = from + width / 2) => show(around - (around - from) * by, width * by);
  // Where a pointer is, in percent of the whole.
  const under = (event) => {
    const box = over.getBoundingClientRect();
    return from + clamp((event.clientX - box.left) / box.width, 0, 1) * width;
  };
  const tell = (row, when) => {
    rows[at]?.classList.remove("at");
    at = rows.indexOf(row);
    row?.classList.add("at");
    const time = when === undefined ? "" : "+" + duration(moment(when));
    say.textContent = [time, row?.dataset.say].filter(Boolean).join(" · ");
  };

  const actions = {
    in: () => zoom(0.5),
    out: () => zoom(2),
    all: () => show(0, 100),
    left: () => show(from - width / 4, width),
    right: () => show(from + width / 4, width),
    up: () => tell(rows[Math.max(at - 1, 0)]),
    down: () => tell(rows[Math.min(at + 1, rows.length - 1)]),
    first: () => show(0, width),
    last: () => show(100 - width, width),
  };
  tools.addEventListener("click", (event) => actions[event.target.dataset.do]?.());
  const keys = { "+": "in", "=": "in", "-": "out", 0: "all", ArrowLeft: "left", ArrowRight: "right", ArrowUp: "up", ArrowDown: "down", Home: "first", End: "last", Escape: "all" };
  chart.addEventListener("keydown", (event) => {
    const action = actions[keys[event.key]];
    if (!action || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    action();
    rows[at]?.scrollIntoView({ block: "nearest" });
  });

  // Tells what a pointer is at, and returns when that is.
  const point = (event) => {
    const when = under(event), mark = event.target.closest?.("[data-say]"), row = event.target.closest?.(".row");
    const inside = event.clientX >= over.getBoundingClientRect().left;
    cursor.hidden = !inside;
    cursor.style.setProperty("--x", when);
    if (row) tell(row, inside ? when : undefined);
    if (mark && mark !== row) say.textContent = mark.dataset.say;
    return when;
  };
  let drag;
  chart.addEventListener("pointerdown", (event) => {
    point(event);
    if (event.button === 0 && event.clientX >= over.getBoundingClientRect().left) drag = { at: under(event), x: event.clientX, from };
  });
  chart.addEventListener("pointermove", (event) => {
    const when = point(event);
    if (!drag) return;
    if (event.pointerType === "mouse") {
      range.hidden = false;
      range.style.setProperty("--x", Math.min(when, drag.at));
      range.style.setProperty("--w", Math.abs(when - drag.at));
    } else {
      show(drag.from - (event.clientX - drag.x) / over.clientWidth * width, width);
    }
  });
  const drop = (event) => {
    if (drag && event.type === "pointerup" && event.pointerType === "mouse" && Math.abs(event.clientX - drag.x) > 4) {
      const to = under(event);
      show(Math.min(to, drag.at), Math.abs(to - drag.at));
    }
    drag = undefined;
    range.hidden = true;
  };
  addEventListener("pointerup", drop);
  addEventListener("pointercancel", drop);
  chart.addEventListener("pointerleave", () => { cursor.hidden = true; });
  chart.addEventListener("dblclick", actions.all);
  chart.addEventListener("wheel", (event) => {
    if (!event.ctrlKey) return;
    event.preventDefault();
    zoom(event.deltaY < 0 ? 0.8 : 1.25, under(event));
  }, { passive: false });
  // Paper and what is printed show the whole.
  addEventListener("beforeprint", actions.all);
}
