// The page Watch: events of calls change a map; the map is drawn some times a second, whatever comes.
const MAX_CALLS = 2000;
const MAX_ROWS = 200;
const MAX_BARS = 40;
const MAX_CHARTED = 8;
const MAX_DURATIONS = 500;
const MAX_OPTIONS = 200;
const DRAW_MS = 250;
const CHART_MS = 1000;
const RETRY_MS = 2000;
const WAITING = ["approval_required", "input_required", "result_required"];

const form = document.querySelector("#watch");
const [connection, count, lost, hold, empty, seen, list, detail, svg] =
  ["connection", "count", "lost", "hold", "empty", "seen", "calls", "detail", "run"].map((id) => document.getElementById(id));
const calls = new Map(); // the newest calls, by process and serial, in the order in which they were first seen
const tools = new Map(); // the totals of each tool
const lostOf = new Map(); // how many changes each process has lost
const rows = new Map(); // the row of each call in the list
let source = null;
let retry = 0;
let last = 0; // the number of the newest change that was received
let clock = 0; // by how many seconds the server's clock is ahead
let total = 0;
let isChanged = false;
let chosen = "";

// What a person would not see is shown as an escape; line feeds, tabs, and what joins or varies an emoji stay.
const INVISIBLE = /(?![\n\t]|(?<=\p{Extended_Pictographic}\ufe0f?)[\u200d\ufe0f])[\p{C}\u2028\u2029\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\u{e0100}-\u{e01ef}]/gu;
const escapeUnit = (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`;
const clean = (text) => text.replace(INVISIBLE, (found) => found.split("").map(escapeUnit).join(""));

// receiving

function connect() {
  clearTimeout(retry);
  source?.close();
  source = new EventSource(`${form.dataset.base}/watch/events?after=${last}`);
  source.addEventListener("calls", (event) => {
    say("Live.");
    const { calls: changed, now } = JSON.parse(event.data);
    clock = now - Date.now() / 1000;
    changed.forEach(receive);
    if (changed.length) last = changed.at(-1).number;
    isChanged ||= changed.length > 0;
  });
  source.addEventListener("again", connect);
  source.addEventListener("problem", (event) => say(JSON.parse(event.data).text, true));
  source.addEventListener("error", () => {
    say("Not connected. Trying again …", true);
    source.close();
    retry = setTimeout(connect, RETRY_MS);
  });
}

function say(text, isProblem = false) {
  if (connection.textContent !== text) connection.textContent = text;
  connection.className = isProblem ? "problem" : "";
}

function receive(call) {
  for (const [name, value] of Object.entries(call)) if (typeof value === "string") call[name] = clean(value);
  const key = `${call.process}/${call.serial}`;
  const before = calls.get(key);
  const tool = tools.get(call.tool) ?? { calls: 0, errors: 0, durations: [] };
  tools.set(call.tool, tool);
  call.kind = kindOf(call.outcome);
  if (!before) [total, tool.calls] = [total + 1, tool.calls + 1];
  if (call.outcome && !before?.outcome) {
    tool.errors += call.kind === "error" || call.kind === "lost";
    if (call.duration !== null) tool.durations = [...tool.durations.slice(1 - MAX_DURATIONS), call.duration];
  }
  calls.set(key, call);
  lostOf.set(call.process, call.lost);
  if (calls.size > MAX_CALLS) {
    for (const [old, { outcome }] of calls) {
      if (outcome) { calls.delete(old); break; } // those that run stay
    }
  }
}

function kindOf(outcome) {
  if (outcome === null) return "running";
  if (WAITING.includes(outcome)) return "waiting";
  return ["ok", "cancelled", "lost"].includes(outcome) ? outcome : "error";
}

// drawing

const two = (number) => String(number).padStart(2, "0");
const element = (name, text, attributes = {}) => {
  const made = document.createElement(name);
  made.textContent = text;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
};

function timeText(seconds) {
  const time = new Date(seconds * 1000);
  return `${two(time.getHours())}:${two(time.getMinutes())}:${two(time.getSeconds())}.${String(time.getMilliseconds()).padStart(3, "0")}`;
}

function durationText(seconds) {
  if (seconds == null) return "";
  const [value, unit] = seconds < 0.9995 ? [seconds * 1000, "ms"] : [seconds, "s"];
  return `${value.toFixed(value < 10 ? 2 : value < 100 ? 1 : 0)} ${unit}`;
}

const now = () => Date.now() / 1000 + clock;
const processText = (call) => `${call.program} (${call.process.split("-")[0]})`;
const elapsed = (call) => call.duration ?? (call.outcome === null ? Math.max(now() - call.started, 0) : null);
const outcomeText = (call) => ({ waiting: "waits", lost: "ended without outcome" })[call.kind] ?? call.outcome ?? "running";
const chunksText = (call) => (call.chunks ? `${call.chunks} chunks, ` : "");
const FILTERS = { tool: (call) => call.tool, session: (call) => call.session, outcome: (call) => call.outcome ?? "running", process: processText };

function draw() {
  if (!isChanged && ![...calls.values()].some((call) => call.outcome === null)) return;
  isChanged = false;
  [empty.hidden, seen.hidden] = [calls.size > 0, calls.size === 0];
  const all = [...calls].sort(([, one], [, other]) => other.started - one.started);
  for (const [name, read] of Object.entries(FILTERS)) offer(form.elements[name], all.map(([, call]) => read(call)));
  const wanted = Object.entries(FILTERS).filter(([name]) => form.elements[name].value);
  const fitting = all.filter(([, call]) => wanted.every(([name, read]) => read(call) === form.elements[name].value));
  count.textContent = `${total} calls${wanted.length ? `, ${fitting.length} of the newest ${calls.size} fit` : ""}.`;
  const losses = [...lostOf.values()].reduce((sum, number) => sum + number, 0);
  lost.textContent = losses ? `${losses} changes could not be written.` : "";
  if (hold.ariaPressed === "false") drawList(fitting.slice(0, MAX_ROWS));
  for (const [key, row] of rows) if (calls.has(key)) fill(row, calls.get(key));
  drawDetail(calls.get(chosen));
  drawRun(all.map(([, call]) => call));
}

/** Run a function when what it draws has changed: what is selected or pointed at stays otherwise. */
function drawChanged(place, state, drawIt) {
  const text = JSON.stringify(state);
  if (place.drawn !== text) drawIt();
  place.drawn = text;
}

/** Let a filter offer the newest values; not while it is used. */
function offer(select, values) {
  if (document.activeElement === select) return;
  const offered = [...new Set([select.value, ...values])].filter(Boolean).slice(0, MAX_OPTIONS).sort();
  drawChanged(select, offered, () => {
    const { value } = select;
    select.replaceChildren(new Option("all", ""), ...offered.map((text) => new Option(text, text, false, text === value)));
  });
}

/** Show these calls; rows that stay are not touched, so that the focus stays, too. */
function drawList(shown) {
  let next = list.firstElementChild;
  for (const [key] of shown) {
    if (!rows.has(key)) rows.set(key, makeRow(key));
    const row = rows.get(key);
    if (row === next) next = next.nextElementSibling;
    else list.insertBefore(row, next);
  }
  const kept = new Set(shown.map(([key]) => key));
  for (const [key, row] of rows) if (!kept.has(key)) { row.remove(); rows.delete(key); }
}

function makeRow(key) {
  const row = element("tr", "");
  row.append(...["td", "th", "td", "td", "td", "td"].map((name) => element(name, "")));
  row.cells[1].scope = "row";
  const { tool } = calls.get(key);
  const button = element("button", tool, { type: "button", class: "plain" });
  button.addEventListener("click", () => { [chosen, isChanged] = [key, true]; draw(); });
  row.cells[1].append(button, " ", element("code", ""));
  return row;
}

function fill(row, call) {
  const texts = [timeText(call.started), null, outcomeText(call), durationText(elapsed(call)), call.session, call.process.split("-")[0]];
  row.dataset.kind = call.kind;
  texts.forEach((text, index) => { if (text !== null && row.cells[index].textContent !== text) row.cells[index].textContent = text; });
  row.querySelector("code").textContent = chunksText(call) + call.arguments;
  row.querySelector("button").ariaCurrent = calls.get(chosen) === call ? "true" : null;
}

function drawDetail(call) {
  [detail.hidden, document.getElementById("choose").hidden] = [!call, Boolean(call)];
  if (!call) return;
  const facts = {
    tool: call.tool, toolkit: call.toolkit, outcome: call.outcome === outcomeText(call) ? call.outcome : `${outcomeText(call)} ${call.outcome ?? ""}`,
    start: timeText(call.started), time: durationText(elapsed(call)), chunks: call.chunks, session: call.session || "none", run: call.run || "a single call", process: processText(call),
  };
  drawChanged(detail, [facts, call.arguments], () => {
    detail.querySelector("dl").replaceChildren(...Object.entries(facts).flatMap(([name, text]) => [element("dt", name), element("dd", text)]));
    detail.querySelector("a").hidden = call.kind !== "waiting";
    detail.querySelector("pre").textContent = pretty(call.arguments);
  });
}

function pretty(text) {
  try {
    return clean(JSON.stringify(JSON.parse(text), null, 2));
  } catch {
    return text || "not known yet";
  }
}

/** Draw the run of the chosen call, or the newest run with several calls: a bar for each call. */
function drawRun(newest) {
  const runs = Map.groupBy(newest.filter((call) => call.run), (call) => call.run);
  const id = calls.get(chosen)?.run || [...runs.keys()].find((run) => runs.get(run).length > 1);
  const shown = (runs.get(id) ?? []).toReversed().slice(0, MAX_BARS);
  if (!shown.length) return;
  const start = shown[0].started;
  const end = Math.max(...shown.map((call) => call.started + (elapsed(call) ?? 0)), start + 1e-6);
  document.getElementById("run-text").textContent = `${shown.length} calls in ${durationText(end - start)}, from ${timeText(start)}.`;
  drawChanged(svg, shown.map((call) => [call.serial, call.kind, elapsed(call)]), () => {
    svg.setAttribute("height", shown.length * 22);
    svg.replaceChildren(...shown.flatMap((call, index) => {
      const [x, width] = [(call.started - start) / (end - start), (elapsed(call) ?? 0) / (end - start)];
      const title = mark("title", {});
      title.textContent = `${call.tool}: ${outcomeText(call)}, ${durationText(elapsed(call))}`;
      const bar = mark("rect", { "data-kind": call.kind, x: `${38 + x * 61}%`, width: `${Math.max(width * 61, 0.5)}%`, y: index * 22 + 4, height: 14 });
      const label = mark("text", { x: 0, y: index * 22 + 16 });
      label.textContent = call.tool.length > 20 ? `${call.tool.slice(0, 19)}…` : call.tool;
      bar.append(title);
      return [label, bar];
    }));
  });
}

function mark(name, attributes) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

// charts

const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
let charts = [];

function percentile(sorted, part) {
  return sorted.length ? sorted[Math.min(Math.floor(sorted.length * part), sorted.length - 1)] : null;
}

function drawTools() {
  if (!tools.size || document.hidden) return;
  const stats = [...tools].sort(([, one], [, other]) => other.calls - one.calls).map(([name, { calls: number, errors, durations }]) => {
    const sorted = durations.toSorted((one, other) => one - other);
    return { name, number, errors, p50: percentile(sorted, 0.5), p95: percentile(sorted, 0.95) };
  });
  document.getElementById("totals").replaceChildren(...stats.map(({ name, number, errors, p50, p95 }) => {
    const row = element("tr", "");
    row.append(element("th", name, { scope: "row" }), ...[number, errors, durationText(p50), durationText(p95)].map((text) => element("td", text)));
    return row;
  }));
  const top = stats.slice(0, MAX_CHARTED);
  const data = (...read) => [top.map((_, index) => index), ...read.map((name) => top.map((stat) => (stat[name] ?? 0) * (name[0] === "p" ? 1000 : 1)))];
  const names = top.map(({ name }) => (name.length > 14 ? `${name.slice(0, 13)}…` : name));
  charts.forEach((chart) => chart.destroy());
  charts = [
    makeChart("counts", names, ["calls", "errors"], ["--link", "--error"], data("number", "errors")),
    makeChart("durations", names, ["p50 in ms", "p95 in ms"], ["--link", "--faint"], data("p50", "p95")),
  ];
}

function makeChart(id, names, labels, colors, data) {
  const place = document.getElementById(id);
  const axis = { stroke: color("--faint"), grid: { stroke: color("--line") }, ticks: { stroke: color("--line") } };
  const series = labels.map((label, index) => ({
    label, fill: color(colors[index]), stroke: color(colors[index]), width: 0,
    paths: uPlot.paths.bars({ size: [0.35, 40], align: index ? 1 : -1 }), points: { show: false },
  }));
  return new uPlot({
    width: place.clientWidth, height: 220, legend: { live: false }, cursor: { show: false },
    scales: { x: { time: false, range: [-0.6, names.length - 0.4] }, y: { range: (_, low, high) => [0, high * 1.1 || 1] } },
    axes: [{ ...axis, splits: () => names.map((_, index) => index), values: () => names, grid: { show: false } }, { ...axis, size: 60 }],
    series: [{}, ...series],
  }, data, place);
}

hold.addEventListener("click", () => {
  hold.ariaPressed = hold.ariaPressed === "false" ? "true" : "false";
  isChanged = true;
});
form.addEventListener("input", () => { isChanged = true; });
form.addEventListener("submit", (event) => event.preventDefault());
addEventListener("resize", drawTools);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawTools);
document.addEventListener("visibilitychange", () => {
  if (!document.hidden) return connect();
  clearTimeout(retry);
  source.close();
  say("Held while this page is in the background.");
});
setInterval(draw, DRAW_MS);
setInterval(drawTools, CHART_MS);
connect();
