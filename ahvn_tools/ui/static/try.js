// The page that tries a tool. The JSON text is what is sent; the form is a second view of it.
import { Form, isExact } from "./form.js";

const VALIDATE_AFTER_MS = 250;
const CANCEL_AGAIN_MS = 100;
const MAX_RUNS = 20;
const MAX_CHUNK_CHARS = 200_000;
const MAX_ROWS = 200;
const page = document.querySelector("#try");
const { base, tool, name: toolName, session } = page.dataset;
const [element, json, state, run, cancel] = ["form", "json", "state", "run", "cancel"].map((id) => document.getElementById(id));
const form = new Form(element, JSON.parse(page.dataset.schema), (value) => {
  json.value = JSON.stringify(value, null, 2);
  validateSoon();
});
const stateForm = new Form(document.getElementById("state-form"), JSON.parse(page.dataset.state), () => {});
stateForm.show({});
const runs = []; // the last ones, in this page alone
let validation = 0;
let timer = 0;
let callId = null;

const post = (path, body) => fetch(`${base}/${path}`, { method: "POST", body, headers: { "content-type": "application/json" } });

function showText() {
  let value;
  try {
    value = JSON.parse(json.value);
  } catch {
    value = undefined;
  }
  const isShown = value !== undefined && isExact(value);
  element.inert = !isShown;
  if (isShown) form.show(value);
  validateSoon();
  return isShown;
}

function validateSoon() {
  clearTimeout(timer);
  timer = setTimeout(validate, VALIDATE_AFTER_MS);
}

async function validate() {
  const number = ++validation;
  try {
    const found = await (await post(`validate/${tool}`, json.value)).json();
    if (number === validation) mark(found);
  } catch {
    state.textContent = "The server does not answer. Is it still running?";
  }
}

function mark(found) {
  form.mark(found.problems);
  const changed = found.changed?.length ? ` Passed on in another form: ${found.changed.join(", ")}` : "";
  const note = element.inert && found.code !== "invalid_json" ? " The form cannot keep this value: edit the text." : "";
  state.textContent = (found.is_error ? found.text : `Valid.${changed}`) + note;
  state.className = found.is_error ? "problem" : "";
}

/** The events of a response, each as its name and its data. */
async function* readEvents(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    const events = (text + part.value).split("\n\n");
    text = events.pop();
    for (const event of events) {
      const [name, data] = event.split("\n").map((line) => line.slice(line.indexOf(": ") + 2));
      yield [name, JSON.parse(data)];
    }
  }
}

const show = (id, text) => { document.getElementById(id).textContent = text; };

/** Show a part of the result, or hide it if there is no text for it. */
function showPart(id, text) {
  document.getElementById(`${id}-part`).hidden = !text;
  show(id, text || "");
}

async function runTool() {
  if (run.disabled) return;
  [run.disabled, cancel.disabled, page.querySelector("#result").hidden] = [true, false, false];
  showResult({ text: "", is_running: true });
  const sent = json.value;
  let left = MAX_CHUNK_CHARS;
  let isDone = false;
  try {
    const body = JSON.stringify({ arguments: sent, state: stateForm.value, session });
    for await (const [name, data] of readEvents(await post(`run/${tool}`, body))) {
      if (name === "call") callId = data.id;
      else if (name === "result") addRun(sent, data);
      else if (data.progress) showProgress(data);
      else if ((left -= data.text.length) > 0) document.getElementById("text").append(`${data.text}\n`);
      isDone ||= name === "result";
    }
  } catch {
    isDone = false;
  }
  if (!isDone) show("outcome", "The connection ended before the result.");
  document.getElementById("progress").hidden = true;
  [run.disabled, cancel.disabled, callId] = [false, true, null];
}

function showProgress({ progress: { progress, total }, text }) {
  const bar = document.getElementById("progress");
  bar.hidden = false;
  if (total > 0) [bar.max, bar.value] = [total, progress];
  show("outcome", `Running … ${progress}${total == null ? "" : ` of ${total}`}${text ? `: ${text}` : ""}`);
}

