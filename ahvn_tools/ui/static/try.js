// The page that tries a tool. The JSON text is what is sent; the form is a second view of it.
import { Form, isExact } from "./form.js";

const VALIDATE_AFTER_MS = 250;
const CANCEL_AGAIN_MS = 100;
const page = document.querySelector("#try");
const { base, tool } = page.dataset;
const [element, json, state, run, cancel] = ["form", "json", "state", "run", "cancel"].map((id) => document.getElementById(id));
const form = new Form(element, JSON.parse(page.dataset.schema), (value) => {
  json.value = JSON.stringify(value, null, 2);
  validateSoon();
});
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

function show(id, text) {
  document.getElementById(id).textContent = text;
}

async function runTool() {
  if (run.disabled) return;
  [run.disabled, cancel.disabled, page.querySelector("#result").hidden] = [true, false, false];
  show("outcome", "Running …");
  show("text", "");
  document.getElementById("images").replaceChildren();
  document.getElementById("structured-part").hidden = true;
  let isDone = false;
  try {
    for await (const [name, data] of readEvents(await post(`run/${tool}`, json.value))) {
      if (name === "call") callId = data.id;
      else if (name === "chunk") document.getElementById("text").append(`${data.text}\n`);
      else showResult(data);
      isDone ||= name === "result";
    }
  } catch {
    isDone = false;
  }
  if (!isDone) show("outcome", "The connection ended before the result.");
  [run.disabled, cancel.disabled, callId] = [false, true, null];
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
  show("outcome", result.is_error ? `Error ${result.code}${seconds}` : `Done${seconds}`);
  document.getElementById("outcome").className = result.is_error ? "problem" : "";
  show("text", result.text + (result.omitted ? `\n… ${result.omitted} more characters` : ""));
  if (result.problems) form.mark(result.problems);
  const images = (result.images ?? []).map((source) => Object.assign(new Image(), { src: source, alt: "image of the result" }));
  document.getElementById("images").replaceChildren(...images);
  document.getElementById("structured-part").hidden = result.structured == null;
  show("structured", JSON.stringify(result.structured, null, 2));
}

json.addEventListener("input", showText);
run.addEventListener("click", runTool);
cancel.addEventListener("click", cancelTool);
document.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) runTool();
});
json.value = JSON.stringify(form.value, null, 2);
showText();