function addRun(sent, result) {
  showResult(result);
  runs.unshift({ sent, result, at: new Date().toLocaleTimeString() });
  runs.length = Math.min(runs.length, MAX_RUNS);
  document.getElementById("history-part").hidden = false;
  document.getElementById("history").replaceChildren(...runs.map(describeRun));
}

function describeRun({ sent, result, at }) {
  const entry = document.createElement("li");
  const label = `${at} ${result.is_error ? result.code : "ok"} ${sent.replace(/\s+/g, " ").slice(0, 80)}`;
  const load = () => {
    json.value = sent;
    showText();
  };
  const add = (text, action) => {
    const button = Object.assign(document.createElement("button"), { type: "button", textContent: text });
    button.addEventListener("click", action);
    button.setAttribute("aria-label", `${text}: ${label}`);
    entry.append(button, " ");
  };
  add("Show", () => { load(); showResult(result); });
  add("Run again", () => { load(); runTool(); });
  entry.append(Object.assign(document.createElement("code"), { textContent: label }));
  return entry;
}

/** Cancel the call that runs, also one whose id is not known yet. */
async function cancelTool() {
  cancel.disabled = true;
  let isCancelled = false;
  while (run.disabled && !isCancelled) {
    if (callId) isCancelled = (await (await post(`cancel/${callId}`, "")).json()).is_cancelled;
    if (!isCancelled) await new Promise((done) => setTimeout(done, CANCEL_AGAIN_MS));
  }
}

function showResult(result) {
  const seconds = result.duration == null ? "" : ` after ${(result.duration * 1000).toFixed(1)} ms`;
  show("outcome", result.is_running ? "Running …" : result.is_error ? `Error ${result.code}${seconds}` : `Done${seconds}`);
  document.getElementById("outcome").className = result.is_error ? "problem" : "";
  show("text", result.text + (result.omitted ? `\n… ${result.omitted} more characters` : ""));
  if (result.problems) form.mark(result.problems);
  const images = (result.images ?? []).map((source) => Object.assign(new Image(), { src: source, alt: "image of the result" }));
  document.getElementById("images").replaceChildren(...images);
  document.getElementById("table").replaceChildren(...makeTable(result.structured));
  showPart("structured", result.structured == null ? "" : JSON.stringify(result.structured, null, 2));
  showPart("value", result.value);
  showPart("traceback", result.traceback);
  showPart("Python", result.snippets?.Python);
  showPart("pytest", result.snippets?.pytest);
  const link = document.getElementById("record");
  URL.revokeObjectURL(link.href);
  link.hidden = !result.record;
  link.href = URL.createObjectURL(new Blob([result.record ?? ""], { type: "application/jsonl" }));
  link.download = `${toolName.replace(/[^\w.-]+/g, "_")}.jsonl`;
}

/** The table of a result that is a list of objects; none for another. */
function makeTable(structured) {
  const rows = Array.isArray(structured) ? structured : structured?.result;
  if (!Array.isArray(rows) || !rows.every((row) => row && typeof row === "object" && !Array.isArray(row))) return [];
  const shown = rows.slice(0, MAX_ROWS);
  const names = [...new Set(shown.flatMap(Object.keys))];
  const table = document.createElement("table");
  const addRow = (tag, texts) => table.insertRow().append(...texts.map((textContent) => Object.assign(document.createElement(tag), { textContent })));
  addRow("th", names);
  for (const row of shown) addRow("td", names.map((name) => (typeof row[name] === "string" ? row[name] : JSON.stringify(row[name]) ?? "")));
  if (rows.length > MAX_ROWS) addRow("td", [`${rows.length - MAX_ROWS} more rows`]);
  return [table];
}

json.addEventListener("input", showText);
run.addEventListener("click", runTool);
cancel.addEventListener("click", cancelTool);
document.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) runTool();
});
json.value = JSON.stringify(form.value, null, 2);
showText();
